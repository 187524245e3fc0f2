/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The warden: one thread that looks at every connection some forty times a second. It answers 408
 * on connections whose head or body is late, and cuts those whose other transport deadlines (first
 * line, answer) have passed - totals, for a timeout of inactivity alone is outlived by a trickle.
 * It wakes sleeping requests whose call is late, whose turn does not come, or whose client has
 * gone. It also cuts connections whose client has ended its side in the middle of a request: when
 * that end arrives together with data, libmicrohttpd 0.9.75 does not see it, and would keep the
 * connection and its part of the budget until the deadline. And it answers 400 where the library
 * reads no further: a line between two chunks that exceeds its buffer has it look at that
 * connection again and again, as fast as it can and until the deadline, whether or not the client
 * is there.
 */
#ifndef SERVER_HTTP_HTTP_WARDEN_H
#define SERVER_HTTP_HTTP_WARDEN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/cors.h"
#include "server/problem.h"
#include "server/request_id.h"

struct exchange;
struct http_warden;
struct service;

/* So long a client that has its last answer may send on; what it sends is thrown away, for a closed
   socket would answer it with a reset, and that can take the answer from the client again. */
enum { HTTP_LINGER_MS = 5000 };

/*
 * Where a connection stands. The I/O thread goes from one to the next, and only from IDLE, HEAD or
 * BODY the warden to TOLD: who wants to answer claims the connection by a compare-and-swap.
 */
enum http_peer_phase {
    PEER_IDLE, /* no request, or not all of its first line */
    PEER_HEAD, /* the rest of the head is awaited */
    PEER_BODY, /* the rest of the body is awaited */
    PEER_BUSY, /* nothing is awaited of the client: a call, or an answer on its way */
    PEER_TOLD  /* the last answer was sent past the library, which sends no other; lingers */
};

/* One connection. The I/O thread owns it; what the warden reads is atomic or under its lock. */
struct http_peer {
    int fd;
    struct gnutls_session_int *session; /* NULL without TLS */
    bool has_asked;                     /* it has brought a request */
    bool at_ops;                        /* it came to an operators' address */
    bool escaped_path;                  /* the current request's path has percent signs */
    const char *target_end;             /* of the current request, to compare and no more */
    enum problem_form errors;           /* of the current request's path */
    bool may_linger;                    /* the client may still be sending when it is closed */
    bool may_ask;                       /* the current request is HTTP/1.1: see http_warden.c */
    uint64_t allowed_ms;           /* what the deadline was made from; for the warden's sentence */
    char id[REQUEST_ID_SIZE];      /* of the request whose body is awaited */
    char origin[CORS_ORIGIN_SIZE]; /* of its page, if it may read the answer; or "" */
    int64_t head_began;            /* when the current request's first line was there */
    atomic_int_least64_t deadline; /* of transport; 0: none */
    atomic_int phase;              /* enum http_peer_phase */
    atomic_uint pieces;            /* of bodies, that were taken */
    const atomic_uint *rounds;     /* of the I/O thread, in each of which it reads what is there */
    unsigned turn;                 /* the ticks in which the warden looks for its end */
    unsigned ended_looks;          /* the warden's: looks at which the client had sent its end */
    unsigned stuck_pieces;     /* the warden's: pieces and rounds at the last look for bytes of */
    unsigned stuck_rounds;     /* a body that wait, ... */
    int64_t stuck_looked;      /* ... when that was, ... */
    bool has_waiting;          /* ... and whether there were any */
    int told;                  /* the problem's code, once the phase is TOLD */
    struct exchange *exchange; /* the I/O thread's: of the current request, or NULL */
    struct exchange *sleeping; /* under the warden's lock */
    bool is_cut;               /* the warden's: it takes no more bytes, so it cannot linger */
    bool asked;                /* the warden's: this sleep's client was sent an interim answer */
    struct http_peer *next, *previous;
};

/* NULL when there is no memory or no thread. */
struct http_warden *http_warden_create(struct service *service);
/* All connections must be closed. */
void http_warden_free(struct http_warden *warden);

/* A new connection; NULL when there is no memory. Borrows the count of its I/O thread's rounds. */
struct http_peer *http_warden_add(struct http_warden *warden, int fd, const atomic_uint *rounds);
/* The connection is about to be closed; frees the peer. */
void http_warden_remove(struct http_warden *warden, struct http_peer *peer);

/* The peer's request sleeps; the exchange outlives that. NULL: it does no longer. */
void http_warden_sleep(struct http_warden *warden, struct http_peer *peer,
                       struct exchange *exchange);

/* Wakes every sleeping request with EXCHANGE_EVENT_SHUTDOWN. */
void http_warden_wake_all(struct http_warden *warden);
/* Cuts every connection. */
void http_warden_cut_all(struct http_warden *warden);

#endif
