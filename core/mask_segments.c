/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segments (packed documents): a row sees the keys that carry its id. Ids are compared as 64-bit
 * patterns; where uint64 ids meet another type, validation has refused those above INT64_MAX.
 */
#include "core/mask_internal.h"

#include <string.h>

enum { CHUNK = 64 };

#define LOAD(type)                                                \
    {                                                             \
        const type *element = (const void *)id_at(tensor, b, at); \
        for (size_t i = 0; i < n; i++)                            \
            ids[i] = (int64_t)element[(ptrdiff_t)i * stride];     \
        break;                                                    \
    }

static const char *id_at(const struct attn_tensor *tensor, size_t b, size_t at) {
    return (const char *)tensor->data +
           attn_tensor_offset(tensor, b, 0, 0, at) * (ptrdiff_t)attn_dtype_size(tensor->dtype);
}

/* n <= CHUNK ids of batch item b from position `at` on. */
static void load_ids(const struct attn_tensor *tensor, size_t b, size_t at, size_t n,
                     int64_t ids[CHUNK]) {
    const ptrdiff_t stride = tensor->stride[3];
    switch (tensor->dtype) {
    case ATTN_INT8:
        LOAD(int8_t)
    case ATTN_UINT16:
        LOAD(uint16_t)
    case ATTN_INT16:
        LOAD(int16_t)
    case ATTN_UINT32:
        LOAD(uint32_t)
    case ATTN_INT32:
        LOAD(int32_t)
    case ATTN_UINT64:
        LOAD(uint64_t)
    case ATTN_INT64:
        LOAD(int64_t)
    default:
        LOAD(uint8_t)
    }
}

struct id_range {
    int64_t smallest, largest;
};

/* Most tiles lie within a document: n >= 1 ids that stand side by side are compared as bytes. */
static bool is_one_id(const struct attn_tensor *tensor, size_t b, size_t at, size_t n) {
    const size_t size = attn_dtype_size(tensor->dtype);
    const char *ids = id_at(tensor, b, at);
    return tensor->stride[3] == 1 && memcmp(ids, ids + size, (n - 1) * size) == 0;
}

static struct id_range range_of_ids(const struct attn_tensor *tensor, size_t b, size_t at,
                                    size_t n) {
    struct id_range range = {INT64_MAX, INT64_MIN};
    int64_t ids[CHUNK];
    const size_t count = is_one_id(tensor, b, at, n) ? 1 : n;
    for (size_t done = 0; done < count; done += CHUNK) {
        const size_t some = attn_min_size(count - done, CHUNK);
        load_ids(tensor, b, at + done, some, ids);
        for (size_t i = 0; i < some; i++) {
            range.smallest = ids[i] < range.smallest ? ids[i] : range.smallest;
            range.largest = ids[i] > range.largest ? ids[i] : range.largest;
        }
    }
    return range;
}

enum attn_tile_class attn_mask_classify_segments(const struct attn_mask_node *node,
                                                 const struct attn_mask_space *space,
                                                 const struct attn_mask_tile *tile, bool thorough) {
    (void)space, (void)thorough;
    const struct id_range rows = range_of_ids(&node->tensor, tile->b, tile->row, tile->rows);
    const struct id_range keys = range_of_ids(&node->kv, tile->b, tile->key, tile->keys);
    if (rows.largest < keys.smallest || keys.largest < rows.smallest)
        return ATTN_TILE_EMPTY;
    const bool one_id = rows.smallest == rows.largest && keys.smallest == keys.largest;
    return one_id ? ATTN_TILE_FULL : ATTN_TILE_PARTIAL;
}

/* Shows keys [begin, end), which carry `id`, to those of n rows that carry it too. */
static void show_run(const int64_t *row_ids, size_t n, int64_t id, size_t begin, size_t end,
                     size_t words, uint64_t *bits) {
    for (size_t r = 0; r < n; r++)
        if (row_ids[r] == id)
            attn_bits_set(bits + r * words, begin, end);
}

/* Documents are runs of one id, so a tile has few runs and each costs one comparison per row. A run
 * that a chunk of ids cuts in two is shown in two parts. */
static void fill_rows(const struct attn_mask_node *node, const struct attn_mask_tile *tile,
                      size_t row, size_t n, uint64_t *bits) {
    const size_t words = attn_mask_row_words(tile->keys);
    int64_t row_ids[CHUNK], key_ids[CHUNK];
    load_ids(&node->tensor, tile->b, tile->row + row, n, row_ids);
    for (size_t done = 0; done < tile->keys; done += CHUNK) {
        const size_t some = attn_min_size(tile->keys - done, CHUNK);
        load_ids(&node->kv, tile->b, tile->key + done, some, key_ids);
        for (size_t begin = 0, end; begin < some; begin = end) {
            for (end = begin + 1; end < some && key_ids[end] == key_ids[begin];)
                end++;
            show_run(row_ids, n, key_ids[begin], done + begin, done + end, words,
                     bits + row * words);
        }
    }
}

void attn_mask_fill_segments(const struct attn_mask_node *node, const struct attn_mask_space *space,
                             const struct attn_mask_tile *tile, uint64_t *bits) {
    (void)space;
    memset(bits, 0, tile->rows * attn_mask_row_words(tile->keys) * sizeof *bits);
    for (size_t row = 0; row < tile->rows; row += CHUNK)
        fill_rows(node, tile, row, attn_min_size(tile->rows - row, CHUNK), bits);
}
