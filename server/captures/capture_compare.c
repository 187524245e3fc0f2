/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /v1/captures/{id}/compare: the weights of a capture against those of another, or against a
 * map that is sent. Both are walked through in blocks of rows, so that no whole map is ever there
 * but the one that came.
 */
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "core/area.h"
#include "core/checked.h"
#include "core/convert.h"
#include "server/calls/tensor_call.h"
#include "server/captures/capture_compare.h"
#include "server/captures/capture_query.h"
#include "server/captures/capture_text.h"
#include "server/handlers.h"

enum { ANSWER_ROOM = 1024, BLOCK_ELEMENTS = 1 << 18, SIDES = 2 };

/* One capture whose blocks are redone. */
struct side {
    struct capture *capture; /* owned reference; NULL: the map that was sent */
    struct attn_call call;
    struct attn_plan plan;
    struct attn_result result;
};

struct compare_call {
    struct tensor_call tensors; /* its body and what was read of it; its answer is its own */
    struct side sides[SIDES];
    const struct attn_call *kept; /* of the first side */
    struct attn_tensor reference;
    size_t block_rows, blocks; /* of each plane */
    size_t redo_bytes;
    pthread_mutex_t lock;
    struct compare_result found; /* under the lock */
};

static enum attn_status open_side(struct compare_call *compare, struct side *side) {
    struct call_work *work = &compare->tensors.work;
    static const int64_t first_head = 0;
    const struct attn_kept *kept = side->capture->kept;
    struct attn_kept_part part = {.returns = ATTN_RETURN_WEIGHTS};
    part.map = (struct attn_map_selection){.stage = ATTN_STAGE_WEIGHTS,
                                           .heads = {&first_head, 1},
                                           .rows_given = true,
                                           .rows = {0, (int64_t)compare->block_rows}};
    if (attn_kept_select(kept, &part, &side->call, &work->error) != ATTN_OK ||
        attn_plan_make(&side->call, &work->exchange->service->limits.call, &side->plan,
                       &side->result, &work->error) != ATTN_OK)
        return work->error.status;
    compare->redo_bytes = attn_max_size(compare->redo_bytes, attn_kept_redo_bytes(&side->plan));
    work->flops += side->plan.work * (double)work->tasks;
    return ATTN_OK;
}

static bool same_shape(const struct attn_call *a, const struct attn_call *b) {
    return a->B == b->B && a->Hq == b->Hq && a->Tq == b->Tq && a->Tk == b->Tk;
}

static enum attn_status find_other(struct compare_call *compare) {
    struct call_work *work = &compare->tensors.work;
    const char *id = compare->tensors.request.compare.with;
    const struct attn_call *kept = compare->kept;
    struct capture *other = captures_find(work->exchange->service->captures,
                                          exchange_account(work->exchange), id, strlen(id));
    compare->sides[1].capture = other;
    if (other == NULL)
        return attn_fail(&work->error, ATTN_BAD_VALUE, "/with",
                         "There is no capture \"%.64s\" to compare with.", id);
    const struct attn_call *own = &other->kept->call;
    if (same_shape(kept, own))
        return ATTN_OK;
    return attn_fail(&work->error, ATTN_BAD_SHAPE, "/with",
                     "Maps of one shape can be compared; these are [%zu,%zu,%zu,%zu] and "
                     "[%zu,%zu,%zu,%zu].",
                     kept->B, kept->Hq, kept->Tq, kept->Tk, own->B, own->Hq, own->Tq, own->Tk);
}

