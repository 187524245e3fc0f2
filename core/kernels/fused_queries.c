/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of q on their way into strips. */
#include "core/kernels/fused_queries.h"

#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "core/kernels/operand.h"

/* Where a score row's query lies; rows are gone through in their order. */
struct query_at {
    size_t head, query;
    const char *row;
};

static void find_query(const struct attn_task *task, struct query_at *at) {
    at->row = attn_operand_row(&task->call->q, task->b, at->head, at->query);
}

static struct query_at query_at(const struct attn_task *task, size_t row) {
    struct query_at at = {.head = attn_score_row_head(task, row),
                          .query = attn_score_row_query(task, row)};
    find_query(task, &at);
    return at;
}

/* `step` is the bytes from a query to the next one of its head. */
static void pass_query(const struct attn_task *task, ptrdiff_t step, struct query_at *at) {
    at->row += step;
    if (++at->query < task->row + task->rows)
        return;
    at->query = task->row;
    if (++at->head < (task->hkv + 1) * attn_call_group(task->call))
        find_query(task, at);
}

static ptrdiff_t query_step(const struct attn_task *task) {
    const struct attn_operand *q = &task->call->q;
    return q->st * (ptrdiff_t)attn_dtype_size(q->dtype);
}

/* Dense rows that their positions do not turn. */
static bool lies_dense(const struct attn_task *task) {
    return task->call->q.sd == 1 && task->rotation == NULL;
}

/* Score rows from `first` on as dense floats, where they lie or in `scratch`: zeros past the last
 * one of the task. */
static void query_rows(const struct attn_strips *strips, size_t first, size_t count,
                       const float **rows, float *scratch) {
    const struct attn_task *task = strips->task;
    const struct attn_operand *q = &task->call->q;
    const size_t D = task->call->D;
    const bool lie = lies_dense(task) && q->dtype == ATTN_FLOAT32;
    const ptrdiff_t step = query_step(task);
    struct query_at at = query_at(task, first);
    for (size_t r = 0; r < count; r++, scratch += D) {
        if (first + r >= strips->M) {
            rows[r] = memset(scratch, 0, D * sizeof *scratch);
            continue;
        }
        rows[r] = lie ? (const float *)(const void *)at.row
                      : attn_query_row_float(task, at.head, at.query, scratch);
        pass_query(task, step, &at);
    }
}

void attn_queries_ask(const struct attn_strips *strips, size_t first) {
    const struct attn_task *task = strips->task;
    const struct attn_operand *q = &task->call->q;
    const size_t bytes = q->sd == 1 ? task->call->D * attn_dtype_size(q->dtype) : 0;
    const size_t end = attn_min_size(first + strips->set->rows, strips->M);
    const ptrdiff_t step = query_step(task);
    if (first >= end)
        return;
    struct query_at at = query_at(task, first);
    for (size_t row = first; row < end; row++) {
        for (size_t n = 0; n < bytes; n += 64)
            __builtin_prefetch(at.row + n);
        pass_query(task, step, &at);
    }
}

/* A few at a time, the last ones first, for what is written past them is another's place. */
float attn_queries_pack(const struct attn_strips *strips, size_t first, float factor, float *q) {
    const struct attn_fused_set *set = attn_strips_set_at(strips, first);
    const size_t D = strips->task->call->D;
    float largest = 0;
    for (size_t part = (set->rows - 1) / set->across + 1; part-- > 0;) {
        const size_t at = part * set->across;
        const size_t count = attn_min_size(set->across, set->rows - at);
        const float *rows[ATTN_FUSED_ACROSS_MOST] = {strips->scratch};
        query_rows(strips, first + at, count, rows, strips->scratch);
        for (size_t r = count; r < set->across; r++)
            rows[r] = rows[0];
        largest = fmaxf(largest, set->transpose(rows, D, factor, q + at, set->rows));
    }
    return largest;
}

void attn_queries_copy(const struct attn_strips *strips, size_t first, float *q) {
    const struct attn_task *task = strips->task;
    const size_t D = task->call->D;
    const struct attn_direct_functions *direct = &strips->set->direct[task->call->q.dtype];
    const bool lie = direct->widen != NULL && lies_dense(task);
    const ptrdiff_t step = query_step(task);
    struct query_at at = query_at(task, first);
    for (size_t row = first; row < first + strips->set->rows; row++, q += D) {
        if (row >= strips->M) {
            memset(q, 0, D * sizeof *q);
            continue;
        }
        if (lie)
            direct->widen(at.row, D, q);
        else
            attn_query_row_float(task, at.head, at.query, q); /* which makes it there */
        pass_query(task, step, &at);
    }
}
