/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows' source: included by one file per instruction set, which defines
 *   ROWOPS_NAME    the set's name, an identifier
 *   ROWOPS_BYTES   the width of its vector registers
 *   ROWOPS_TEST    an expression: this CPU has it
 * Written in the compilers' generic vectors, so that both know the width and neither may reorder.
 */
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "core/kernels/rowops.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define ROWOPS_PASTE2(a, b) a##b
#define ROWOPS_PASTE(a, b) ROWOPS_PASTE2(a, b)
#define ROWOPS_TEXT2(a) #a
#define ROWOPS_TEXT(a) ROWOPS_TEXT2(a)
/* For what another function repeats: calls would cost as much as short rows. */
#define ROWOPS_INLINE static inline __attribute__((always_inline))

/* A vector whose lane 0 is the lane n of `v`, and so on around. */
#define ROWOPS_TURNED2(v, n) __builtin_shufflevector(v, v, (n) % 2, ((n) + 1) % 2)
#define ROWOPS_TURNED4(v, n) \
    __builtin_shufflevector(v, v, (n) % 4, ((n) + 1) % 4, ((n) + 2) % 4, ((n) + 3) % 4)
#define ROWOPS_TURNED8(v, n)                                                            \
    __builtin_shufflevector(v, v, (n) % 8, ((n) + 1) % 8, ((n) + 2) % 8, ((n) + 3) % 8, \
                            ((n) + 4) % 8, ((n) + 5) % 8, ((n) + 6) % 8, ((n) + 7) % 8)
#define ROWOPS_TURNED16(v, n)                                                                 \
    __builtin_shufflevector(v, v, (n) % 16, ((n) + 1) % 16, ((n) + 2) % 16, ((n) + 3) % 16,   \
                            ((n) + 4) % 16, ((n) + 5) % 16, ((n) + 6) % 16, ((n) + 7) % 16,   \
                            ((n) + 8) % 16, ((n) + 9) % 16, ((n) + 10) % 16, ((n) + 11) % 16, \
                            ((n) + 12) % 16, ((n) + 13) % 16, ((n) + 14) % 16, ((n) + 15) % 16)
/* Of the larger elements, on x86: one instruction, where a comparison and a selection take five
 * times as long one after the other, and compilers do not see it. */
#if ROWOPS_BYTES == 64
#define ROWOPS_TURNED_FLOAT ROWOPS_TURNED16
#define ROWOPS_TURNED_DOUBLE ROWOPS_TURNED8
#define ROWOPS_MAX_FLOAT(a, b) _mm512_max_ps((__m512)(a), (__m512)(b))
#define ROWOPS_MAX_DOUBLE(a, b) _mm512_max_pd((__m512d)(a), (__m512d)(b))
#elif ROWOPS_BYTES == 32
#define ROWOPS_TURNED_FLOAT ROWOPS_TURNED8
#define ROWOPS_TURNED_DOUBLE ROWOPS_TURNED4
#define ROWOPS_MAX_FLOAT(a, b) _mm256_max_ps((__m256)(a), (__m256)(b))
#define ROWOPS_MAX_DOUBLE(a, b) _mm256_max_pd((__m256d)(a), (__m256d)(b))
#else
#define ROWOPS_TURNED_FLOAT ROWOPS_TURNED4
#define ROWOPS_TURNED_DOUBLE ROWOPS_TURNED2
#define ROWOPS_MAX_FLOAT(a, b) _mm_max_ps((__m128)(a), (__m128)(b))
#define ROWOPS_MAX_DOUBLE(a, b) _mm_max_pd((__m128d)(a), (__m128d)(b))
#endif

typedef float float_vector __attribute__((vector_size(ROWOPS_BYTES)));
typedef int32_t int32_vector __attribute__((vector_size(ROWOPS_BYTES)));
typedef uint32_t uint32_vector __attribute__((vector_size(ROWOPS_BYTES)));
typedef double double_vector __attribute__((vector_size(ROWOPS_BYTES)));
typedef int64_t int64_vector __attribute__((vector_size(ROWOPS_BYTES)));
typedef uint64_t uint64_vector __attribute__((vector_size(ROWOPS_BYTES)));

/*
 * exp(x) = 2^n * e^r, n the integer nearest x / ln 2, r in [-ln(2)/2, ln(2)/2]. Adding 1.5 * 2^23
 * rounds to an integer that stands in the low bits. ln 2 is taken off in two parts of which the
 * first has so few bits that n times it is exact (W. J. Cody and W. Waite, "Software Manual for the
 * Elementary Functions", 1980), with and without FMA alike. The polynomial, fitted for the least
 * relative error with a constant term of 1, errs by 9.2e-8. The power of two is multiplied on, so
 * that a NaN in r comes through.
 */
