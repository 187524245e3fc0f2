/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /v1/sessions/attention: one step of many sessions, as one call: all of them or none. Which
 * sessions they are stands in the body, so it is decoded first; then their turns are taken one
 * after the other, in one order for all calls, so that no two can wait for each other; then it goes
 * as any call does, with the tasks of all parts.
 */
#include <stdlib.h>
#include <string.h>

#include "server/clock.h"
#include "server/handlers.h"
#include "server/options/options_table.h"
#include "server/sessions/session_steps.h"

/* ---- which sessions ---- */

static enum attn_status no_memory(struct attn_error *error) {
    return attn_fail(error, ATTN_NO_MEMORY, "", "There is no memory for this call now.");
}

static enum attn_status check_shape(const struct attn_tensor *tensor, size_t count,
                                    const char *pointer, struct attn_error *error) {
    char came[96];
    if (tensor->rank == 4 && tensor->shape[0] == count && tensor->shape[2] == 1)
        return ATTN_OK;
    return attn_fail(error, ATTN_BAD_SHAPE, pointer,
                     "Expected one token for each of the %zu sessions, [%zu,H,1,D], but the shape "
                     "is %s.",
                     count, count, attn_shape_text(tensor->rank, tensor->shape, came, sizeof came));
}

static enum attn_status check_request(const struct codec_request *request,
                                      struct attn_error *error) {
    const struct attn_request *attention = &request->attention;
    const struct codec_session *asked = &request->session;
    const size_t count = asked->id_count;
    if (count == 0)
        return attn_fail(error, ATTN_MISSING_FIELD, "/sessions",
                         "Say sessions: the ids of those that make a step.");
    if (count > STEPS_MOST)
        return attn_fail_limit(error, ATTN_BAD_VALUE, "/sessions", STEPS_MOST,
                               "At most %d sessions make a step together, but %zu came.",
                               STEPS_MOST, count);
    if (asked->positions.values != NULL && asked->positions.count != count)
        return attn_fail(error, ATTN_BAD_VALUE, "/positions",
                         "Expected one position for each of the %zu sessions, but %zu came.", count,
                         asked->positions.count);
    if (check_shape(&attention->q, count, "/q", error) != ATTN_OK ||
        check_shape(&attention->k, count, "/k", error) != ATTN_OK)
        return error->status;
    return check_shape(&attention->v, count, "/v", error);
}

static enum attn_status decode(struct call_work *work) {
    struct steps_call *call = steps_of(work);
    if (tensor_call_decode(&call->tensors, &SESSION_STEPS_SCHEMA) != ATTN_OK ||
        check_request(&call->tensors.request, &work->error) != ATTN_OK)
        return work->error.status;
    call->count = call->tensors.request.session.id_count;
    call->parts = calloc(call->count, sizeof *call->parts);
    call->order = calloc(call->count, sizeof(struct steps_part *));
    work->tasks = 1;
    work->pace = BACKLOG_COPY;
    return call->parts == NULL || call->order == NULL ? no_memory(&work->error) : ATTN_OK;
}

static void decoded(struct call_work *work, size_t task, void *workspace,
                    const struct attn_checkpoint *checkpoint) {
    (void)work;
    (void)task;
    (void)workspace;
    (void)checkpoint;
}

static enum attn_status nothing(struct call_work *work) {
    (void)work;
    return ATTN_OK;
}

/* ---- their turns ---- */

static void take_rest(struct exchange *exchange);

/* Whether all sessions are there; else the exchange has been refused. */
static bool find_sessions(struct steps_call *call, struct exchange *exchange) {
    const struct codec_session *asked = &call->tensors.request.session;
    struct problem first, problem;
    for (size_t n = 0; n < call->count; n++) {
        const char *id = asked->ids[n];
        call->parts[n].session = sessions_find(exchange, id, strlen(id), &problem);
        call->order[n] = &call->parts[n];
        if (call->parts[n].session != NULL)
            continue;
        if (call->failures.length == 0)
            first = problem;
        steps_add_failure(call, id, &problem);
    }
    if (call->failures.length == 0)
        return true;
    first.failures = steps_failures(call);
    exchange_refuse(exchange, &first);
    return false;
}

static int by_session(const void *left, const void *right) {
    const struct steps_part *const *a = left, *const *b = right;
    const uintptr_t x = (uintptr_t)(*a)->session, y = (uintptr_t)(*b)->session;
    return x < y ? -1 : x > y;
}

static bool are_different(const struct steps_call *call, struct exchange *exchange) {
    for (size_t n = 1; n < call->count; n++)
        if (call->order[n]->session == call->order[n - 1]->session) {
            exchange_fail(exchange, ATTN_BAD_VALUE,
                          "The session \"%s\" is named twice: each makes one step.",
                          call->order[n]->session->id);
            return false;
        }
    return true;
}

static void take_turns(struct call_work *work, struct exchange *exchange) {
    struct steps_call *call = steps_of(work);
    if (!find_sessions(call, exchange))
        return;
    qsort(call->order, call->count, sizeof(struct steps_part *), by_session);
    if (are_different(call, exchange))
        take_rest(exchange);
}

static const struct call_kind DECODING = {
    .prepare = decode,
    .compute = decoded,
    .encode = nothing,
    .go_on = take_turns,
    .close = steps_close,
    .ask_for_less = STEPS_ASK_FOR_LESS,
};

/* One of them may have ended while others were waited for. */
static bool are_all_there(struct steps_call *call, struct exchange *exchange) {
    struct problem first, problem;
    for (size_t n = 0; n < call->count; n++) {
        const struct session *session = call->parts[n].session;
        if (!session_is_over(call->parts[n].session))
            continue;
        sessions_say(&problem, exchange, SESSION_UNKNOWN, session->id, strlen(session->id));
        if (call->failures.length == 0)
            first = problem;
        steps_add_failure(call, session->id, &problem);
    }
    if (call->failures.length == 0)
        return true;
    first.failures = steps_failures(call);
    exchange_refuse(exchange, &first);
    steps_settle(&call->tensors.work, false);
    return false;
}

static void take_rest(struct exchange *exchange) {
    struct steps_call *call = (struct steps_call *)exchange->work;
    while (call->turns < call->count) {
        struct steps_part *part = call->order[call->turns++];
        if (session_wait_begin(&part->wait, exchange, part->session, take_rest))
            continue;
        if (exchange->launch == NULL)
            steps_settle(&call->tensors.work, false);
        return;
    }
    call->began = clock_now();
    if (are_all_there(call, exchange))
        call_work_again(&call->tensors.work, &STEPS_KIND);
}

bool sessions_steps_check(struct exchange *exchange, struct problem *problem) {
    return tensor_call_check(exchange, NULL, false, problem);
}

void sessions_steps(struct exchange *exchange) {
    struct steps_call *call = call_work_create(exchange, &DECODING, sizeof *call);
    if (call != NULL && tensor_call_choose_codecs(&call->tensors, NULL, false))
        call_work_begin(&call->tensors.work);
}
