/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the mask's own files share: the row of functions behind each kind of leaf, and the two ways
 * of describing what a leaf shows. Nothing outside core/mask*.c includes this.
 */
#ifndef ATTN_CORE_MASK_INTERNAL_H
#define ATTN_CORE_MASK_INTERNAL_H

#include "core/checked.h"
#include "core/mask.h"

/* Keys [begin, end); nothing when begin == end, which is then 0 for both. */
struct attn_interval {
    size_t begin, end;
};

/* Of a run of rows: no row sees a key outside of `some`, every row sees all the keys of `every`. */
struct attn_bounds {
    struct attn_interval some, every;
};

/* Nanoseconds: for the tile, for each of its rows and keys, and for each position in it. */
struct attn_mask_cost {
    double tile, line, position;
};

/* What a node costs at the machine of core/kernels/KERNELS.md; masks that cost it most are meant.
 */
struct attn_mask_costs {
    struct attn_mask_cost classify, thorough, fill;
};

/*
 * One row per kind of leaf. `bounds` costs O(1), or O(log tokens), and is what the other two work
 * from where a leaf is an interval per row. `fill` writes every word of the tile's picture, bits
 * past the keys as 0.
 */
struct attn_mask_leaf {
    enum attn_status (*validate)(struct attn_mask_node *node, const struct attn_mask_space *space,
                                 struct attn_error *error);
    struct attn_bounds (*bounds)(const struct attn_mask_node *node,
                                 const struct attn_mask_space *space, size_t b, size_t row,
                                 size_t rows);
    enum attn_tile_class (*classify)(const struct attn_mask_node *node,
                                     const struct attn_mask_space *space,
                                     const struct attn_mask_tile *tile, bool thorough);
    void (*fill)(const struct attn_mask_node *node, const struct attn_mask_space *space,
                 const struct attn_mask_tile *tile, uint64_t *bits);
    const struct attn_mask_costs *costs;
    /* What each of `rows` rows sees, one by one; NULL: as `bounds` says. */
    void (*spans)(const struct attn_mask_node *node, const struct attn_mask_space *space, size_t b,
                  size_t row, size_t rows, struct attn_span *spans);
};

/* The leaf's row; NULL for a combinator. */
const struct attn_mask_leaf *attn_mask_leaf(const struct attn_mask_node *node);

/* Each function of the table; what it does is said there. */
typedef enum attn_status attn_mask_validate_leaf(struct attn_mask_node *,
                                                 const struct attn_mask_space *,
                                                 struct attn_error *);
typedef struct attn_bounds attn_mask_bounds_leaf(const struct attn_mask_node *,
                                                 const struct attn_mask_space *, size_t, size_t,
                                                 size_t);
typedef enum attn_tile_class attn_mask_classify_leaf(const struct attn_mask_node *,
                                                     const struct attn_mask_space *,
                                                     const struct attn_mask_tile *, bool);
typedef void attn_mask_fill_leaf(const struct attn_mask_node *, const struct attn_mask_space *,
                                 const struct attn_mask_tile *, uint64_t *);

typedef void attn_mask_spans_leaf(const struct attn_mask_node *, const struct attn_mask_space *,
                                  size_t, size_t, size_t, struct attn_span *);

attn_mask_spans_leaf attn_mask_spans_causal, attn_mask_spans_window;
attn_mask_validate_leaf attn_mask_validate_causal, attn_mask_validate_window,
    attn_mask_validate_lengths, attn_mask_validate_keep, attn_mask_validate_prefix,
    attn_mask_validate_segments, attn_mask_validate_global, attn_mask_validate_dilated,
    attn_mask_validate_block_causal, attn_mask_validate_allow;
attn_mask_bounds_leaf attn_mask_bounds_causal, attn_mask_bounds_window, attn_mask_bounds_lengths,
    attn_mask_bounds_prefix, attn_mask_bounds_global, attn_mask_bounds_dilated,
    attn_mask_bounds_block_causal, attn_mask_bounds_anything;
