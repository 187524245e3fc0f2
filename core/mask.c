/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of mask kinds and the questions a mask answers without looking at a tile. A new kind of
 * leaf is a row in mask_kinds.def, a row here, and its functions.
 */
#include "core/mask.h"

#include "core/mask_internal.h"

static const char *const KIND_NAMES[ATTN_MASK_KIND_COUNT] = {
#define ATTN_MASK_KIND(code, name) [ATTN_MASK_##code] = name,
#include "core/mask_kinds.def"
#undef ATTN_MASK_KIND
};

/* Padding is two leaves under one name: lengths are an interval per row, `keep` is a tensor. */
enum { LEAF_KEEP = ATTN_MASK_KIND_COUNT, LEAF_COUNT };

static const struct attn_mask_costs
    INTERVAL_COSTS = {{10, 0, 0}, {10, 0, 0}, {20, 5, 0.03}},
    /* Ids that change at every key: each key of a row is a run of its own. */
    SEGMENTS_COSTS = {{10, 0.3, 0}, {10, 0.3, 0}, {50, 8, 1.0}},
    /* A search in a list beyond the caches. */
    GLOBAL_COSTS = {{150, 0, 0}, {150, 0, 0}, {200, 5, 0.03}},
    DILATED_COSTS = {{15, 0, 0}, {15, 0, 0}, {30, 10, 0.1}},
    KEEP_COSTS = {{10, 0.1, 0}, {10, 0.1, 0}, {20, 1, 0.02}},
    TENSOR_COSTS = {{10, 0, 0}, {10, 0, 0.1}, {20, 2, 0.1}},
    COMBINATOR_COSTS = {{3, 0, 0}, {3, 0, 0}, {10, 0, 0.02}};

static const struct attn_mask_leaf LEAVES[LEAF_COUNT] = {
    [ATTN_MASK_CAUSAL] = {attn_mask_validate_causal, attn_mask_bounds_causal,
                          attn_mask_classify_interval, attn_mask_fill_interval, &INTERVAL_COSTS,
                          attn_mask_spans_causal},
    [ATTN_MASK_WINDOW] = {attn_mask_validate_window, attn_mask_bounds_window,
                          attn_mask_classify_interval, attn_mask_fill_interval, &INTERVAL_COSTS,
                          attn_mask_spans_window},
    [ATTN_MASK_PADDING] = {attn_mask_validate_lengths, attn_mask_bounds_lengths,
                           attn_mask_classify_interval, attn_mask_fill_interval, &INTERVAL_COSTS,
                           NULL},
    [ATTN_MASK_PREFIX] = {attn_mask_validate_prefix, attn_mask_bounds_prefix,
                          attn_mask_classify_interval, attn_mask_fill_interval, &INTERVAL_COSTS,
                          NULL},
    [ATTN_MASK_SEGMENTS] = {attn_mask_validate_segments, attn_mask_bounds_anything,
                            attn_mask_classify_segments, attn_mask_fill_segments, &SEGMENTS_COSTS,
                            NULL},
    [ATTN_MASK_GLOBAL] = {attn_mask_validate_global, attn_mask_bounds_global,
                          attn_mask_classify_global, attn_mask_fill_global, &GLOBAL_COSTS, NULL},
    [ATTN_MASK_DILATED] = {attn_mask_validate_dilated, attn_mask_bounds_dilated,
                           attn_mask_classify_dilated, attn_mask_fill_dilated, &DILATED_COSTS,
                           NULL},
    [ATTN_MASK_BLOCK_CAUSAL] = {attn_mask_validate_block_causal, attn_mask_bounds_block_causal,
                                attn_mask_classify_interval, attn_mask_fill_interval,
                                &INTERVAL_COSTS, NULL},
    [ATTN_MASK_ALLOW] = {attn_mask_validate_allow, attn_mask_bounds_anything,
                         attn_mask_classify_allow, attn_mask_fill_shown, &TENSOR_COSTS, NULL},
    [ATTN_MASK_HIDE] = {attn_mask_validate_allow, attn_mask_bounds_anything,
                        attn_mask_classify_hide, attn_mask_fill_hidden, &TENSOR_COSTS, NULL},
    [LEAF_KEEP] = {attn_mask_validate_keep, attn_mask_bounds_anything, attn_mask_classify_keep,
                   attn_mask_fill_shown, &KEEP_COSTS, NULL},
};

