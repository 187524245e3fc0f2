/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the fused kernel needs of an instruction set: products of a strip - a few score rows that
 * fit into the registers - with panels of sixteen keys or columns, and transposition for packing.
 */
#ifndef ATTN_CORE_KERNELS_FUSED_SET_CONTRACT_H
#define ATTN_CORE_KERNELS_FUSED_SET_CONTRACT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/tensor.h"

enum {
    ATTN_FUSED_PANEL = 16,     /* keys of a K panel [D][16], columns of a V panel [keys][16] */
    ATTN_FUSED_KEYS = 256,     /* most keys of a block */
    ATTN_FUSED_STRIDE = 272,   /* floats from row to row of S: rows start in different cache sets */
    ATTN_FUSED_ROWS_MOST = 12, /* score rows of the largest strip */
    ATTN_FUSED_ACROSS_MOST = 16, /* rows that are transposed at once */
    ATTN_DIRECT_AHEAD = 4096,    /* bytes of rows to ask for ahead of those that are read */
};

/* Rows of keys or values as they lie in memory, dense, `stride` bytes apart; or, of keys, panels of
 * sixteen [D][16], one behind the other. */
struct attn_direct_rows {
    const char *data;
    ptrdiff_t stride;
    const char *next; /* what will be read behind the last one; NULL: what lies there */
};

/* The rows from row `first` on. */
static inline struct attn_direct_rows attn_direct_from(const struct attn_direct_rows *rows,
                                                       size_t first) {
    return (struct attn_direct_rows){rows->data + (ptrdiff_t)first * rows->stride, rows->stride,
                                     rows->next};
}

/* Products with rows of one type, for one height of strips. */
struct attn_direct_functions {
    /* to[d] = row[d] for n elements that lie side by side. */
    void (*widen)(const void *row, size_t n, float *to);
    /* s[r][j] = sum over d of q[r][d] * k[j][d]; up to 15 more elements may be written. */
    void (*score)(const float *q, size_t D, const struct attn_direct_rows *k, size_t keys,
                  float *s);
    /* The same for all keys of panels, d ascending in a few chains. */
    void (*score_panels)(const float *q, size_t D, const struct attn_direct_rows *k, size_t panels,
                         float *s);
    /* o[r][c] = o[r][c] * shrink[r] + sum over j of p[r][j] * v[j][c], rows of o `width` apart.
       Elements of v that are not finite count as 0; returns whether there were any. */
    bool (*gather)(const float *p, const float *shrink, const struct attn_direct_rows *v,
                   size_t keys, float *o, size_t Dv, size_t width);
};

/* One height of strips. A set is an array of them, the tallest first, ended by one of no rows. */
struct attn_fused_set {
    size_t rows; /* score rows of a strip */
    /* s[r][j] = sum over d of q[d][r] * k[j / 16][d][j % 16], d ascending in one chain each, for
       16 * panels keys. */
    void (*score)(const float *q, const float *k, size_t D, size_t panels, float *s);
    /* o[r][c] = o[r][c] * shrink[r] + sum over j of p[r][j] * v(j, c), for 16 * panels columns;
       rows of o are that wide, v(j, c) = v[c / 16 * v_step + j * 16 + c % 16]. */
    void (*gather)(const float *p, const float *shrink, const float *v, size_t v_step, size_t keys,
                   float *o, size_t panels);
    /* out[d * step + r] = rows[r][d] * factor for `across` rows, d ascending: more than `step` rows
       write over what comes next. Returns the largest magnitude, infinity where there is a NaN. */
    size_t across;
    float (*transpose)(const float *const *rows, size_t D, float factor, float *out, size_t step);
    /* to[c / 16 * step + c % 16] = row[c], zeros up to a multiple of 16. Returns whether all are
       finite. */
    bool (*spread)(const float *row, size_t Dv, float *to, size_t step);
    /* For keys and values in place, by dtype; else NULL. Those above are then NULL, and q is
       [r][d]. */
    const struct attn_direct_functions *direct;
};

extern const struct attn_fused_set attn_fused_set_avx2[], attn_fused_set_avx512[],
    attn_fused_set_neon[], attn_decode_set_avx2[], attn_decode_set_avx512[], attn_decode_set_neon[];

#endif
