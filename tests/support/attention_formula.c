/* SPDX-License-Identifier: Apache-2.0 */
/*
 * softmax(scale * q k + bias ...) v in double, stage by stage as the contract orders them. It reads
 * operands by their strides and asks the mask for one row at a time; it shares nothing else with
 * the kernels.
 */
#include "tests/support/attention_run.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/convert.h"

static double operand_at(const struct attn_operand *operand, size_t b, size_t h, size_t t,
                         size_t d) {
    const ptrdiff_t at = (ptrdiff_t)b * operand->sb + (ptrdiff_t)h * operand->sh +
                         (ptrdiff_t)t * operand->st + (ptrdiff_t)d * operand->sd;
    double value;
    attn_load_double(operand->dtype,
                     (const char *)operand->data + at * (ptrdiff_t)attn_dtype_size(operand->dtype),
                     1, 1, &value);
    return value;
}

/* The same at a position, whose pair of dimensions n stands turned by position * frequency n. */
static double turned_at(const struct attn_call *call, const struct attn_operand *operand,
                        const size_t at[4], int64_t position) {
    const struct attn_rope *rope = &call->rope;
    const size_t pairs = rope->dims / 2, d = at[3];
    const double own = operand_at(operand, at[0], at[1], at[2], d);
    if (d >= rope->dims)
        return own;
    const size_t n = rope->interleaved ? d / 2 : d % pairs;
    const size_t first = rope->interleaved ? 2 * n : n;
    const size_t second = rope->interleaved ? 2 * n + 1 : n + pairs;
    const double frequency = rope->inv_freq != NULL
                                 ? rope->inv_freq[n]
                                 : pow(rope->theta, -2.0 * (double)n / (double)rope->dims);
    const long double angle = (long double)position * (long double)frequency;
    const double other = operand_at(operand, at[0], at[1], at[2], d == first ? second : first);
    return (double)(own * cosl(angle) + (d == first ? -other : other) * sinl(angle));
}

static double added_at(const struct attn_call *call, size_t b, size_t h, size_t i, size_t j) {
    double added = 0;
    if (!attn_tensor_is_none(&call->bias)) {
        const ptrdiff_t at = attn_tensor_offset(&call->bias, b, h, i, j);
        attn_load_double(call->bias.dtype,
                         (const char *)call->bias.data +
                             at * (ptrdiff_t)attn_dtype_size(call->bias.dtype),
                         1, 1, &added);
    }
    if (call->alibi != NULL)
        added -= call->alibi[h] * fabs((double)i + (double)attn_call_q_offset(call, b) - (double)j);
    return added;
}

/* One row: bits of its visible keys, and the row of each array that it fills. */
struct row {
    size_t b, h, hkv, i;
    const uint64_t *visible;
    const double *query, *keys; /* [D] and [Tk,D] of its head, turned */
    size_t at;                  /* (b * Hq + h) * Tq + i */
};

static bool sees(const struct row *row, size_t j) {
    return row->visible[j / 64] >> j % 64 & 1;
}

static double weight_at(const struct attn_call *call, size_t h, size_t d) {
    double value;
    attn_load_double(call->w.dtype,
                     (const char *)call->w.data + attn_tensor_offset(&call->w, 0, 0, h, d) *
                                                      (ptrdiff_t)attn_dtype_size(call->w.dtype),
                     1, 1, &value);
    return value;
}

static void turn_query(const struct attn_call *call, const struct row *row, double *query) {
    const struct attn_rope *rope = &call->rope;
    const size_t item = rope->q_offset_count > 1 ? row->b : 0;
    const int64_t stands = rope->dims == 0 ? 0 : rope->q_offset[item] + (int64_t)row->i;
    for (size_t d = 0; d < call->D; d++)
        query[d] = turned_at(call, &call->q, (const size_t[]){row->b, row->h, row->i, d}, stands);
}

static void turn_keys(const struct attn_call *call, const struct row *row, double *keys) {
    for (size_t j = 0; j < call->Tk; j++)
        for (size_t d = 0; d < call->D; d++)
            keys[j * call->D + d] =
                turned_at(call, &call->k, (const size_t[]){row->b, row->hkv, j, d},
                          call->rope.k_offset + (int64_t)j);
}

static double raw_at(const struct attn_call *call, const struct row *row, size_t j) {
    double raw = 0;
    for (size_t d = 0; d < call->D; d++) {
        const double q = row->query[d];
        const double k = row->keys[j * call->D + d];
        raw +=
            call->score == ATTN_SCORE_ADDITIVE ? weight_at(call, row->h, d) * tanh(q + k) : q * k;
    }
    return raw;
}

