/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inner loops of the decode kernel: products of few score rows with rows of keys and values as
 * they lie in the request, which are read once and so are not worth packing. Included by one file
 * per instruction set, which defines
 *   DECODE_NAME    the set's name, an identifier
 *   DECODE_BYTES   the width of its vector registers
 *   DECODE_SUMS    scores that are summed at once: a multiple of a vector's lanes and of SCORED
 *   DECODE_STRIPS  STRIP(rows, parts, panels) for each height of strips, the tallest first: `parts`
 *                  vectors of output are summed at once, 1, 2, 4 or 8, so that rows x parts sums
 *                  and `parts` values fit into the registers; and so many panels of keys
 * A half is widened as it is loaded.
 */
#include "core/kernels/fused_set_contract.h"

#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "core/checked.h"

#define DECODE_PASTE2(a, b) a##b
#define DECODE_PASTE(a, b) DECODE_PASTE2(a, b)
#define DECODE_INLINE static inline __attribute__((always_inline))

enum {
    STRIDE = ATTN_FUSED_STRIDE,
    LANES = DECODE_BYTES / sizeof(float),
    SUMS = DECODE_SUMS,
    MOST = 8,
    LINE = 64, /* bytes that memory is read in */
    PANEL = ATTN_FUSED_PANEL,
    VECTORS = PANEL / LANES, /* of a panel's row */
    NEAR = 2 * ATTN_DIRECT_AHEAD,
    CHAINS = 8, /* of sums over dimensions at most, for the latency of a multiply-add */
    SCORED = 4  /* score rows whose products with some keys are summed at once, at most */
};

#include "core/kernels/decode_vectors.h"

DECODE_INLINE size_t size_of(const enum attn_dtype dtype) {
    return dtype == ATTN_FLOAT32 ? sizeof(float) : sizeof(uint16_t);
}

/* Rows are read once and may lie in memory, whose latency the CPU's own prefetching hides less than
 * half of: how far from a row the one is whose lines are asked for beside it. */
DECODE_INLINE ptrdiff_t far_ahead(const struct attn_direct_rows *rows, size_t bytes) {
    return bytes == 0 ? 0 : (ptrdiff_t)((ATTN_DIRECT_AHEAD + bytes - 1) / bytes) * rows->stride;
}

/* Asks for the line that begins with a row's vector from element `at` on, if one does. */
DECODE_INLINE void ask_for(const char *row, size_t at, const enum attn_dtype dtype) {
    if (at * size_of(dtype) % LINE == 0)
        __builtin_prefetch(row + at * size_of(dtype));
}

/* Adds the products of `n` elements from `at` on; rows `ahead` are asked for. */
DECODE_INLINE void add_products(vector sum[SUMS], const int rows, const float *q, size_t D,
                                const char *const k[SUMS], size_t at, size_t n, ptrdiff_t ahead,
                                const enum attn_dtype dtype) {
    const int keys = SUMS / rows;
    vector key[SUMS];
#pragma GCC unroll 16
    for (int j = 0; j < keys; j++) {
        key[j] = load_part(k[j], at, n, dtype);
        ask_for(k[j] + ahead, at, dtype);
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
        const vector query = load_part(q + (size_t)r * D, at, n, ATTN_FLOAT32);
#pragma GCC unroll 16
        for (int j = 0; j < keys; j++)
            sum[r * keys + j] += query * key[j];
    }
}

/* Whether rows of memory are read as two runs by turns, which is faster than one where no
 * arithmetic holds it up: at the end of a page the CPU's own prefetching stops, of one of them at a
 * time. */
DECODE_INLINE bool goes_by_turns(const int rows, const enum attn_dtype dtype) {
    return rows == 1 && dtype == ATTN_FLOAT32;
}

/* Adds the products of a single row and `n` elements of each key, key by key: they come from
 * memory, which is read faster in its order than at the same place of sixteen rows. */
DECODE_INLINE void add_products_in_order(vector sum[SUMS], const float *q, size_t n,
                                         const char *const k[SUMS], ptrdiff_t ahead,
                                         const enum attn_dtype dtype) {
    const bool turns = goes_by_turns(1, dtype);
#pragma GCC unroll 16
    for (int order = 0; order < SUMS; order++) {
        const int j = turns ? order / 2 + order % 2 * (SUMS / 2) : order;
        for (size_t at = 0; at < n; at += LANES) {
            sum[j] += load_part(q, at, LANES, ATTN_FLOAT32) * load_part(k[j], at, LANES, dtype);
            if (!turns)
                ask_for(k[j] + ahead, at, dtype);
        }
    }
}

/* s[r][j] = q[r] . k[j] for as many keys as are summed at once; of a single row, the later half of
 * the scores goes to s[apart] and behind it. */
