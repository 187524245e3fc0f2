/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention as two matrix products per tile, done by OpenBLAS, with the online softmax between
 * them: the portable fast kernel, on every CPU that OpenBLAS knows. Tiles are large, for that is
 * what a general product wants; hidden tiles are skipped, and the key range of a task is cut to
 * what its rows can see.
 */
#include "core/kernels/blas.h"

#include <cblas.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "core/area.h"
#include "core/convert.h"
#include "core/kernels/operand.h"
#include "core/kernels/piece.h"
#include "core/kernels/rowops.h"
#include "core/kernels/wide.h"

/* Score rows per task over all heads of the group, and keys per block: see KERNELS.md. In double
 * each block of K and V is widened first, and more rows share that. */
enum { SCORE_ROWS = 256, KEY_TILE = 256, DOUBLE_SCORE_ROWS = 384, DOUBLE_KEY_TILE = 128 };

/* Rows of a slice of a block that is hidden in part, the step in which its hidden keys are looked
 * for, and the most slices. */
enum { SLICE_ROWS = 64, SLICE_KEYS = 64, MAX_PIECES = DOUBLE_SCORE_ROWS / SLICE_ROWS };

/* What a walk over the key blocks does with V; blas_tiles_attend.h says when. */
enum pass {
    PASS_PLAIN,      /* takes it as it is */
    PASS_CLEANED,    /* takes elements that are not finite as 0 */
    PASS_NON_FINITE, /* adds those elements alone, the maxima being known */
};

/* Bytes of each area of the workspace, in multiples of 64; SIZE_MAX when one does not fit. */
struct workspace_areas {
    size_t q, s, panel, addend, row, w, bits, scratch;
};

void attn_kernel_blas_start(void) {
    openblas_set_num_threads(1);
}

const char *attn_blas_core(void) {
    return openblas_get_corename();
}

static bool available(void) {
    return true;
}

static struct attn_grid grid(const struct attn_kernel *kernel, const struct attn_call *call) {
    (void)kernel;
    const size_t G = attn_max_size(attn_call_group(call), 1);
    const bool is_double = call->precision == ATTN_PRECISION_FLOAT64;
    return (struct attn_grid){
        .row_tile = attn_max_size((is_double ? DOUBLE_SCORE_ROWS : SCORE_ROWS) / G, 1),
        .key_tile = is_double ? DOUBLE_KEY_TILE : KEY_TILE};
}

static struct workspace_areas workspace_areas(const struct attn_call *call,
                                              const struct attn_grid *tiles, size_t real) {
    const size_t rows = tiles->row_tile;
    const size_t keys = tiles->key_tile;
    const size_t M = attn_area_bytes(attn_call_group(call), rows, 1) == SIZE_MAX
                         ? SIZE_MAX
                         : attn_call_group(call) * rows;
    const bool additive = call->score == ATTN_SCORE_ADDITIVE;
    return (struct workspace_areas){
        .q = attn_area_bytes(M, call->D, real),
        .s = attn_area_bytes(M, keys, real),
        .panel = attn_area_bytes(keys, attn_max_size(call->D, call->Dv), real),
        .addend = attn_area_bytes(keys, 1, real),
        .row = attn_area_bytes(M, 1, real),
        .w = additive ? attn_area_bytes(attn_call_group(call) + 1, call->D, real) : 0,
        .bits = attn_area_bytes(rows, attn_mask_row_words(keys), sizeof(uint64_t)),
        .scratch =
            attn_area_bytes(attn_mask_scratch_words(&call->mask, rows, keys), 1, sizeof(uint64_t))};
}

static size_t tiles_bytes(const struct attn_call *call, const struct attn_grid *tiles,
                          size_t real) {
    const struct workspace_areas areas = workspace_areas(call, tiles, real);
    const size_t parts[] = {areas.q,   areas.s,   areas.panel, areas.addend, areas.row,
                            areas.row, areas.row, areas.w,     areas.bits,   areas.scratch};
    size_t total = 0;
    for (size_t n = 0; n < sizeof parts / sizeof *parts; n++)
        if (!attn_add_size(total, parts[n], &total))
            return SIZE_MAX;
    return total;
}

/* The tiles in which rows are done again in double; they fit where those in float lie, but for
 * heads so wide that a tile has a row or a key. */
static struct attn_grid wide_grid(const struct attn_grid *tiles) {
    return (struct attn_grid){.row_tile = attn_max_size(tiles->row_tile / 2, 1),
                              .key_tile = attn_max_size(tiles->key_tile / 2, 1)};
}

/* The output of such rows. */
static size_t wide_output_bytes(const struct attn_call *call, const struct attn_grid *wide) {
    size_t rows;
    return attn_mul_size(attn_call_group(call), wide->row_tile, &rows)
               ? attn_area_bytes(rows, call->Dv, sizeof(double))
               : SIZE_MAX;
}

size_t attn_wide_workspace(const struct attn_call *call, const struct attn_grid *tiles) {
    const struct attn_grid wide = wide_grid(tiles);
    size_t total;
    return attn_add_size(tiles_bytes(call, &wide, sizeof(double)), wide_output_bytes(call, &wide),
                         &total)
               ? total
               : SIZE_MAX;
}

static size_t workspace(const struct attn_kernel *kernel, const struct attn_call *call,
                        const struct attn_grid *tiles) {
    (void)kernel;
    if (call->precision == ATTN_PRECISION_FLOAT64)
        return tiles_bytes(call, tiles, sizeof(double));
    return attn_max_size(attn_wide_workspace(call, tiles), tiles_bytes(call, tiles, sizeof(float)));
}

