/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of floats for decode_set.h, which has set their width: loads that widen, and sums of
 * lanes. */

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
