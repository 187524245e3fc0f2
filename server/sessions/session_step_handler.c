/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /v1/sessions/{id}/attention: the new rows are appended and the queries attend, as one call
 * in the session's order. The rows count when all has been computed and nobody has ended the call:
 * then its answer leaves. A client that does not get it finds the length where the call left it.
 */
#include <string.h>

#include "core/attention.h"
#include "server/calls/attention_call.h"
#include "server/clock.h"
#include "server/handlers.h"
#include "server/options/options_table.h"
#include "server/sessions/session_step.h"

struct session_call {
    struct attention_call attention;
    struct session_wait wait;
    struct session_step step;
    int64_t began; /* with the turn */
};

static struct session_call *call_of(struct call_work *work) {
    return (struct session_call *)work;
}

/* ---- the steps of the call ---- */

static enum attn_status check_rows(const struct codec_request *request, struct attn_error *error) {
    const struct attn_request *attention = &request->attention;
    const bool has_k = !attn_tensor_is_none(&attention->k),
               has_v = !attn_tensor_is_none(&attention->v);
    const char *const lacking = !has_k ? "k" : "v";
    if (request->session.attends_only && (has_k || has_v))
        return attn_fail(error, ATTN_BAD_VALUE, has_k ? "/k" : "/v",
                         "With \"append\": false nothing is appended: leave k and v out.");
    if (!request->session.attends_only && !(has_k && has_v))
        return attn_fail(error, ATTN_MISSING_FIELD, has_k ? "/v" : "/k",
                         "A step needs %s, the rows that it appends; or say \"append\": false, to "
                         "attend over those that are there.",
                         lacking);
    return ATTN_OK;
}

/* Queries are the new rows' own. Others would have to say where they stand. */
static enum attn_status check_queries(const struct session_call *call, struct attn_error *error) {
    const size_t Tq = call->attention.call.Tq, rows = call->step.rows;
    if (rows == 0 || Tq == rows || Tq == 0)
        return ATTN_OK;
    return attn_fail(error, ATTN_BAD_SHAPE, "/q",
                     "%zu row%s appended, with %zu quer%s: expected one for each, or none. Append "
                     "first, and let others attend with \"append\": false and their position.",
                     rows, rows == 1 ? " is" : "s are", Tq, Tq == 1 ? "y" : "ies");
}

static enum attn_status begin_step(struct session_call *call) {
    struct call_work *work = &call->attention.tensors.work;
    struct codec_request *request = &call->attention.tensors.request;
    const struct codec_session *asked = &request->session;
    const struct session_step_request wanted = {
        .rows = {request->attention.k, request->attention.v, request->attention.layout, false},
        .layer_given = asked->layer_given,
        .position_given = asked->position_given,
        .layer = asked->layer,
        .position = asked->position,
    };
    if (check_rows(request, &work->error) != ATTN_OK ||
        session_step_begin(&call->step, call->wait.session, &wanted,
                           sessions_key_limits(work->exchange), NULL, &work->problem,
                           &work->error) != ATTN_OK)
        return work->error.status;
    request->attention.k = request->attention.v = attn_tensor_none();
    request->attention.kv = &call->step.view;
    return ATTN_OK;
}

/* Where keys have left between those that stay, an answer says where each stands. */
static void want_positions(struct session_call *call) {
    struct tensor_call *tensors = &call->attention.tensors;
    struct attn_result_tensor *positions = &tensors->result.tensors[ATTN_RESULT_K_POSITIONS];
    const size_t keys = call->step.view.keys;
    if (call->step.view.gap.count == 0 || tensors->out == codec_find("npy") || tensors->out->draws)
        return;
    *positions = (struct attn_result_tensor){.wanted = true,
                                             .dtype = ATTN_INT32,
                                             .rank = 1,
                                             .shape = {keys},
                                             .bytes = keys * sizeof(int32_t)};
}

static void fill_positions(struct session_call *call) {
    const struct attn_result_tensor *positions =
        &call->attention.tensors.result.tensors[ATTN_RESULT_K_POSITIONS];
    int32_t *const values = positions->data;
    if (!positions->wanted)
        return;
    for (size_t j = 0; j < call->step.view.keys; j++)
        values[j] = (int32_t)attn_kv_view_position(&call->step.view, j);
}

/* A small body may ask for a copy of a long session's keys. */
static enum attn_status check_place(struct session_call *call) {
    struct tensor_call *tensors = &call->attention.tensors;
    if (!tensors->request.capture.given || !call_work_put_off(&tensors->work))
        return ATTN_OK;
    codec_request_close(&tensors->request);
    return ATTN_CANCELLED;
}

static enum attn_status prepare(struct call_work *work) {
    struct session_call *call = call_of(work);
    struct attention_call *attention = &call->attention;
    if (tensor_call_decode(&attention->tensors, attention->schema) != ATTN_OK)
        return work->error.status;
    if (check_place(call) != ATTN_OK)
        return ATTN_CANCELLED;
    if (begin_step(call) != ATTN_OK || attention_call_plan(attention) != ATTN_OK ||
        check_queries(call, &work->error) != ATTN_OK)
        return work->error.status;
    want_positions(call);
    if (attention_call_lay_out(attention) != ATTN_OK)
        return work->error.status;
    fill_positions(call);
    return attention_call_keep(attention);
}

static enum attn_status encode(struct call_work *work) {
    struct session_call *call = call_of(work);
    const struct codec_step step = {call->step.layer, call->step.position, call->step.length};
    struct codec_report report = {.step = &step};
    capture_call_report(&call->attention.keeping, &report);
    return attention_call_encode(&call->attention, &report);
}

static void settle(struct call_work *work, bool succeeded) {
    struct session_call *call = call_of(work);
    const size_t rows = call->step.rows;
    if (succeeded)
        metrics_count_step(work->exchange->service->metrics, rows, clock_now() - call->began);
    session_step_end(&call->step, succeeded);
    capture_call_settle(&call->attention.keeping, succeeded);
    session_wait_end(&call->wait);
}

static void close_call(struct call_work *work) {
    attention_call_close(work);
    session_wait_close(&call_of(work)->wait);
}

static const struct call_kind KIND = {
    .prepare = prepare,
    .compute = attention_call_compute,
    .encode = encode,
    .settle = settle,
    .count = attention_call_count,
    .close = close_call,
    .ask_for_less =
        "Ask for a pool or top_k of the map, for fewer rows, cols or heads, or for safetensors.",
};

/* ---- the route ---- */

static void go(struct exchange *exchange) {
    struct session_call *call = (struct session_call *)exchange->work;
    struct session *session = call->wait.session;
    struct problem problem;
    call->began = clock_now();
    if (!session_is_over(session)) {
        call_work_begin(&call->attention.tensors.work);
        return;
    }
    sessions_say(&problem, exchange, SESSION_UNKNOWN, session->id, strlen(session->id));
    exchange_refuse(exchange, &problem);
    session_wait_end(&call->wait);
}

bool sessions_step_check(struct exchange *exchange, struct problem *problem) {
    return sessions_check_path(exchange, problem) &&
           tensor_call_check(exchange, NULL, true, problem);
}

void sessions_step(struct exchange *exchange) {
    struct session *session = sessions_take(exchange);
    struct session_call *call =
        session == NULL ? NULL : call_work_create(exchange, &KIND, sizeof *call);
    if (call != NULL) {
        call->attention.schema = &SESSION_STEP_SCHEMA;
        if (tensor_call_choose_codecs(&call->attention.tensors, NULL, true) &&
            session_wait_begin(&call->wait, exchange, session, go))
            go(exchange);
    }
    session_unref(session);
}
