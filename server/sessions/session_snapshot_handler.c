/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET /v1/sessions/{id}/kv: all that a session keeps, as a file that makes it anew. It is that of
 * one moment, at which it is forked; steps go on while it is written.
 */
#include <stdlib.h>
#include <string.h>

#include "core/attention.h"
#include "core/checked.h"
#include "server/buffer_pool.h"
#include "server/codecs/codec_safetensors.h"
#include "server/codecs/codec_snapshot.h"
#include "server/handlers.h"
#include "server/options/options_table.h"
#include "server/sessions/sessions.h"

struct snapshot_call {
    struct call_work work;
    struct session_wait wait;
    struct attn_kv_cache *cache; /* a fork; owned */
    size_t layers;
    struct attn_kv_view *views; /* [layers], of which the first `open` are; owned */
    size_t open;
    struct codec_snapshot_layer *sizes; /* [layers]; owned */
    struct text head;                   /* of the file */
    size_t *begins;                     /* [layers]: where a layer's keys begin; owned */
};

static enum attn_status no_memory(struct attn_error *error) {
    return attn_fail(error, ATTN_NO_MEMORY, "", "There is no memory for this call now.");
}

static enum attn_status open_views(struct snapshot_call *call) {
    struct attn_error *error = &call->work.error;
    call->views = calloc(call->layers, sizeof *call->views);
    call->sizes = calloc(call->layers, sizeof *call->sizes);
    call->begins = calloc(call->layers, sizeof *call->begins);
    if (call->views == NULL || call->sizes == NULL || call->begins == NULL)
        return no_memory(error);
    for (; call->open < call->layers; call->open++)
        if (attn_kv_view_open(call->cache, call->open, NULL, ATTN_KV_NEXT, &call->views[call->open],
                              error) != ATTN_OK)
            return error->status;
    return ATTN_OK;
}

/* What a layer's rows take, added to *bytes; pages hold them, so that their sizes can be counted.
 */
static bool size_layer(struct snapshot_call *call, size_t layer, size_t *bytes) {
    const struct attn_kv_view *view = &call->views[layer];
    struct codec_snapshot_layer *size = &call->sizes[layer];
    const size_t k[] = {view->Hkv, view->keys, view->D}, v[] = {view->Hkv, view->keys, view->Dv};
    size->rows = view->keys;
    call->begins[layer] = *bytes;
    return attn_shape_bytes(view->dtype, 3, k, &size->k_bytes) &&
           attn_shape_bytes(view->dtype, 3, v, &size->v_bytes) &&
           attn_add_size(*bytes, size->k_bytes, bytes) &&
           attn_add_size(*bytes, size->v_bytes, bytes);
}

static void write_list(struct text *text, const struct snapshot_call *call, const char *name,
                       size_t (*of)(const struct snapshot_call *call, size_t layer)) {
    text_format(text, ",\"%s\":[", name);
    for (size_t layer = 0; layer < call->layers; layer++)
        text_format(text, "%s%zu", layer == 0 ? "" : ",", of(call, layer));
    text_add(text, "]", 1);
}

static size_t length_of(const struct snapshot_call *call, size_t layer) {
    return attn_kv_length(call->cache, layer);
}

static size_t gap_key_of(const struct snapshot_call *call, size_t layer) {
    return call->views[layer].gap.key;
}

static size_t gap_count_of(const struct snapshot_call *call, size_t layer) {
    return call->views[layer].gap.count;
}

/* A random id belongs to the session that it was made for; one that was chosen goes along. */
static void write_head(struct snapshot_call *call) {
    const struct session *session = call->wait.session;
    struct text text = {0};
    text_add(&text, "{", 1);
    if (session->has_own_id)
        text_format(&text, "\"id\":\"%s\",", session->id);
    sessions_write_spec(&text, attn_kv_cache_spec(call->cache));
    text_format(&text, ",\"ttl_s\":%.9g", session->ttl_seconds);
    write_list(&text, call, "lengths", length_of);
    write_list(&text, call, "gap_keys", gap_key_of);
    write_list(&text, call, "gap_counts", gap_count_of);
    text_add(&text, "}", 1);
    codec_snapshot_head(&call->head, &text, attn_kv_cache_spec(call->cache), call->sizes);
    text_close(&text);
}

