/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk of the fused kernel. A task's score rows are cut into strips of as many rows as the
 * registers hold; for each block of keys and each strip
 *   S = Q K^T, finished and hidden; m' = max(m, max S); P = exp(S - m')
 *   l = l exp(m - m') + sum P; O = O exp(m - m') + P V
 * (Milakov & Gimelshein 2018, Dao et al. 2022), where S is a strip by a block, in the first cache.
 * A strip computes no more keys of a block than its rows may see, in whole panels.
 */
#include "core/kernels/fused.h"

#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "core/kernels/fused_pack.h"
#include "core/kernels/fused_strips.h"
#include "core/kernels/operand.h"
#include "core/kernels/wide.h"

enum { PANEL = ATTN_FUSED_PANEL, STRIDE = ATTN_FUSED_STRIDE };

/* The keys of a piece that some of its rows may see, as places in the piece. */
static struct attn_span seen_keys(const struct attn_strips *strips,
                                  const struct attn_piece *piece) {
    if (strips->seen == NULL)
        return (struct attn_span){0, piece->keys};
    const struct attn_span some = strips->seen[piece->row / strips->set->rows].some;
    const size_t begin = attn_max_size(some.begin, piece->key) - piece->key;
    const size_t end = attn_min_size(some.end - piece->key, piece->keys);
    return (struct attn_span){begin, end};
}

static bool add_piece(const struct attn_strips *strips, const struct attn_piece *piece,
                      const struct attn_fused_block *block, size_t first) {
    float shrink[ATTN_FUSED_ROWS_MOST] = {0};
    float *o = strips->o + piece->row * strips->width;
    attn_strips_score(strips, ATTN_STAGE_MASKED, piece, block, first);
    attn_strips_soften(strips, piece, shrink);
    if (strips->width == 0)
        return false;
    if (block->v_direct == NULL) {
        const struct attn_span seen = seen_keys(strips, piece);
        attn_strips_set_at(strips, piece->row)
            ->gather(strips->s + seen.begin, shrink, block->v + (first + seen.begin) * PANEL,
                     block->v_step, seen.end - seen.begin, o, strips->width / PANEL);
        return block->cleaned;
    }
    if (block->v_paged)
        return attn_strips_gather_pages(strips, piece, block->v_direct, shrink, o);
    const struct attn_direct_rows rows = attn_direct_from(&block->v_rows, first);
    return block->v_direct->gather(strips->s, shrink, &rows, piece->keys, o, strips->task->call->Dv,
                                   strips->width);
}

/* Adds p v for the elements of key j's v that are not finite, where p is not 0. */
static void add_non_finite_row(const struct attn_strips *strips, const struct attn_piece *piece,
                               size_t j, const float *v) {
    const size_t Dv = strips->task->call->Dv;
    for (size_t r = 0; r < piece->rows; r++) {
        const float p = strips->s[r * STRIDE + j];
        float *o = strips->o + (piece->row + r) * strips->width;
        for (size_t d = 0; d < Dv && p != 0; d++)
            if (!isfinite(v[d]))
                o[d] += p * v[d];
    }
}

/* What was left out of V, the maxima being known: a weight that ends as 0 adds nothing. */
static bool add_non_finite(const struct attn_strips *strips, const struct attn_piece *piece,
                           const struct attn_fused_block *block, size_t first) {
    const struct attn_task *task = strips->task;
    const size_t Dv = task->call->Dv;
    attn_strips_score(strips, ATTN_STAGE_MASKED, piece, block, first);
    for (size_t r = 0; r < piece->rows; r++) {
        const float m = strips->m[piece->row + r];
        strips->ops->f.exp_sum(strips->s + r * STRIDE, piece->keys, m == -INFINITY ? 0 : m);
    }
    for (size_t j = 0; j < piece->keys; j++) {
        const float *v = attn_value_row_float(task, piece->key + j, strips->scratch);
        if (!strips->ops->f.all_finite(v, Dv))
            add_non_finite_row(strips, piece, j, v);
    }
    return true;
}

/* What is done with each piece; `first` is its first key's place in the block. Returns whether some
 * element of V counted as 0 for not being finite. */
typedef bool visit(const struct attn_strips *strips, const struct attn_piece *piece,
                   const struct attn_fused_block *block, size_t first);

