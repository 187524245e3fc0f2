/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log: one JSON object per line on a file descriptor, written with one write() each so that
 * lines of several threads never mix. It holds no bodies, no query values and no tensor contents.
 * Nobody waits for who reads it: a line for which there is no room is lost and counted.
 */
#ifndef SERVER_ACCESS_LOG_H
#define SERVER_ACCESS_LOG_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/metrics.h"

/* Which requests get a line. */
enum access_log_level { ACCESS_LOG_OFF, ACCESS_LOG_ERRORS, ACCESS_LOG_ALL };

struct access_log {
    int fd;
    enum access_log_level level;
    pthread_mutex_t lock;       /* from asking whether a line fits until it is written */
    atomic_uint_least64_t lost; /* lines that were not written, or not whole */
};

/* One finished request; all text is borrowed. Strings may be "" where there is nothing to say. */
struct access_log_entry {
    const char *id, *trace_id, *remote, *method, *path, *media_type, *problem, *kernel, *key;
    int status;
    bool whole; /* the answer left completely */
    uint64_t body_bytes, answer_bytes;
    int64_t nanoseconds;
    int64_t stage[STAGE_COUNT]; /* -1: not had */
};

/* Writes to `fd`, *borrowed*, from now on. */
void access_log_open(struct access_log *log, int fd, enum access_log_level level);
void access_log_request(struct access_log *log, const struct access_log_entry *entry);
/* A line about the daemon itself: {"time":…,"event":…,"detail":…}. Always written unless OFF. */
void access_log_event(struct access_log *log, const char *event, const char *detail);

#endif
