/* SPDX-License-Identifier: Apache-2.0 */
/* Finished requests as spans, in the JSON form of OTLP: one of the server's kind for each request,
 * and below it one for each stage. */
#ifndef SERVER_TRACING_TRACE_JSON_H
#define SERVER_TRACING_TRACE_JSON_H

#include <stdint.h>

#include "server/request_id.h"
#include "server/tracing/trace_context.h"
#include "server/tracing/trace_parts.h"

/* A tracestate of more characters is not passed on; a longer path is cut. */
enum { TRACE_STATE_SIZE = 513, TRACE_PATH_SIZE = 241 };

/* A finished request. Pointers are to static text; NULL where there is nothing to say. */
struct trace_record {
    struct trace_context context;
    char state[TRACE_STATE_SIZE]; /* the request's tracestate, or "" */
    char id[REQUEST_ID_SIZE], path[TRACE_PATH_SIZE];
    const char *method; /* NULL: none that is known */
    const char *route, *kernel, *shape, *problem;
    int status;
    uint64_t body_bytes, answer_bytes;
    int64_t since_1970; /* what turns times of clock_now() into nanoseconds since 1970 */
    int64_t began, ended;
    struct trace_parts parts;
};

/* How many spans it becomes. */
static inline uint64_t trace_record_spans(const struct trace_record *record) {
    return 1 + record->parts.count;
}

/* The body of a POST to /v1/traces, from malloc; NULL when there is no memory. *spans: how many are
   in it, which are fewer than there were where memory lacked for some. */
char *trace_json_write(const struct trace_record *records, size_t count, uint64_t *spans);

#endif
