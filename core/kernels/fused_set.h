/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inner loops of the fused kernel: included by one file per instruction set, which defines
 *   FUSED_NAME    the set's name, an identifier
 *   FUSED_BYTES   the width of its vector registers
 *   FUSED_STRIPS  STRIP(rows, panels) for each height of strips, the tallest first: the panels that
 *                 one pass of a product takes are as many as let rows x panels of sums, the panels'
 *                 own vectors and one more fit into the registers, and enough sums for the latency
 * Written in the compilers' generic vectors, so that both know the width.
 */
#include "core/kernels/fused_set_contract.h"

#include <math.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "core/checked.h"

#define FUSED_PASTE2(a, b) a##b
#define FUSED_PASTE(a, b) FUSED_PASTE2(a, b)
#define FUSED_TEXT2(a) #a
#define FUSED_TEXT(a) FUSED_TEXT2(a)
#define FUSED_INLINE static inline __attribute__((always_inline))

enum {
    MOST_ROWS = ATTN_FUSED_ROWS_MOST,
    PANEL = ATTN_FUSED_PANEL,
    LANES = FUSED_BYTES / sizeof(float),
    PARTS = PANEL / LANES, /* vectors of a panel's row */
    MOST_PARTS = 8
};

typedef float vector __attribute__((vector_size(FUSED_BYTES)));
typedef int32_t vector_bits __attribute__((vector_size(FUSED_BYTES)));

FUSED_INLINE vector load(const float *from) {
    vector loaded;
    memcpy(&loaded, from, sizeof loaded);
    return loaded;
}

FUSED_INLINE void save(float *to, vector value) {
    memcpy(to, &value, sizeof value);
}

/*
 * sum[r][..] = sum over n of a(n, r) * panel[n][..] for `rows` rows and `panels` panels, the factor
 * a(n, r) at a[n * step + r * row_step]. The sums never leave the registers.
 */
FUSED_INLINE void multiply(vector sum[MOST_ROWS][MOST_PARTS], const int rows, const float *a,
                           const size_t step, const size_t row_step, const float *panel,
                           size_t panel_step, const int panels, size_t n) {
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int part = 0; part < panels * PARTS; part++)
            sum[r][part] = (vector){0};
    for (size_t at = 0; at < n; at++) {
        vector b[MOST_PARTS];
#pragma GCC unroll 8
        for (int part = 0; part < panels * PARTS; part++)
            b[part] =
                load(panel + (size_t)(part / PARTS) * panel_step + (size_t)(part % PARTS) * LANES);
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
            for (int part = 0; part < panels * PARTS; part++)
                sum[r][part] += a[(size_t)r * row_step] * b[part];
        a += step;
        panel += PANEL;
    }
}

FUSED_INLINE void score_panels(const int rows, const float *q, const float *k, size_t D, float *s,
                               const int panels) {
    vector sum[MOST_ROWS][MOST_PARTS];
    multiply(sum, rows, q, (size_t)rows, 1, k, D * PANEL, panels, D);
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int part = 0; part < panels * PARTS; part++)
            save(s + r * ATTN_FUSED_STRIDE + part * LANES, sum[r][part]);
}

/* S = Q K^T of a strip. */
FUSED_INLINE void score(const int rows, const int together, const float *q, const float *k,
                        size_t D, size_t panels, float *s) {
    size_t panel = 0;
    for (; panel + (size_t)together <= panels; panel += (size_t)together)
        score_panels(rows, q, k + panel * D * PANEL, D, s + panel * PANEL, together);
    for (; panel < panels; panel++)
        score_panels(rows, q, k + panel * D * PANEL, D, s + panel * PANEL, 1);
}

FUSED_INLINE void gather_panels(const int rows, const float *p, const float *shrink, const float *v,
                                size_t v_step, size_t keys, float *o, size_t width,
                                const int panels) {
    vector sum[MOST_ROWS][MOST_PARTS];
    multiply(sum, rows, p, 1, ATTN_FUSED_STRIDE, v, v_step, panels, keys);
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int part = 0; part < panels * PARTS; part++) {
            float *to = o + (size_t)r * width + part * LANES;
            save(to, load(to) * shrink[r] + sum[r][part]);
        }
}

