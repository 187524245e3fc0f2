/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST by libcurl, which is loaded only where it is needed: with all that it brings it is larger
 * than the rest of what a small installation has. Any flavour of it does.
 */
#ifndef SERVER_TRACING_TRACE_CURL_H
#define SERVER_TRACING_TRACE_CURL_H

#include <stdbool.h>
#include <stddef.h>

struct trace_curl;

enum trace_outcome {
    TRACE_SENT,
    TRACE_BUSY,   /* it was not taken, and may be later */
    TRACE_REFUSED /* it was not taken, or nobody knows: it is not to be sent again */
};

/* Whether there is a libcurl that can be loaded; `reason` says why not. */
bool trace_curl_exists(char *reason, size_t size);

/* For posting JSON to `url`, *borrowed*, from one thread. NULL when there is no memory for it. */
struct trace_curl *trace_curl_open(const char *url);
void trace_curl_close(struct trace_curl *curl);

/* Posts `json` within `ms`, or until is_over(context), which is asked at least once a second, is
   true. Where it was not taken `reason` says why. */
enum trace_outcome trace_curl_post(struct trace_curl *curl, const char *json, long ms,
                                   bool (*is_over)(void *context), void *context, char *reason,
                                   size_t size);

#endif
