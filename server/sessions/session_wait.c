/* SPDX-License-Identifier: Apache-2.0 */
/* Sleeping until a session's turn comes; see session_wait.h. */
#include "server/sessions/session_wait.h"

#include "server/admission.h"
#include "server/clock.h"

static void leave_queue(struct session_wait *wait) {
    const struct service *service = wait->exchange->service;
    if (wait->queued) {
        exchange_leave_queue(wait->exchange);
        backlog_leave(service->backlog, &wait->load, clock_now());
        admission_leave_queue(service->admission);
    }
    wait->queued = false;
}

/* The turn has come, on any thread. The line's reference is this one's to drop. */
static bool granted(struct session_turn *turn) {
    struct session_wait *wait = (struct session_wait *)turn;
    struct exchange *exchange = wait->exchange;
    const bool is_wanted = exchange_wake(exchange, EXCHANGE_EVENT_DONE);
    if (!is_wanted)
        session_turn_refuse(turn);
    exchange_unref(exchange);
    return is_wanted;
}

/* The connection sleeps: now the place in the line may be taken. */
static void launch(struct exchange *exchange) {
    struct session_wait *wait = exchange->work->wait;
    exchange_ref(exchange);
    if (!session_turn_ask(&wait->turn, wait->session))
        return;
    if (!exchange_wake(exchange, EXCHANGE_EVENT_DONE))
        session_turn_end(&wait->turn);
    exchange_unref(exchange);
}

static void woken(struct exchange_work *work, struct exchange *exchange) {
    struct session_wait *wait = work->wait;
    work->conclude = wait->conclude;
    work->give_up = NULL;
    leave_queue(wait);
    wait->go(exchange);
}

static void give_up(struct exchange_work *work) {
    struct session_wait *wait = work->wait;
    leave_queue(wait);
    if (session_turn_withdraw(&wait->turn))
        exchange_unref(wait->exchange); /* the line's reference */
}

bool session_wait_begin(struct session_wait *wait, struct exchange *exchange,
                        struct session *session, void (*go)(struct exchange *exchange)) {
    wait->exchange = exchange;
    wait->session = session_ref(session);
    wait->go = go;
    wait->turn.granted = granted;
    if (session_turn_try(&wait->turn, session))
        return true;
    if (!exchange_enter_queue(exchange, &wait->load, (struct backlog_work){0}))
        return false;
    wait->queued = true;
    wait->conclude = exchange->work->conclude;
    exchange->work->wait = wait;
    exchange->work->conclude = woken;
    exchange->work->give_up = give_up;
    exchange->launch = launch;
    return false;
}

void session_wait_end(struct session_wait *wait) {
    session_turn_end(&wait->turn);
}

void session_wait_close(struct session_wait *wait) {
    if (wait->exchange != NULL)
        leave_queue(wait);
    session_turn_end(&wait->turn);
    session_unref(wait->session);
    wait->session = NULL;
}
