/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request's place in a trace that goes through several services: W3C Trace Context, level 1. What
 * a traceparent header says is kept when it follows the recommendation, and else replaced by a new
 * trace.
 */
#ifndef SERVER_TRACING_TRACE_CONTEXT_H
#define SERVER_TRACING_TRACE_CONTEXT_H

#include <stdbool.h>

enum { TRACE_ID_SIZE = 33, TRACE_SPAN_SIZE = 17, TRACE_PARENT_SIZE = 56 };

/* Ids are lower-case hexadecimal. */
struct trace_context {
    char trace_id[TRACE_ID_SIZE];    /* "": the request has no part in any trace, ... */
    char parent_id[TRACE_SPAN_SIZE]; /* ... "": or none came with it */
    char span_id[TRACE_SPAN_SIZE];   /* made here */
    bool is_sampled;                 /* its spans are kept, as far as those before us know */
};

/* Takes over `traceparent` (NULL: none came) and makes a span id, and a trace id where none can be
   taken over. Where none came and none `is_wanted` nothing is made. */
void trace_context_begin(struct trace_context *context, const char *traceparent, bool is_wanted);

/* The header that tells others of this span; returns text. "" where there is none. */
const char *trace_context_write(const struct trace_context *context, char text[TRACE_PARENT_SIZE]);

#endif
