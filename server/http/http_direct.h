/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers written to the socket past libmicrohttpd, which takes an answer only once the head is
 * there and then only before or after the body: to a request that is late, and to a request line
 * that version 0.9.75 does not come back from. Only between two answers, by whoever has claimed the
 * connection for it; no other answer follows.
 */
#ifndef SERVER_HTTP_HTTP_DIRECT_H
#define SERVER_HTTP_HTTP_DIRECT_H

#include <stdbool.h>

#include "server/problem.h"

struct http_peer;

/* Whom an answer is for. */
struct http_addressee {
    enum problem_form form; /* of the errors of the path */
    const char *id;         /* of the request */
    const char *origin;     /* of the page that may read it, or "" */
};

/* Sends the problem, or without memory for it that there is none, and ends this side of the
   connection; false when the socket did not take it. */
bool http_direct(const struct http_peer *peer, const struct problem *problem,
                 const struct http_addressee *to);
/* As that: that there is no memory, for which it needs none. */
bool http_direct_no_memory(const struct http_peer *peer, enum problem_form form);

#endif
