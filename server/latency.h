/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last quarter of an hour in steps of ten seconds: how many calls were answered how fast, what
 * waited, and which were the slowest. For GET /v1/latency, so that a page can draw it where nothing
 * else keeps a history. Any thread may note a call.
 */
#ifndef SERVER_LATENCY_H
#define SERVER_LATENCY_H

#include "server/metrics.h"
#include "server/request_id.h"

struct latency;
struct service;

/* What calls of attention are told apart by. */
enum latency_shape {
    LATENCY_OTHER, /* no such call */
    LATENCY_DECODE,
    LATENCY_KEYS_128,
    LATENCY_KEYS_1024,
    LATENCY_KEYS_8192,
    LATENCY_KEYS_MORE,
    LATENCY_SHAPES
};
enum latency_shape latency_shape_of(size_t queries, size_t keys);
/* What people call it: "one query", "to 128 keys". */
const char *latency_shape_name(enum latency_shape shape);

/* A call that has ended; text is borrowed. */
struct latency_call {
    const char *id;
    const char *capture; /* under which it is kept; "": nowhere */
    int status;
    enum latency_shape shape;
    int64_t nanoseconds;
    int64_t stage[STAGE_COUNT]; /* -1: not had */
};

/* NULL when there is no memory. */
struct latency *latency_create(void);
void latency_free(struct latency *latency);

/* `seconds`: since 1970, as in latency_now(). */
void latency_note(struct latency *latency, const struct latency_call *call, double seconds);
/* What waits and what is held at this moment; to be called every few seconds. */
struct latency_gauges {
    size_t queue_depth, in_flight, kv_cache_bytes, capture_bytes;
};
void latency_gauge(struct latency *latency, const struct latency_gauges *gauges, double seconds);
double latency_now(void);

/* Reads the service's gauges into its history; `looking`: requests in flight that only look. */
void latency_look(const struct service *service, int64_t looking);

/* The document, oldest step first. */
void latency_write(struct latency *latency, size_t queue_limit, double seconds, struct text *out);

#endif
