/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that a benchmark starts, the daemon among them. They end with it, however it ends. */
#ifndef BENCH_CHILD_H
#define BENCH_CHILD_H

#include <sys/types.h>

/* As fork(). Ends the program when there can be no process. */
pid_t child_fork(void);

/* Starts the daemon at `path` with two compute threads and `kernel` (NULL: its choice); its access
 * log goes to the descriptor `log`, or nowhere when that is -1. */
pid_t child_service(const char *path, int port, const char *kernel, int log);

/* Ends it in peace, or at once even if it is stopped; and waits for it, so that what it used of the
 * processors counts as the benchmark's. */
void child_stop(pid_t child);
void child_kill(pid_t child);

#endif
