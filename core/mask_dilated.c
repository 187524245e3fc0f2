/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dilated windows: of the keys within `width` of the query every `stride`-th one, counted from the
 * query itself. A tile is judged by the differences j - i that occur in it, which are an interval:
 * it is empty when no multiple of the stride lies there. Refuses a negative width and a stride
 * below 1. What reaches beyond int64 reaches beyond every key, so sums saturate.
 */
#include "core/mask_internal.h"

#include <string.h>

enum attn_status attn_mask_validate_dilated(struct attn_mask_node *node,
                                            const struct attn_mask_space *space,
                                            struct attn_error *error) {
    (void)space;
    if (node->width < 0)
        return attn_fail(error, ATTN_BAD_MASK, attn_mask_member(node, "width").text,
                         "width is %lld; it is the largest distance between a query and a key that "
                         "it sees, 0 or more. Any number above all distances is no limit.",
                         (long long)node->width);
    if (node->stride < 1)
        return attn_fail(error, ATTN_BAD_MASK, attn_mask_member(node, "stride").text,
                         "stride is %lld; a query sees every stride-th key, counted from its own, "
                         "so it is 1 or more, and 1 is a window.",
                         (long long)node->stride);
    return ATTN_OK;
}

/* The distance of the farthest key that may be seen: the stride's last multiple within the width.
 */
static int64_t reach_of(const struct attn_mask_node *node) {
    return node->width - node->width % node->stride;
}

struct attn_bounds attn_mask_bounds_dilated(const struct attn_mask_node *node,
                                            const struct attn_mask_space *space, size_t b,
                                            size_t row, size_t rows) {
    const int64_t reach = reach_of(node);
    struct attn_bounds bounds = attn_mask_window_bounds(space, b, row, rows, reach, reach);
    if (node->stride > 1)
        bounds.every = attn_interval_make(0, 0);
    return bounds;
}

static int64_t smaller(int64_t x, int64_t y) {
    return x < y ? x : y;
}

static int64_t larger(int64_t x, int64_t y) {
    return x > y ? x : y;
}

/* Whether some j - i of the positions i in [first, last] and the keys j in [key, end_key] is within
 * reach and a multiple of the stride. */
static bool sees_some(const struct attn_mask_node *node, int64_t first, int64_t last, int64_t key,
                      int64_t end_key) {
    const int64_t reach = reach_of(node);
    first = larger(first, key - reach);
    last = smaller(last, attn_add_saturating(end_key, reach));
    if (first > last)
        return false;
    const int64_t lowest = larger(-reach, key - last);
    const int64_t highest = smaller(reach, attn_sub_saturating(end_key, first));
    return attn_floor_modulo(highest, node->stride) <= (uint64_t)highest - (uint64_t)lowest;
}

enum attn_tile_class attn_mask_classify_dilated(const struct attn_mask_node *node,
                                                const struct attn_mask_space *space,
                                                const struct attn_mask_tile *tile, bool thorough) {
    (void)thorough;
    if (node->stride == 1)
        return attn_mask_classify_interval(node, space, tile, thorough);
    const int64_t first = attn_mask_position(space, tile->b, tile->row);
    const int64_t last = attn_mask_position(space, tile->b, tile->row + tile->rows - 1);
    const int64_t key = attn_mask_key_position(space, tile->key);
    if (!sees_some(node, first, last, key, key + (int64_t)tile->keys - 1))
        return ATTN_TILE_EMPTY;
    return first == last && tile->keys == 1 ? ATTN_TILE_FULL : ATTN_TILE_PARTIAL;
}

/* A word in which every stride-th bit is set, from the lowest on. */
static uint64_t comb_of(const struct attn_mask_node *node) {
    uint64_t comb = 0;
    for (int64_t k = 0; k < 64; k += smaller(node->stride, 64))
        comb |= UINT64_C(1) << k;
    return comb;
}

/* Shows keys [begin, end) of a row, not none, that are multiples of the stride away from `shift`,
 * the first such key from the word of `begin` on. */
static void fill_row(uint64_t comb, uint64_t stride, uint64_t shift, struct attn_interval keys,
                     uint64_t *row) {
    const size_t first = keys.begin / 64, last = (keys.end - 1) / 64;
    for (size_t w = first; w <= last; w++) {
        row[w] = shift < 64 ? comb << shift : 0;
        shift = shift >= 64 ? shift - 64 : (stride - (64 - shift) % stride) % stride;
    }
    row[first] &= UINT64_MAX << keys.begin % 64;
    row[last] &= UINT64_MAX >> (63 - (keys.end - 1) % 64);
}

void attn_mask_fill_dilated(const struct attn_mask_node *node, const struct attn_mask_space *space,
                            const struct attn_mask_tile *tile, uint64_t *bits) {
    const size_t words = attn_mask_row_words(tile->keys);
    const uint64_t comb = comb_of(node), stride = (uint64_t)node->stride;
    const struct attn_interval tile_keys = {tile->key, tile->key + tile->keys};
    memset(bits, 0, tile->rows * words * sizeof *bits);
    for (size_t r = 0; r < tile->rows; r++) {
        const size_t row = tile->row + r;
        struct attn_interval keys = attn_interval_intersect(
            attn_mask_bounds_dilated(node, space, tile->b, row, 1).some, tile_keys);
        if (attn_interval_is_empty(keys))
            continue;
        keys = (struct attn_interval){keys.begin - tile->key, keys.end - tile->key};
        const uint64_t word_key =
            (uint64_t)attn_mask_key_position(space, tile->key) + keys.begin / 64 * 64;
        const uint64_t phase =
            attn_floor_modulo(attn_mask_position(space, tile->b, row), node->stride);
        fill_row(comb, stride, (phase + stride - word_key % stride) % stride, keys,
                 bits + r * words);
    }
}
