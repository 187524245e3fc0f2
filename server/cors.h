/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which pages of other origins a browser may let read our answers (CORS). It protects readers of
 * answers: that of an origin that is not allowed says nothing that would open it. Whether such a
 * page may send calls at all is exchange_access.c's.
 */
#ifndef SERVER_CORS_H
#define SERVER_CORS_H

#include <stdbool.h>
#include <stddef.h>

enum cors_kind {
    CORS_NONE,     /* no origin */
    CORS_LOOPBACK, /* http and https of localhost, 127.0.0.1 and [::1], any port */
    CORS_LIST,     /* those listed, compared as text */
    CORS_ANY
};

struct cors {
    enum cors_kind kind;
    const char *list; /* borrowed; origins with commas between them */
};

enum { CORS_ORIGIN_SIZE = 256 }; /* an allowed origin and its NUL */

/* What a browser may send, and read, beside what every page may. */
#define CORS_REQUEST_HEADERS                                                                  \
    "Authorization, Content-Type, Content-Encoding, Idempotency-Key, "                        \
    "Inference-Header-Content-Length, traceparent, tracestate, If-None-Match, X-Request-Id, " \
    "X-Session-Group"
#define CORS_ANSWER_HEADERS                                                                \
    "Inference-Header-Content-Length, Server-Timing, Retry-After, Location, ETag, Allow, " \
    "X-Request-Id, traceparent, X-Map-Shape, X-Map-Rows, X-Map-Cols, X-Map-Max, X-Map-Exact"

/*
 * Reads "auto", "none", "*" or a list of origins such as "https://a.example,http://b.example:81".
 * auto is CORS_LOOPBACK where `on_loopback`, that is where nobody else can connect, else CORS_NONE.
 * False with a sentence in `error` when it is none of these. *borrows* text.
 */
bool cors_read(struct cors *cors, const char *text, bool on_loopback, char *error, size_t size);

/* Whether pages of this origin may read answers; NULL, no origin, never. */
bool cors_allows(const struct cors *cors, const char *origin);

/* Whether answers differ from origin to origin, which caches must know. */
static inline bool cors_varies(const struct cors *cors) {
    return cors->kind == CORS_LOOPBACK || cors->kind == CORS_LIST;
}

#endif
