/* SPDX-License-Identifier: Apache-2.0 */
/* What uses the processors: everybody, or one process. Seconds, added up over all processors. */
#ifndef BENCH_PROCESSORS_H
#define BENCH_PROCESSORS_H

#include <sys/types.h>

/* Of everybody on this machine, since it started; 0 where that is not told. */
double processors_busy(void);
/* Of this process and its threads; 0 when there is none. */
double processors_used(pid_t process);

/* A span of time, and what others than this program and `process` used of all processors in it. */
struct processors_span {
    pid_t process;
    double began, busy, used;
};

struct processors_span processors_begin(pid_t process);
/* Others' share of all processors since then, 0 to 1. */
double processors_others(const struct processors_span *span);

#endif
