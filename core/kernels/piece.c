/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of a task's scores, head by head. */
#include "core/kernels/piece.h"

#include "core/checked.h"

/* To the keys that the task is for; empty where nothing is left. */
static void clip(const struct attn_task *task, size_t *begin, size_t *end) {
    *begin = attn_max_size(*begin, task->key);
    *end = attn_min_size(*end, task->key + task->keys);
    *begin = attn_min_size(*begin, *end);
}

void attn_task_spans(const struct attn_task *task, struct attn_span *spans) {
    const struct attn_call *call = task->call;
    attn_mask_spans(&call->mask, &call->space, task->b, task->row, task->rows, spans);
    for (size_t t = 0; t < task->rows; t++)
        clip(task, &spans[t].begin, &spans[t].end);
}

bool attn_piece_segment(const struct attn_task *task, const struct attn_piece *piece, size_t from,
                        struct attn_segment *segment) {
    if (from >= piece->rows)
        return false;
    const size_t row = piece->row + from;
    const size_t t = row % task->rows;
    *segment =
        (struct attn_segment){.from = from,
                              .h = task->hkv * attn_call_group(task->call) + row / task->rows,
                              .t = task->row + t,
                              .rows = attn_min_size(task->rows - t, piece->rows - from)};
    return true;
}

bool attn_segment_repeats(const struct attn_task *task, const struct attn_segment *before,
                          const struct attn_segment *segment) {
    return before->t == segment->t && before->rows == segment->rows &&
           !attn_mask_varies_by_head(&task->call->mask);
}

struct attn_mask_tile attn_segment_tile(const struct attn_task *task,
                                        const struct attn_segment *segment, size_t key,
                                        size_t keys) {
    return (struct attn_mask_tile){.b = task->b,
                                   .h = segment->h,
                                   .row = segment->t,
                                   .rows = segment->rows,
                                   .key = key,
                                   .keys = keys};
}

void attn_piece_key_range(const struct attn_task *task, const struct attn_piece *piece,
                          size_t *begin, size_t *end) {
    const struct attn_call *call = task->call;
    struct attn_segment before = {0}, segment;
    *begin = call->Tk;
    *end = 0;
    for (size_t from = 0; attn_piece_segment(task, piece, from, &segment); from += segment.rows) {
        size_t first, last;
        if (from > 0 && attn_segment_repeats(task, &before, &segment))
            continue;
        before = segment;
        attn_mask_key_range(&call->mask, &call->space, task->b, segment.h, segment.t, segment.rows,
                            &first, &last);
        if (first >= last)
            continue;
        *begin = attn_min_size(*begin, first);
        *end = attn_max_size(*end, last);
    }
    clip(task, begin, end);
}

enum attn_tile_class attn_piece_classify(const struct attn_task *task,
                                         const struct attn_piece *piece) {
    const struct attn_call *call = task->call;
    struct attn_segment before = {0}, segment;
    enum attn_tile_class class = ATTN_TILE_FULL;
    if (call->mask.count == 0)
        return class;
    for (size_t from = 0; attn_piece_segment(task, piece, from, &segment); from += segment.rows) {
        if (from > 0 && attn_segment_repeats(task, &before, &segment))
            continue;
        const struct attn_mask_tile tile =
            attn_segment_tile(task, &segment, piece->key, piece->keys);
        const enum attn_tile_class one = attn_mask_classify(&call->mask, &call->space, &tile, true);
        class = from == 0 || one == class ? one : ATTN_TILE_PARTIAL;
        before = segment;
    }
    return class;
}
