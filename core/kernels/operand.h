/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of q, k and v as kernels read them: dense reals, whatever the operand's dtype and strides,
 * and turned by their positions where the call has rotary ones. The only place that knows of those.
 */
#ifndef ATTN_CORE_KERNELS_OPERAND_H
#define ATTN_CORE_KERNELS_OPERAND_H

#include "core/kernels/kernel.h"

/* Where row t of a head lies in the pages of a cache. */
static inline const char *attn_operand_paged_row(const struct attn_operand *operand, size_t h,
                                                 size_t t) {
    const size_t row = t % ATTN_KV_PAGE;
    const ptrdiff_t at = operand->base + (ptrdiff_t)h * operand->sh +
                         (ptrdiff_t)(row / ATTN_KV_PANEL) * operand->panel +
                         (ptrdiff_t)(row % ATTN_KV_PANEL) * operand->st;
    return operand->pages[t / ATTN_KV_PAGE]->data + at * (ptrdiff_t)attn_dtype_size(operand->dtype);
}

/* Where row t of a head begins. */
static inline const void *attn_operand_row(const struct attn_operand *operand, size_t b, size_t h,
                                           size_t t) {
    if (operand->pages != NULL)
        return attn_operand_paged_row(operand, h, t);
    const ptrdiff_t at =
        (ptrdiff_t)b * operand->sb + (ptrdiff_t)h * operand->sh + (ptrdiff_t)t * operand->st;
    return (const char *)operand->data + at * (ptrdiff_t)attn_dtype_size(operand->dtype);
}

/* The query head and the row of q that score row `row` of a task is. */
static inline size_t attn_score_row_head(const struct attn_task *task, size_t row) {
    return task->hkv * attn_call_group(task->call) + row / task->rows;
}

static inline size_t attn_score_row_query(const struct attn_task *task, size_t row) {
    return task->row + row % task->rows;
}

/*
 * Row t of the task's batch item: of q's head h, or of the task's own head of k or v. Where it
 * lies when that will do, else in `scratch` of D (or Dv) reals.
 */
const float *attn_query_row_float(const struct attn_task *task, size_t h, size_t t, float *scratch);
const float *attn_key_row_float(const struct attn_task *task, size_t t, float *scratch);
const float *attn_value_row_float(const struct attn_task *task, size_t t, float *scratch);
const double *attn_query_row_double(const struct attn_task *task, size_t h, size_t t,
                                    double *scratch);
const double *attn_key_row_double(const struct attn_task *task, size_t t, double *scratch);
const double *attn_value_row_double(const struct attn_task *task, size_t t, double *scratch);

#endif
