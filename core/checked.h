/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Size arithmetic that cannot wrap. Every size that depends on a request goes through these;
 * each returns false and leaves *out alone when the exact result does not fit.
 */
#ifndef ATTN_CORE_CHECKED_H
#define ATTN_CORE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool attn_mul_size(size_t a, size_t b, size_t *out) {
    size_t product;
    if (__builtin_mul_overflow(a, b, &product))
        return false;
    *out = product;
    return true;
}

static inline bool attn_add_size(size_t a, size_t b, size_t *out) {
    size_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        return false;
    *out = sum;
    return true;
}

/* Rounds n up to a multiple of `to`, a power of two. */
static inline bool attn_round_up_size(size_t n, size_t to, size_t *out) {
    size_t sum;
    if (!attn_add_size(n, to - 1, &sum))
        return false;
    *out = sum & ~(to - 1);
    return true;
}

static inline size_t attn_min_size(size_t a, size_t b) {
    return a < b ? a : b;
}

static inline size_t attn_max_size(size_t a, size_t b) {
    return a > b ? a : b;
}

/* i - j and i + j that stop at the ends of the range instead of wrapping. */
static inline int64_t attn_sub_saturating(int64_t i, int64_t j) {
    int64_t difference;
    if (__builtin_sub_overflow(i, j, &difference))
        return i < 0 ? INT64_MIN : INT64_MAX;
    return difference;
}

static inline int64_t attn_add_saturating(int64_t i, int64_t j) {
    int64_t sum;
    if (__builtin_add_overflow(i, j, &sum))
        return i < 0 ? INT64_MIN : INT64_MAX;
    return sum;
}

#endif