static enum attn_status take_reference(struct compare_call *compare) {
    struct attn_error *error = &compare->tensors.work.error;
    const struct attn_call *kept = compare->kept;
    const struct attn_tensor *sent = &compare->tensors.request.outputs;
    const size_t shape[ATTN_AXES] = {kept->B, kept->Hq, kept->Tq, kept->Tk};
    char text[96];
    size_t elements = 0, wanted = 0;
    attn_shape_elements(sent->rank, sent->shape, &elements);
    attn_shape_elements(ATTN_AXES, shape, &wanted);
    if (attn_dtype_class(sent->dtype) != ATTN_CLASS_FLOAT)
        return attn_fail(error, ATTN_BAD_DTYPE, "/weights",
                         "The map that is sent must be of floats, got %s.",
                         attn_dtype_name(sent->dtype));
    if (elements == wanted && attn_tensor_broadcast(sent, shape, &compare->reference))
        return ATTN_OK;
    return attn_fail(error, ATTN_BAD_SHAPE, "/weights",
                     "The map that is sent must have the capture's shape [B,Hq,Tq,Tk] = "
                     "[%zu,%zu,%zu,%zu]; axes of 1 in front may be left out. Its shape is %s.",
                     kept->B, kept->Hq, kept->Tq, kept->Tk,
                     attn_shape_text(sent->rank, sent->shape, text, sizeof text));
}

/* Of a block's elements as doubles, or as reals of any kind. */
static size_t block_bytes(const struct compare_call *compare) {
    const size_t Tk = compare->kept->Tk;
    return attn_area_bytes(compare->block_rows, Tk, sizeof(double));
}

static enum attn_status prepare(struct call_work *work) {
    struct compare_call *compare = (struct compare_call *)work;
    struct codec_request *request = &compare->tensors.request;
    const struct attn_call *kept = compare->kept;
    if (compare_decode(&compare->tensors) != ATTN_OK)
        return work->error.status;
    if ((request->compare.with != NULL ? find_other(compare) : take_reference(compare)) != ATTN_OK)
        return work->error.status;
    compare->block_rows =
        attn_min_size(attn_max_size(BLOCK_ELEMENTS / attn_max_size(kept->Tk, 1), 1), kept->Tq);
    compare->blocks = kept->Tq == 0 || kept->Tk == 0
                          ? 0
                          : (kept->Tq + compare->block_rows - 1) / compare->block_rows;
    work->tasks = kept->B * kept->Hq * compare->blocks;
    for (size_t n = 0; n < SIDES && work->tasks > 0; n++)
        if (compare->sides[n].capture != NULL && open_side(compare, &compare->sides[n]) != ATTN_OK)
            return work->error.status;
    if (!attn_add_size((SIDES + 1) * block_bytes(compare), compare->redo_bytes,
                       &work->workspace_bytes))
        work->workspace_bytes = SIZE_MAX;
    return call_work_reserve(work, ANSWER_ROOM);
}

/* What a task is about. */
struct block {
    size_t b, row, rows;
    int64_t h;
};

static struct block block_of(const struct compare_call *compare, size_t task) {
    const struct attn_call *kept = compare->kept;
    const size_t plane = task / compare->blocks;
    const size_t row = task % compare->blocks * compare->block_rows;
    return (struct block){plane / kept->Hq, row, attn_min_size(compare->block_rows, kept->Tq - row),
                          (int64_t)(plane % kept->Hq)};
}

/* Redoes a block into `values`; `raw` has room for it as the results are. */
static bool redo(const struct side *side, const struct block *block, void *raw, double *values,
                 void *memory, const struct attn_checkpoint *checkpoint) {
    struct attn_call call = side->call;
    struct attn_result result = {0};
    const size_t count = block->rows * call.Tk;
    struct attn_result_tensor *map = &result.tensors[ATTN_RESULT_WEIGHTS];
    *map = side->result.tensors[ATTN_RESULT_WEIGHTS];
    map->data = raw;
    call.map_heads = &block->h;
    call.map_batch = block->b;
    call.map_row = block->row;
    call.map_rows = call.pool_rows = block->rows;
    if (!attn_kept_redo(&call, &side->plan, &result, memory, checkpoint))
        return false;
    attn_load_double(map->dtype, raw, 1, count, values);
    return true;
}

static void load_reference(const struct compare_call *compare, const struct block *block,
                           double *values) {
    const struct attn_tensor *from = &compare->reference;
    const size_t Tk = compare->kept->Tk;
    for (size_t r = 0; r < block->rows; r++) {
        const ptrdiff_t at =
            attn_tensor_offset(from, block->b, (size_t)block->h, block->row + r, 0);
        attn_load_double(from->dtype,
                         (const char *)from->data + at * (ptrdiff_t)attn_dtype_size(from->dtype),
                         from->stride[3], Tk, values + r * Tk);
    }
}

