/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fused kernel's scores once more, for maps: strip by strip in the first cache, where whoever
 * reduces them reads them. An element of the product is one chain over D whatever is computed
 * beside it, so its bits are those that attend saw. Tasks with a NaN are left to `scores`.
 */
#include <math.h>

#include "core/checked.h"
#include "core/kernels/fused_pack.h"
#include "core/kernels/fused_strips.h"

static void weigh(const struct attn_strips *strips, const struct attn_walk *walk,
                  const struct attn_piece *piece) {
    for (size_t r = 0; r < piece->rows; r++)
        attn_strips_weigh(strips, strips->s + r * ATTN_FUSED_STRIDE, piece->keys,
                          (float)walk->m[piece->row + r], (float)walk->l[piece->row + r]);
}

static void visit(const struct attn_strips *strips, const struct attn_walk *walk,
                  const struct attn_piece *piece, enum attn_stage stage) {
    const struct attn_score_piece visited = {.stage = stage,
                                             .row = piece->row,
                                             .rows = piece->rows,
                                             .key = piece->key,
                                             .keys = piece->keys,
                                             .s = strips->s,
                                             .stride = ATTN_FUSED_STRIDE};
    if (attn_walk_takes(walk, stage))
        walk->piece(walk->closure, &visited);
}

/* Stages before the mask show scores that no row's sum knows of. */
static bool is_plain(const struct attn_strips *strips, const struct attn_piece *piece) {
    for (size_t r = 0; r < piece->rows; r++)
        if (!strips->ops->f.all_finite(strips->s + r * ATTN_FUSED_STRIDE, piece->keys))
            return false;
    return true;
}

static bool walk_early(const struct attn_strips *strips, const struct attn_walk *walk,
                       const struct attn_piece *piece) {
    const bool capped = attn_walk_takes(walk, ATTN_STAGE_CAPPED);
    if (capped)
        attn_strips_finish(strips, ATTN_STAGE_CAPPED, piece);
    if (!is_plain(strips, piece))
        return false;
    visit(strips, walk, piece, ATTN_STAGE_RAW);
    visit(strips, walk, piece, ATTN_STAGE_SCALED);
    visit(strips, walk, piece, ATTN_STAGE_CAPPED);
    return true;
}

static void walk_late(const struct attn_strips *strips, const struct attn_walk *walk,
                      const struct attn_piece *piece) {
    visit(strips, walk, piece, ATTN_STAGE_SCALED);
    attn_strips_finish(strips, ATTN_STAGE_MASKED, piece);
    visit(strips, walk, piece, ATTN_STAGE_MASKED);
    if (attn_walk_takes(walk, ATTN_STAGE_WEIGHTS))
        weigh(strips, walk, piece);
    visit(strips, walk, piece, ATTN_STAGE_WEIGHTS);
}

static bool walk_block(const struct attn_strips *strips, const struct attn_walk *walk,
                       const struct attn_piece *block, size_t index, size_t last) {
    const struct attn_fused_block packed = attn_fused_take_block(
        strips->task, strips->set, index, last, strips->scratch, strips->block);
    for (size_t strip = 0; strip * strips->set->rows < strips->M; strip++) {
        if (attn_checkpoint_stops(strips->task->checkpoint))
            return true;
        const struct attn_piece piece = attn_strips_cut(strips, strip, block);
        if (piece.class == ATTN_TILE_EMPTY || !attn_walk_wants(walk, piece.row, piece.rows))
            continue;
        attn_strips_multiply(strips, &piece, &packed, piece.key - block->key);
        if (!attn_walk_ignores_mask(walk))
            walk_late(strips, walk, &piece);
        else if (!walk_early(strips, walk, &piece))
            return false;
    }
    return true;
}

static bool has_plain_rows(const struct attn_strips *strips, const struct attn_walk *walk) {
    for (size_t row = 0; row < strips->M; row++)
        if (walk->wide[row] || isnan(walk->l[row]))
            return false;
    return true;
}

bool attn_fused_walk(const struct attn_task *task, void *memory, const struct attn_walk *walk) {
    struct attn_strips strips = attn_strips_open(task, memory);
    const size_t tile = task->grid.key_tile;
    const size_t last = walk->end / tile + (walk->end % tile != 0);
    const bool early = attn_walk_ignores_mask(walk);
    struct attn_piece block = {.rows = strips.M};
    if (!early && !has_plain_rows(&strips, walk))
        return false;
    attn_strips_pack(&strips, attn_walk_takes(walk, ATTN_STAGE_RAW) ? 1 : task->call->scale);
    for (size_t index = walk->begin / tile; index < last; index++) {
        if (attn_checkpoint_stops(task->checkpoint))
            return true;
        block.key = index * tile;
        block.keys = attn_min_size(tile, task->call->Tk - block.key);
        block.class = early ? ATTN_TILE_FULL : attn_piece_classify(task, &block);
        walk->block(walk->closure, block.key, block.keys, block.class);
        if (block.class != ATTN_TILE_EMPTY && !walk_block(&strips, walk, &block, index, last))
            return false;
    }
    return true;
}
