/* SPDX-License-Identifier: Apache-2.0 */
/* An exchange as a record for the collector; see trace_exchange.h. */
#include "server/tracing/trace_exchange.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "server/clock.h"
#include "server/tracing/tracing.h"

void trace_exchange_begin(struct exchange *exchange, const char *traceparent) {
    const struct tracing *const tracing = exchange->service->tracing;
    struct trace_context *const trace = &exchange->trace;
    trace_context_begin(trace, traceparent, tracing != NULL);
    if (tracing != NULL && trace->parent_id[0] == '\0')
        trace->is_sampled = tracing_samples(tracing, trace);
}

/* Of a valid parent alone; a header that is too long or no text is not passed on. */
static void copy_state(struct trace_record *record, const char *state) {
    if (state == NULL || record->context.parent_id[0] == '\0')
        return;
    const size_t length = strnlen(state, TRACE_STATE_SIZE);
    for (size_t i = 0; i < length; i++)
        if (state[i] < ' ' || state[i] > '~')
            return;
    if (length < TRACE_STATE_SIZE)
        memcpy(record->state, state, length + 1);
}

/* Nanoseconds since 1970 at the zero of clock_now(). One value for all spans of a request, so that
   a clock that is set meanwhile does not part them. */
static int64_t since_1970(int64_t now) {
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    return (int64_t)wall.tv_sec * CLOCK_SECOND + wall.tv_nsec - now;
}

void trace_exchange_end(const struct exchange *exchange, const struct metrics_request *request,
                        int64_t now) {
    struct tracing *const tracing = exchange->service->tracing;
    const struct route *const route = exchange->route;
    const int problem = exchange->answer.problem;
    if (tracing == NULL || !exchange->trace.is_sampled)
        return;
    struct trace_record record = {
        .context = exchange->trace,
        .method = exchange->method == HTTP_OTHER ? NULL : http_method_name(exchange->method),
        .route = route == NULL ? NULL : route->path,
        .kernel = exchange->kernel,
        .shape = exchange->shape == LATENCY_OTHER ? NULL : latency_shape_name(exchange->shape),
        .problem = problem == 0 ? NULL : problem_name(problem),
        .status = request->code,
        .body_bytes = request->body_bytes,
        .answer_bytes = exchange->answer.length,
        .since_1970 = since_1970(now),
        .began = exchange->began,
        .ended = now,
        .parts = exchange->parts,
    };
    copy_state(&record, exchange->tracestate);
    snprintf(record.id, sizeof record.id, "%s", exchange->id);
    snprintf(record.path, sizeof record.path, "%s", exchange->path);
    tracing_note(tracing, &record);
}
