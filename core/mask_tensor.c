/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The leaves that read tensors: allow, hide, padding's keep, and segments. Elements are taken 64
 * keys at a time and become one word of bits; an axis that is broadcast is read once.
 */
#include "core/mask_internal.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "eight bools are read as one word");

struct attn_bounds attn_mask_bounds_anything(const struct attn_mask_node *node,
                                             const struct attn_mask_space *space, size_t b,
                                             size_t row, size_t rows) {
    (void)node, (void)b, (void)row, (void)rows;
    return (struct attn_bounds){.some = {0, space->Tk}, .every = {0, 0}};
}

/* Eight bytes to eight bits: each byte's "not zero" goes to its top bit, and one multiplication
 * gathers the eight of them in the top byte. */
static uint64_t eight_non_zero(const uint8_t *bytes) {
    const uint64_t low7 = UINT64_C(0x7f7f7f7f7f7f7f7f);
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    const uint64_t non_zero = (((word & low7) + low7) | word) & ~low7;
    return (non_zero >> 7) * UINT64_C(0x0102040810204080) >> 56;
}

static uint64_t dense_bytes_non_zero(const uint8_t *bytes, size_t n) {
    uint64_t word = 0;
    size_t k = 0;
    for (; k + 8 <= n; k += 8)
        word |= eight_non_zero(bytes + k) << k;
    for (; k < n; k++)
        word |= (uint64_t)(bytes[k] != 0) << k;
    return word;
}

#define GATHER(type)                                                      \
    {                                                                     \
        const type *element = (const type *)tensor->data + offset;        \
        for (size_t k = 0; k < n; k++)                                    \
            word |= (uint64_t)(element[(ptrdiff_t)k * stride] != 0) << k; \
    }

/* Bit k: element k of n <= 64 along the keys, from `offset` on, is not zero. */
static uint64_t word_non_zero(const struct attn_tensor *tensor, ptrdiff_t offset, size_t n) {
    const ptrdiff_t stride = tensor->stride[3];
    if (stride == 0)
        return attn_tensor_int_at(tensor, offset) != 0 ? attn_bits_low(n) : 0;
    const size_t size = attn_dtype_size(tensor->dtype);
    if (size == 1 && stride == 1)
        return dense_bytes_non_zero((const uint8_t *)tensor->data + offset, n);
    uint64_t word = 0;
    if (size == 1)
        GATHER(uint8_t)
    else if (size == 2)
        GATHER(uint16_t)
    else if (size == 4)
        GATHER(uint32_t)
    else
        GATHER(uint64_t)
    return word;
}

/* Rows that may differ: one when the tensor is broadcast along the queries. */
static size_t distinct_rows(const struct attn_tensor *tensor, const struct attn_mask_tile *tile) {
    return tensor->stride[2] == 0 ? attn_min_size(tile->rows, 1) : tile->rows;
}

/* Writes "element != 0", every word exclusive-ored with flip. */
static void fill_non_zero(const struct attn_tensor *tensor, const struct attn_mask_tile *tile,
                          uint64_t flip, uint64_t *bits) {
    const size_t words = attn_mask_row_words(tile->keys);
    const size_t distinct = distinct_rows(tensor, tile);
    for (size_t r = 0; r < distinct; r++) {
        const ptrdiff_t offset =
            attn_tensor_offset(tensor, tile->b, tile->h, tile->row + r, tile->key);
        for (size_t w = 0; w < words; w++) {
            const size_t n = attn_min_size(tile->keys - w * 64, 64);
            const ptrdiff_t at = offset + (ptrdiff_t)(w * 64) * tensor->stride[3];
            bits[r * words + w] = (word_non_zero(tensor, at, n) ^ flip) & attn_bits_low(n);
        }
    }
    for (size_t r = distinct; r < tile->rows; r++)
        memcpy(bits + r * words, bits, words * sizeof *bits);
}

void attn_mask_fill_shown(const struct attn_mask_node *node, const struct attn_mask_space *space,
                          const struct attn_mask_tile *tile, uint64_t *bits) {
    (void)space;
    fill_non_zero(&node->tensor, tile, 0, bits);
}

void attn_mask_fill_hidden(const struct attn_mask_node *node, const struct attn_mask_space *space,
                           const struct attn_mask_tile *tile, uint64_t *bits) {
    (void)space;
    fill_non_zero(&node->tensor, tile, UINT64_MAX, bits);
}

/* EMPTY when all of the tile's elements are zero, FULL when none is. */
static enum attn_tile_class classify_non_zero(const struct attn_tensor *tensor,
                                              const struct attn_mask_tile *tile) {
    const size_t distinct = distinct_rows(tensor, tile);
    bool some = false, every = true;
    for (size_t r = 0; r < distinct; r++) {
        const ptrdiff_t offset =
            attn_tensor_offset(tensor, tile->b, tile->h, tile->row + r, tile->key);
        for (size_t k = 0; k < tile->keys; k += 64) {
            const size_t n = attn_min_size(tile->keys - k, 64);
            const uint64_t word =
                word_non_zero(tensor, offset + (ptrdiff_t)k * tensor->stride[3], n);
            some = some || word != 0;
            every = every && word == attn_bits_low(n);
            if (some && !every)
                return ATTN_TILE_PARTIAL;
        }
    }
    return some ? ATTN_TILE_FULL : ATTN_TILE_EMPTY;
}

enum attn_tile_class attn_mask_classify_keep(const struct attn_mask_node *node,
                                             const struct attn_mask_space *space,
                                             const struct attn_mask_tile *tile, bool thorough) {
    (void)space, (void)thorough;
    return classify_non_zero(&node->tensor, tile);
}

enum attn_tile_class attn_mask_classify_allow(const struct attn_mask_node *node,
                                              const struct attn_mask_space *space,
                                              const struct attn_mask_tile *tile, bool thorough) {
    (void)space;
    return thorough ? classify_non_zero(&node->tensor, tile) : ATTN_TILE_PARTIAL;
}

enum attn_tile_class attn_mask_classify_hide(const struct attn_mask_node *node,
                                             const struct attn_mask_space *space,
                                             const struct attn_mask_tile *tile, bool thorough) {
    return (enum attn_tile_class)(ATTN_TILE_FULL -
                                  attn_mask_classify_allow(node, space, tile, thorough));
}
