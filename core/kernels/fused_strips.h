/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A task of the fused kernel: its score rows cut into strips of as many rows as the registers hold,
 * and the steps of the online softmax on a strip by a block of keys. Internal to fused*.c.
 */
#ifndef ATTN_CORE_KERNELS_FUSED_STRIPS_H
#define ATTN_CORE_KERNELS_FUSED_STRIPS_H

#include <assert.h>

#include "core/kernels/fused_pack.h"
#include "core/kernels/fused_set_contract.h"
#include "core/kernels/piece.h"
#include "core/kernels/rowops.h"

/* The keys that some row of a strip may see, and those that every row does. */
struct attn_strip_spans {
    struct attn_span some, every;
};

/* A task in progress, the workspace cut up. Rows of strips past M are computed and never read. */
struct attn_strips {
    const struct attn_task *task;
    const struct attn_fused_set *set,
        *last; /* of the strips, and of one of fewer rows at the end */
    const struct attn_rowops *ops;
    size_t M, width; /* score rows; columns of o, a multiple of 16 */
    float *q;        /* [strips][D][rows] scaled */
    float q_largest; /* magnitude in it, NaN passed over */
    float *o;        /* [strips * rows][width] */
    float *m, *l;    /* [strips * rows] */
    float *fit;      /* [strips * rows] what weights are multiplied by before they meet V */
    float *s;        /* [rows][STRIDE] */
    float *scratch;  /* for packing */
    float *block;    /* a block's keys and values, where the head's tasks do not share them */
    float *addend;   /* [keys of a block] one row of bias */
    uint64_t *bits, *mask_scratch;
    struct attn_span *spans; /* [rows of a task] NULL where the mask is no run of keys per row */
    struct attn_strip_spans *seen; /* [strips] where there are spans */
};

/* What computes the strip that begins at score row `row`. */
static inline const struct attn_fused_set *attn_strips_set_at(const struct attn_strips *strips,
                                                              size_t row) {
    return row + strips->set->rows > strips->M ? strips->last : strips->set;
}

/* Score rows of all strips: M, and those that fill up the last one. */
static inline size_t attn_strips_rows(const struct attn_strips *strips) {
    const size_t whole = strips->M / strips->set->rows * strips->set->rows;
    return whole == strips->M ? whole : whole + strips->last->rows;
}

struct attn_grid attn_strips_grid(const struct attn_kernel *kernel, const struct attn_call *call);
size_t attn_strips_workspace(const struct attn_kernel *kernel, const struct attn_call *call,
                             const struct attn_grid *tiles);
/* Cuts `memory`, of the workspace's size, up. */
struct attn_strips attn_strips_open(const struct attn_task *task, void *memory);

/* Packs the task's queries times `scale`. */
void attn_strips_pack(struct attn_strips *strips, double scale);

/* The strip's rows of a block of keys, cut to the panels of which its rows may see some; of class
 * EMPTY when there are none. */
struct attn_piece attn_strips_cut(const struct attn_strips *strips, size_t strip,
                                  const struct attn_piece *block);

/* S of a piece, finished up to `stage`, from the block's packed keys from `first` on; keys that
 * fill up its last panel are hidden. Scores that do not fit a float are NaN: see wide.h. */
void attn_strips_score(const struct attn_strips *strips, enum attn_stage stage,
                       const struct attn_piece *piece, const struct attn_fused_block *block,
                       size_t first);

/* The same in two steps: the product alone, and finishing it. */
void attn_strips_multiply(const struct attn_strips *strips, const struct attn_piece *piece,
                          const struct attn_fused_block *block, size_t first);
void attn_strips_finish(const struct attn_strips *strips, enum attn_stage stage,
                        const struct attn_piece *piece);

/* The products of a piece with keys and values in the pages of a cache, as struct
 * attn_direct_functions' score_panels and gather. */
void attn_strips_multiply_pages(const struct attn_strips *strips, const struct attn_piece *piece,
                                const struct attn_direct_functions *direct);
bool attn_strips_gather_pages(const struct attn_strips *strips, const struct attn_piece *piece,
                              const struct attn_direct_functions *direct, const float *shrink,
                              float *o);

/* A row of masked scores becomes exp(s - m) / l; what is hidden weighs 0 even in a row that is NaN.
 */
void attn_strips_weigh(const struct attn_strips *strips, float *s, size_t keys, float m, float l);

/* Redoes scores, for maps: struct attn_kernel's walk. */
bool attn_fused_walk(const struct attn_task *task, void *memory, const struct attn_walk *walk);

/* The online softmax's step on S, which becomes P times `fit`. shrink[r]: exp(m - m') of each row.
 */
void attn_strips_soften(const struct attn_strips *strips, const struct attn_piece *piece,
                        float *shrink);

static inline size_t attn_strips_round_up(size_t n, size_t to) {
    assert(to > 0);
    return n / to * to + (n % to != 0 ? to : 0);
}

#endif