/* True when BLAS can read rows of this width in place: dense rows, a stride that is an int. */
static bool fits_blas(const struct attn_operand *operand, size_t width) {
    return operand->pages == NULL && operand->sd == 1 &&
           operand->st >= (ptrdiff_t)attn_max_size(width, 1) && operand->st <= INT_MAX;
}

/* The class of `keys` keys of a slice from `key` on. */
static enum attn_tile_class part_class(const struct attn_task *task, const struct attn_piece *slice,
                                       size_t key, size_t keys) {
    struct attn_piece part = *slice;
    part.key = key;
    part.keys = keys;
    return attn_piece_classify(task, &part);
}

/* Drops the keys at both ends of a slice that none of its rows sees. */
static void trim_slice(const struct attn_task *task, struct attn_piece *slice) {
    size_t begin, end;
    attn_piece_key_range(task, slice, &begin, &end);
    begin = attn_max_size(begin, slice->key);
    end = attn_min_size(end, slice->key + slice->keys);
    while (begin + SLICE_KEYS <= end &&
           part_class(task, slice, begin, SLICE_KEYS) == ATTN_TILE_EMPTY)
        begin += SLICE_KEYS;
    while (begin + SLICE_KEYS <= end &&
           part_class(task, slice, end - SLICE_KEYS, SLICE_KEYS) == ATTN_TILE_EMPTY)
        end -= SLICE_KEYS;
    slice->key = begin;
    slice->keys = end > begin ? end - begin : 0;
}

/* Cuts a partial block into slices of rows, each with the keys that some of them may see. Returns
 * how many; 0 when that would spare less than a third of the block. */
static size_t slice_block(const struct attn_task *task, const struct attn_piece *block,
                          struct attn_piece *slices) {
    size_t count = 0, area = 0;
    for (size_t row = 0; row < block->rows; row += SLICE_ROWS) {
        struct attn_piece slice = *block;
        slice.row = row;
        slice.rows = attn_min_size(SLICE_ROWS, block->rows - row);
        trim_slice(task, &slice);
        slice.class = attn_piece_classify(task, &slice);
        if (slice.keys == 0 || slice.class == ATTN_TILE_EMPTY)
            continue;
        area += slice.rows * slice.keys;
        slices[count++] = slice;
    }
    return 3 * area <= 2 * block->rows * block->keys ? count : 0;
}

/*
 * What has to be computed of the keys [key, key + keys): nothing, all of it at once, or slices of
 * its rows. It depends on the mask alone, and maps and output go by it alike. Returns the number
 * of pieces; there is room for MAX_PIECES.
 */
static size_t cut_block(const struct attn_task *task, size_t key, size_t keys,
                        struct attn_piece *pieces) {
    const size_t G = attn_call_group(task->call);
    struct attn_piece block = {.rows = G * task->rows, .key = key, .keys = keys};
    block.class = attn_piece_classify(task, &block);
    if (block.class == ATTN_TILE_EMPTY)
        return 0;
    size_t count = 0;
    if (block.class == ATTN_TILE_PARTIAL && block.rows > SLICE_ROWS &&
        block.rows <= MAX_PIECES * SLICE_ROWS)
        count = slice_block(task, &block, pieces);
    if (count > 0)
        return count;
    pieces[0] = block;
    return 1;
}

#define BLAS_PASTE2(a, b) a##b
#define BLAS_PASTE(a, b) BLAS_PASTE2(a, b)
#define FINISH_PASTE(a, b) BLAS_PASTE2(a, b)

#define REAL float
#define SUFFIX _float
#define ROWOPS f
#define GEMM cblas_sgemm
#define LOAD attn_load_float
#define REAL_DTYPE ATTN_FLOAT32
#define WIDENS true
#define QUERY_ROW attn_query_row_float
#define KEY_ROW attn_key_row_float
#define VALUE_ROW attn_value_row_float
#define REAL_MIN FLT_MIN
#define REAL_MAX FLT_MAX
#include "core/kernels/finish.h"

#include "core/kernels/blas_tiles.h"
#include "core/kernels/blas_tiles_attend.h"

#define REAL double
#define SUFFIX _double
#define ROWOPS d
#define GEMM cblas_dgemm
#define LOAD attn_load_double
#define REAL_DTYPE ATTN_FLOAT64
#define WIDENS false
#define QUERY_ROW attn_query_row_double
#define KEY_ROW attn_key_row_double
#define VALUE_ROW attn_value_row_double
#define REAL_MIN DBL_MIN
#define REAL_MAX DBL_MAX
#include "core/kernels/finish.h"

#include "core/kernels/blas_tiles.h"
#include "core/kernels/blas_tiles_attend.h"

#include "core/kernels/blas_wide.h"

static void attend(const struct attn_task *task, void *memory, struct attn_partial *partial) {
    if (task->call->precision == ATTN_PRECISION_FLOAT64) {
        attend_double(task, memory, partial);
    } else {
        attend_float(task, memory, partial);
        attn_wide_attend(task, memory, partial);
    }
}

static void scores(const struct attn_task *task, void *memory,
                   const struct attn_score_block *block) {
    if (task->call->precision == ATTN_PRECISION_FLOAT64) {
        scores_double(task, memory, block);
    } else {
        scores_float(task, memory, block);
        attn_wide_scores(task, memory, block);
    }
}

const struct attn_kernel attn_kernel_blas = {
    .name = "blas",
    .sentence = "Online-softmax tiles on OpenBLAS: portable and fast.",
    .accumulates_double = false,
    .available = available,
    .grid = grid,
    .workspace = workspace,
    .attend = attend,
    .scores = scores,
};
