/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the http_*.c files, the only ones that know libmicrohttpd. */
#ifndef SERVER_HTTP_HTTP_INTERNAL_H
#define SERVER_HTTP_HTTP_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "server/exchange.h"
#include "server/http/http_server.h"
#include "server/http/http_warden.h"

struct MHD_Connection;
struct MHD_Daemon;
struct MHD_Response;
struct pollfd;

/* As many connections a thread takes at once; others take the rest. */
enum { HTTP_AT_ONCE = 16 };

/* So many of a thread's connections only operators' addresses may have, above all others: whoever
   looks after a service that has all the connections it can have gets an answer. */
enum { HTTP_OPS_MORE = 8 };

/* A daemon of the library speaks either TLS or not. */
enum { HTTP_PLAIN, HTTP_TLS, HTTP_DAEMONS };

struct http_thread {
    struct http_server *server;
    struct MHD_Daemon *daemons[HTTP_DAEMONS]; /* NULL: no listener needs it */
    pthread_t thread;
    int wake; /* eventfd */
    bool started;
    const void *heard;         /* the connection of its last request, to compare and no more */
    bool is_in_dialogue;       /* that of the one before was the same */
    bool was_short;            /* its last wait */
    atomic_int_least64_t seen; /* when it last went round */
    bool starved;       /* there was no descriptor for a connection: the next round takes none */
    unsigned runs;      /* since the last look at the listeners */
    atomic_uint rounds; /* in which the library read what was there */
    size_t turn;        /* the listener that is first in this round */
    int arrivals[HTTP_AT_ONCE]; /* connections to operators' addresses that the library does not */
    size_t arrival_count;       /* know of yet */
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
    struct MHD_Response *no_memory[PROBLEM_FORMS]; /* for when there is none to make one */
    atomic_bool quiesce, stop;
    atomic_size_t quiet;   /* threads that have quiesced */
    atomic_size_t unasked; /* connections without a request as yet */
    long cpus;             /* 1 where that is not known */
    atomic_long awake;     /* threads that wait so */
    size_t thread_count;
    struct http_thread threads[];
};

/* The head as the framing guards see it. */
struct http_head {
    struct MHD_Connection *connection;
    const char *target_end; /* of the target as it came; to compare and no more */
    const char *version;
    struct exchange *exchange;
};

/*
 * Fills the exchange's body fields, or refuses with false and *problem: two lengths, both framings,
 * unknown codings, header names that other parsers would read differently.
 */
bool http_guard(const struct http_head *head, struct problem *problem);

/* Refuses with false and *problem a head with bytes that the library does not tell of. */
bool http_guard_bytes(const struct http_head *head, struct problem *problem);

/* "unix", or the address in words without its port; "" for other families. */
void http_address_text(const struct sockaddr *address, char *text, size_t size);

/* Fills what the exchange has of the head; without a peer there is no exchange. */
void http_read_head(struct MHD_Connection *connection, struct http_peer *peer,
                    struct exchange *exchange);
/* Puts lines of one name together where the header is a list; false without memory for them. */
bool http_join_lists(struct MHD_Connection *connection, struct exchange *exchange);
/* Its options; false when the query string was refused. */
bool http_read_query(struct MHD_Connection *connection, struct exchange *exchange);

/* When a request line has been read: answers one that is too much past the library, counts and logs
   it, and leaves the phase TOLD. */
void http_guard_line(struct http_thread *thread, struct http_peer *peer, const char *target);

/* Whether the head, and at the end of a request its trailers, leave room for an answer; false after
   the client was told that they do not, by which the connection ends. */
bool http_guard_room(struct http_thread *thread, struct MHD_Connection *connection,
                     struct http_peer *peer, const struct exchange *exchange);

/* A request has come at the connection. */
void http_heard(struct http_thread *thread, const void *connection);
/* poll(), at first awake where that is likely to be quicker. */
int http_wait(struct http_thread *thread, struct pollfd *polled, size_t count, int timeout);

/* Before the body of a request is read from its socket: moves the calling thread to another CPU
   where the client sends from this one and there is much to come. */
void http_leave_sender(int fd, uint64_t body_length);

/* Whether the connection that the library has just taken over came to an operators' address. */
bool http_arrived_at_ops(struct http_thread *thread, int fd);

/* Queues the exchange's answer, or without memory for one that there is none, and marks it SENT;
   false when the connection must be closed. */
bool http_answer(struct MHD_Connection *connection, struct exchange *exchange);

/* The answers to calls for which there is no memory; false when there is none for these. */
bool http_spares_create(struct http_server *server);
void http_spares_free(struct http_server *server);
/* Queues one of them for a path whose request, or whose connection's peer, there is no memory for,
   and counts it; false when the connection must be closed. */
bool http_answer_spare(const struct http_server *server, struct MHD_Connection *connection,
                       struct http_peer *peer, const char *path);

#endif
