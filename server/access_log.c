/* SPDX-License-Identifier: Apache-2.0 */
/* JSON lines; see access_log.h. */
#include "server/access_log.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "server/clock.h"
#include "server/text.h"

/* RFC 3339 in UTC with microseconds. */
static void add_time(struct text *line) {
    struct timespec now;
    struct tm parts;
    char date[32];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &parts);
    text_format(line, "{\"time\":\"%s.%06ldZ\"", date, now.tv_nsec / 1000);
}

/* A client's text is cut, so that with all its escapes a line stays below PIPE_BUF. */
static void add_string(struct text *line, const char *name, const char *value) {
    enum { MOST = 240 };
    char cut[MOST + sizeof "..."];
    if (value == NULL || value[0] == '\0')
        return;
    if (strnlen(value, MOST + 1) > MOST) {
        snprintf(cut, sizeof cut, "%.*s...", (int)MOST, value);
        value = cut;
    }
    text_format(line, ",\"%s\":", name);
    text_json(line, value);
}

static void add_stages(struct text *line, const int64_t stage[STAGE_COUNT]) {
    for (int i = 0; i < STAGE_COUNT; i++)
        if (stage[i] >= 0)
            text_format(line, ",\"%s_ms\":" CLOCK_MS_FORMAT,
                        metrics_stage_name((enum metrics_stage)i), CLOCK_MS_ARGUMENTS(stage[i]));
}

/* A pipe that polls as writable takes PIPE_BUF bytes at once; its flags are not ours to change, for
 * others may have it too. */
static bool write_now(int fd, const struct text *line) {
    struct pollfd polled = {.fd = fd, .events = POLLOUT};
    return !line->failed && poll(&polled, 1, 0) > 0 &&
           write(fd, line->data, line->length) == (ssize_t)line->length;
}

/* A line that cannot be written is lost: requests do not wait for a full disk, a dead pipe or one
 * that nobody reads. */
static void write_line(struct access_log *log, struct text *line) {
    text_add(line, "}\n", 2);
    pthread_mutex_lock(&log->lock);
    const bool is_written = write_now(log->fd, line);
    pthread_mutex_unlock(&log->lock);
    if (!is_written)
        atomic_fetch_add(&log->lost, 1);
    text_close(line);
}

void access_log_open(struct access_log *log, int fd, enum access_log_level level) {
    log->fd = fd;
    log->level = level;
    pthread_mutex_init(&log->lock, NULL);
}

void access_log_request(struct access_log *log, const struct access_log_entry *entry) {
    if (log->level == ACCESS_LOG_OFF || (log->level == ACCESS_LOG_ERRORS && entry->status < 400))
        return;
    struct text line = {0};
    add_time(&line);
    add_string(&line, "event", "request");
    add_string(&line, "id", entry->id);
    add_string(&line, "trace_id", entry->trace_id);
    add_string(&line, "remote", entry->remote);
    add_string(&line, "method", entry->method);
    add_string(&line, "path", entry->path);
    text_format(&line, ",\"status\":%d", entry->status);
    add_string(&line, "problem", entry->problem);
    add_string(&line, "media_type", entry->media_type);
    add_string(&line, "kernel", entry->kernel);
    add_string(&line, "key", entry->key);
    text_format(&line,
                ",\"body_bytes\":%llu,\"answer_bytes\":%llu,\"whole\":%s,\"ms\":" CLOCK_MS_FORMAT,
                (unsigned long long)entry->body_bytes, (unsigned long long)entry->answer_bytes,
                entry->whole ? "true" : "false", CLOCK_MS_ARGUMENTS(entry->nanoseconds));
    add_stages(&line, entry->stage);
    write_line(log, &line);
}

void access_log_event(struct access_log *log, const char *event, const char *detail) {
    if (log->level == ACCESS_LOG_OFF)
        return;
    struct text line = {0};
    add_time(&line);
    add_string(&line, "event", event);
    add_string(&line, "detail", detail);
    write_line(log, &line);
}
