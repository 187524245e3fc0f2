/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that need a session's turn: they have it at once, or their connection sleeps until it
 * comes, as a call that waits for a worker does, with its place in the same line and its deadlines.
 */
#ifndef SERVER_SESSIONS_SESSION_WAIT_H
#define SERVER_SESSIONS_SESSION_WAIT_H

#include "server/exchange.h"
#include "server/sessions/session.h"

/* Part of an exchange's work. Zero-initialised; ended by session_wait_close(). */
struct session_wait {
    struct session_turn turn;
    struct session *session; /* owned reference, or NULL */
    struct exchange *exchange;
    void (*go)(struct exchange *exchange);
    void (*conclude)(struct exchange_work *work, struct exchange *exchange); /* the work's own */
    struct backlog_call load; /* its place in the backlog: it waits, and is no work */
    bool queued;              /* counted among those that wait */
};

/*
 * Takes the turn of `session`: true where it can be had at once. Else `go` is called with it later,
 * on the I/O thread, unless the wait ends otherwise; or there is no place in the line, and the
 * exchange has been refused and has no launch. `wait` is part of exchange->work. Takes a reference
 * of its own.
 */
bool session_wait_begin(struct session_wait *wait, struct exchange *exchange,
                        struct session *session, void (*go)(struct exchange *exchange));
/* Ends the turn, wherever it is. Again, it does nothing. */
void session_wait_end(struct session_wait *wait);
/* The same, and gives the session back. */
void session_wait_close(struct session_wait *wait);

#endif