DECODE_INLINE void score_some(const int rows, const float *q, size_t D, const char *const k[SUMS],
                              ptrdiff_t ahead, float *s, size_t apart,
                              const enum attn_dtype dtype) {
    const int keys = SUMS / rows;
    vector sum[SUMS];
    float scores[SUMS];
#pragma GCC unroll 16
    for (int n = 0; n < SUMS; n++)
        sum[n] = (vector){0};
    const size_t whole = D - D % LANES;
    if (rows == 1)
        add_products_in_order(sum, q, whole, k, ahead, dtype);
    for (size_t at = 0; at < whole && rows > 1; at += LANES)
        add_products(sum, rows, q, D, k, at, LANES, ahead, dtype);
    if (whole < D)
        add_products(sum, rows, q, D, k, whole, D - whole, ahead, dtype);
#pragma GCC unroll 4
    for (int n = 0; n < SUMS; n += LANES) {
        const vector sums = sum_lanes(sum + n);
        memcpy(scores + n, &sums, sizeof sums);
    }
    if (rows == 1) {
        memcpy(s, scores, sizeof scores / 2);
        memcpy(s + apart, scores + SUMS / 2, sizeof scores / 2);
        return;
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
        memcpy(s + (size_t)r * STRIDE, scores + r * keys, (size_t)keys * sizeof *s);
}

/* A single row's scores of either half of the keys by turns, a multiple of SUMS. */
DECODE_INLINE void score_by_turns(const float *q, size_t D, const struct attn_direct_rows *k,
                                  size_t keys, float *s, const enum attn_dtype dtype) {
    enum { SOME = SUMS / 2 };
    const size_t half = keys / 2;
    const char *at = k->data, *later = k->data + (ptrdiff_t)half * k->stride;
    for (size_t j = 0; j < half; j += SOME) {
        const char *row[SUMS];
        for (size_t n = 0; n < SOME; n++) {
            row[n] = at;
            row[SOME + n] = later;
            at += k->stride;
            later += k->stride;
        }
        score_some(1, q, D, row, 0, s + j, half, dtype);
    }
}

/* Where there are fewer keys than are summed at once the last one stands for those that lack. */
DECODE_INLINE void score(const int rows, const float *q, size_t D, const struct attn_direct_rows *k,
                         size_t keys, float *s, const enum attn_dtype dtype) {
    const int together = rows > SCORED ? SCORED : rows;
    const size_t some = SUMS / (size_t)together;
    const ptrdiff_t ahead = far_ahead(k, D * size_of(dtype));
    const size_t turns = goes_by_turns(rows, dtype) ? keys - keys % SUMS : 0;
    const char *at = k->data + (ptrdiff_t)turns * k->stride;
    score_by_turns(q, D, k, turns, s, dtype);
    for (size_t j = turns; j < keys; j += some) {
        const char *row[SUMS];
        for (size_t n = 0; n < some; n++) {
            row[n] = at;
            if (j + n + 1 < keys)
                at += k->stride;
        }
        for (int r = 0; r < rows; r += together)
            score_some(together, q + (size_t)r * D, D, row, ahead, s + (size_t)r * STRIDE + j,
                       SUMS / 2, dtype);
    }
}

/* sum[..] += q[r][d] * panel[d][..] for `chain` of the dimensions; lines as far as `far` are asked
 * for. The sums of a row, a panel and a chain lie side by side. */
DECODE_INLINE void add_panels(vector sum[], const int rows, const int panels, const int chains,
                              const int chain, const float *q, size_t D, size_t d,
                              const char *const panel[], const char *const far[],
                              const enum attn_dtype dtype) {
    vector key[4 * VECTORS];
#pragma GCC unroll 4
    for (int p = 0; p < panels; p++) {
        ask_for(far[p], d * PANEL, dtype);
#pragma GCC unroll 4
        for (int n = 0; n < VECTORS; n++)
            key[p * VECTORS + n] = load_part(panel[p], d * PANEL + (size_t)n * LANES, LANES, dtype);
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int n = 0; n < panels * VECTORS; n++)
            sum[(r * chains + chain) * panels * VECTORS + n] += q[(size_t)r * D + d] * key[n];
}

/* s[r][..] = q[r] . k of the keys of a few panels. */
DECODE_INLINE void score_some_panels(const int rows, const int panels, const float *q, size_t D,
                                     const char *const panel[], const char *const far[], float *s,
                                     const enum attn_dtype dtype) {
    const int width = panels * VECTORS;
    const int most = rows * width < SUMS ? SUMS / (rows * width) : 1;
    const int chains = most > CHAINS ? CHAINS : most;
    vector sum[2 * SUMS];
    size_t d = 0;
#pragma GCC unroll 32
    for (int n = 0; n < rows * chains * width; n++)
        sum[n] = (vector){0};
    for (; d + (size_t)chains <= D; d += (size_t)chains)
#pragma GCC unroll 16
        for (int chain = 0; chain < chains; chain++)
            add_panels(sum, rows, panels, chains, chain, q, D, d + (size_t)chain, panel, far,
                       dtype);
    for (; d < D; d++)
        add_panels(sum, rows, panels, chains, 0, q, D, d, panel, far, dtype);
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
        vector *own = sum + r * chains * width;
#pragma GCC unroll 4
        for (int half = chains / 2; half > 0; half /= 2)
#pragma GCC unroll 16
            for (int n = 0; n < half * width; n++)
                own[n] += own[half * width + n];
        memcpy(s + (size_t)r * STRIDE, own, (size_t)width * sizeof *own);
    }
}