static inline float_vector exp_float(float_vector x) {
    const float_vector zero = {0};
    const float magic = 12582912.0f;
    const float_vector shifted = x * 1.44269504f + magic;
    const float_vector n = shifted - magic;
    const float_vector r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    float_vector p = r * 8.29030674e-3f + 4.18979134e-2f;
    p = p * r + 0.166676362f;
    p = p * r + 0.499991496f;
    p = p * r + 0.999999707f;
    p = p * r + 1.0f;
    const float_vector power = (float_vector)(((uint32_vector)shifted + 127) << 23);
    const float_vector result = p * power;
    /* Below exp(-87.33) the power is no normal number; the selection keeps NaN. */
    const int32_vector below = x < zero - 87.33f;
    return (float_vector)((int32_vector)result & ~below);
}

/* As exp_float; its polynomial, fitted in the same way, errs by 1.8e-17 before its coefficients are
 * rounded: the Taylor series needs two terms more. */
static inline double_vector exp_double(double_vector x) {
    static const double FITTED[] = {
        2.298137921683708269e-8, 2.762631101996613724e-7, 2.756425612609506166e-6,
        2.480150447629561734e-5, 1.984126148826817656e-4, 1.388888893236802881e-3,
        8.333333337717970839e-3, 4.166666666657355944e-2, 1.666666666665729520e-1,
        5.000000000000005578e-1, 1.000000000000000559,    1.0};
    const double_vector zero = {0};
    const double magic = 6755399441055744.0;
    const double_vector shifted = x * 1.4426950408889634 + magic;
    const double_vector n = shifted - magic;
    const double_vector r = (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
    double_vector p = zero + FITTED[0];
    for (size_t term = 1; term < sizeof FITTED / sizeof *FITTED; term++)
        p = p * r + FITTED[term];
    const double_vector power = (double_vector)(((uint64_vector)shifted + 1023) << 52);
    const double_vector result = p * power;
    const int64_vector below = x < zero - 708.39;
    return (double_vector)((int64_vector)result & ~below);
}

/*
 * cap * tanh(x / cap): near 0 with the odd polynomial of Cephes' tanhf (relative error 2e-7 below
 * 0.625) around x itself, so that a huge cap loses nothing; elsewhere by 1 - 2 / (exp(2|x|) + 1),
 * which is 1 in float from |x| = 20 on.
 */
static inline float_vector softcap_float(float_vector x, float cap) {
    const float_vector zero = {0};
    const float_vector ratio = x / cap;
    const int32_vector sign = (int32_vector)ratio & INT32_MIN;
    const float_vector magnitude = (float_vector)((int32_vector)ratio & INT32_MAX);
    const int32_vector huge = magnitude > zero + 20.0f;
    const float_vector bounded =
        (float_vector)(((int32_vector)magnitude & ~huge) | ((int32_vector)(zero + 20.0f) & huge));
    const float_vector far = (1.0f - 2.0f / (exp_float(2.0f * bounded) + 1.0f)) * cap;
    const float_vector square = bounded * bounded;
    float_vector near = square * -5.70498872745e-3f + 2.06390887954e-2f;
    near = near * square - 5.37397155531e-2f;
    near = near * square + 1.33314422036e-1f;
    near = near * square - 3.33332819422e-1f;
    near = near * square * x + x;
    const int32_vector small = bounded < zero + 0.625f;
    return (float_vector)(((int32_vector)near & small) | (((int32_vector)far | sign) & ~small));
}

static inline double_vector softcap_double(double_vector x, double cap) {
    double_vector result = x;
    for (size_t lane = 0; lane < sizeof x / sizeof(double); lane++)
        result[lane] = cap * tanh(x[lane] / cap);
    return result;
}

/*
 * tanh(x) = (e^t - 1) / (e^t + 1), t = 2|x|, by e^t - 1 = 2^n (e^r - 1) + (2^n - 1) with the same n
 * and r as in exp_float: nothing cancels, near 0 either. (e^r - 1 - r) / r^2 is a polynomial fitted
 * for the least error of e^r - 1, 1.8e-8 of it. Beyond 10 a float's tanh is 1. NaN comes through.
 */
static inline float_vector tanh_float(float_vector x) {
    const float_vector zero = {0};
    const float magic = 12582912.0f;
    const int32_vector sign = (int32_vector)x & INT32_MIN;
    const float_vector magnitude = (float_vector)((int32_vector)x & INT32_MAX);
    const int32_vector huge = magnitude > zero + 10.0f;
    const float_vector t = 2.0f * (float_vector)(((int32_vector)magnitude & ~huge) |
                                                 ((int32_vector)(zero + 10.0f) & huge));
    const float_vector shifted = t * 1.44269504f + magic;
    const float_vector n = shifted - magic;
    const float_vector r = (t - n * 0.693359375f) + n * 2.12194440e-4f;
    float_vector p = r * 1.38825038e-3f + 8.36658105e-3f;
    p = p * r + 4.16672006e-2f;
    p = p * r + 0.166665435f;
    p = p * r + 0.49999997f;
    p = p * (r * r) + r;
    const float_vector power = (float_vector)(((uint32_vector)shifted + 127) << 23);
    const float_vector grown = p * power + (power - 1.0f);
    return (float_vector)((int32_vector)(grown / (grown + 2.0f)) | sign);
}

/* As tanh_float; the Taylor polynomial of degree 14, whose remainder on |r| <= ln(2)/2 is 2e-19. */
static inline double_vector tanh_double(double_vector x) {
    static const double TAYLOR[] = {1.0 / 87178291200.0,
                                    1.0 / 6227020800.0,
                                    1.0 / 479001600.0,
                                    1.0 / 39916800.0,
                                    1.0 / 3628800.0,
                                    1.0 / 362880.0,
                                    1.0 / 40320.0,
                                    1.0 / 5040.0,
                                    1.0 / 720.0,
                                    1.0 / 120.0,
                                    1.0 / 24.0,
                                    1.0 / 6.0,
                                    0.5};
    const double_vector zero = {0};
    const double magic = 6755399441055744.0;
    const int64_vector sign = (int64_vector)x & INT64_MIN;
    const double_vector magnitude = (double_vector)((int64_vector)x & INT64_MAX);
    const int64_vector huge = magnitude > zero + 20.0;
    const double_vector t = 2.0 * (double_vector)(((int64_vector)magnitude & ~huge) |
                                                  ((int64_vector)(zero + 20.0) & huge));
    const double_vector shifted = t * 1.4426950408889634 + magic;
    const double_vector n = shifted - magic;
    const double_vector r = (t - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
    double_vector p = zero + TAYLOR[0];
    for (size_t term = 1; term < sizeof TAYLOR / sizeof *TAYLOR; term++)
        p = p * r + TAYLOR[term];
    p = p * (r * r) + r;
    const double_vector power = (double_vector)(((uint64_vector)shifted + 1023) << 52);
    const double_vector grown = p * power + (power - 1.0);
    return (double_vector)((int64_vector)(grown / (grown + 2.0)) | sign);
}

#define REAL float
#define VECTOR float_vector
#define MASK int32_vector
#define MASK_LANE int32_t
#define SUFFIX _float
#define REAL_MAX FLT_MAX
#define TURNED ROWOPS_TURNED_FLOAT
#if defined(__x86_64__)
#define X86_MAX ROWOPS_MAX_FLOAT
#endif
#include "core/kernels/rowops_rows.h"

#define REAL double
#define VECTOR double_vector
#define MASK int64_vector
#define MASK_LANE int64_t
#define SUFFIX _double
#define REAL_MAX DBL_MAX
#define TURNED ROWOPS_TURNED_DOUBLE
#if defined(__x86_64__)
#define X86_MAX ROWOPS_MAX_DOUBLE
#endif
#include "core/kernels/rowops_rows.h"

static bool rowops_available(void) {
    return ROWOPS_TEST;
}

const struct attn_rowops ROWOPS_PASTE(attn_rowops_, ROWOPS_NAME) = {
    .name = ROWOPS_TEXT(ROWOPS_NAME),
    .available = rowops_available,
    .f = {row_max_float,      row_magnitude_float,  row_exp_sum_float,    rows_soften_float,
          row_softcap_float,  row_scale_float,      row_add_scaled_float, row_tanh_sum_float,
          row_add_bias_float, row_hide_float,       row_keep_float,       row_rotate_float,
          row_widen_float,    row_all_finite_float, row_scale_to_float,   row_largest_float,
          row_sum_float,      rows_largest_float,   rows_sum_float,       row_find_above_float,
          rows_seen_float,    row_moments_float,    row_spread_float},
    .d = {row_max_double,      row_magnitude_double,  row_exp_sum_double,    rows_soften_double,
          row_softcap_double,  row_scale_double,      row_add_scaled_double, row_tanh_sum_double,
          row_add_bias_double, row_hide_double,       row_keep_double,       row_rotate_double,
          row_widen_double,    row_all_finite_double, row_scale_to_double,   row_largest_double,
          row_sum_double,      rows_largest_double,   rows_sum_double,       row_find_above_double,
          rows_seen_double,    row_moments_double,    row_spread_double},
};
