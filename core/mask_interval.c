/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The leaves that are one interval of keys per row: causal, block_causal, window, padding lengths,
 * prefix. Each says in O(1) what some and what every row of a run sees; class and bits follow from
 * that alone.
 * Both ends of each interval rise with the row (or the interval is cut off, by q_lengths), so the
 * first and the last row bound the run, and intervals of neighbouring rows touch: the union has no
 * hole, which makes EMPTY as exact as FULL.
 */
#include "core/mask_internal.h"

#include <string.h>

/* The end of the keys up to and including position i. */
static size_t end_after(const struct attn_mask_space *space, int64_t i) {
    return i == INT64_MAX ? space->Tk : attn_mask_keys_before(space, i + 1);
}

/* What a window shows around one position: -1 on a side, and there is no end to it. */
static inline struct attn_interval window_at(const struct attn_mask_space *space, int64_t i,
                                             int64_t left, int64_t right) {
    const size_t begin = left < 0 ? 0 : attn_mask_keys_before(space, attn_sub_saturating(i, left));
    const size_t end = right < 0 ? space->Tk : end_after(space, attn_add_saturating(i, right));
    return (struct attn_interval){begin, end};
}

struct attn_bounds attn_mask_window_bounds(const struct attn_mask_space *space, size_t b,
                                           size_t row, size_t rows, int64_t left, int64_t right) {
    const struct attn_interval first =
        window_at(space, attn_mask_position(space, b, row), left, right);
    const struct attn_interval last =
        window_at(space, attn_mask_position(space, b, row + rows - 1), left, right);
    return (struct attn_bounds){.some = attn_interval_make(first.begin, last.end),
                                .every = attn_interval_make(last.begin, first.end)};
}

struct attn_bounds attn_mask_bounds_window(const struct attn_mask_node *node,
                                           const struct attn_mask_space *space, size_t b,
                                           size_t row, size_t rows) {
    return attn_mask_window_bounds(space, b, row, rows, node->left, node->right);
}

struct attn_bounds attn_mask_bounds_causal(const struct attn_mask_node *node,
                                           const struct attn_mask_space *space, size_t b,
                                           size_t row, size_t rows) {
    (void)node;
    return attn_mask_window_bounds(space, b, row, rows, -1, 0);
}

/* As attn_mask_window_bounds for each row, of which one takes longer to ask for than to find. */
static void window_spans(const struct attn_mask_space *space, size_t b, size_t row, size_t rows,
                         int64_t left, int64_t right, struct attn_span *spans) {
    for (size_t r = 0; r < rows; r++) {
        const struct attn_interval keys =
            window_at(space, attn_mask_position(space, b, row + r), left, right);
        spans[r] = (struct attn_span){keys.begin, keys.end};
    }
}

void attn_mask_spans_window(const struct attn_mask_node *node, const struct attn_mask_space *space,
                            size_t b, size_t row, size_t rows, struct attn_span *spans) {
    window_spans(space, b, row, rows, node->left, node->right, spans);
}

void attn_mask_spans_causal(const struct attn_mask_node *node, const struct attn_mask_space *space,
                            size_t b, size_t row, size_t rows, struct attn_span *spans) {
    (void)node;
    window_spans(space, b, row, rows, -1, 0, spans);
}

/* The position of the last token of i's block. */
static int64_t end_of_block(int64_t i, int64_t block) {
    return attn_add_saturating(i, block - 1 - (int64_t)attn_floor_modulo(i, block));
}

struct attn_bounds attn_mask_bounds_block_causal(const struct attn_mask_node *node,
                                                 const struct attn_mask_space *space, size_t b,
                                                 size_t row, size_t rows) {
    const int64_t first = end_of_block(attn_mask_position(space, b, row), node->block);
    const int64_t last = end_of_block(attn_mask_position(space, b, row + rows - 1), node->block);
    return (struct attn_bounds){.some = attn_interval_make(0, end_after(space, last)),
                                .every = attn_interval_make(0, end_after(space, first))};
}

struct attn_bounds attn_mask_bounds_prefix(const struct attn_mask_node *node,
                                           const struct attn_mask_space *space, size_t b,
                                           size_t row, size_t rows) {
    (void)row, (void)rows;
    const struct attn_interval keys =
        attn_interval_make(0, attn_mask_keys_before(space, attn_int_list_at(&node->lengths, b)));
    return (struct attn_bounds){.some = keys, .every = keys};
}

struct attn_bounds attn_mask_bounds_lengths(const struct attn_mask_node *node,
                                            const struct attn_mask_space *space, size_t b,
                                            size_t row, size_t rows) {
    const size_t visible_rows = attn_int_list_given(&node->q_lengths)
                                    ? (size_t)attn_int_list_at(&node->q_lengths, b)
                                    : space->Tq;
    const size_t kv_length = (size_t)attn_int_list_at(&node->kv_lengths, b);
    return (struct attn_bounds){
        .some = attn_interval_make(0, row < visible_rows ? kv_length : 0),
        .every = attn_interval_make(0, row + rows <= visible_rows ? kv_length : 0)};
}

enum attn_tile_class attn_mask_classify_interval(const struct attn_mask_node *node,
                                                 const struct attn_mask_space *space,
                                                 const struct attn_mask_tile *tile, bool thorough) {
    (void)thorough;
    const struct attn_bounds bounds =
        attn_mask_leaf(node)->bounds(node, space, tile->b, tile->row, tile->rows);
    const size_t end = tile->key + tile->keys;
    if (bounds.some.end <= tile->key || bounds.some.begin >= end)
        return ATTN_TILE_EMPTY;
    return bounds.every.begin <= tile->key && bounds.every.end >= end ? ATTN_TILE_FULL
                                                                      : ATTN_TILE_PARTIAL;
}

void attn_mask_fill_interval(const struct attn_mask_node *node, const struct attn_mask_space *space,
                             const struct attn_mask_tile *tile, uint64_t *bits) {
    const struct attn_mask_leaf *leaf = attn_mask_leaf(node);
    const size_t words = attn_mask_row_words(tile->keys);
    const struct attn_interval tile_keys = {tile->key, tile->key + tile->keys};
    memset(bits, 0, tile->rows * words * sizeof *bits);
    for (size_t r = 0; r < tile->rows; r++) {
        const struct attn_interval keys = attn_interval_intersect(
            leaf->bounds(node, space, tile->b, tile->row + r, 1).some, tile_keys);
        if (!attn_interval_is_empty(keys))
            attn_bits_set(bits + r * words, keys.begin - tile->key, keys.end - tile->key);
    }
}
