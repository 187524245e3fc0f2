/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tile's picture, one bit per position. As in mask_classify.c each level of combinators gathers
 * one picture; the caller's own buffer is level 0.
 */
#include "core/mask_internal.h"

#include <assert.h>
#include <string.h>

void attn_bits_set(uint64_t *row, size_t begin, size_t end) {
    const size_t first = begin / 64, last = (end - 1) / 64;
    const uint64_t head = UINT64_MAX << begin % 64;
    const uint64_t tail = UINT64_MAX >> (63 - (end - 1) % 64);
    if (first == last) {
        row[first] |= head & tail;
        return;
    }
    row[first] |= head;
    for (size_t w = first + 1; w < last; w++)
        row[w] = UINT64_MAX;
    row[last] |= tail;
}

/* Every position shown (all) or hidden. */
static void fill_constant(bool shown, size_t rows, size_t keys, uint64_t *bits) {
    const size_t words = attn_mask_row_words(keys);
    memset(bits, 0, rows * words * sizeof *bits);
    for (size_t r = 0; r < rows && shown && keys > 0; r++)
        attn_bits_set(bits + r * words, 0, keys);
}

static void flip(size_t rows, size_t keys, uint64_t *bits) {
    const size_t words = attn_mask_row_words(keys);
    for (size_t i = 0; i < rows * words; i++)
        bits[i] = ~bits[i] & attn_bits_low(keys - i % words * 64);
}

static void combine(enum attn_mask_kind kind, size_t n, uint64_t *gathered, const uint64_t *bits) {
    if (kind == ATTN_MASK_ALL)
        for (size_t i = 0; i < n; i++)
            gathered[i] &= bits[i];
    else
        for (size_t i = 0; i < n; i++)
            gathered[i] |= bits[i];
}

/* A combinator's own picture, made in place of what it has gathered. */
static void finish(const struct attn_mask_node *node, const struct attn_mask_tile *tile,
                   uint64_t *gathered) {
    if (node->kind == ATTN_MASK_NOT)
        flip(tile->rows, tile->keys, gathered);
    else if (node->operands == 0)
        fill_constant(node->kind == ATTN_MASK_ALL, tile->rows, tile->keys, gathered);
}

/* The scratch is levels 1, 2, ... and then room for one operand, which no level uses. */
void attn_mask_fill(const struct attn_mask *mask, const struct attn_mask_space *space,
                    const struct attn_mask_tile *tile, uint64_t *bits, uint64_t *scratch) {
    const size_t n = tile->rows * attn_mask_row_words(tile->keys);
    assert(!attn_mask_tile_spans(space, tile));
    if (mask->count == 0)
        fill_constant(true, tile->rows, tile->keys, bits);
    for (size_t i = 0; i < mask->count; i++) {
        const struct attn_mask_node *node = &mask->nodes[i];
        const struct attn_mask_leaf *leaf = attn_mask_leaf(node);
        const struct attn_mask_place *place = &node->place;
        uint64_t *gathered = place->depth == 0 ? bits : scratch + (place->depth - 1) * n;
        uint64_t *below = scratch + place->depth * n;
        if (leaf != NULL) {
            uint64_t *target = place->first ? gathered : below;
            leaf->fill(node, space, tile, target);
        } else {
            finish(node, tile, below);
        }
        if (!place->first)
            combine(mask->nodes[place->parent].kind, n, gathered, below);
        else if (leaf == NULL)
            memcpy(gathered, below, n * sizeof *bits);
    }
}
