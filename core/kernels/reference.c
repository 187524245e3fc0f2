/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reference kernel: attention as it is written in a textbook, in double, one score at a time.
 * It is the oracle that every other kernel is compared with, the documentation of what they must
 * do, and the fallback on any machine. It is never made faster.
 *
 * Operands: q [B,Hq,Tq,D], k [B,Hkv,Tk,D], v [B,Hkv,Tk,Dv] by strides; bias [B,Hq,Tq,Tk].
 */
#include "core/kernels/reference.h"

#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "core/convert.h"
#include "core/kernels/operand.h"

enum { KEY_TILE = 64, ROW_TILE = 16 };

/* One query row with what its scores need, in the worker's workspace. */
struct query {
    const struct attn_task *task;
    size_t h, row;
    const double *raw; /* [D] q */
    double *scaled;    /* [D] scale * q, or of an additive score scale * w */
    double *weights;   /* [D] w of an additive score */
    double *key;       /* [D] scratch */
    double *value;     /* [Dv] scratch */
    uint64_t *scratch;
};

static bool available(void) {
    return true;
}

static struct attn_grid grid(const struct attn_kernel *kernel, const struct attn_call *call) {
    (void)kernel;
    (void)call;
    return (struct attn_grid){.row_tile = ROW_TILE, .key_tile = KEY_TILE};
}

static size_t workspace(const struct attn_kernel *kernel, const struct attn_call *call,
                        const struct attn_grid *grid_of_call) {
    (void)kernel;
    (void)grid_of_call;
    size_t reals = 0;
    size_t bytes = 0;
    if (!attn_mul_size(call->D, 4, &reals) || !attn_add_size(reals, call->Dv, &reals) ||
        !attn_mul_size(reals, sizeof(double), &bytes))
        return SIZE_MAX;
    const size_t words = attn_mask_scratch_words(&call->mask, 1, KEY_TILE);
    return attn_add_size(bytes, words * sizeof(uint64_t), &bytes) ? bytes : SIZE_MAX;
}

/* The weights of the query's head. */
static void load_weights(const struct query *query) {
    const struct attn_tensor *w = &query->task->call->w;
    const ptrdiff_t at = attn_tensor_offset(w, 0, 0, query->h, 0);
    attn_load_double(w->dtype, (const char *)w->data + at * (ptrdiff_t)attn_dtype_size(w->dtype),
                     w->stride[3], query->task->call->D, query->weights);
}

static struct query query_open(const struct attn_task *task, size_t score_row, void *memory) {
    const struct attn_call *call = task->call;
    struct query query = {.task = task};
    query.h = task->hkv * attn_call_group(call) + score_row / task->rows;
    query.row = task->row + score_row % task->rows;
    query.raw = attn_query_row_double(task, query.h, query.row, memory);
    query.scaled = (double *)memory + call->D;
    query.weights = query.scaled + call->D;
    query.key = query.weights + call->D;
    query.value = query.key + call->D;
    query.scratch = (uint64_t *)(query.value + call->Dv);
    if (call->score == ATTN_SCORE_ADDITIVE)
        load_weights(&query);
    for (size_t d = 0; d < call->D; d++)
        query.scaled[d] =
            call->scale * (call->score == ATTN_SCORE_ADDITIVE ? query.weights[d] : query.raw[d]);
    return query;
}

/* Bit j of the result: key `key + j` is visible to the row. */
static uint64_t visible_keys(const struct query *query, size_t key, size_t keys) {
    const struct attn_call *call = query->task->call;
    uint64_t bits = 0;
    const struct attn_mask_tile tile = {
        .b = query->task->b, .h = query->h, .row = query->row, .rows = 1, .key = key, .keys = keys};
    if (call->mask.count == 0)
        return keys == 64 ? UINT64_MAX : ((uint64_t)1 << keys) - 1;
    attn_mask_fill(&call->mask, &call->space, &tile, &bits, query->scratch);
    return bits;
}

static double bias_at(const struct query *query, size_t j) {
    const struct attn_tensor *bias = &query->task->call->bias;
    double value = 0;
    if (attn_tensor_is_none(bias))
        return 0;
    const ptrdiff_t at = (ptrdiff_t)query->task->b * bias->stride[0] +
                         (ptrdiff_t)query->h * bias->stride[1] +
                         (ptrdiff_t)query->row * bias->stride[2] + (ptrdiff_t)j * bias->stride[3];
    const char *from = (const char *)bias->data + at * (ptrdiff_t)attn_dtype_size(bias->dtype);
    attn_load_double(bias->dtype, from, 1, 1, &value);
    return value;
}

/* -m |i - j|, i the query's absolute position. */
static double alibi_at(const struct query *query, size_t j) {
    const struct attn_call *call = query->task->call;
    if (call->alibi == NULL)
        return 0;
    const double i = (double)query->row + (double)attn_call_q_offset(call, query->task->b);
    return -call->alibi[query->h] * fabs(i - (double)attn_key_position(&call->space.gap, j));
}

/* q.k, or sum of w tanh(q + k); times the scale unless it is to be raw. */
static double product_at(const struct query *query, size_t j, bool raw) {
    const struct attn_call *call = query->task->call;
    const double *k = attn_key_row_double(query->task, j, query->key);
    const double *q = query->raw;
    double sum = 0;
    if (call->score == ATTN_SCORE_ADDITIVE)
        for (size_t d = 0; d < call->D; d++)
            sum += (raw ? query->weights[d] : query->scaled[d]) * tanh(q[d] + k[d]);
    else
        for (size_t d = 0; d < call->D; d++)
            sum += (raw ? q[d] : query->scaled[d]) * k[d];
    return sum;
}

