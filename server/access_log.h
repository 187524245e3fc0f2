/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log: one JSON object per line on a file descriptor, written with one write() each so that
 * lines of several threads never mix. It holds no bodies, no query values and no tensor contents.
 */
#ifndef SERVER_ACCESS_LOG_H
#define SERVER_ACCESS_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/metrics.h"

/* Which requests get a line. */
enum access_log_level { ACCESS_LOG_OFF, ACCESS_LOG_ERRORS, ACCESS_LOG_ALL };

struct access_log {
    int fd;
    enum access_log_level level;
};

/* One finished request; all text is borrowed. Strings may be "" where there is nothing to say. */
struct access_log_entry {
    const char *id, *trace, *remote, *method, *path, *media_type, *problem, *kernel;
    int status;
    bool whole; /* the answer left completely */
    uint64_t body_bytes, answer_bytes;
    int64_t nanoseconds;
    int64_t stage[STAGE_COUNT]; /* -1: not had */
};

void access_log_request(const struct access_log *log, const struct access_log_entry *entry);
/* A line about the daemon itself: {"time":…,"event":…,"detail":…}. Always written unless OFF. */
void access_log_event(const struct access_log *log, const char *event, const char *detail);

#endif
