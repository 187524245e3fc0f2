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

#include "core/checked.h"
#include "core/convert.h"
#include "core/kernels/rowops.h"

/* Score rows per task over all heads of the group, and keys per block: see KERNELS.md. */
enum { SCORE_ROWS = 192, KEY_TILE = 256 };

/* Rows that the online softmax takes at a time. */
enum { SOFTEN_ROWS = 16 };

/* What a walk over the key blocks does with V; blas_tiles.h's attend says when. */
enum pass {
    PASS_PLAIN,      /* takes it as it is */
    PASS_CLEANED,    /* takes elements that are not finite as 0 */
    PASS_NON_FINITE, /* adds those elements alone, the maxima being known */
};

/* Bytes of each area of the workspace, in multiples of 64; SIZE_MAX when one does not fit. */
struct workspace_areas {
    size_t q, s, panel, addend, bits, scratch;
};

void attn_kernel_blas_start(void) {
    openblas_set_num_threads(1);
}

static bool available(void) {
    return true;
}

static struct attn_grid grid(const struct attn_call *call) {
    const size_t G = attn_max_size(attn_call_group(call), 1);
    return (struct attn_grid){.row_tile = attn_max_size(SCORE_ROWS / G, 1), .key_tile = KEY_TILE};
}

static size_t area_bytes(size_t rows, size_t columns, size_t element) {
    size_t bytes;
    if (attn_mul_size(rows, columns, &bytes) && attn_mul_size(bytes, element, &bytes) &&
        attn_round_up_size(bytes, 64, &bytes))
        return bytes;
    return SIZE_MAX;
}

static struct workspace_areas workspace_areas(const struct attn_call *call,
                                              const struct attn_grid *tiles, size_t real) {
    const size_t rows = tiles->row_tile;
    const size_t keys = tiles->key_tile;
    const size_t M = area_bytes(attn_call_group(call), rows, 1) == SIZE_MAX
                         ? SIZE_MAX
                         : attn_call_group(call) * rows;
    return (struct workspace_areas){
        .q = area_bytes(M, call->D, real),
        .s = area_bytes(M, keys, real),
        .panel = area_bytes(keys, attn_max_size(call->D, call->Dv), real),
        .addend = area_bytes(keys, 1, real),
        .bits = area_bytes(rows, attn_mask_row_words(keys), sizeof(uint64_t)),
        .scratch =
            area_bytes(attn_mask_scratch_words(&call->mask, rows, keys), 1, sizeof(uint64_t))};
}

static size_t workspace(const struct attn_call *call, const struct attn_grid *tiles) {
    const size_t real = call->precision == ATTN_PRECISION_FLOAT64 ? sizeof(double) : sizeof(float);
    const struct workspace_areas areas = workspace_areas(call, tiles, real);
    const size_t parts[] = {areas.q, areas.s, areas.panel, areas.addend, areas.bits, areas.scratch};
    size_t total = 0;
    for (size_t n = 0; n < sizeof parts / sizeof *parts; n++)
        if (!attn_add_size(total, parts[n], &total))
            return SIZE_MAX;
    return total;
}

static void *take_area(char **cursor, size_t bytes) {
    void *area = *cursor;
    *cursor += bytes;
    return area;
}

static const void *operand_row(const struct attn_operand *operand, size_t b, size_t h, size_t t) {
    const ptrdiff_t at =
        (ptrdiff_t)b * operand->sb + (ptrdiff_t)h * operand->sh + (ptrdiff_t)t * operand->st;
    return (const char *)operand->data + at * (ptrdiff_t)attn_dtype_size(operand->dtype);
}

/* True when BLAS can read rows of this width in place: dense rows, a stride that is an int. */
static bool fits_blas(const struct attn_operand *operand, size_t width) {
    return operand->sd == 1 && operand->st >= (ptrdiff_t)attn_max_size(width, 1) &&
           operand->st <= INT_MAX;
}

/* The query heads whose masks must be looked at: one where all are alike. */
static size_t distinct_heads(const struct attn_call *call) {
    return attn_mask_varies_by_head(&call->mask) ? attn_call_group(call) : 1;
}

/* The keys that some row of some head of the task can see. */
static void group_key_range(const struct attn_task *task, size_t *begin, size_t *end) {
    const struct attn_call *call = task->call;
    *begin = call->Tk;
    *end = 0;
    for (size_t g = 0; g < distinct_heads(call); g++) {
        size_t first, last;
        attn_mask_key_range(&call->mask, &call->space, task->b,
                            task->hkv * attn_call_group(call) + g, task->row, task->rows, &first,
                            &last);
        if (first >= last)
            continue;
        *begin = attn_min_size(*begin, first);
        *end = attn_max_size(*end, last);
    }
    *begin = attn_min_size(*begin, *end);
}

/* Empty when every head's tile is, full when every head's is. */
static enum attn_tile_class group_class(const struct attn_task *task, size_t key, size_t keys) {
    const struct attn_call *call = task->call;
    enum attn_tile_class class = ATTN_TILE_FULL;
    if (call->mask.count == 0)
        return class;
    for (size_t g = 0; g < distinct_heads(call); g++) {
        const struct attn_mask_tile tile = {.b = task->b,
                                            .h = task->hkv * attn_call_group(call) + g,
                                            .row = task->row,
                                            .rows = task->rows,
                                            .key = key,
                                            .keys = keys};
        const enum attn_tile_class one = attn_mask_classify(&call->mask, &call->space, &tile, true);
        class = g == 0 || one == class ? one : ATTN_TILE_PARTIAL;
    }
    return class;
}

#define BLAS_PASTE2(a, b) a##b
#define BLAS_PASTE(a, b) BLAS_PASTE2(a, b)

#define REAL float
#define SUFFIX _float
#define ROWOPS f
#define GEMM cblas_sgemm
#define LOAD attn_load_float
#define REAL_DTYPE ATTN_FLOAT32
#define REAL_MIN FLT_MIN
#define REAL_MAX FLT_MAX
#include "core/kernels/blas_tiles.h"

#define REAL double
#define SUFFIX _double
#define ROWOPS d
#define GEMM cblas_dgemm
#define LOAD attn_load_double
#define REAL_DTYPE ATTN_FLOAT64
#define REAL_MIN DBL_MIN
#define REAL_MAX DBL_MAX
#include "core/kernels/blas_tiles.h"

static void attend(const struct attn_task *task, void *memory, struct attn_partial *partial) {
    if (task->call->precision == ATTN_PRECISION_FLOAT64)
        attend_double(task, memory, partial);
    else
        attend_float(task, memory, partial);
}

static void scores(const struct attn_task *task, void *memory,
                   const struct attn_score_block *block) {
    if (task->call->precision == ATTN_PRECISION_FLOAT64)
        scores_double(task, memory, block);
    else
        scores_float(task, memory, block);
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
