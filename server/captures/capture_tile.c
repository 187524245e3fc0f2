/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles in float16; see capture_tile.h. */
#include "server/captures/capture_tile.h"

#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "core/convert.h"

static double value_at(const struct attn_result_tensor *tensor, size_t index) {
    return tensor->dtype == ATTN_FLOAT64 ? ((const double *)tensor->data)[index]
                                         : (double)((const float *)tensor->data)[index];
}

void tile_convert(enum attn_stage stage, const struct attn_result_tensor *values,
                  const struct attn_result_tensor *scores, size_t count, uint16_t *bins) {
    if (values->dtype == ATTN_FLOAT64)
        attn_store_double(ATTN_FLOAT16, bins, 1, count, values->data);
    else
        attn_store_float(ATTN_FLOAT16, bins, 1, count, values->data);
    for (size_t n = 0; n < count; n++) {
        if (stage == ATTN_STAGE_MASKED
                ? value_at(values, n) == -INFINITY
                : scores != NULL && value_at(scores, n) == -INFINITY && value_at(values, n) == 0)
            bins[n] = TILE_HIDDEN;
        else if ((bins[n] & 0x7fff) > 0x7c00)
            bins[n] = TILE_NAN;
    }
}

size_t tile_level_cells(size_t tokens) {
    return attn_min_size(tokens, CAPTURE_LEVEL_SIDE);
}

/* Tokens are few enough for these products: a capture has had memory for them. */
static size_t edge_of(const struct tile_axis *axis, size_t cell) {
    return axis->first + cell * (axis->end - axis->first) / axis->cells;
}

/* The first cell of the level that begins at the token or behind it. */
static size_t cell_from(size_t token, size_t tokens, size_t cells) {
    return (token * cells + tokens - 1) / tokens;
}

bool tile_fits_level(const struct tile_axis *axis, size_t tokens) {
    const size_t cells = tile_level_cells(tokens);
    for (size_t bin = 0; bin <= axis->cells; bin++) {
        const size_t token = edge_of(axis, bin);
        if (cell_from(token, tokens, cells) * tokens / cells != token)
            return false;
    }
    return true;
}

/* The level's cells that a bin has a part in. */
static void cells_of(const struct tile_axis *axis, size_t bin, size_t tokens, size_t cells,
                     size_t *first, size_t *end) {
    *end = cell_from(edge_of(axis, bin + 1), tokens, cells);
    *first = cell_from(edge_of(axis, bin), tokens, cells);
    if (*first * tokens / cells != edge_of(axis, bin))
        (*first)--;
    *end = attn_max_size(*end, *first + 1);
}

/* The larger of two that are not negative: NaN above any number, and what is hidden below. */
static uint16_t larger(uint16_t a, uint16_t b) {
    if (a == TILE_HIDDEN)
        return b;
    return b == TILE_HIDDEN || a > b ? a : b;
}

static uint16_t reduce(const struct capture_level *level, size_t top, size_t bottom, size_t left,
                       size_t right) {
    uint16_t best = TILE_HIDDEN;
    for (size_t r = top; r < bottom; r++)
        for (size_t c = left; c < right; c++)
            best = larger(best, level->bins[r * level->cols + c]);
    return best;
}

void tile_from_level(const struct capture_level *level, size_t queries, size_t keys,
                     const struct tile_axis *rows, const struct tile_axis *cols, uint16_t *bins) {
    for (size_t r = 0; r < rows->cells; r++) {
        size_t top, bottom, left, right;
        cells_of(rows, r, queries, level->rows, &top, &bottom);
        for (size_t c = 0; c < cols->cells; c++) {
            cells_of(cols, c, keys, level->cols, &left, &right);
            bins[r * cols->cells + c] = reduce(level, top, bottom, left, right);
        }
    }
}

void tile_stretch(const uint16_t *from, size_t rows, size_t cols, size_t height, uint16_t *bins) {
    for (size_t r = 0; r < height; r++)
        memcpy(bins + r * cols, from + r * rows / height * cols, cols * sizeof *bins);
}

double tile_largest(const uint16_t *bins, size_t count) {
    double largest = NAN;
    for (size_t n = 0; n < count; n++) {
        const double value = (double)attn_half_to_float(bins[n]);
        if (value > largest || isnan(largest))
            largest = isnan(value) ? largest : value;
    }
    return largest;
}
