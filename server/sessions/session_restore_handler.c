/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /v1/sessions with a snapshot: a session as the file says, which nobody sees before all of it
 * is there. What is in the file is session_restore.h's to judge.
 */
#include "core/attention.h"
#include "server/codecs/codec_snapshot.h"
#include "server/options/options_table.h"
#include "server/sessions/session_restore.h"
#include "server/sessions/sessions.h"

#include <stdlib.h>
#include <string.h>

struct restore_call {
    struct tensor_call tensors;      /* its request and its team */
    struct session *session;         /* owned reference; NULL before it is made */
    struct attn_kv_append **appends; /* [layers], NULL where none is open; owned */
    size_t layers;
};

/* ---- the call ---- */

static enum attn_status decode(struct restore_call *call) {
    struct call_work *work = &call->tensors.work;
    const struct exchange *exchange = work->exchange;
    const struct codec_input input = {
        .body = exchange->body,
        .length = exchange->body_length,
        .query = exchange->query,
        .query_count = exchange->query_count,
        .schema = &SESSION_SNAPSHOT_SCHEMA,
        .cancelled = &work->job.cancelled,
    };
    struct attn_kv_cache *cache;
    const struct codec_session *asked = &call->tensors.request.session;
    if (codec_snapshot_read(&input, &call->tensors.request, &work->error) != ATTN_OK ||
        sessions_make_cache(session_table_pool(exchange->service->sessions), asked, &cache,
                            &work->error) != ATTN_OK)
        return work->error.status;
    return sessions_make(exchange, asked, cache, &call->session, &work->error);
}

static enum attn_status charge(struct restore_call *call) {
    struct call_work *work = &call->tensors.work;
    struct problem problem;
    if (session_charge(call->session, sessions_key_limits(work->exchange),
                       attn_kv_cache_bytes(call->session->cache)))
        return ATTN_OK;
    sessions_say_memory(&problem, work->exchange);
    work->problem = problem.code;
    return attn_fail_limit(&work->error, ATTN_QUOTA, "", problem.limit, "%s", problem.detail);
}

static enum attn_status prepare(struct call_work *work) {
    struct restore_call *call = (struct restore_call *)work;
    if (decode(call) != ATTN_OK)
        return work->error.status;
    call->layers = call->session->layers;
    call->appends = calloc(call->layers, sizeof(struct attn_kv_append *));
    if (call->appends == NULL)
        return attn_fail(&work->error, ATTN_NO_MEMORY, "", "There is no memory for this call now.");
    if (session_restore_open(call->session->cache, &call->tensors.request.session, call->appends,
                             &work->error) != ATTN_OK)
        return work->error.status;
    work->tasks = call->layers;
    work->pace = BACKLOG_COPY;
    work->flops = (double)work->exchange->body_length;
    return charge(call) == ATTN_OK ? call_work_reserve(work, 0) : work->error.status;
}

static void compute(struct call_work *work, size_t task, void *workspace,
                    const struct attn_checkpoint *checkpoint) {
    struct restore_call *call = (struct restore_call *)work;
    const struct attn_kv_rows rows = session_restore_rows(&call->tensors.request.session, task);
    (void)workspace;
    if (call->appends[task] != NULL)
        attn_kv_append_write(call->appends[task], &rows, checkpoint);
}

static enum attn_status encode(struct call_work *work) {
    struct restore_call *call = (struct restore_call *)work;
    for (size_t layer = 0; layer < call->layers; layer++) {
        if (call->appends[layer] != NULL)
            attn_kv_append_commit(call->appends[layer]);
        call->appends[layer] = NULL;
    }
    session_publish(call->session);
    return ATTN_OK;
}

/* The session is there; now it is let in. */
static void settle(struct call_work *work, bool succeeded) {
    struct restore_call *call = (struct restore_call *)work;
    struct session *session = call->session;
    struct problem problem;
    if (!succeeded)
        return;
    const enum session_answer answer = session_table_add(work->exchange->service->sessions, session,
                                                         sessions_key_limits(work->exchange));
    if (answer == SESSION_FINE)
        return;
    sessions_say(&problem, work->exchange, answer, session->id, strlen(session->id));
    work->problem = problem.code;
    attn_fail_limit(&work->error, ATTN_OVERLOADED, "", problem.limit, "%s", problem.detail);
}

/* Its text is small, and written where it is answered. */
static void count(const struct call_work *work, struct exchange *exchange) {
    sessions_created(exchange, ((const struct restore_call *)work)->session);
}

static void close_call(struct call_work *work) {
    struct restore_call *call = (struct restore_call *)work;
    session_unref(call->session); /* and with it appends that are open */
    free(call->appends);
    tensor_call_close(&call->tensors);
}

static const struct call_kind KIND = {
    .prepare = prepare,
    .compute = compute,
    .encode = encode,
    .settle = settle,
    .count = count,
    .close = close_call,
    .ask_for_less = "Restore a shorter session.",
};

void sessions_restore(struct exchange *exchange) {
    struct restore_call *call = call_work_create(exchange, &KIND, sizeof *call);
    if (call != NULL)
        call_work_begin(&call->tensors.work);
}
