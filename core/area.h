/* SPDX-License-Identifier: Apache-2.0 */
/* One piece of memory cut into areas of rows x columns elements, each a multiple of 64 bytes. */
#ifndef ATTN_CORE_AREA_H
#define ATTN_CORE_AREA_H

#include "core/checked.h"

/* SIZE_MAX when they do not fit. */
static inline size_t attn_area_bytes(size_t rows, size_t columns, size_t element) {
    size_t bytes;
    if (attn_mul_size(rows, columns, &bytes) && attn_mul_size(bytes, element, &bytes) &&
        attn_round_up_size(bytes, 64, &bytes))
        return bytes;
    return SIZE_MAX;
}

/* Adds an area to *total; false, and *total as it was, when the sum does not fit. */
static inline bool attn_area_add(size_t rows, size_t columns, size_t element, size_t *total) {
    const size_t bytes = attn_area_bytes(rows, columns, element);
    return bytes != SIZE_MAX && attn_add_size(*total, bytes, total);
}

/* The area of `bytes` bytes at *cursor, which moves past it. */
static inline void *attn_area_take(char **cursor, size_t bytes) {
    void *area = *cursor;
    *cursor += bytes;
    return area;
}

#endif