/* All strips of one block of keys, of some microseconds each. Returns the scores computed. */
static uint64_t walk_strips(const struct attn_strips *strips, const struct attn_piece *block,
                            const struct attn_fused_block *packed, visit *each, bool *cleaned) {
    uint64_t computed = 0;
    for (size_t strip = 0; strip * strips->set->rows < strips->M; strip++) {
        if (attn_checkpoint_stops(strips->task->checkpoint))
            break;
        const struct attn_piece piece = attn_strips_cut(strips, strip, block);
        if (piece.class == ATTN_TILE_EMPTY)
            continue;
        *cleaned |= each(strips, &piece, packed, piece.key - block->key);
        computed += (uint64_t)piece.rows * piece.keys;
    }
    return computed;
}

/* All blocks of keys; when `again` is set, only those whose values may have been cleaned. */
static uint64_t walk_keys(const struct attn_strips *strips, visit *each, bool again,
                          bool *cleaned) {
    const struct attn_task *task = strips->task;
    const size_t tile = task->grid.key_tile;
    struct attn_piece block = {.rows = strips->M};
    uint64_t computed = 0;
    size_t begin, end;
    attn_piece_key_range(task, &block, &begin, &end);
    const size_t last = end / tile + (end % tile != 0);
    for (size_t index = begin / tile; index < last; index++) {
        if (attn_checkpoint_stops(task->checkpoint))
            break;
        block.key = index * tile;
        block.keys = attn_min_size(tile, task->call->Tk - block.key);
        block.class = attn_piece_classify(task, &block);
        if (block.class == ATTN_TILE_EMPTY)
            continue;
        const struct attn_fused_block packed =
            attn_fused_take_block(task, strips->set, index, last, strips->scratch, strips->block);
        if (packed.cleaned || packed.v_direct != NULL || !again)
            computed += walk_strips(strips, &block, &packed, each, cleaned);
    }
    return computed;
}

static void clear(const struct attn_strips *strips) {
    const size_t rows = attn_strips_rows(strips);
    memset(strips->o, 0, rows * strips->width * sizeof(float));
    for (size_t row = 0; row < rows; row++) {
        strips->m[row] = -INFINITY;
        strips->l[row] = 0;
    }
}

/*
 * Before it is divided by l, a row's sum of values may be too large for a float though the average
 * is not. The weights of such rows are to be multiplied by a power of two, which changes no other
 * bit: no sum over Tk keys then exceeds half of the largest float. True when there are any.
 */
static bool fit_overflows(const struct attn_strips *strips) {
    const size_t Dv = strips->task->call->Dv;
    bool any = false;
    if (strips->ops->f.all_finite(strips->o, strips->M * strips->width))
        return false;
    for (size_t row = 0; row < strips->M; row++)
        if (!isnan(strips->l[row]) &&
            !strips->ops->f.all_finite(strips->o + row * strips->width, Dv)) {
            strips->fit[row] = ldexpf(1, -2 - ilogb((double)strips->task->call->Tk));
            any = true;
        }
    return any;
}

static void give(const struct attn_strips *strips, struct attn_partial *partial) {
    const size_t Dv = strips->task->call->Dv;
    for (size_t row = 0; row < strips->M; row++) {
        if (strips->o != partial->o)
            memcpy((float *)partial->o + row * Dv, strips->o + row * strips->width,
                   Dv * sizeof(float));
        partial->l[row] = (double)strips->l[row];
        partial->m[row] = isnan(strips->l[row]) ? (double)NAN : (double)strips->m[row];
        partial->unit[row] = 1 / (double)strips->fit[row];
        partial->wide[row] = false;
    }
}

static void attend(const struct attn_task *task, void *memory, struct attn_partial *partial) {
    struct attn_strips strips = attn_strips_open(task, memory);
    const size_t room = attn_call_group(task->call) * task->grid.row_tile;
    const size_t rows = attn_strips_rows(&strips);
    bool cleaned = false;
    if (strips.width == task->call->Dv && rows <= room)
        strips.o = partial->o;
    attn_strips_pack(&strips, task->call->scale);
    for (size_t row = 0; row < rows; row++)
        strips.fit[row] = 1;
    clear(&strips);
    partial->computed = walk_keys(&strips, add_piece, false, &cleaned);
    if (fit_overflows(&strips)) {
        clear(&strips);
        walk_keys(&strips, add_piece, false, &cleaned);
    }
    if (cleaned)
        walk_keys(&strips, add_non_finite, true, &cleaned);
    give(&strips, partial);
    attn_wide_attend(task, memory, partial);
}

