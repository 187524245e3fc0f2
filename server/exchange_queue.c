/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a call is let in beside the others' work, and what it is told when it is not. */
#include <stdio.h>

#include "server/clock.h"
#include "server/exchange.h"
#include "server/exchange_internal.h"

enum { DETAIL_SIZE = 200 };
/* Longer bodies bring work, for which nothing is kept. */
#define KEPT_LONGEST ((uint64_t)256 << 10)

static bool is_short(const struct exchange *exchange) {
    return exchange->has_length ? exchange->content_length <= KEPT_LONGEST : !exchange->has_body;
}

enum admission_right exchange_right(const struct exchange *exchange) {
    const bool may = exchange->route != NULL && exchange->route->may_use_kept;
    return may && is_short(exchange) ? ADMISSION_KEPT : ADMISSION_LATER;
}

static const char *say_ahead(const struct backlog_answer *answer, char text[DETAIL_SIZE]) {
    snprintf(text, DETAIL_SIZE,
             "Other calls need %.2g s of all workers before this one, more than it may wait for "
             "(queue_work); try again after the time that Retry-After says.",
             answer->ahead);
    return text;
}

static bool refuse(struct exchange *exchange, const struct backlog_answer *answer) {
    char text[DETAIL_SIZE];
    exchange_fail(exchange, ATTN_OVERLOADED, "%s", say_ahead(answer, text));
    return false;
}

static bool enter_line(struct exchange *exchange) {
    const struct service *service = exchange->service;
    const size_t limit = service->limits.queue_limit;
    struct problem problem;
    if (admission_enter_queue(service->admission, exchange_right(exchange)))
        return true;
    backlog_note_refusal(service->backlog, clock_now());
    problem_set(&problem, ATTN_OVERLOADED, NULL,
                "As many calls wait as may (queue_limit = %zu); try again after the time that "
                "Retry-After says.",
                limit);
    problem.limit = (double)limit;
    exchange_refuse(exchange, &problem);
    return false;
}

bool exchange_enter_queue(struct exchange *exchange, struct backlog_call *call,
                          struct backlog_work work) {
    const struct service *service = exchange->service;
    const int64_t now = clock_now();
    const bool is_asked = exchange_right(exchange) != ADMISSION_KEPT;
    call->deadline = &exchange->deadline;
    const struct backlog_answer answer = is_asked
                                             ? backlog_enter(service->backlog, call, work, now)
                                             : backlog_enter_anyway(service->backlog, call, work);
    if (!answer.is_let_in)
        return refuse(exchange, &answer);
    if (!enter_line(exchange)) {
        backlog_leave(service->backlog, call, now);
        return false;
    }
    atomic_store(&exchange->begin_before,
                 clock_deadline(exchange->completed, service->limits.queue_timeout_ms));
    exchange->queued = call;
    atomic_store(&exchange->queued_at, now);
    return true;
}

void exchange_leave_queue(struct exchange *exchange) {
    atomic_store(&exchange->begin_before, 0);
    atomic_store(&exchange->queued_at, 0);
}

enum attn_status exchange_revise_work(struct exchange *exchange, struct backlog_call *call,
                                      struct backlog_work work, struct attn_error *error) {
    char text[DETAIL_SIZE];
    const struct backlog_answer answer =
        backlog_revise(exchange->service->backlog, call, work, clock_now());
    if (answer.is_let_in || exchange_right(exchange) == ADMISSION_KEPT)
        return ATTN_OK;
    return attn_fail(error, ATTN_OVERLOADED, "", "%s", say_ahead(&answer, text));
}

bool exchange_check_backlog(struct exchange *exchange) {
    const double bytes = exchange->has_length ? (double)exchange->content_length : 0;
    const struct backlog_work work = {.pace = BACKLOG_BODY, .amount = bytes};
    if (exchange_right(exchange) == ADMISSION_KEPT)
        return true;
    const struct backlog_answer answer =
        backlog_ask(exchange->service->backlog, work, exchange->began);
    return answer.is_let_in || refuse(exchange, &answer);
}

double exchange_busy_seconds(const struct exchange *exchange) {
    return backlog_total(exchange->service->backlog, clock_now());
}
