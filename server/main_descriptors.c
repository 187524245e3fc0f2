/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The descriptors that the system allows: as many as connections need, or fewer connections. With
 * none to spare a service would listen and answer nobody; it refuses to start instead.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "server/main_internal.h"

/* Every connection needs a descriptor, and accepting without one to spare is a busy loop. */
void main_raise_descriptors(struct attn_config *config, struct access_log *log) {
    enum { RESERVE = 64 };
    const rlim_t needed = (rlim_t)config->max_connections + RESERVE;
    struct rlimit limit;
    char text[160];
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed)
        return;
    limit.rlim_cur = limit.rlim_max < needed ? limit.rlim_max : needed;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur >= needed)
        return;
    config->max_connections = limit.rlim_cur > RESERVE + 64 ? limit.rlim_cur - RESERVE : 64;
    snprintf(text, sizeof text, "max_connections is %llu: the system allows %llu descriptors",
             (unsigned long long)config->max_connections, (unsigned long long)limit.rlim_cur);
    access_log_event(log, "limit", text);
}

bool main_has_descriptors(const struct attn_config *config) {
    /* Each I/O thread takes up to four; then some connections, and a file that is read again. */
    enum { THREAD = 4, SPARE = 8, THREADS_MAX = 64, MOST = THREADS_MAX * THREAD + SPARE };
    const size_t threads = config->io_threads < THREADS_MAX ? config->io_threads : THREADS_MAX;
    const size_t needed = threads * THREAD + SPARE;
    int taken[MOST];
    size_t count = 0;
    struct rlimit limit;
    char text[240];
    while (count < needed && (taken[count] = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0)) >= 0)
        count++;
    for (size_t i = 0; i < count; i++)
        close(taken[i]);
    if (count == needed || getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return true;
    const unsigned long long allowed = limit.rlim_cur;
    snprintf(text, sizeof text,
             "the system allows %llu descriptors, %zu too few: allow %llu at least, and one more "
             "for each connection (ulimit -n, LimitNOFILE of systemd, --ulimit nofile of a "
             "container)",
             allowed, needed - count, allowed + needed - count);
    main_print_error(text);
    return false;
}
