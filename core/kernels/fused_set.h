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
typedef float quad __attribute__((vector_size(16)));
typedef int32_t quad_bits __attribute__((vector_size(16)));

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

FUSED_INLINE quad_bits larger_bits(quad_bits a, quad_bits b) {
    const quad_bits wins = a > b;
    return (a & wins) | (b & ~wins);
}

FUSED_INLINE quad_bits transpose_quad(const float *const rows[4], size_t d, float factor,
                                      float *out, size_t step) {
    quad x[4], y[4];
    quad_bits largest[4];
#pragma GCC unroll 4
    for (int r = 0; r < 4; r++) {
        memcpy(&x[r], rows[r] + d, sizeof x[r]);
        x[r] *= factor;
        largest[r] = (quad_bits)x[r] & MAGNITUDE;
    }
#pragma GCC unroll 2
    for (int half = 0; half < 2; half++) {
        y[half] = __builtin_shufflevector(x[half], x[half + 2], 0, 4, 1, 5);
        y[half + 2] = __builtin_shufflevector(x[half], x[half + 2], 2, 6, 3, 7);
    }
#pragma GCC unroll 2
    for (int half = 0; half < 2; half++) {
        const quad low = __builtin_shufflevector(y[2 * half], y[2 * half + 1], 0, 4, 1, 5);
        const quad high = __builtin_shufflevector(y[2 * half], y[2 * half + 1], 2, 6, 3, 7);
        memcpy(out + (d + 2 * (size_t)half) * step, &low, sizeof low);
        memcpy(out + (d + 2 * (size_t)half + 1) * step, &high, sizeof high);
    }
    return larger_bits(larger_bits(largest[0], largest[1]), larger_bits(largest[2], largest[3]));
}

static float transpose(const float *const rows[4], size_t D, float factor, float *out,
                       size_t step) {
    quad_bits bits = {0};
    int32_t largest = 0;
    size_t d = 0;
    for (; d + 4 <= D; d += 4)
        bits = larger_bits(transpose_quad(rows, d, factor, out, step), bits);
    for (; d < D; d++)
        for (size_t r = 0; r < 4; r++) {
            const float value = out[d * step + r] = rows[r][d] * factor;
            bits = larger_bits((quad_bits){bits_of(value)}, bits);
        }
    for (int lane = 0; lane < 4; lane++)
        largest = bits[lane] > largest ? bits[lane] : largest;
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
     .transpose = transpose,    \
     .spread = spread},
const struct attn_fused_set FUSED_PASTE(attn_fused_set_, FUSED_NAME)[] = {FUSED_STRIPS{.rows = 0}};