static void compute(struct call_work *work, size_t task, void *workspace,
                    const struct attn_checkpoint *checkpoint) {
    struct compare_call *compare = (struct compare_call *)work;
    const struct codec_compare *told = &compare->tensors.request.compare;
    const struct attn_call *kept = compare->kept;
    const struct block block = block_of(compare, task);
    const size_t bytes = block_bytes(compare);
    char *memory = workspace;
    double *values[SIDES] = {(double *)(void *)memory, (double *)(void *)(memory + bytes)};
    void *const raw = memory + SIDES * bytes;
    memory += (SIDES + 1) * bytes;
    for (size_t n = 0; n < SIDES; n++) {
        if (compare->sides[n].capture == NULL)
            load_reference(compare, &block, values[n]);
        else if (!redo(&compare->sides[n], &block, raw, values[n], memory, checkpoint))
            return;
    }
    const size_t first = ((block.b * kept->Hq + (size_t)block.h) * kept->Tq + block.row) * kept->Tk;
    struct compare_result found = compare_nothing();
    compare_values(&found, values[0], values[1], block.rows * kept->Tk, first, told->rtol,
                   told->atol);
    pthread_mutex_lock(&compare->lock);
    compare_join(&compare->found, &found);
    pthread_mutex_unlock(&compare->lock);
}

static void write_place(struct text *out, const struct attn_call *call, size_t place) {
    if (place == SIZE_MAX)
        text_format(out, "null");
    else
        text_format(out, "[%zu,%zu,%zu,%zu]", place / call->Tk / call->Tq / call->Hq,
                    place / call->Tk / call->Tq % call->Hq, place / call->Tk % call->Tq,
                    place % call->Tk);
}

static enum attn_status encode(struct call_work *work) {
    const struct compare_call *compare = (const struct compare_call *)work;
    const struct attn_call *kept = compare->kept;
    const struct compare_result *found = &compare->found;
    struct text out = {0};
    text_format(&out, "{\"max_abs\":");
    capture_text_number(&out, found->max_abs);
    text_format(&out, ",\"max_at\":");
    write_place(&out, kept, found->max_at);
    text_format(&out, ",\"first_failing\":");
    write_place(&out, kept, found->first_failing);
    text_format(&out, ",\"failing\":%zu,\"allclose\":%s,\"rtol\":", found->failing,
                found->failing == 0 ? "true" : "false");
    capture_text_number(&out, compare->tensors.request.compare.rtol);
    text_format(&out, ",\"atol\":");
    capture_text_number(&out, compare->tensors.request.compare.atol);
    text_format(&out, "}\n");
    return capture_answer_take(work, &out);
}

static void close_call(struct call_work *work) {
    struct compare_call *compare = (struct compare_call *)work;
    for (size_t n = 0; n < SIDES; n++)
        if (compare->sides[n].capture != NULL)
            capture_unref(compare->sides[n].capture);
    pthread_mutex_destroy(&compare->lock);
    tensor_call_close(&compare->tensors);
}

static const struct call_kind KIND = {
    .prepare = prepare,
    .compute = compute,
    .encode = encode,
    .close = close_call,
    .ask_for_less = "Compare captures of fewer tokens.",
};

bool capture_compare_check(struct exchange *exchange, struct problem *problem) {
    (void)problem;
    exchange->body_limit = exchange->service->limits.body_bytes;
    exchange->body_weight = 1;
    tensor_call_set_deadline(exchange);
    return true;
}

void capture_compare_handle(struct exchange *exchange) {
    struct capture *capture;
    struct compare_call *compare = capture_work_create(exchange, &KIND, sizeof *compare, &capture);
    if (compare == NULL)
        return;
    pthread_mutex_init(&compare->lock, NULL);
    compare->sides[0].capture = capture;
    compare->kept = &capture->kept->call;
    compare->found = compare_nothing();
    compare->tensors.work.job.last = true;
    call_work_begin(&compare->tensors.work);
}