static enum attn_status lay_out(struct snapshot_call *call, size_t data) {
    struct call_work *work = &call->work;
    const size_t most = work->exchange->service->limits.call.result_bytes;
    size_t bytes = SIZE_MAX;
    if (!attn_add_size(call->head.length, data, &bytes) || bytes > most)
        return attn_fail_limit(&work->error, ATTN_RESULT_TOO_LARGE, "", (double)most,
                               "The snapshot would have %zu bytes, and an answer may have %zu; "
                               "have the operator raise max_result.",
                               bytes, most);
    if (call_work_reserve(work, bytes) != ATTN_OK)
        return work->error.status;
    work->answer = (struct codec_answer){.media_type = CODEC_SAFETENSORS.media_type,
                                         .buffer = buffer_take(bytes),
                                         .capacity = bytes,
                                         .length = bytes};
    if (work->answer.buffer == NULL)
        return no_memory(&work->error);
    memcpy(work->answer.buffer, call->head.data, call->head.length);
    return ATTN_OK;
}

static enum attn_status prepare(struct call_work *work) {
    struct snapshot_call *call = (struct snapshot_call *)work;
    size_t bytes = 0;
    bool fits = true;
    if (open_views(call) != ATTN_OK)
        return work->error.status;
    for (size_t layer = 0; layer < call->layers && fits; layer++)
        fits = size_layer(call, layer, &bytes);
    write_head(call);
    if (call->head.failed || !fits)
        return no_memory(&work->error);
    work->tasks = call->layers;
    work->pace = BACKLOG_COPY;
    work->flops = (double)bytes;
    return lay_out(call, bytes);
}

static void compute(struct call_work *work, size_t task, void *workspace,
                    const struct attn_checkpoint *checkpoint) {
    struct snapshot_call *call = (struct snapshot_call *)work;
    char *const k = (char *)work->answer.buffer + call->head.length + call->begins[task];
    (void)workspace;
    (void)checkpoint;
    attn_kv_export(&call->views[task], 0, call->views[task].keys, k, k + call->sizes[task].k_bytes);
}

static enum attn_status encode(struct call_work *work) {
    (void)work;
    return ATTN_OK;
}

static void close_call(struct call_work *work) {
    struct snapshot_call *call = (struct snapshot_call *)work;
    for (size_t layer = 0; layer < call->open; layer++)
        attn_kv_view_close(&call->views[layer]);
    free(call->views);
    free(call->sizes);
    free(call->begins);
    text_close(&call->head);
    if (call->cache != NULL)
        attn_kv_cache_free(&call->cache);
    session_wait_close(&call->wait);
}

static const struct call_kind KIND = {
    .prepare = prepare,
    .compute = compute,
    .encode = encode,
    .close = close_call,
    .ask_for_less = "Have the operator raise memory_budget.",
};

/* The turn has come: a fork takes a moment, and is this call's own. */
static void go(struct exchange *exchange) {
    struct snapshot_call *call = (struct snapshot_call *)exchange->work;
    struct session *session = call->wait.session;
    struct attn_error error = {0};
    struct problem problem;
    const bool is_over = session_is_over(session);
    if (is_over)
        sessions_say(&problem, exchange, SESSION_UNKNOWN, session->id, strlen(session->id));
    else if (attn_kv_fork(session->cache, &call->cache, &error) != ATTN_OK)
        problem_from_error(&problem, &error);
    session_wait_end(&call->wait);
    if (is_over || error.status != ATTN_OK) {
        exchange_refuse(exchange, &problem);
        return;
    }
    call->layers = session->layers;
    call_work_begin(&call->work);
}

void sessions_snapshot(struct exchange *exchange) {
    struct problem problem;
    if (!exchange_coding_answer(exchange, &problem)) {
        exchange_refuse(exchange, &problem);
        return;
    }
    if (!sessions_check_query(exchange, &SESSION_KV_SCHEMA))
        return;
    if (!codec_is_acceptable(exchange->accept, &CODEC_SAFETENSORS)) {
        exchange_fail(exchange, PROBLEM_NOT_ACCEPTABLE,
                      "The answer can be had as %s; Accept is \"%.80s\".",
                      CODEC_SAFETENSORS.media_type, exchange->accept);
        return;
    }
    struct session *session = sessions_take(exchange);
    struct snapshot_call *call =
        session == NULL ? NULL : call_work_create(exchange, &KIND, sizeof *call);
    if (call != NULL) {
        tensor_call_set_deadline(exchange);
        if (session_wait_begin(&call->wait, exchange, session, go))
            go(exchange);
    }
    session_unref(session);
}
