/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inner loops of the fused kernel: included by one file per instruction set, which defines
 *   FUSED_NAME    the set's name, an identifier
 *   FUSED_BYTES   the width of its vector registers
 *   FUSED_ROWS    score rows of a strip, 4 <= FUSED_ROWS <= 12
 *   FUSED_PANELS  panels that one pass of the product takes, 1 or 2
 * chosen so that FUSED_ROWS x FUSED_PANELS panels of sums, the panels' own vectors and one more fit
 * into the registers. Written in the compilers' generic vectors, so that both know the width.
 */
#include "core/kernels/fused_set_contract.h"

#include <string.h>

#include "core/checked.h"

#define FUSED_PASTE2(a, b) a##b
#define FUSED_PASTE(a, b) FUSED_PASTE2(a, b)
#define FUSED_TEXT2(a) #a
#define FUSED_TEXT(a) FUSED_TEXT2(a)
#define FUSED_INLINE static inline __attribute__((always_inline))

enum {
    ROWS = FUSED_ROWS,
    PANEL = ATTN_FUSED_PANEL,
    LANES = FUSED_BYTES / sizeof(float),
    PARTS = PANEL / LANES, /* vectors of a panel's row */
    MOST_PARTS = FUSED_PANELS * PARTS
};

typedef float vector __attribute__((vector_size(FUSED_BYTES)));
typedef float quad __attribute__((vector_size(16)));
typedef int32_t quad_index __attribute__((vector_size(16)));

FUSED_INLINE vector load(const float *from) {
    vector loaded;
    memcpy(&loaded, from, sizeof loaded);
    return loaded;
}

FUSED_INLINE void save(float *to, vector value) {
    memcpy(to, &value, sizeof value);
}

/*
 * sum[r][..] = sum over n of a(n, r) * panel[n][..] for ROWS rows and `panels` panels, the factor
 * a(n, r) at a[n * step + r * row_step]. The sums never leave the registers.
 */
FUSED_INLINE void multiply(vector sum[ROWS][MOST_PARTS], const float *a, const size_t step,
                           const size_t row_step, const float *panel, size_t panel_step,
                           const int panels, size_t n) {
#pragma GCC unroll 12
    for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 4
        for (int part = 0; part < panels * PARTS; part++)
            sum[r][part] = (vector){0};
    for (size_t at = 0; at < n; at++) {
        vector b[MOST_PARTS];
#pragma GCC unroll 4
        for (int part = 0; part < panels * PARTS; part++)
            b[part] =
                load(panel + (size_t)(part / PARTS) * panel_step + (size_t)(part % PARTS) * LANES);
#pragma GCC unroll 12
        for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 4
            for (int part = 0; part < panels * PARTS; part++)
                sum[r][part] += a[(size_t)r * row_step] * b[part];
        a += step;
        panel += PANEL;
    }
}

FUSED_INLINE void score_panels(const float *q, const float *k, size_t D, float *s,
                               const int panels) {
    vector sum[ROWS][MOST_PARTS];
    multiply(sum, q, ROWS, 1, k, D * PANEL, panels, D);
#pragma GCC unroll 12
    for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 4
        for (int part = 0; part < panels * PARTS; part++)
            save(s + r * ATTN_FUSED_STRIDE + part * LANES, sum[r][part]);
}

/* S = Q K^T of a strip. */
static void score(const float *q, const float *k, size_t D, size_t panels, float *s) {
    size_t panel = 0;
    for (; panel + FUSED_PANELS <= panels; panel += FUSED_PANELS)
        score_panels(q, k + panel * D * PANEL, D, s + panel * PANEL, FUSED_PANELS);
    for (; panel < panels; panel++)
        score_panels(q, k + panel * D * PANEL, D, s + panel * PANEL, 1);
}

FUSED_INLINE void gather_panels(const float *p, const float *shrink, const float *v, size_t v_step,
                                size_t keys, float *o, size_t width, const int panels) {
    vector sum[ROWS][MOST_PARTS];
    multiply(sum, p, 1, ATTN_FUSED_STRIDE, v, v_step, panels, keys);
#pragma GCC unroll 12
    for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 4
        for (int part = 0; part < panels * PARTS; part++) {
            float *to = o + (size_t)r * width + part * LANES;
            save(to, load(to) * shrink[r] + sum[r][part]);
        }
}

/* O = O shrink + P V of a strip. */
static void gather(const float *p, const float *shrink, const float *v, size_t v_step, size_t keys,
                   float *o, size_t panels) {
    const size_t width = panels * PANEL;
    size_t panel = 0;
    for (; panel + FUSED_PANELS <= panels; panel += FUSED_PANELS)
        gather_panels(p, shrink, v + panel * v_step, v_step, keys, o + panel * PANEL, width,
                      FUSED_PANELS);
    for (; panel < panels; panel++)
        gather_panels(p, shrink, v + panel * v_step, v_step, keys, o + panel * PANEL, width, 1);
}

FUSED_INLINE void transpose_quad(const float *const rows[4], size_t d, float *out, size_t step) {
    quad x[4], y[4];
#pragma GCC unroll 4
    for (int r = 0; r < 4; r++)
        memcpy(&x[r], rows[r] + d, sizeof x[r]);
#pragma GCC unroll 2
    for (int half = 0; half < 2; half++) {
        y[half] = __builtin_shuffle(x[half], x[half + 2], (quad_index){0, 4, 1, 5});
        y[half + 2] = __builtin_shuffle(x[half], x[half + 2], (quad_index){2, 6, 3, 7});
    }
#pragma GCC unroll 2
    for (int half = 0; half < 2; half++) {
        const quad low = __builtin_shuffle(y[2 * half], y[2 * half + 1], (quad_index){0, 4, 1, 5});
        const quad high = __builtin_shuffle(y[2 * half], y[2 * half + 1], (quad_index){2, 6, 3, 7});
        memcpy(out + (d + 2 * (size_t)half) * step, &low, sizeof low);
        memcpy(out + (d + 2 * (size_t)half + 1) * step, &high, sizeof high);
    }
}

/* out[d * step + r] = rows[r][d] for four rows. */
static void transpose(const float *const rows[4], size_t D, float *out, size_t step) {
    size_t d = 0;
    for (; d + 4 <= D; d += 4)
        transpose_quad(rows, d, out, step);
    for (; d < D; d++)
        for (size_t r = 0; r < 4; r++)
            out[d * step + r] = rows[r][d];
}

const struct attn_fused_set FUSED_PASTE(attn_fused_set_, FUSED_NAME) = {
    .rows = ROWS, .score = score, .gather = gather, .transpose = transpose};