/* O = O shrink + P V of a strip. */
FUSED_INLINE void gather(const int rows, const int together, const float *p, const float *shrink,
                         const float *v, size_t v_step, size_t keys, float *o, size_t panels) {
    const size_t width = panels * PANEL;
    size_t panel = 0;
    for (; panel + (size_t)together <= panels; panel += (size_t)together)
        gather_panels(rows, p, shrink, v + panel * v_step, v_step, keys, o + panel * PANEL, width,
                      together);
    for (; panel < panels; panel++)
        gather_panels(rows, p, shrink, v + panel * v_step, v_step, keys, o + panel * PANEL, width,
                      1);
}

#define STRIP(rows, together)                                                                     \
    static void score_##rows(const float *q, const float *k, size_t D, size_t panels, float *s) { \
        score(rows, together, q, k, D, panels, s);                                                \
    }                                                                                             \
    static void gather_##rows(const float *p, const float *shrink, const float *v, size_t v_step, \
                              size_t keys, float *o, size_t panels) {                             \
        gather(rows, together, p, shrink, v, v_step, keys, o, panels);                            \
    }
FUSED_STRIPS
#undef STRIP

/* Bits of floats without their signs are in the order of magnitudes; NaN is above infinity. */
enum { MAGNITUDE = 0x7fffffff, INFINITE = 0x7f800000 };

FUSED_INLINE int32_t bits_of(float value) {
    int32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits & MAGNITUDE;
}

FUSED_INLINE vector_bits larger_bits(vector_bits a, vector_bits b) {
#if FUSED_BYTES == 64
    return (vector_bits)_mm512_max_epi32((__m512i)a, (__m512i)b);
#elif FUSED_BYTES == 32
    return (vector_bits)_mm256_max_epi32((__m256i)a, (__m256i)b);
#else
    const vector_bits wins = a > b;
    return (a & wins) | (b & ~wins);
#endif
}

/* The same four of each quarter's lanes of two vectors. */
#if FUSED_BYTES == 64
#define QUARTERS(v, w, a, b, c, d)                                                             \
    __builtin_shufflevector(v, w, a, b, c, d, a + 4, b + 4, c + 4, d + 4, a + 8, b + 8, c + 8, \
                            d + 8, a + 12, b + 12, c + 12, d + 12)
#elif FUSED_BYTES == 32
#define QUARTERS(v, w, a, b, c, d) \
    __builtin_shufflevector(v, w, a, b, c, d, a + 4, b + 4, c + 4, d + 4)
#else
#define QUARTERS(v, w, a, b, c, d) __builtin_shufflevector(v, w, a, b, c, d)
#endif

/* Each quarter of four vectors, as a matrix of four rows, transposed. */
FUSED_INLINE void transpose_quarters(vector x[4]) {
    const vector a = QUARTERS(x[0], x[1], 0, LANES, 1, LANES + 1);
    const vector b = QUARTERS(x[2], x[3], 0, LANES, 1, LANES + 1);
    const vector c = QUARTERS(x[0], x[1], 2, LANES + 2, 3, LANES + 3);
    const vector d = QUARTERS(x[2], x[3], 2, LANES + 2, 3, LANES + 3);
    x[0] = QUARTERS(a, b, 0, 1, LANES, LANES + 1);
    x[1] = QUARTERS(a, b, 2, 3, LANES + 2, LANES + 3);
    x[2] = QUARTERS(c, d, 0, 1, LANES, LANES + 1);
    x[3] = QUARTERS(c, d, 2, 3, LANES + 2, LANES + 3);
}

#if FUSED_BYTES == 64
#define PAIR(v, w, a, b)                                                                          \
    __builtin_shufflevector(v, w, 4 * a, 4 * a + 1, 4 * a + 2, 4 * a + 3, 4 * b, 4 * b + 1,       \
                            4 * b + 2, 4 * b + 3, 16 + 4 * a, 17 + 4 * a, 18 + 4 * a, 19 + 4 * a, \
                            16 + 4 * b, 17 + 4 * b, 18 + 4 * b, 19 + 4 * b)
#endif

