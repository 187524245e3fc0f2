/* SPDX-License-Identifier: Apache-2.0 */
/* A task's score rows as strips: grid, workspace, packed queries, the scores of a piece. */
#include "core/kernels/fused_strips.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "core/area.h"
#include "core/convert.h"
#include "core/kernels/fused_pack.h"
#include "core/kernels/fused_queries.h"
#include "core/kernels/operand.h"
#include "core/kernels/wide.h"

#define FINISH_PASTE2(a, b) a##b
#define FINISH_PASTE(a, b) FINISH_PASTE2(a, b)
#define REAL float
#define SUFFIX _float
#define ROWOPS f
#define LOAD attn_load_float
#define REAL_MIN FLT_MIN
#define REAL_MAX FLT_MAX
#define WIDENS true
#include "core/kernels/finish.h"

enum {
    PANEL = ATTN_FUSED_PANEL,
    STRIP = ATTN_FUSED_ROWS_MOST,
    SCORE_ROWS = 132, /* of a task, over all heads of the group: a multiple of every strip */
    WIDE_HEADS = 256, /* D + Dv from which blocks have fewer keys, to stay in the second cache */
    WIDE_KEYS = 128,
};

static size_t greatest_divisor(size_t a, size_t b) {
    while (b != 0) {
        const size_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The height of strips at which M score rows cost least: a strip costs its rows, and the loads of
 * its panels about two more. */
static const struct attn_fused_set *choose_height(const struct attn_fused_set *set, size_t M) {
    const struct attn_fused_set *best = set;
    size_t least = SIZE_MAX;
    for (; set->rows > 0; set++) {
        const size_t cost = (M / set->rows + (M % set->rows != 0)) * (set->rows + 2);
        if (cost < least) {
            least = cost;
            best = set;
        }
    }
    return best;
}

/* The lowest strip that holds what is left over at the end. Products in place know one height. */
static const struct attn_fused_set *choose_last(const struct attn_fused_set *set, size_t M) {
    const size_t rest = M % set->rows;
    while (rest > 0 && set->direct == NULL && set[1].rows >= rest)
        set++;
    return set;
}

/* That of a call; the group times the row tile fits, for the plan has checked the workspace. */
static const struct attn_fused_set *height_of(const struct attn_kernel *kernel,
                                              const struct attn_call *call,
                                              const struct attn_grid *tiles) {
    size_t M;
    if (!attn_mul_size(attn_call_group(call), tiles->row_tile, &M) || M > SIZE_MAX / STRIP)
        return kernel->set;
    return choose_height(kernel->set, M);
}

/* Tiles of equal height, of whole strips where there is more than one. */
struct attn_grid attn_strips_grid(const struct attn_kernel *kernel, const struct attn_call *call) {
    const struct attn_fused_set *set = kernel->set;
    const size_t G = attn_max_size(attn_call_group(call), 1);
    const size_t most = attn_max_size(SCORE_ROWS / G, 1);
    const size_t tiles = attn_max_size(call->Tq / most + (call->Tq % most != 0), 1);
    const size_t step = set->rows / greatest_divisor(G, set->rows);
    const size_t rows = call->Tq / tiles + (call->Tq % tiles != 0);
    const size_t whole = tiles == 1 ? rows : attn_strips_round_up(rows, step);
    return (struct attn_grid){.row_tile = attn_max_size(whole, 1),
                              .key_tile = call->D > WIDE_HEADS || call->Dv > WIDE_HEADS ||
                                                  call->D + call->Dv > WIDE_HEADS
                                              ? WIDE_KEYS
                                              : ATTN_FUSED_KEYS};
}

/* Bytes of each area of the workspace, in multiples of 64; SIZE_MAX when one does not fit. */
struct areas {
    size_t q, o, row, s, addend, bits, mask, spans, seen, scratch, block;
};

static bool sees_spans(const struct attn_call *call) {
    return call->mask.count > 0 && attn_mask_is_intervals(&call->mask);
}

static struct areas areas_of(const struct attn_fused_set *set, const struct attn_call *call,
                             const struct attn_grid *tiles) {
    size_t M;
    if (!attn_mul_size(attn_call_group(call), tiles->row_tile, &M) || M > SIZE_MAX - STRIP)
        return (struct areas){.q = SIZE_MAX};
    const size_t rows = attn_strips_round_up(M, set->rows);
    const size_t words = attn_mask_scratch_words(&call->mask, set->rows, ATTN_FUSED_KEYS);
    /* Packing may write a few floats past the last strip. */
    return (struct areas){
        .q = attn_area_bytes(rows, call->D, sizeof(float)) == SIZE_MAX
                 ? SIZE_MAX
                 : attn_area_bytes(rows, call->D, sizeof(float)) + 64,
        .o = attn_area_bytes(rows, attn_strips_round_up(call->Dv, PANEL), sizeof(float)),
        .row = attn_area_bytes(rows, 1, sizeof(float)),
        .s = attn_area_bytes(set->rows, ATTN_FUSED_STRIDE, sizeof(float)),
        .addend = attn_area_bytes(ATTN_FUSED_KEYS, 1, sizeof(float)),
        .bits = attn_area_bytes(set->rows, attn_mask_row_words(ATTN_FUSED_KEYS), sizeof(uint64_t)),
        .mask = attn_area_bytes(words, 1, sizeof(uint64_t)),
        .spans =
            sees_spans(call) ? attn_area_bytes(tiles->row_tile, 1, sizeof(struct attn_span)) : 0,
        .seen = sees_spans(call)
                    ? attn_area_bytes(rows / set->rows, 1, sizeof(struct attn_strip_spans))
                    : 0,
        .scratch = attn_fused_scratch_bytes(call),
        .block = attn_fused_own_bytes(set, call, tiles)};
}

size_t attn_strips_workspace(const struct attn_kernel *kernel, const struct attn_call *call,
                             const struct attn_grid *tiles) {
    const struct areas areas = areas_of(height_of(kernel, call, tiles), call, tiles);
    const size_t parts[] = {areas.q,    areas.o,       areas.row,  areas.row,  areas.row,
                            areas.s,    areas.addend,  areas.bits, areas.mask, areas.spans,
                            areas.seen, areas.scratch, areas.block};
    size_t total = 0;
    for (size_t n = 0; n < sizeof parts / sizeof *parts; n++)
        if (!attn_add_size(total, parts[n], &total))
            return SIZE_MAX;
    return attn_max_size(total, attn_wide_workspace(call, tiles));
}

static struct attn_strip_spans look_at_rows(const struct attn_strips *strips, size_t strip) {
    struct attn_span some = {SIZE_MAX, 0}, every = {0, SIZE_MAX};
    const size_t rows = strips->task->rows, first = strip * strips->set->rows;
    size_t t = first % attn_max_size(rows, 1);
    for (size_t row = first; row < first + strips->set->rows && row < strips->M; row++) {
        const struct attn_span span = strips->spans[t];
        t = t + 1 < rows ? t + 1 : 0;
        every.begin = attn_max_size(every.begin, span.begin);
        every.end = attn_min_size(every.end, span.end);
        if (span.begin == span.end)
            continue;
        some.begin = attn_min_size(some.begin, span.begin);
        some.end = attn_max_size(some.end, span.end);
    }
    return (struct attn_strip_spans){some, every};
}

struct attn_strips attn_strips_open(const struct attn_task *task, void *memory) {
    const struct attn_call *call = task->call;
    struct attn_strips strips = {
        .task = task, .set = height_of(task->kernel, call, &task->grid), .ops = attn_rowops_best()};
    const struct areas areas = areas_of(strips.set, call, &task->grid);
    char *cursor = memory;
    strips.M = attn_call_group(call) * task->rows;
    strips.last = choose_last(strips.set, strips.M);
    strips.width = attn_strips_round_up(call->Dv, PANEL);
    strips.q = attn_area_take(&cursor, areas.q);
    strips.o = attn_area_take(&cursor, areas.o);
    strips.m = attn_area_take(&cursor, areas.row);
    strips.l = attn_area_take(&cursor, areas.row);
    strips.fit = attn_area_take(&cursor, areas.row);
    strips.s = attn_area_take(&cursor, areas.s);
    strips.addend = attn_area_take(&cursor, areas.addend);
    strips.bits = attn_area_take(&cursor, areas.bits);
    strips.mask_scratch = attn_area_take(&cursor, areas.mask);
    if (areas.spans > 0) {
        strips.spans = attn_area_take(&cursor, areas.spans);
        strips.seen = attn_area_take(&cursor, areas.seen);
        attn_task_spans(task, strips.spans);
        for (size_t strip = 0; strip * strips.set->rows < strips.M; strip++)
            strips.seen[strip] = look_at_rows(&strips, strip);
    }
    strips.scratch = attn_area_take(&cursor, areas.scratch);
    strips.block = attn_area_take(&cursor, areas.block);
    return strips;
}

void attn_strips_pack(struct attn_strips *strips, double scale) {
    const size_t rows = strips->set->rows;
    const size_t D = strips->task->call->D;
    const bool fits = holds_scale_float(scale);
    strips->q_largest = 0;
    for (size_t first = 0; first < strips->M; first += rows) {
        float largest = 0, *q = strips->q + first * D;
        attn_queries_ask(strips, first + rows);
        if (strips->set->direct != NULL)
            attn_queries_copy(strips, first, q);
        else
            largest = attn_queries_pack(strips, first, fits ? (float)scale : 1, q);
        if (strips->set->direct != NULL || !fits) {
            if (scale != 1)
                scale_row_float(strips->ops, q, rows * D, scale);
            largest = strips->ops->f.magnitude(q, rows * D);
        }
        strips->q_largest = fmaxf(strips->q_largest, largest);
    }
}

/* Drops panels at both ends of a piece of which none of its rows sees a key. */
static void trim(const struct attn_task *task, struct attn_piece *piece) {
    struct attn_piece panel = *piece;
    for (;; piece->key += PANEL, piece->keys -= PANEL) {
        panel.key = piece->key;
        panel.keys = PANEL;
        if (piece->keys < PANEL || attn_piece_classify(task, &panel) != ATTN_TILE_EMPTY)
            break;
    }
    while (piece->keys >= PANEL) {
        panel.keys = (piece->keys - 1) % PANEL + 1;
        panel.key = piece->key + piece->keys - panel.keys;
        if (attn_piece_classify(task, &panel) != ATTN_TILE_EMPTY)
            break;
        piece->keys -= panel.keys;
    }
}

/* The strip's rows of a block of keys, cut to the panels that its rows may see some of. */
struct attn_piece attn_strips_cut(const struct attn_strips *strips, size_t strip,
                                  const struct attn_piece *block) {
    const struct attn_task *task = strips->task;
    const size_t rows = strips->set->rows;
    struct attn_piece piece = *block;
    struct attn_span some, every = {0, 0};
    piece.row = strip * rows;
    piece.rows = attn_min_size(rows, strips->M - piece.row);
    if (block->class == ATTN_TILE_FULL)
        return piece;
    if (strips->seen != NULL) {
        some = strips->seen[strip].some;
        every = strips->seen[strip].every;
    } else {
        attn_piece_key_range(task, &piece, &some.begin, &some.end);
    }
    size_t begin = attn_max_size(some.begin, block->key) - block->key;
    size_t end = attn_min_size(some.end, block->key + block->keys);
    end = end > block->key ? end - block->key : 0;
    piece.keys = 0;
    piece.class = ATTN_TILE_EMPTY;
    if (begin >= end)
        return piece;
    begin -= begin % PANEL;
    end = attn_min_size(attn_strips_round_up(end, PANEL), block->keys);
    piece.key = block->key + begin;
    piece.keys = end - begin;
    if (strips->spans != NULL) {
        const bool full = every.begin <= piece.key && piece.key + piece.keys <= every.end;
        piece.class = full ? ATTN_TILE_FULL : ATTN_TILE_PARTIAL;
        return piece;
    }
    piece.class = attn_piece_classify(task, &piece);
    if (piece.class == ATTN_TILE_PARTIAL) {
        trim(task, &piece);
        piece.class = attn_piece_classify(task, &piece);
    }
    return piece;
}

/* Whether some product, or a part of its sum, may exceed the floats. Packing has seen how large
 * keys are; where they were read in place, the products themselves tell. */
static bool may_be_lost(const struct attn_strips *strips, const struct attn_piece *piece,
                        const struct attn_fused_block *block) {
    const double D = (double)strips->task->call->D;
    if (block->k_direct == NULL)
        return D * (double)block->largest * (double)strips->q_largest > (double)FLT_MAX / 2;
    bool finite = true;
    for (size_t r = 0; r < piece->rows; r++)
        finite &= strips->ops->f.all_finite(strips->s + r * ATTN_FUSED_STRIDE, piece->keys);
    return !finite;
}

void attn_strips_multiply(const struct attn_strips *strips, const struct attn_piece *piece,
                          const struct attn_fused_block *block, size_t first) {
    const size_t D = strips->task->call->D;
    const float *q = strips->q + piece->row * D;
    if (block->k_direct == NULL) {
        const size_t panels = attn_strips_round_up(piece->keys, PANEL) / PANEL;
        attn_strips_set_at(strips, piece->row)
            ->score(q, block->k + first * D, D, panels, strips->s);
    } else if (block->k_paged) {
        attn_strips_multiply_pages(strips, piece, block->k_direct);
    } else {
        const struct attn_direct_rows rows = attn_direct_from(&block->k_rows, first);
        block->k_direct->score(q, D, &rows, piece->keys, strips->s);
    }
    if (may_be_lost(strips, piece, block))
        for (size_t r = 0; r < piece->rows; r++)
            mark_lost_float(strips->s + r * ATTN_FUSED_STRIDE, piece->keys);
}

/* The keys that fill up the last panel are hidden. */
void attn_strips_finish(const struct attn_strips *strips, enum attn_stage stage,
                        const struct attn_piece *piece) {
    const size_t padded = attn_strips_round_up(piece->keys, PANEL);
    const struct finish_float finish = {.task = strips->task,
                                        .ops = strips->ops,
                                        .addend = strips->addend,
                                        .bits = strips->bits,
                                        .scratch = strips->mask_scratch,
                                        .spans = strips->spans,
                                        .s = strips->s,
                                        .stride = ATTN_FUSED_STRIDE};
    finish_scores_float(&finish, stage, piece);
    for (size_t r = 0; r < piece->rows && piece->keys < padded; r++)
        for (size_t j = piece->keys; j < padded; j++)
            strips->s[r * ATTN_FUSED_STRIDE + j] = -INFINITY;
}

void attn_strips_score(const struct attn_strips *strips, enum attn_stage stage,
                       const struct attn_piece *piece, const struct attn_fused_block *block,
                       size_t first) {
    attn_strips_multiply(strips, piece, block, first);
    attn_strips_finish(strips, stage, piece);
}

void attn_strips_weigh(const struct attn_strips *strips, float *s, size_t keys, float m, float l) {
    weigh_row_float(strips->ops, s, keys, m, l);
}

void attn_strips_soften(const struct attn_strips *strips, const struct attn_piece *piece,
                        float *shrink) {
    const struct attn_rowops *ops = strips->ops;
    const size_t keys = attn_strips_round_up(piece->keys, PANEL);
    float *m = strips->m + piece->row, *l = strips->l + piece->row;
    const float *fit = strips->fit + piece->row;
    ops->f.soften(strips->s, ATTN_FUSED_STRIDE, piece->rows, keys, m, l, shrink);
    for (size_t r = 0; r < piece->rows; r++)
        if (fit[r] != 1)
            ops->f.scale(strips->s + r * ATTN_FUSED_STRIDE, keys, fit[r]);
}
