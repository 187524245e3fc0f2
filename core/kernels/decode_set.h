/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inner loops of the decode kernel: products of few score rows with rows of keys and values as
 * they lie in the request, which are read once and so are not worth packing. Included by one file
 * per instruction set, which defines
 *   DECODE_NAME    the set's name, an identifier
 *   DECODE_BYTES   the width of its vector registers
 *   DECODE_STRIPS  STRIP(rows, parts) for each height of strips, the tallest first: `parts` vectors
 *                  of output are summed at once, so that rows x parts sums, `parts` checks and
 *                  `parts` values fit into the registers
 * A half is widened as it is loaded.
 */
#include "core/kernels/fused_set_contract.h"

#include <string.h>
#if defined(__F16C__)
#include <immintrin.h>
#endif

#include "core/checked.h"

#define DECODE_PASTE2(a, b) a##b
#define DECODE_PASTE(a, b) DECODE_PASTE2(a, b)
#define DECODE_INLINE static inline __attribute__((always_inline))

enum { STRIDE = ATTN_FUSED_STRIDE, LANES = DECODE_BYTES / sizeof(float), KEYS = 4, MOST = 8 };

typedef float vector __attribute__((vector_size(DECODE_BYTES)));
typedef uint32_t bits_vector __attribute__((vector_size(DECODE_BYTES)));
typedef int32_t mask_vector __attribute__((vector_size(DECODE_BYTES)));
typedef uint16_t half_vector __attribute__((vector_size(DECODE_BYTES / 2)));
typedef float quad __attribute__((vector_size(16)));

#if defined(__F16C__)
DECODE_INLINE vector widen_half(half_vector half) {
#if DECODE_BYTES == 64
    return (vector)_mm512_cvtph_ps((__m256i)half);
#else
    return (vector)_mm256_cvtph_ps((__m128i)half);
#endif
}
#else
/* Moves a half's exponent and fraction to a float's place; 2^112 makes up for the other bias, and
 * an exponent of all ones becomes one again. */
DECODE_INLINE vector widen_half(half_vector half) {
    const bits_vector bits = __builtin_convertvector(half, bits_vector);
    const bits_vector magnitude = (bits & 0x7fff) << 13;
    const vector scaled = (vector)magnitude * 0x1p112f;
    const bits_vector special = (bits_vector)((bits & 0x7c00) == 0x7c00) & 0x7f800000;
    return (vector)((bits_vector)scaled | special | (bits & 0x8000) << 16);
}
#endif

DECODE_INLINE vector load_part(const void *row, size_t at, size_t n, const enum attn_dtype dtype) {
    if (dtype == ATTN_FLOAT32) {
        vector loaded = {0};
        memcpy(&loaded, (const float *)row + at, n * sizeof(float));
        return loaded;
    }
    half_vector loaded = {0};
    memcpy(&loaded, (const uint16_t *)row + at, n * sizeof(uint16_t));
    if (dtype == ATTN_FLOAT16)
        return widen_half(loaded);
    return (vector)(__builtin_convertvector(loaded, bits_vector) << 16);
}

DECODE_INLINE vector load(const void *row, size_t at, const enum attn_dtype dtype) {
    return load_part(row, at, LANES, dtype);
}

/* The sum of lanes n, n + 4, n + 8, ... */
DECODE_INLINE quad fold(vector v) {
#if DECODE_BYTES == 64
    typedef float half_of __attribute__((vector_size(32)));
    const half_of w = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +
                      __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
    return __builtin_shufflevector(w, w, 0, 1, 2, 3) + __builtin_shufflevector(w, w, 4, 5, 6, 7);
#elif DECODE_BYTES == 32
    return __builtin_shufflevector(v, v, 0, 1, 2, 3) + __builtin_shufflevector(v, v, 4, 5, 6, 7);
#else
    return v;
#endif
}