const char *attn_mask_kind_name(enum attn_mask_kind kind) {
    return KIND_NAMES[kind];
}

const struct attn_mask_leaf *attn_mask_leaf(const struct attn_mask_node *node) {
    const bool keep = node->kind == ATTN_MASK_PADDING && attn_mask_tensor_given(&node->tensor);
    const struct attn_mask_leaf *leaf = &LEAVES[keep ? LEAF_KEEP : (unsigned)node->kind];
    return leaf->fill == NULL ? NULL : leaf;
}

static bool uses_positions(const struct attn_mask_node *node) {
    switch (node->kind) {
    case ATTN_MASK_CAUSAL:
    case ATTN_MASK_DILATED:
    case ATTN_MASK_BLOCK_CAUSAL:
        return true;
    case ATTN_MASK_WINDOW:
        return node->left >= 0 || node->right >= 0;
    case ATTN_MASK_GLOBAL:
        return node->tokens.count > 0;
    default:
        return false;
    }
}

bool attn_mask_uses_positions(const struct attn_mask *mask) {
    for (size_t i = 0; i < mask->count; i++)
        if (uses_positions(&mask->nodes[i]))
            return true;
    return false;
}

bool attn_mask_varies_by_head(const struct attn_mask *mask) {
    for (size_t i = 0; i < mask->count; i++)
        if (attn_mask_tensor_given(&mask->nodes[i].tensor) && mask->nodes[i].tensor.stride[1] != 0)
            return true;
    return false;
}

static bool varies_by_batch(const struct attn_mask_node *node) {
    return node->kv_lengths.count > 1 || node->q_lengths.count > 1 || node->lengths.count > 1 ||
           (attn_mask_tensor_given(&node->tensor) && node->tensor.stride[0] != 0) ||
           (attn_mask_tensor_given(&node->kv) && node->kv.stride[0] != 0);
}

bool attn_mask_varies_by_batch(const struct attn_mask *mask) {
    for (size_t i = 0; i < mask->count; i++)
        if (varies_by_batch(&mask->nodes[i]))
            return true;
    return false;
}

size_t attn_mask_row_words(size_t keys) {
    return keys / 64 + (keys % 64 != 0);
}

/* One picture per level of combinators, and one for an operand on its way into the level's. */
size_t attn_mask_scratch_words(const struct attn_mask *mask, size_t rows, size_t keys) {
    if (mask->count == 0 || attn_mask_leaf(&mask->nodes[mask->count - 1]) != NULL)
        return 0;
    size_t depth = 0, words;
    for (size_t i = 0; i < mask->count; i++)
        depth = attn_max_size(depth, mask->nodes[i].place.depth);
    if (!attn_mul_size(rows, attn_mask_row_words(keys), &words) ||
        !attn_mul_size(words, depth + 1, &words))
        return SIZE_MAX;
    return words;
}

static double cost_of(const struct attn_mask_cost *cost, size_t rows, size_t keys) {
    return cost->tile + cost->line * ((double)rows + (double)keys) +
           cost->position * ((double)rows * (double)keys);
}

static const struct attn_mask_costs *costs_of(const struct attn_mask_node *node) {
    const struct attn_mask_leaf *leaf = attn_mask_leaf(node);
    return leaf == NULL ? &COMBINATOR_COSTS : leaf->costs;
}

double attn_mask_classify_cost(const struct attn_mask *mask, size_t rows, size_t keys,
                               bool thorough) {
    double sum = 0;
    for (size_t i = 0; i < mask->count; i++) {
        const struct attn_mask_costs *costs = costs_of(&mask->nodes[i]);
        sum += cost_of(thorough ? &costs->thorough : &costs->classify, rows, keys);
    }
    return sum;
}

double attn_mask_fill_cost(const struct attn_mask *mask, size_t rows, size_t keys) {
    double sum = 0;
    for (size_t i = 0; i < mask->count; i++)
        sum += cost_of(&costs_of(&mask->nodes[i])->fill, rows, keys);
    return sum;
}

bool attn_mask_is_intervals(const struct attn_mask *mask) {
    for (size_t i = 0; i < mask->count; i++) {
        const struct attn_mask_leaf *leaf = attn_mask_leaf(&mask->nodes[i]);
        if (leaf == NULL ? mask->nodes[i].kind != ATTN_MASK_ALL
                         : leaf->classify != attn_mask_classify_interval)
            return false;
    }
    return true;
}