/* The score of key j at a stage up to MASKED; whether j is visible is the caller's business. */
static double score_at(const struct query *query, size_t j, enum attn_stage stage) {
    const struct attn_call *call = query->task->call;
    double score = product_at(query, j, stage == ATTN_STAGE_RAW);
    if (stage <= ATTN_STAGE_SCALED)
        return score;
    if (call->softcap > 0)
        score = call->softcap * tanh(score / call->softcap);
    if (stage == ATTN_STAGE_CAPPED)
        return score;
    const double bias = bias_at(query, j);
    if (bias == -INFINITY) /* hides, whatever the score: NaN + -inf would be NaN */
        return bias;
    return score + bias + alibi_at(query, j);
}

/* The largest visible score, -inf when there is none; NaN is left to the sum. Anything when the
 * task is stopped, as attend_row's results are. */
static double largest_score(const struct query *query) {
    const size_t Tk = query->task->call->Tk;
    double m = -INFINITY;
    for (size_t key = 0; key < Tk && !attn_checkpoint_stops(query->task->checkpoint);
         key += KEY_TILE) {
        const size_t keys = attn_min_size(KEY_TILE, Tk - key);
        const uint64_t visible = visible_keys(query, key, keys);
        for (size_t j = 0; j < keys; j++)
            if (visible >> j & 1)
                m = fmax(m, score_at(query, key + j, ATTN_STAGE_MASKED));
    }
    return m;
}

/* o += p * v[j]; a weight of 0 never touches the value. Under FLOAT32 v is what a float holds. */
static void add_value(const struct query *query, size_t j, double p, double *o) {
    const struct attn_call *call = query->task->call;
    const bool narrow = call->precision == ATTN_PRECISION_FLOAT32;
    if (p == 0)
        return;
    const double *v = attn_value_row_double(query->task, j, query->value);
    for (size_t d = 0; d < call->Dv; d++)
        o[d] += p * (narrow ? (double)(float)v[d] : v[d]);
}

/* The row's output in units of `unit`. */
static void attend_row(const struct query *query, double unit, double *o, double *m, double *l) {
    const struct attn_call *call = query->task->call;
    memset(o, 0, call->Dv * sizeof *o);
    *m = largest_score(query);
    *l = 0;
    const double base = *m == -INFINITY ? 0 : *m;
    for (size_t key = 0; key < call->Tk && !attn_checkpoint_stops(query->task->checkpoint);
         key += KEY_TILE) {
        const size_t keys = attn_min_size(KEY_TILE, call->Tk - key);
        const uint64_t visible = visible_keys(query, key, keys);
        for (size_t j = 0; j < keys; j++) {
            if (!(visible >> j & 1))
                continue;
            const double p = exp(score_at(query, key + j, ATTN_STAGE_MASKED) - base);
            *l += p;
            add_value(query, key + j, p / unit, o);
        }
    }
    if (isnan(*l))
        *m = NAN;
}

static bool all_finite(const double *row, size_t n) {
    for (size_t d = 0; d < n; d++)
        if (!isfinite(row[d]))
            return false;
    return true;
}

static void attend(const struct attn_task *task, void *memory, struct attn_partial *partial) {
    const struct attn_call *call = task->call;
    const size_t M = attn_call_group(call) * task->rows;
    for (size_t row = 0; row < M; row++) {
        if (attn_checkpoint_stops(task->checkpoint))
            return;
        const struct query query = query_open(task, row, memory);
        double *o = (double *)partial->o + row * call->Dv;
        partial->unit[row] = 1;
        partial->wide[row] = false;
        attend_row(&query, 1, o, &partial->m[row], &partial->l[row]);
        if (!all_finite(o, call->Dv) && !isnan(partial->l[row])) { /* the sum may be too large */
            partial->unit[row] = ldexp(1, 2 + ilogb((double)call->Tk));
            attend_row(&query, partial->unit[row], o, &partial->m[row], &partial->l[row]);
        }
    }
    partial->computed = (uint64_t)M * call->Tk;
}

static double map_value(const struct query *query, size_t j, bool visible, enum attn_stage stage,
                        double m, double l) {
    if (stage < ATTN_STAGE_MASKED)
        return score_at(query, j, stage);
    if (stage == ATTN_STAGE_MASKED)
        return visible ? score_at(query, j, stage) : -INFINITY;
    if (!visible || l == 0)
        return 0;
    const double score = score_at(query, j, ATTN_STAGE_MASKED);
    return score == -INFINITY ? 0 : exp(score - m) / l; /* 0 even where m and l are NaN */
}

static void scores(const struct attn_task *task, void *memory,
                   const struct attn_score_block *block) {
    const size_t M = attn_call_group(task->call) * task->rows;
    for (size_t row = 0; row < M && !attn_checkpoint_stops(task->checkpoint); row++) {
        const struct query query = query_open(task, row, memory);
        const uint64_t visible = visible_keys(&query, block->key, block->keys);
        double *out = (double *)block->out + row * block->keys;
        for (size_t j = 0; j < block->keys; j++)
            out[j] = map_value(&query, block->key + j, visible >> j & 1, block->stage,
                               block->m[row], block->l[row]);
    }
}

const struct attn_kernel attn_kernel_reference = {
    .name = "reference",
    .sentence = "Plain loops in double: the oracle. Slow.",
    .accumulates_double = true,
    .visits_hidden = true,
    .takes_all_keys = true,
    .available = available,
    .grid = grid,
    .workspace = workspace,
    .attend = attend,
    .scores = scores,
};