/* The sums of four vectors' lanes. */
DECODE_INLINE quad sum_lanes(const vector v[KEYS]) {
    const quad a = fold(v[0]), b = fold(v[1]), c = fold(v[2]), d = fold(v[3]);
    const quad ab =
        __builtin_shufflevector(a, b, 0, 4, 1, 5) + __builtin_shufflevector(a, b, 2, 6, 3, 7);
    const quad cd =
        __builtin_shufflevector(c, d, 0, 4, 1, 5) + __builtin_shufflevector(c, d, 2, 6, 3, 7);
    return __builtin_shufflevector(ab, cd, 0, 1, 4, 5) +
           __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
}

/* Adds the products of `n` elements from `at` on. */
DECODE_INLINE void add_products(vector sum[MOST][KEYS], const int rows, const float *q, size_t D,
                                const char *const k[KEYS], size_t at, size_t n,
                                const enum attn_dtype dtype) {
    vector key[KEYS];
#pragma GCC unroll 4
    for (int j = 0; j < KEYS; j++)
        key[j] = load_part(k[j], at, n, dtype);
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
        const vector query = load_part(q + (size_t)r * D, at, n, ATTN_FLOAT32);
#pragma GCC unroll 4
        for (int j = 0; j < KEYS; j++)
            sum[r][j] += query * key[j];
    }
}

/* s[r][0..4) = q[r] . k[j]; where there are fewer keys the last ones are the first again. */
DECODE_INLINE void score_four(const int rows, const float *q, size_t D, const char *const k[KEYS],
                              float *s, const enum attn_dtype dtype) {
    vector sum[MOST][KEYS];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int j = 0; j < KEYS; j++)
            sum[r][j] = (vector){0};
    size_t at = 0;
    for (; at + LANES <= D; at += LANES)
        add_products(sum, rows, q, D, k, at, LANES, dtype);
    if (at < D)
        add_products(sum, rows, q, D, k, at, D - at, dtype);
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
        const quad sums = sum_lanes(sum[r]);
        memcpy(s + (size_t)r * STRIDE, &sums, sizeof sums);
    }
}

DECODE_INLINE void score(const int rows, const float *q, size_t D, const struct attn_direct_rows *k,
                         size_t keys, float *s, const enum attn_dtype dtype) {
    for (size_t j = 0; j < keys; j += KEYS) {
        const char *row[KEYS];
        for (size_t n = 0; n < KEYS; n++) {
            row[n] = k->data + (ptrdiff_t)(j + n < keys ? j + n : j) * k->stride;
            __builtin_prefetch(row[n] + ATTN_DIRECT_AHEAD * k->stride);
        }
        score_four(rows, q, D, row, s + j, dtype);
    }
}

/*
 * sum[r][..] += p[r][j] * v[j][at ..]; an element of v that is not finite is 0 when `clean` is set,
 * else it makes the check not 0.
 */
DECODE_INLINE void add_values(vector sum[MOST][MOST], vector check[MOST], const int rows,
                              const int parts, const float *p, const struct attn_direct_rows *v,
                              size_t keys, size_t at, size_t n, const enum attn_dtype dtype,
                              const bool clean) {
    for (size_t j = 0; j < keys; j++) {
        const char *row = v->data + (ptrdiff_t)j * v->stride;
        vector value[MOST];
#pragma GCC unroll 8
        for (int part = 0; part < parts; part++) {
            value[part] = load_part(row, at + (size_t)part * LANES, n, dtype);
            const vector nothing = value[part] * 0.0f;
            if (clean)
                value[part] = (vector)((mask_vector)value[part] & (mask_vector)(nothing == 0.0f));
            else
                check[part] += nothing;
        }
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
            for (int part = 0; part < parts; part++)
                sum[r][part] += p[(size_t)r * STRIDE + j] * value[part];
    }
}

