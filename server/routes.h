/* SPDX-License-Identifier: Apache-2.0 */
/* What there is: a row per method and path. Paths are compared byte by byte, without decoding. */
#ifndef SERVER_ROUTES_H
#define SERVER_ROUTES_H

#include <stdbool.h>
#include <stddef.h>

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
    HTTP_OTHER, /* everything else: one label in metrics */
    HTTP_METHOD_COUNT
};

struct route {
    const char *path;
    enum http_method method;
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
 * The row for a path and method; HEAD finds GET's. NULL when there is none: then *path_known says
 * whether the path exists with other methods.
 */
const struct route *route_find(const char *path, enum http_method method, bool *path_known);
/* Any row of the path, or NULL: where its requests are counted. */
const struct route *route_of_path(const char *path);
/* The path's methods as the Allow header has them, "GET, POST"; HEAD and OPTIONS go without saying.
   Returns text. */
const char *route_allow(const char *path, char *text, size_t size);
/* The known path most like this one, for a hint. */
const char *route_nearest(const char *path);

#endif