/* Panels are asked for as far ahead as rows are, or as those that are read beside each other reach.
 */
DECODE_INLINE void score_panels(const int rows, const int together, const float *q, size_t D,
                                const struct attn_direct_rows *k, size_t panels, float *s,
                                const enum attn_dtype dtype) {
    const size_t bytes = D * PANEL * size_of(dtype);
    const size_t ahead =
        attn_max_size((size_t)together, bytes == 0 ? 0 : (ATTN_DIRECT_AHEAD + bytes - 1) / bytes);
    const char *panel[4], *far[4];
    for (size_t at = 0; at < panels;) {
        const size_t some = panels - at >= (size_t)together ? (size_t)together : 1;
        for (size_t p = 0; p < some; p++) {
            const size_t then = at + p + ahead;
            panel[p] = k->data + (at + p) * bytes;
            far[p] = then < panels || k->next == NULL ? k->data + then * bytes
                                                      : k->next + (then - panels) * bytes;
        }
        if (some == (size_t)together)
            score_some_panels(rows, together, q, D, panel, far, s + at * PANEL, dtype);
        else
            score_some_panels(rows, 1, q, D, panel, far, s + at * PANEL, dtype);
        at += some;
    }
}

#include "core/kernels/decode_values.h"

DECODE_INLINE void widen(const void *row, size_t n, float *to, const enum attn_dtype dtype) {
    size_t at = 0;
    for (; at + LANES <= n; at += LANES) {
        const vector part = load_part(row, at, LANES, dtype);
        memcpy(to + at, &part, sizeof part);
    }
    if (at < n) {
        const vector part = load_part(row, at, n - at, dtype);
        memcpy(to + at, &part, (n - at) * sizeof *to);
    }
}

static void row_float(const void *row, size_t n, float *to) {
    widen(row, n, to, ATTN_FLOAT32);
}
static void row_half(const void *row, size_t n, float *to) {
    widen(row, n, to, ATTN_FLOAT16);
}
static void row_bfloat(const void *row, size_t n, float *to) {
    widen(row, n, to, ATTN_BFLOAT16);
}

/* One function per height and dtype; a type that cannot be read in place has been widened. */
#define TYPED(rows, parts, panels, suffix, dtype)                                                \
    static void score_##rows##suffix(const float *q, size_t D, const struct attn_direct_rows *k, \
                                     size_t keys, float *s) {                                    \
        score(rows, q, D, k, keys, s, dtype);                                                    \
    }                                                                                            \
    static void score_panels_##rows##suffix(                                                     \
        const float *q, size_t D, const struct attn_direct_rows *k, size_t count, float *s) {    \
        score_panels(rows, panels, q, D, k, count, s, dtype);                                    \
    }                                                                                            \
    static bool gather_##rows##suffix(const float *p, const float *shrink,                       \
                                      const struct attn_direct_rows *v, size_t keys, float *o,   \
                                      size_t Dv, size_t width) {                                 \
        return gather(rows, parts, p, shrink, v, keys, o, Dv, width, dtype);                     \
    }
#define STRIP(rows, parts, panels)                   \
    TYPED(rows, parts, panels, _float, ATTN_FLOAT32) \
    TYPED(rows, parts, panels, _half, ATTN_FLOAT16)  \
    TYPED(rows, parts, panels, _bfloat, ATTN_BFLOAT16)
DECODE_STRIPS
#undef STRIP

#define OF_TYPE(rows, suffix) \
    { row##suffix, score_##rows##suffix, score_panels_##rows##suffix, gather_##rows##suffix }
#define FUNCTIONS(rows)                                                                \
    {                                                                                  \
        [ATTN_FLOAT32] = OF_TYPE(rows, _float), [ATTN_FLOAT16] = OF_TYPE(rows, _half), \
        [ATTN_BFLOAT16] = OF_TYPE(rows, _bfloat),                                      \
    }
#define STRIP(height, parts, panels)                                                 \
    static const struct attn_direct_functions functions_##height[ATTN_DTYPE_COUNT] = \
        FUNCTIONS(height);
DECODE_STRIPS
#undef STRIP

#define STRIP(height, parts, panels) {.rows = (height), .direct = functions_##height},
const struct attn_fused_set DECODE_PASTE(attn_decode_set_,
                                         DECODE_NAME)[] = {DECODE_STRIPS{.rows = 0}};