attn_mask_classify_leaf attn_mask_classify_interval, attn_mask_classify_keep,
    attn_mask_classify_segments, attn_mask_classify_global, attn_mask_classify_dilated,
    attn_mask_classify_allow, attn_mask_classify_hide;
attn_mask_fill_leaf attn_mask_fill_interval, attn_mask_fill_shown, attn_mask_fill_hidden,
    attn_mask_fill_segments, attn_mask_fill_global, attn_mask_fill_dilated;

/* The JSON pointer of a node's member. */
struct attn_mask_pointer {
    char text[sizeof((struct attn_error *)0)->pointer];
};
struct attn_mask_pointer attn_mask_member(const struct attn_mask_node *node, const char *name);

/* What a window shows; -1 is open. */
struct attn_bounds attn_mask_window_bounds(const struct attn_mask_space *space, size_t b,
                                           size_t row, size_t rows, int64_t left, int64_t right);

/* A node's unused tensor is none, or all zero as a designated initialiser leaves it. */
static inline bool attn_mask_tensor_given(const struct attn_tensor *tensor) {
    return tensor->rank > 0 || (tensor->rank == 0 && tensor->data != NULL);
}

static inline bool attn_int_list_given(const struct attn_int_list *list) {
    return list->count > 0 || list->values != NULL;
}

/* The value for batch item b of a list of one or B. */
static inline int64_t attn_int_list_at(const struct attn_int_list *list, size_t b) {
    return list->values[list->count == 1 ? 0 : b];
}

/* Absolute position of a row. Positions stop at the ends of int64 instead of wrapping. */
static inline int64_t attn_mask_position(const struct attn_mask_space *space, size_t b,
                                         size_t row) {
    const struct attn_int_list offsets = {space->q_offset, space->q_offset_count};
    return offsets.count == 0 ? (int64_t)row
                              : attn_add_saturating(attn_int_list_at(&offsets, b), (int64_t)row);
}

/* How many keys stand before a position: the number of the first one there or behind it. */
static inline size_t attn_mask_keys_before(const struct attn_mask_space *space, int64_t position) {
    const struct attn_key_gap *gap = &space->gap;
    size_t keys = position <= 0 ? 0 : (size_t)position;
    if (keys > gap->key)
        keys = attn_max_size(keys, gap->key + gap->count) - gap->count;
    return attn_min_size(keys, space->Tk);
}

/* Position of a key. */
static inline int64_t attn_mask_key_position(const struct attn_mask_space *space, size_t key) {
    return attn_key_position(&space->gap, key);
}

/* Whether a tile's keys stand on both sides of the gap: no kernel's tiles do. */
static inline bool attn_mask_tile_spans(const struct attn_mask_space *space,
                                        const struct attn_mask_tile *tile) {
    return space->gap.count > 0 && tile->key < space->gap.key &&
           tile->key + tile->keys > space->gap.key;
}

/* i modulo n > 0, at least 0 before the first key too. */
static inline uint64_t attn_floor_modulo(int64_t i, int64_t n) {
    const int64_t rest = i % n;
    return (uint64_t)(rest < 0 ? rest + n : rest);
}

static inline struct attn_interval attn_interval_make(size_t begin, size_t end) {
    return begin < end ? (struct attn_interval){begin, end} : (struct attn_interval){0, 0};
}

static inline bool attn_interval_is_empty(struct attn_interval interval) {
    return interval.begin == interval.end;
}

static inline struct attn_interval attn_interval_intersect(struct attn_interval x,
                                                           struct attn_interval y) {
    return attn_interval_make(attn_max_size(x.begin, y.begin), attn_min_size(x.end, y.end));
}

/* Sets bits [begin, end) of a row. */
void attn_bits_set(uint64_t *row, size_t begin, size_t end);
/* The low n bits, n <= 64. */
static inline uint64_t attn_bits_low(size_t n) {
    return n >= 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1;
}

#endif
