/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the http_*.c files, the only ones that know libmicrohttpd. */
#ifndef SERVER_HTTP_HTTP_INTERNAL_H
#define SERVER_HTTP_HTTP_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "server/exchange.h"
#include "server/http/http_server.h"
#include "server/http/http_warden.h"

struct MHD_Connection;
struct MHD_Daemon;

struct http_thread {
    struct http_server *server;
    struct MHD_Daemon *daemon;
    pthread_t thread;
    int wake; /* eventfd */
    bool started;
    bool starved;  /* there was no descriptor for a connection: the next round takes none */
    unsigned runs; /* since the last look at the listeners */
    struct arena arena;
};

/* The library's timeout counts whole seconds. */
static inline unsigned http_idle_seconds(const struct http_options *options) {
    return (unsigned)((options->idle_timeout_ms + 999) / 1000);
}

struct http_server {
    struct service *service;
    struct http_options options;
    struct http_warden *warden;
    atomic_bool quiesce, stop;
    atomic_size_t quiet; /* threads that have quiesced */
    size_t thread_count;
    struct http_thread threads[];
};

/* The head as the framing guards see it. */
struct http_head {
    struct MHD_Connection *connection;
    const char *version;
    struct exchange *exchange;
};

/*
 * Fills the exchange's body fields, or refuses with false and *problem: two lengths, both framings,
 * unknown codings, header names that other parsers would read differently.
 */
bool http_guard(const struct http_head *head, struct problem *problem);

/* When a request line has been read: answers one that is too much past the library, counts and logs
   it, and leaves the phase TOLD. */
void http_guard_line(struct http_thread *thread, struct http_peer *peer, const char *target);

/* Queues the exchange's answer and marks it SENT; false when the connection must be closed. */
bool http_answer(struct MHD_Connection *connection, struct exchange *exchange);

#endif
