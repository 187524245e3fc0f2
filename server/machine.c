/* SPDX-License-Identifier: Apache-2.0 */
/* What CPU this is; see machine.h. */
#include "server/machine.h"

#include <stdio.h>
#include <string.h>

static void read_model(char model[MACHINE_MODEL_SIZE]) {
    snprintf(model, MACHINE_MODEL_SIZE, "unknown");
    FILE *file = fopen("/proc/cpuinfo", "re");
    if (file == NULL)
        return;
    char line[256];
    while (fgets(line, sizeof line, file) != NULL) {
        const char *value = strchr(line, ':');
        if (value != NULL && strncmp(line, "model name", 10) == 0) {
            value += 1 + strspn(value + 1, " ");
            snprintf(model, MACHINE_MODEL_SIZE, "%.*s", (int)strcspn(value, "\n"), value);
            break;
        }
    }
    fclose(file);
}

static void note(struct machine *machine, const char *feature, int present) {
    if (present && machine->feature_count < MACHINE_FEATURE_COUNT)
        machine->features[machine->feature_count++] = feature;
}

void machine_probe(struct machine *machine) {
    memset(machine, 0, sizeof *machine);
    read_model(machine->model);
#if defined(__x86_64__)
    __builtin_cpu_init();
    note(machine, "sse4.2", __builtin_cpu_supports("sse4.2"));
    note(machine, "avx", __builtin_cpu_supports("avx"));
    note(machine, "avx2", __builtin_cpu_supports("avx2"));
    note(machine, "fma", __builtin_cpu_supports("fma"));
    note(machine, "avx512f", __builtin_cpu_supports("avx512f"));
    note(machine, "avx512bw", __builtin_cpu_supports("avx512bw"));
#elif defined(__aarch64__)
    note(machine, "neon", 1);
#endif
}
