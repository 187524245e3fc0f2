/* SPDX-License-Identifier: Apache-2.0 */
/* One target under libFuzzer: the variable FUZZ has its name. */
#include <stdio.h>
#include <stdlib.h>

#include "core/attention.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct fuzz_target *target;

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    const char *const name = getenv("FUZZ");
    (void)argc;
    (void)argv;
    target = name == NULL ? NULL : fuzz_target_find(name);
    if (target == NULL) {
        fprintf(stderr, "FUZZ has to name a target:");
        for (size_t i = 0; (target = fuzz_target_at(i)) != NULL; i++)
            fprintf(stderr, " %s", target->name);
        fprintf(stderr, "\n");
        exit(2);
    }
    attn_start();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    target->run(data, size);
    return 0;
}
