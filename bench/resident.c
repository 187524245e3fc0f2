/* SPDX-License-Identifier: Apache-2.0 */
/* See resident.h. */
#include "bench/resident.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/* A row of /proc/self/status, which counts in KiB. */
static double status(const char *format) {
    char line[256];
    double kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, format, &kib) == 1)
            break;
    if (file != NULL)
        fclose(file);
    return kib / 1024.0;
}

double resident_begin(void) {
    const int file = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    if (file < 0 || write(file, "5", 1) != 1) /* 5: begin the peak anew */
        fprintf(stderr, "benchmark: the peak of memory counts from the process's beginning\n");
    if (file >= 0)
        close(file);
    return status("VmRSS: %lf kB");
}

double resident_most(void) {
    return status("VmHWM: %lf kB");
}
