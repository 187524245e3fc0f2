/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What there is: a row per method and path. A path is compared byte by byte, without decoding; a
 * segment in braces, "/v2/models/{model}", stands for any one that is not empty and captures it.
 * Of several rows that fit a path the first one's path is meant, so literal segments stand before
 * captures.
 */
#ifndef SERVER_ROUTES_H
#define SERVER_ROUTES_H

#include <stdbool.h>
#include <stddef.h>

#include "server/auth/access.h"
#include "server/problem.h"

struct exchange;

enum http_method {
    HTTP_GET,
    HTTP_HEAD,
    HTTP_POST,
    HTTP_PUT,
    HTTP_PATCH,
    HTTP_DELETE,
    HTTP_OPTIONS,
    HTTP_TRACE,
    HTTP_QUERY,
    HTTP_OTHER, /* everything else: one label in metrics */
    HTTP_METHOD_COUNT
};

enum { ROUTE_CAPTURES_MAX = 4 };

/* A segment of the path and what the route calls it; both borrowed, neither ends with a NUL. */
struct route_capture {
    const char *name, *text;
    size_t name_length, length;
};

struct route_captures {
    struct route_capture at[ROUTE_CAPTURES_MAX];
    size_t count;
};

struct route {
    const char *path;
    enum http_method method;
    enum access access;       /* who may use it */
    enum problem_form errors; /* of all rows whose paths begin with the same segment */
    bool empty_body;          /* a request without the length of its body has none */
    bool may_use_kept;        /* it is answered when all else is taken: server/admission.h */
    /* Judges the head before the body is read and sets exchange->body_limit; false with *problem
       set to refuse. NULL: the route has no body and no conditions. */
    bool (*check)(struct exchange *exchange, struct problem *problem);
    /* Answers, or sets exchange->launch to do so from elsewhere. */
    void (*handle)(struct exchange *exchange);
};

enum http_method http_method_find(const char *name);
/* "GET" … and "other". */
const char *http_method_name(enum http_method method);

/* NULL past the end. */
const struct route *route_at(size_t index);
size_t route_index(const struct route *route);
size_t route_count(void);

/*
 * The row for a path and method, and what its path captures; HEAD finds GET's. NULL when there is
 * none: then *path_known says whether the path exists with other methods.
 */
const struct route *route_find(const char *path, enum http_method method,
                               struct route_captures *captures, bool *path_known);
/* The segment that the route calls `name`; its text is NULL when it captures none of that name. */
struct route_capture route_captured(const struct route_captures *captures, const char *name);
bool route_capture_is(struct route_capture capture, const char *text);
/* Any row of the path, or NULL: where its requests are counted. */
const struct route *route_of_path(const char *path);
/* "OPTIONS *" asks about no path of the server but about all of it (RFC 9110, section 9.3.7). */
bool route_is_whole_server(const char *path);
/* The path's methods as the Allow header has them, "GET, POST"; HEAD and OPTIONS go without saying.
   Those of all paths for the whole server. Returns text. */
const char *route_allow(const char *path, char *text, size_t size);
/* The form of the errors of a path, of an unknown one too: by its first segment. What follows a
   question mark does not count. */
enum problem_form route_errors(const char *path);
/* For a hint, the known path most like this one, which lends it what it captures. Returns text, or
   NULL where none is near. */
const char *route_nearest(const char *path, char *text, size_t size);

#endif
