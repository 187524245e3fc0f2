/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spans on their way to an OpenTelemetry collector: one thread posts those of finished requests in
 * batches. No request waits for it or fails with it: what finds the queue full, or is not taken by
 * the collector, is dropped and counted.
 */
#ifndef SERVER_TRACING_TRACING_H
#define SERVER_TRACING_TRACING_H

#include "server/access_log.h"
#include "server/tracing/trace_json.h"

struct tracing;

/* Whether spans can be sent to `endpoint`; false with a sentence in `error` when it is no URL or
   there is no libcurl. "" is fine: they are not. */
bool tracing_check(const char *endpoint, char *error, size_t size);

struct tracing_options {
    const char *endpoint;   /* that tracing_check() finds fine, and not "" */
    unsigned percent;       /* of the requests that bring no trace have their spans sent */
    struct access_log *log; /* *borrowed*: told when the collector takes nothing, and when again */
};

/* NULL when there is no memory, or no thread. */
struct tracing *tracing_start(const struct tracing_options *options);
/* Sends what is left, as far as that takes a moment; takes two seconds at most. NULL is none. */
void tracing_stop(struct tracing *tracing);

/* Whether the spans of a request that began this trace are sent: the same wherever it goes on. */
bool tracing_samples(const struct tracing *tracing, const struct trace_context *context);

/* Copies a finished request into the queue, on any thread. */
void tracing_note(struct tracing *tracing, const struct trace_record *record);

struct tracing_counts {
    uint64_t sent, dropped; /* spans */
};
/* Of NULL, 0. */
struct tracing_counts tracing_count(const struct tracing *tracing);

#endif
