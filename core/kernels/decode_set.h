/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inner loops of the decode kernel: products of few score rows with rows of keys and values as
 * they lie in the request, which are read once and so are not worth packing. Included by one file
 * per instruction set, which defines
 *   DECODE_NAME    the set's name, an identifier
 *   DECODE_BYTES   the width of its vector registers
 *   DECODE_SUMS    scores that are summed at once: a multiple of a vector's lanes and of SCORED
 *   DECODE_STRIPS  STRIP(rows, parts) for each height of strips, the tallest first: `parts` vectors
 *                  of output are summed at once, 1, 2, 4 or 8, so that rows x parts sums and
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

enum {
    STRIDE = ATTN_FUSED_STRIDE,
    LANES = DECODE_BYTES / sizeof(float),
    SUMS = DECODE_SUMS,
    MOST = 8,
    SCORED = 4 /* score rows whose products with some keys are summed at once, at most */
};

typedef float vector __attribute__((vector_size(DECODE_BYTES)));
typedef uint32_t bits_vector __attribute__((vector_size(DECODE_BYTES)));
typedef int32_t mask_vector __attribute__((vector_size(DECODE_BYTES)));
typedef uint16_t half_vector __attribute__((vector_size(DECODE_BYTES / 2)));

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

/* The same four of each quarter's lanes of two vectors. */
#if DECODE_BYTES == 64
#define QUARTERS(v, w, a, b, c, d)                                                             \
    __builtin_shufflevector(v, w, a, b, c, d, a + 4, b + 4, c + 4, d + 4, a + 8, b + 8, c + 8, \
                            d + 8, a + 12, b + 12, c + 12, d + 12)
#elif DECODE_BYTES == 32
#define QUARTERS(v, w, a, b, c, d) \
    __builtin_shufflevector(v, w, a, b, c, d, a + 4, b + 4, c + 4, d + 4)
#else
#define QUARTERS(v, w, a, b, c, d) __builtin_shufflevector(v, w, a, b, c, d)
#endif

/* Lane n of a quarter is the sum of that quarter's lanes of vector n. */
DECODE_INLINE vector sum_quarters(const vector v[4]) {
    const vector a = QUARTERS(v[0], v[1], 0, LANES, 1, LANES + 1) +
                     QUARTERS(v[0], v[1], 2, LANES + 2, 3, LANES + 3);
    const vector b = QUARTERS(v[2], v[3], 0, LANES, 1, LANES + 1) +
                     QUARTERS(v[2], v[3], 2, LANES + 2, 3, LANES + 3);
    return QUARTERS(a, b, 0, 1, LANES, LANES + 1) + QUARTERS(a, b, 2, 3, LANES + 2, LANES + 3);
}

/* Each even quarter and the odd one behind it are added: those of v, then those of w. */
DECODE_INLINE vector join_quarters(vector v, vector w) {
#if DECODE_BYTES == 64
    return __builtin_shufflevector(v, w, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +
           __builtin_shufflevector(v, w, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30,
                                   31);
#elif DECODE_BYTES == 32
    return __builtin_shufflevector(v, w, 0, 1, 2, 3, 8, 9, 10, 11) +
           __builtin_shufflevector(v, w, 4, 5, 6, 7, 12, 13, 14, 15);
#else
    return v + w;
#endif
}

/* Lane n is the sum of vector n's lanes. */
DECODE_INLINE vector sum_lanes(const vector v[LANES]) {
    vector part[LANES / 4];
#pragma GCC unroll 4
    for (int n = 0; n < LANES / 4; n++)
        part[n] = sum_quarters(v + 4 * n);
#if DECODE_BYTES == 64
    return join_quarters(join_quarters(part[0], part[1]), join_quarters(part[2], part[3]));
#elif DECODE_BYTES == 32
    return join_quarters(part[0], part[1]);
#else
    return part[0];
#endif
}

/* Adds the products of `n` elements from `at` on. */
DECODE_INLINE void add_products(vector sum[SUMS], const int rows, const float *q, size_t D,
                                const char *const k[SUMS], size_t at, size_t n,
                                const enum attn_dtype dtype) {
    const int keys = SUMS / rows;
    vector key[SUMS];
#pragma GCC unroll 16
    for (int j = 0; j < keys; j++)
        key[j] = load_part(k[j], at, n, dtype);
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
        const vector query = load_part(q + (size_t)r * D, at, n, ATTN_FLOAT32);
#pragma GCC unroll 16
        for (int j = 0; j < keys; j++)
            sum[r * keys + j] += query * key[j];
    }
}

