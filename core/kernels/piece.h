/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pieces: rectangles of a task's score rows and keys, as tile kernels cut them. What the mask says
 * of one, over all the query heads whose rows it holds.
 */
#ifndef ATTN_CORE_KERNELS_PIECE_H
#define ATTN_CORE_KERNELS_PIECE_H

#include "core/kernels/kernel.h"

/* Score rows [row, row + rows) of a task by keys [key, key + keys). */
struct attn_piece {
    size_t row, rows;
    size_t key, keys;
    enum attn_tile_class class;
};

/* The rows of a piece that belong to one query head: query rows [t, t + rows) of head h. */
struct attn_segment {
    size_t from; /* the first one's place among the piece's rows */
    size_t h, t, rows;
};

/* What each of the task's query rows sees of its keys, where the mask is one run of keys per row.
 */
void attn_task_spans(const struct attn_task *task, struct attn_span *spans);

/*
 * The segment of `piece` that begins at its row `from`; false when there is none, past the end.
 */
bool attn_piece_segment(const struct attn_task *task, const struct attn_piece *piece, size_t from,
                        struct attn_segment *segment);

/* The task's keys that some of the piece's rows can see; the piece's are not looked at. Empty: both
   the same. */
void attn_piece_key_range(const struct attn_task *task, const struct attn_piece *piece,
                          size_t *begin, size_t *end);

/* EMPTY when every segment's tile is, FULL when every one is. */
enum attn_tile_class attn_piece_classify(const struct attn_task *task,
                                         const struct attn_piece *piece);

/* True when the mask shows `segment` what it shows the one before it. */
bool attn_segment_repeats(const struct attn_task *task, const struct attn_segment *before,
                          const struct attn_segment *segment);

struct attn_mask_tile attn_segment_tile(const struct attn_task *task,
                                        const struct attn_segment *segment, size_t key,
                                        size_t keys);

#endif