/* Quarter n of vectors c, c + 4, c + 8 and so on becomes vector 4 n + c. */
FUSED_INLINE void exchange_quarters(vector x[LANES]) {
#if FUSED_BYTES == 64
#pragma GCC unroll 4
    for (int c = 0; c < 4; c++) {
        const vector low = PAIR(x[c], x[c + 4], 0, 1), high = PAIR(x[c], x[c + 4], 2, 3);
        const vector low2 = PAIR(x[c + 8], x[c + 12], 0, 1),
                     high2 = PAIR(x[c + 8], x[c + 12], 2, 3);
        x[c] = PAIR(low, low2, 0, 2);
        x[c + 4] = PAIR(low, low2, 1, 3);
        x[c + 8] = PAIR(high, high2, 0, 2);
        x[c + 12] = PAIR(high, high2, 1, 3);
    }
#elif FUSED_BYTES == 32
#pragma GCC unroll 4
    for (int c = 0; c < 4; c++) {
        const vector low = x[c], high = x[c + 4];
        x[c] = __builtin_shufflevector(low, high, 0, 1, 2, 3, 8, 9, 10, 11);
        x[c + 4] = __builtin_shufflevector(low, high, 4, 5, 6, 7, 12, 13, 14, 15);
    }
#else
    (void)x;
#endif
}

/* Columns are written in order, for what is written past a narrow one is the next one's place. */
FUSED_INLINE vector_bits transpose_columns(const float *const rows[LANES], size_t d, float factor,
                                           float *out, size_t step) {
    vector x[LANES];
    vector_bits largest = {0};
#pragma GCC unroll 16
    for (int r = 0; r < LANES; r++) {
        x[r] = load(rows[r] + d) * factor;
        largest = larger_bits((vector_bits)x[r] & MAGNITUDE, largest);
    }
#pragma GCC unroll 4
    for (int quad = 0; quad < LANES; quad += 4)
        transpose_quarters(x + quad);
    exchange_quarters(x);
#pragma GCC unroll 16
    for (int n = 0; n < LANES; n++)
        save(out + (d + (size_t)n) * step, x[n]);
    return largest;
}

/* The last columns may be done twice. */
static float transpose(const float *const rows[LANES], size_t D, float factor, float *out,
                       size_t step) {
    vector_bits bits = {0};
    int32_t lanes[LANES], largest = 0;
    size_t d = 0;
    for (; d + LANES <= D; d += LANES)
        bits = larger_bits(transpose_columns(rows, d, factor, out, step), bits);
    if (d < D && D > LANES)
        bits = larger_bits(transpose_columns(rows, D - LANES, factor, out, step), bits);
    memcpy(lanes, &bits, sizeof lanes);
    for (d = 0; D < LANES && d < D; d++)
        for (size_t r = 0; r < LANES; r++) {
            const float value = out[d * step + r] = rows[r][d] * factor;
            largest = bits_of(value) > largest ? bits_of(value) : largest;
        }
    for (int lane = 0; lane < LANES; lane++)
        largest = lanes[lane] > largest ? lanes[lane] : largest;
    float magnitude;
    memcpy(&magnitude, &largest, sizeof magnitude);
    return largest > INFINITE ? INFINITY : magnitude;
}

static bool spread(const float *row, size_t Dv, float *to, size_t step) {
    vector_bits beyond = {0};
    size_t c = 0;
    for (; c + PANEL <= Dv; c += PANEL, to += step)
#pragma GCC unroll 4
        for (int part = 0; part < PARTS; part++) {
            const vector values = load(row + c + part * LANES);
            beyond |= ((vector_bits)values & MAGNITUDE) >= INFINITE;
            save(to + part * LANES, values);
        }
    for (size_t at = 0; at < PANEL && c < Dv; at++) {
        to[at] = c + at < Dv ? row[c + at] : 0;
        beyond[0] |= -(bits_of(to[at]) >= INFINITE);
    }
    uint64_t words[sizeof beyond / sizeof(uint64_t)], any = 0;
    memcpy(words, &beyond, sizeof beyond);
    for (size_t n = 0; n < sizeof words / sizeof *words; n++)
        any |= words[n];
    return any == 0;
}

#define STRIP(height, together) \
    {.rows = (height),          \
     .score = score_##height,   \
     .gather = gather_##height, \
     .across = LANES,           \
     .transpose = transpose,    \
     .spread = spread},
const struct attn_fused_set FUSED_PASTE(attn_fused_set_, FUSED_NAME)[] = {FUSED_STRIPS{.rows = 0}};