static void score_row(const struct attn_call *call, const struct row *row,
                      const struct run_expected *expected) {
    for (size_t j = 0; j < call->Tk; j++) {
        const size_t at = row->at * call->Tk + j;
        const double raw = raw_at(call, row, j);
        const double scaled = call->scale * raw;
        const double capped =
            call->softcap > 0 ? call->softcap * tanh(scaled / call->softcap) : scaled;
        expected->stage[ATTN_STAGE_RAW][at] = raw;
        expected->stage[ATTN_STAGE_SCALED][at] = scaled;
        expected->stage[ATTN_STAGE_CAPPED][at] = capped;
        expected->stage[ATTN_STAGE_MASKED][at] =
            sees(row, j) ? capped + added_at(call, row->b, row->h, row->i, j) : -INFINITY;
    }
}

/* The sink is one more score whose weight nobody gets. */
static void weigh_row(const struct attn_call *call, const struct row *row,
                      struct run_expected *expected) {
    const double *scores = expected->stage[ATTN_STAGE_MASKED] + row->at * call->Tk;
    double *weights = expected->stage[ATTN_STAGE_WEIGHTS] + row->at * call->Tk;
    const double sink = call->sink ? call->sink[row->h] : -INFINITY;
    double largest = sink;
    bool empty = true;
    for (size_t j = 0; j < call->Tk; j++) {
        largest = fmax(largest, scores[j]);
        empty = empty && !sees(row, j);
    }
    const double base = largest == -INFINITY ? 0 : largest;
    double sum = sink == -INFINITY ? 0 : exp(sink - base);
    for (size_t j = 0; j < call->Tk; j++)
        sum += sees(row, j) ? exp(scores[j] - base) : 0;
    for (size_t j = 0; j < call->Tk; j++)
        weights[j] = sees(row, j) && sum != 0 ? exp(scores[j] - base) / sum : 0;
    expected->lse[row->at] = sum == 0 ? -INFINITY : largest + log(sum);
    expected->empty_rows += empty;
}

static void sum_row(const struct attn_call *call, const struct row *row,
                    const struct run_expected *expected) {
    const double *weights = expected->stage[ATTN_STAGE_WEIGHTS] + row->at * call->Tk;
    for (size_t d = 0; d < call->Dv; d++) {
        double sum = 0;
        for (size_t j = 0; j < call->Tk; j++)
            if (sees(row, j) && weights[j] != 0)
                sum += weights[j] * operand_at(&call->v, row->b, row->hkv, j, d);
        expected->output[row->at * call->Dv + d] = sum;
    }
}

static void *allocate(size_t count, size_t size) {
    void *memory = calloc(count + 1, size);
    ck_assert_ptr_nonnull(memory);
    return memory;
}

struct run_expected run_expect(const struct run *run) {
    const struct attn_call *call = &run->call;
    const size_t rows = call->B * call->Hq * call->Tq;
    struct run_expected expected = {.output = allocate(rows * call->Dv, sizeof(double)),
                                    .lse = allocate(rows, sizeof(double))};
    for (size_t n = 0; n <= ATTN_STAGE_WEIGHTS; n++)
        expected.stage[n] = allocate(rows * call->Tk, sizeof(double));
    double *query = allocate(call->D, sizeof *query);
    double *keys = allocate(call->Tk * call->D, sizeof *keys);
    uint64_t *visible = allocate(attn_mask_row_words(call->Tk), sizeof *visible);
    uint64_t *scratch =
        allocate(attn_mask_scratch_words(&call->mask, 1, call->Tk), sizeof *scratch);
    for (size_t at = 0; at < rows; at++) {
        const size_t h = at / call->Tq % call->Hq;
        const struct row row = {.b = at / call->Tq / call->Hq,
                                .h = h,
                                .hkv = h * call->Hkv / call->Hq,
                                .i = at % call->Tq,
                                .visible = visible,
                                .query = query,
                                .keys = keys,
                                .at = at};
        const struct attn_mask_tile tile = {row.b, row.h, row.i, 1, 0, call->Tk};
        if (call->Tk > 0)
            attn_mask_fill(&call->mask, &call->space, &tile, visible, scratch);
        if (row.i == 0) /* for all rows of a head: turning takes longer than all else */
            turn_keys(call, &row, keys);
        turn_query(call, &row, query);
        score_row(call, &row, &expected);
        weigh_row(call, &row, &expected);
        sum_row(call, &row, &expected);
    }
    free(query);
    free(keys);
    free(visible);
    free(scratch);
    return expected;
}

void run_expected_close(struct run_expected *expected) {
    for (size_t n = 0; n <= ATTN_STAGE_WEIGHTS; n++)
        free(expected->stage[n]);
    free(expected->output);
    free(expected->lse);
}