/* s[r][j] = q[r] . k[j] for as many keys as are summed at once. */
DECODE_INLINE void score_some(const int rows, const float *q, size_t D, const char *const k[SUMS],
                              float *s, const enum attn_dtype dtype) {
    const int keys = SUMS / rows;
    vector sum[SUMS];
    float scores[SUMS];
#pragma GCC unroll 16
    for (int n = 0; n < SUMS; n++)
        sum[n] = (vector){0};
    size_t at = 0;
    for (; at + LANES <= D; at += LANES)
        add_products(sum, rows, q, D, k, at, LANES, dtype);
    if (at < D)
        add_products(sum, rows, q, D, k, at, D - at, dtype);
#pragma GCC unroll 4
    for (int n = 0; n < SUMS; n += LANES) {
        const vector sums = sum_lanes(sum + n);
        memcpy(scores + n, &sums, sizeof sums);
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
        memcpy(s + (size_t)r * STRIDE, scores + r * keys, (size_t)keys * sizeof *s);
}

/* Where there are fewer keys than are summed at once the last one stands for those that lack. */
DECODE_INLINE void score(const int rows, const float *q, size_t D, const struct attn_direct_rows *k,
                         size_t keys, float *s, const enum attn_dtype dtype) {
    const int together = rows > SCORED ? SCORED : rows;
    const size_t some = SUMS / (size_t)together;
    const char *at = k->data;
    for (size_t j = 0; j < keys; j += some) {
        const char *row[SUMS];
        for (size_t n = 0; n < some; n++) {
            row[n] = at;
            __builtin_prefetch(at + ATTN_DIRECT_AHEAD * k->stride);
            if (j + n + 1 < keys)
                at += k->stride;
        }
        for (int r = 0; r < rows; r += together)
            score_some(together, q + (size_t)r * D, D, row, s + (size_t)r * STRIDE + j, dtype);
    }
}

/* sum[r][..] += p[r][j] * v[j][at ..]; elements of v that are not finite are 0 when `clean` is set.
 */
DECODE_INLINE void add_values(vector sum[MOST][MOST], const int rows, const int parts,
                              const float *p, const struct attn_direct_rows *v, size_t keys,
                              size_t at, size_t n, const enum attn_dtype dtype, const bool clean) {
    for (size_t j = 0; j < keys; j++) {
        const char *row = v->data + (ptrdiff_t)j * v->stride;
        vector value[MOST];
#pragma GCC unroll 8
        for (int part = 0; part < parts; part++) {
            value[part] = load_part(row, at + (size_t)part * LANES, n, dtype);
            if (clean)
                value[part] =
                    (vector)((mask_vector)value[part] & (mask_vector)(value[part] * 0.0f == 0.0f));
        }
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
            for (int part = 0; part < parts; part++)
                sum[r][part] += p[(size_t)r * STRIDE + j] * value[part];
    }
}

DECODE_INLINE void sum_values(vector sum[MOST][MOST], const int rows, const int parts,
                              const float *p, const struct attn_direct_rows *v, size_t keys,
                              size_t at, size_t n, const enum attn_dtype dtype, const bool clean) {
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int part = 0; part < parts; part++)
            sum[r][part] = (vector){0};
    add_values(sum, rows, parts, p, v, keys, at, n, dtype, clean);
}

/* A value that is not finite leaves no sum finite, whatever its weight: the first row's tell. */
DECODE_INLINE bool are_finite(const vector sum[MOST], const int parts) {
    vector nothing = {0};
    float lanes[LANES], total = 0;
#pragma GCC unroll 8
    for (int part = 0; part < parts; part++)
        nothing += sum[part] * 0.0f;
    memcpy(lanes, &nothing, sizeof nothing);
    for (size_t lane = 0; lane < LANES; lane++)
        total += lanes[lane];
    return total == 0; /* else NaN */
}

/* Columns [at, at + parts vectors), or the last n of them. Returns whether V was cleaned. */
DECODE_INLINE bool gather_columns(const int rows, const int parts, const float *p,
                                  const float *shrink, const struct attn_direct_rows *v,
                                  size_t keys, float *o, size_t width, size_t at, size_t n,
                                  const enum attn_dtype dtype) {
    vector sum[MOST][MOST];
    sum_values(sum, rows, parts, p, v, keys, at, n, dtype, false);
    const bool cleaned = !are_finite(sum[0], parts);
    if (cleaned)
        sum_values(sum, rows, parts, p, v, keys, at, n, dtype, true);
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

DECODE_INLINE bool gather(const int rows, const int parts, const float *p, const float *shrink,
                          const struct attn_direct_rows *v, size_t keys, float *o, size_t Dv,
                          size_t width, const enum attn_dtype dtype) {
    bool cleaned = false;
    size_t at = 0;
#define COLUMNS(vectors)                                      \
    for (; at + (vectors)*LANES <= Dv; at += (vectors)*LANES) \
        cleaned |= gather_columns(rows, vectors, p, shrink, v, keys, o, width, at, LANES, dtype);
    if (parts >= 8)
        COLUMNS(8)
    if (parts >= 4)
        COLUMNS(4)
    if (parts >= 2)
        COLUMNS(2)
    COLUMNS(1)
#undef COLUMNS
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
