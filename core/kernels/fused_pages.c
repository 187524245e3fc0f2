/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products of a strip with keys and values in the pages of a cache: panels of keys where they lie,
 * and rows of values. A block of keys lies in one page. What will be read behind it is asked for:
 * values behind keys, and behind values the next block's keys.
 */
#include <assert.h>

#include "core/kernels/fused_strips.h"
#include "core/kernels/operand.h"

static_assert((int)ATTN_KV_PAGE % (int)ATTN_FUSED_KEYS == 0, "blocks do not cross pages");

/* The rows of a cache from key `key` on, and what is read behind them. */
static struct attn_direct_rows rows_in_page(const struct attn_task *task,
                                            const struct attn_operand *operand, size_t key,
                                            const char *next) {
    return (struct attn_direct_rows){.data = attn_operand_paged_row(operand, task->hkv, key),
                                     .stride =
                                         operand->st * (ptrdiff_t)attn_dtype_size(operand->dtype),
                                     .next = next};
}

void attn_strips_multiply_pages(const struct attn_strips *strips, const struct attn_piece *piece,
                                const struct attn_direct_functions *direct) {
    const struct attn_task *task = strips->task;
    const size_t D = task->call->D;
    const struct attn_direct_rows rows =
        rows_in_page(task, &task->call->k, piece->key,
                     attn_operand_paged_row(&task->call->v, task->hkv, piece->key));
    direct->score_panels(strips->q + piece->row * D, D, &rows,
                         attn_strips_round_up(piece->keys, ATTN_FUSED_PANEL) / ATTN_FUSED_PANEL,
                         strips->s);
}

bool attn_strips_gather_pages(const struct attn_strips *strips, const struct attn_piece *piece,
                              const struct attn_direct_functions *direct, const float *shrink,
                              float *o) {
    const struct attn_task *task = strips->task;
    const size_t end = piece->key + piece->keys;
    const char *keys = end < task->key + task->keys
                           ? attn_operand_paged_row(&task->call->k, task->hkv, end)
                           : NULL;
    const struct attn_direct_rows rows = rows_in_page(task, &task->call->v, piece->key, keys);
    return direct->gather(strips->s, shrink, &rows, piece->keys, o, task->call->Dv, strips->width);
}