static void map_piece(const struct attn_strips *strips, const struct attn_score_block *map,
                      const struct attn_piece *piece) {
    for (size_t r = 0; r < piece->rows; r++) {
        const size_t row = piece->row + r;
        float *s = strips->s + r * STRIDE;
        if (map->stage == ATTN_STAGE_WEIGHTS)
            attn_strips_weigh(strips, s, piece->keys, (float)map->m[row], (float)map->l[row]);
        memcpy((float *)map->out + row * map->keys + (piece->key - map->key), s,
               piece->keys * sizeof *s);
    }
}

static void scores(const struct attn_task *task, void *memory, const struct attn_score_block *map) {
    struct attn_strips strips = attn_strips_open(task, memory);
    const size_t index = map->key / task->grid.key_tile;
    struct attn_piece block = {
        .rows = strips.M, .key = map->key, .keys = map->keys, .class = ATTN_TILE_FULL};
    attn_strips_pack(&strips, map->stage == ATTN_STAGE_RAW ? 1 : task->call->scale);
    if (map->stage >= ATTN_STAGE_MASKED) {
        const float hidden = map->stage == ATTN_STAGE_WEIGHTS ? 0 : -INFINITY;
        for (size_t n = 0; n < strips.M * map->keys; n++)
            ((float *)map->out)[n] = hidden;
        block.class = attn_piece_classify(task, &block);
    }
    if (block.class == ATTN_TILE_EMPTY || map->keys == 0)
        return;
    const struct attn_fused_block packed =
        attn_fused_take_block(task, strips.set, index, index + 1, strips.scratch, strips.block);
    for (size_t strip = 0; strip * strips.set->rows < strips.M; strip++) {
        if (attn_checkpoint_stops(task->checkpoint))
            return;
        const struct attn_piece piece = attn_strips_cut(&strips, strip, &block);
        if (piece.class == ATTN_TILE_EMPTY)
            continue;
        attn_strips_score(&strips, map->stage, &piece, &packed, piece.key - block.key);
        map_piece(&strips, map, &piece);
    }
    attn_wide_scores(task, memory, map);
}

/* Heads read by so few score rows that packing them costs more than it spares: see KERNELS.md. */
static bool has_few_rows(const struct attn_call *call, size_t few) {
    return call->Tq <= few && attn_call_group(call) * call->Tq <= few;
}

#define KERNELS(identifier, label, instructions, few, check)                              \
    static bool prefers_##identifier(const struct attn_call *call) {                      \
        return has_few_rows(call, few);                                                   \
    }                                                                                     \
    static bool available_##identifier(void) {                                            \
        return check;                                                                     \
    }                                                                                     \
    const struct attn_kernel attn_kernel_fused_##identifier = {                           \
        .name = "fused-" label,                                                           \
        .sentence = "Products in registers on packed panels, " instructions "; float32.", \
        .set = attn_fused_set_##identifier,                                               \
        .available = available_##identifier,                                              \
        .products_only = true,                                                            \
        .float32_only = true,                                                             \
        .grid = attn_strips_grid,                                                         \
        .workspace = attn_strips_workspace,                                               \
        .packed_bytes = attn_fused_packed_bytes,                                          \
        .packed_open = attn_fused_packed_open,                                            \
        .attend = attend,                                                                 \
        .scores = scores,                                                                 \
        .walk = attn_fused_walk,                                                          \
    };                                                                                    \
    const struct attn_kernel attn_kernel_decode_##identifier = {                          \
        .name = "decode-" label,                                                          \
        .sentence = "Few queries: keys and values in place, " instructions "; float32.",  \
        .set = attn_decode_set_##identifier,                                              \
        .available = available_##identifier,                                              \
        .float32_only = true,                                                             \
        .products_only = true,                                                            \
        .prefers = prefers_##identifier,                                                  \
        .grid = attn_strips_grid,                                                         \
        .workspace = attn_strips_workspace,                                               \
        .attend = attend,                                                                 \
        .scores = scores,                                                                 \
        .walk = attn_fused_walk,                                                          \
    }

#if defined(__x86_64__)
KERNELS(avx512, "avx512", "AVX-512", 24,
        __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
            __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"));
KERNELS(avx2, "avx2", "AVX2 with FMA", 8,
        __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
#elif defined(__aarch64__)
KERNELS(neon, "neon", "NEON", 8, true);
#endif
