/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.1 by libmicrohttpd: I/O threads, connections, deadlines of transport, framing guards. Only
 * the http_*.c files know that library. Each I/O thread polls one daemon of its own, because the
 * library's own epoll thread stalls when exactly 128 events are ready, and hands it the connections
 * that it accepts from the shared listening sockets.
 */
#ifndef SERVER_HTTP_HTTP_SERVER_H
#define SERVER_HTTP_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct exchange;
struct http_server;
struct service;

enum { HTTP_LISTENERS_MAX = 8 };

struct http_tls;

struct http_listener {
    int fd;      /* listening, non-blocking; borrowed */
    bool is_ops; /* for operators alone */
    bool is_tls;
};

struct http_options {
    struct http_listener listeners[HTTP_LISTENERS_MAX];
    size_t listener_count;
    struct http_tls *tls;    /* borrowed; NULL: none */
    size_t io_threads;       /* >= 1 */
    size_t connections;      /* at once, over all listeners */
    size_t connection_bytes; /* of each, for the head and what is read of the body at a time */
    uint64_t header_timeout_ms, body_timeout_ms, send_timeout_ms, idle_timeout_ms;
};

/* Starts the threads; NULL when they cannot be had. */
struct http_server *http_server_start(struct service *service, const struct http_options *options);
/* Whether every I/O thread has gone round within so many milliseconds. */
bool http_server_is_alive(const struct http_server *server, uint64_t ms);
/* How many connections have not brought any request yet. */
size_t http_server_unasked(const struct http_server *server);
/* Takes no more connections; requests on those there are go on. */
void http_server_quiesce(struct http_server *server);
/* Wakes every sleeping request with EXCHANGE_EVENT_SHUTDOWN. */
void http_server_wake_all(struct http_server *server);
/* Cuts every connection, also those that read or write. */
void http_server_cut_all(struct http_server *server);
/* Ends the threads and frees everything. No request may be in flight. */
void http_server_stop(struct http_server *server);

/* Resumes the exchange's suspended connection; from then on the exchange is its I/O thread's. */
void http_server_resume(const struct exchange *exchange);

#endif