/* Columns [at, at + parts vectors), or the last n of them. Returns whether V had to be cleaned. */
DECODE_INLINE bool gather_columns(const int rows, const int parts, const float *p,
                                  const float *shrink, const struct attn_direct_rows *v,
                                  size_t keys, float *o, size_t width, size_t at, size_t n,
                                  const enum attn_dtype dtype) {
    bool cleaned = false;
    for (;;) {
        vector sum[MOST][MOST], check[MOST];
#pragma GCC unroll 8
        for (int part = 0; part < parts; part++) {
            check[part] = (vector){0};
#pragma GCC unroll 8
            for (int r = 0; r < rows; r++)
                sum[r][part] = (vector){0};
        }
        if (cleaned)
            add_values(sum, check, rows, parts, p, v, keys, at, n, dtype, true);
        else
            add_values(sum, check, rows, parts, p, v, keys, at, n, dtype, false);
        vector all = check[0];
        for (int part = 1; part < parts; part++)
            all += check[part];
        float lanes[LANES], any = 0;
        memcpy(lanes, &all, sizeof all);
        for (size_t lane = 0; lane < LANES; lane++)
            any += lanes[lane];
        if (any != 0) { /* NaN */
            cleaned = true;
            continue;
        }
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
            for (int part = 0; part < parts; part++) {
                float *to = o + (size_t)r * width + at + (size_t)part * LANES;
                vector old;
                memcpy(&old, to, sizeof old);
                old = old * shrink[r] + sum[r][part];
                memcpy(to, &old, sizeof old);
            }
        return cleaned;
    }
}

DECODE_INLINE bool gather(const int rows, const int parts, const float *p, const float *shrink,
                          const struct attn_direct_rows *v, size_t keys, float *o, size_t Dv,
                          size_t width, const enum attn_dtype dtype) {
    bool cleaned = false;
    size_t at = 0;
    for (; at + (size_t)parts * LANES <= Dv; at += (size_t)parts * LANES)
        cleaned |= gather_columns(rows, parts, p, shrink, v, keys, o, width, at, LANES, dtype);
    for (; at + LANES <= Dv; at += LANES)
        cleaned |= gather_columns(rows, 1, p, shrink, v, keys, o, width, at, LANES, dtype);
    if (at < Dv)
        cleaned |= gather_columns(rows, 1, p, shrink, v, keys, o, width, at, Dv - at, dtype);
    return cleaned;
}

/* One function per height and dtype; a type that cannot be read in place has been widened. */
#define TYPED(rows, parts, suffix, dtype)                                                        \
    static void score_##rows##suffix(const float *q, size_t D, const struct attn_direct_rows *k, \
                                     size_t keys, float *s) {                                    \
        score(rows, q, D, k, keys, s, dtype);                                                    \
    }                                                                                            \
    static bool gather_##rows##suffix(const float *p, const float *shrink,                       \
                                      const struct attn_direct_rows *v, size_t keys, float *o,   \
                                      size_t Dv, size_t width) {                                 \
        return gather(rows, parts, p, shrink, v, keys, o, Dv, width, dtype);                     \
    }
#define STRIP(rows, parts)                   \
    TYPED(rows, parts, _float, ATTN_FLOAT32) \
    TYPED(rows, parts, _half, ATTN_FLOAT16)  \
    TYPED(rows, parts, _bfloat, ATTN_BFLOAT16)
DECODE_STRIPS
#undef STRIP

#define FUNCTIONS(rows)                                                    \
    {                                                                      \
        [ATTN_FLOAT32] = {score_##rows##_float, gather_##rows##_float},    \
        [ATTN_FLOAT16] = {score_##rows##_half, gather_##rows##_half},      \
        [ATTN_BFLOAT16] = {score_##rows##_bfloat, gather_##rows##_bfloat}, \
    }
#define STRIP(height, parts)                                                         \
    static const struct attn_direct_functions functions_##height[ATTN_DTYPE_COUNT] = \
        FUNCTIONS(height);
DECODE_STRIPS
#undef STRIP

#define STRIP(height, parts) {.rows = (height), .direct = functions_##height},
const struct attn_fused_set DECODE_PASTE(attn_decode_set_,
                                         DECODE_NAME)[] = {DECODE_STRIPS{.rows = 0}};
