/* SPDX-License-Identifier: Apache-2.0 */
/* JSON lines; see access_log.h. */
#include "server/access_log.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

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

static void add_string(struct text *line, const char *name, const char *value) {
    if (value == NULL || value[0] == '\0')
        return;
    text_format(line, ",\"%s\":", name);
    text_json(line, value);
}

static double milliseconds(int64_t nanoseconds) {
    return 1e-6 * (double)nanoseconds;
}

static void add_stages(struct text *line, const int64_t stage[STAGE_COUNT]) {
    for (int i = 0; i < STAGE_COUNT; i++)
        if (stage[i] >= 0)
            text_format(line, ",\"%s_ms\":%.3f", metrics_stage_name((enum metrics_stage)i),
                        milliseconds(stage[i]));
}

/* A line that cannot be written is lost: requests do not wait for a full disk or a dead pipe. */
static void write_line(const struct access_log *log, struct text *line) {
    text_add(line, "}\n", 2);
    if (!line->failed && write(log->fd, line->data, line->length) < 0)
        line->failed = true;
    text_close(line);
}

void access_log_request(const struct access_log *log, const struct access_log_entry *entry) {
    if (log->level == ACCESS_LOG_OFF || (log->level == ACCESS_LOG_ERRORS && entry->status < 400))
        return;
    struct text line = {0};
    add_time(&line);
    add_string(&line, "event", "request");
    add_string(&line, "id", entry->id);
    add_string(&line, "trace", entry->trace);
    add_string(&line, "remote", entry->remote);
    add_string(&line, "method", entry->method);
    add_string(&line, "path", entry->path);
    text_format(&line, ",\"status\":%d", entry->status);
    add_string(&line, "problem", entry->problem);
    add_string(&line, "media_type", entry->media_type);
    add_string(&line, "kernel", entry->kernel);
    text_format(&line, ",\"body_bytes\":%llu,\"answer_bytes\":%llu,\"whole\":%s,\"ms\":%.3f",
                (unsigned long long)entry->body_bytes, (unsigned long long)entry->answer_bytes,
                entry->whole ? "true" : "false", milliseconds(entry->nanoseconds));
    add_stages(&line, entry->stage);
    write_line(log, &line);
}

void access_log_event(const struct access_log *log, const char *event, const char *detail) {
    if (log->level == ACCESS_LOG_OFF)
        return;
    struct text line = {0};
    add_time(&line);
    add_string(&line, "event", event);
    add_string(&line, "detail", detail);
    write_line(log, &line);
}
