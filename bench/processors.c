/* SPDX-License-Identifier: Apache-2.0 */
/* See processors.h. */
#include "bench/processors.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench/yardstick.h"

double processors_busy(void) {
    unsigned long long ticks[8] = {0}, busy = 0;
    FILE *file = fopen("/proc/stat", "re");
    if (file == NULL)
        return 0;
    const int read =
        fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &ticks[0], &ticks[1], &ticks[2],
               &ticks[3], &ticks[4], &ticks[5], &ticks[6], &ticks[7]);
    fclose(file);
    for (int i = 0; i < 8 && read == 8; i++)
        busy += i == 3 || i == 4 ? 0 : ticks[i]; /* idle, waiting for disks */
    return (double)busy / (double)sysconf(_SC_CLK_TCK);
}

double processors_used(pid_t process) {
    char path[64], text[1024];
    unsigned long long user = 0, system = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return 0;
    const size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = '\0';
    const char *after = strrchr(text, ')'); /* behind the name, which may hold anything */
    if (after != NULL)
        sscanf(after, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user, &system);
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

struct processors_span processors_begin(pid_t process) {
    return (struct processors_span){process, yardstick_now(), processors_busy(),
                                    processors_used(process) + processors_used(getpid())};
}

double processors_others(const struct processors_span *span) {
    const double used = processors_used(span->process) + processors_used(getpid()) - span->used;
    const double seconds = (yardstick_now() - span->began) * (double)sysconf(_SC_NPROCESSORS_ONLN);
    return fmax(0, processors_busy() - span->busy - used) / seconds;
}
