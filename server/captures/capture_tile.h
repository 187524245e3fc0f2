/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tiles of a map as the page takes them: float16 [height][width], little-endian. What is hidden is
 * one NaN, and what is none because of its numbers another; and levels of detail, out of which
 * tiles of the largest weights can be had without any arithmetic.
 */
#ifndef SERVER_CAPTURES_CAPTURE_TILE_H
#define SERVER_CAPTURES_CAPTURE_TILE_H

#include "server/captures/captures.h"

enum { TILE_HIDDEN = 0x7e00, TILE_NAN = 0x7e01 };

/* Bins of `cells` over [first, end) of an axis. */
struct tile_axis {
    size_t first, end, cells;
};

/* The map among the results, as float16: its stage decides what is hidden. `scores` may be NULL:
   nothing of the weights is. Both of one type, count elements. */
void tile_convert(enum attn_stage stage, const struct attn_result_tensor *values,
                  const struct attn_result_tensor *scores, size_t count, uint16_t *bins);

/* Cells of a level of a map of `tokens` along an axis. */
size_t tile_level_cells(size_t tokens);
/* Whether every bin is some whole cells of the level along this axis. */
bool tile_fits_level(const struct tile_axis *axis, size_t tokens);
/* The largest of the level's cells that each bin has a part in. */
void tile_from_level(const struct capture_level *level, size_t queries, size_t keys,
                     const struct tile_axis *rows, const struct tile_axis *cols, uint16_t *bins);
/* Rows of fewer bins, each as often as it takes. */
void tile_stretch(const uint16_t *from, size_t rows, size_t cols, size_t height, uint16_t *bins);

/* The largest number of a tile; NaN when there is none. */
double tile_largest(const uint16_t *bins, size_t count);

#endif
