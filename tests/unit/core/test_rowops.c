/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Row operations of every instruction set that this machine has, against plain loops: sums, hiding,
 * turning and looking, at any length.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test_main.h"
#include "tests/unit/core/rowops_fixture.h"

/* Rows of every length in memory of their own, so that a sanitizer sees what reads beyond one. */
START_TEST(rows_end_where_they_end) {
    const struct attn_rowops *set = rowops_under_test(_i);
    for (size_t n = 1; n <= LONGEST; n++) {
        float *f = malloc(n * sizeof *f);
        double *d = malloc(n * sizeof *d);
        double want = 0;
        ck_assert(f != NULL && d != NULL);
        for (size_t e = 0; e < n; e++) {
            f[e] = -0.125f * (float)(e * 7 % n);
            d[e] = (double)f[e];
            want += exp(d[e]);
        }
        ck_assert(set->f.max(f, n, -INFINITY) == 0 && set->d.max(d, n, -(double)INFINITY) == 0);
        set->f.softcap(f, n, FLT_MAX);
        const double sum_f = (double)set->f.exp_sum(f, n, 0), sum_d = set->d.exp_sum(d, n, 0);
        /* The error of exp, and at most 75 additions that each round once. */
        ck_assert(fabs(sum_f - want) <= (3e-7 + 75 * 0x1p-24) * want);
        ck_assert(fabs(sum_d - want) <= (8 + 75) * DBL_EPSILON * want);
        set->f.scale(f, n, 0.5f);
        set->d.scale(d, n, 0.5);
        ck_assert(f[0] == 0.5f && d[0] == 0.5);
        ck_assert(set->f.all_finite(f, n) && set->d.all_finite(d, n));
        free(f);
        free(d);
    }
}
END_TEST

/* Every length with an end of its own, and nothing past it. */
START_TEST(floats_are_widened) {
    const struct attn_rowops *set = rowops_under_test(_i);
    for (size_t n = 0; n <= LONGEST; n++) {
        float from[LONGEST + 1], f[LONGEST + 1];
        double d[LONGEST + 1];
        for (size_t e = 0; e <= n; e++) {
            from[e] = e % 7 == 3 ? -INFINITY : 0x1.000002p-120f * (float)e;
            f[e] = -1;
            d[e] = -1;
        }
        set->f.widen(from, n, f);
        set->d.widen(from, n, d);
        for (size_t e = 0; e < n; e++)
            ck_assert(f[e] == from[e] && d[e] == (double)from[e]);
        ck_assert(f[n] == -1 && d[n] == -1);
    }
}
END_TEST

/* Whether the row is left alone or written elsewhere, and to any place; what is beyond the limit,
 * wherever it stands, is told. */
START_TEST(rows_are_scaled_to_another_place) {
    const struct attn_rowops *set = rowops_under_test(_i);
    for (size_t n = 0; n <= LONGEST; n++) {
        float f[LONGEST + 1];
        double d[LONGEST + 1];
        char to_f[(LONGEST + 1) * sizeof(float) + 1], to_d[(LONGEST + 1) * sizeof(double) + 1];
        for (size_t e = 0; e <= n; e++)
            d[e] = f[e] = 4 + (float)e;
        memset(to_f, 0x5a, sizeof to_f);
        memset(to_d, 0x5a, sizeof to_d);
        ck_assert(set->f.scale_to(f, n, -0.5f, 2.0f + (float)n / 2, to_f + 1));
        ck_assert(set->d.scale_to(d, n, -0.5, 2.0 + (double)n / 2, to_d + 1));
        for (size_t e = 0; e < n; e++) {
            float one;
            double two;
            memcpy(&one, to_f + 1 + e * sizeof one, sizeof one);
            memcpy(&two, to_d + 1 + e * sizeof two, sizeof two);
            ck_assert(one == -0.5f * f[e] && two == -0.5 * d[e] && f[e] == 4 + (float)e);
        }
        ck_assert(to_f[1 + n * sizeof(float)] == 0x5a && to_d[1 + n * sizeof(double)] == 0x5a);
        for (size_t e = 0; e < n; e++) {
            d[e] = f[e] = e % 2 == 0 ? NAN : -1e6f;
            ck_assert(!set->f.scale_to(f, n, 1, 1e5f, to_f));
            ck_assert(!set->d.scale_to(d, n, 1, 1e5, to_d));
            d[e] = f[e] = 0;
            ck_assert(set->f.scale_to(f, n, 1, 1e5f, f) && set->d.scale_to(d, n, 1, 1e5, d));
        }
    }
}
END_TEST

/* Every length with an end of its own, and nothing past it. */
START_TEST(rows_are_added_in_proportion) {
    const struct attn_rowops *set = rowops_under_test(_i);
    for (size_t n = 0; n <= LONGEST; n++) {
        float f[LONGEST + 1], other_f[LONGEST + 1];
        double d[LONGEST + 1], other_d[LONGEST + 1];
        for (size_t e = 0; e <= n; e++) {
            f[e] = (float)e;
            d[e] = (double)e;
            other_f[e] = 2 * (float)e + 1;
            other_d[e] = 2 * (double)e + 1;
        }
        set->f.add_scaled(f, other_f, n, 0.5f);
        set->d.add_scaled(d, other_d, n, 0.5);
        for (size_t e = 0; e < n; e++)
            ck_assert(f[e] == 2 * (float)e + 0.5f && d[e] == 2 * (double)e + 0.5);
        ck_assert(f[n] == (float)n && d[n] == (double)n);
    }
}
END_TEST

START_TEST(a_bias_of_minus_infinity_is_selected) {
    const struct attn_rowops *set = rowops_under_test(_i);
    for (size_t n = 1; n <= LONGEST; n++) {
        float row[LONGEST], bias[LONGEST];
        for (size_t e = 0; e < n; e++) {
            row[e] = e % 3 == 0 ? NAN : e % 3 == 1 ? INFINITY : (float)e;
            bias[e] = e % 2 == 0 ? -INFINITY : 0.5f;
        }
        set->f.add_bias(row, bias, n, -INFINITY);
        for (size_t e = 0; e < n; e++) {
            if (e % 2 == 0)
                ck_assert(row[e] == -INFINITY);
            else if (e % 3 == 2)
                ck_assert(row[e] == (float)e + 0.5f);
            else
                ck_assert(e % 3 == 0 ? isnan(row[e]) : row[e] == INFINITY);
        }
    }
}
END_TEST

/* Where finite numbers have a sum below the lowest, and nowhere else. */
START_TEST(a_sum_that_is_too_low_is_told) {
    const struct attn_rowops *set = rowops_under_test(_i);
    for (size_t n = 1; n <= LONGEST; n++) {
        float row[LONGEST];
        const float bias[] = {-FLT_MAX, -INFINITY, -1e38f};
        float biases[LONGEST];
        for (size_t e = 0; e < n; e++) {
            row[e] = -3e38f;
            biases[e] = bias[e % 3];
        }
        set->f.add_bias(row, biases, n, 7);
        for (size_t e = 0; e < n; e++)
            ck_assert(row[e] == (e % 3 == 1 ? -INFINITY : 7));
        set->f.add_bias(row, biases, n, 7);
        for (size_t e = 0; e < n; e++)
            ck_assert(row[e] == (e % 3 == 1 ? -INFINITY : 7 + biases[e]));
    }
}
END_TEST

/* Wherever it stands, of either sign; infinities count, NaN does not. */
START_TEST(magnitude_is_the_largest) {
    const struct attn_rowops *set = rowops_under_test(_i);
    for (size_t n = 1; n <= LONGEST; n++)
        for (size_t at = 0; at < n; at++) {
            static const float large[] = {-3, 3, -FLT_MAX, INFINITY, -INFINITY};
            float f[LONGEST];
            double d[LONGEST];
            for (size_t e = 0; e < n; e++)
                d[e] = f[e] = e % 2 == 0 ? -1 : NAN;
            d[at] = f[at] = large[(n + at) % 5];
            ck_assert(set->f.magnitude(f, n) == fabsf(f[at]));
            ck_assert(set->d.magnitude(d, n) == fabs(d[at]));
        }
}
END_TEST

/* Whole words of either kind, and mixed ones; what is hidden may be NaN. */
START_TEST(hide_selects_by_bit) {
    static const uint64_t pictures[][2] = {
        {0, 0}, {UINT64_MAX, UINT64_MAX}, {UINT64_C(0x8000000000000001), 5}, {0, UINT64_MAX}};
    const struct attn_rowops *set = rowops_under_test(_i);
    for (size_t p = 0; p < sizeof pictures / sizeof *pictures; p++)
        for (size_t n = 1; n <= LONGEST; n++) {
            float f[LONGEST];
            double d[LONGEST];
            uint64_t bits[2] = {pictures[p][0], pictures[p][1]};
            bits[n / 64] &= ((uint64_t)1 << n % 64) - 1;
            for (size_t e = 0; e < LONGEST; e++) {
                f[e] = bits[e / 64] >> e % 64 & 1 ? (float)e : NAN;
                d[e] = (double)f[e];
            }
            set->f.hide(f, bits, n);
            set->d.hide(d, bits, n);
            for (size_t e = 0; e < n; e++) {
                const float want = bits[e / 64] >> e % 64 & 1 ? (float)e : -INFINITY;
                ck_assert(f[e] == want && d[e] == (double)want);
            }
            ck_assert(n == LONGEST || (isnan(f[n]) && isnan(d[n])));
        }
}
END_TEST

/* Runs of every place and length, none among them; what is hidden may be NaN. */
START_TEST(keep_hides_what_a_run_leaves) {
    const struct attn_rowops *set = rowops_under_test(_i);
    for (size_t n = 1; n < LONGEST; n += 3)
        for (size_t begin = 0; begin <= n; begin++)
            for (size_t end = 0; end <= n; end++) {
                float f[LONGEST];
                double d[LONGEST];
                for (size_t e = 0; e < LONGEST; e++)
                    d[e] = f[e] = begin <= e && e < end ? (float)e : NAN;
                set->f.keep(f, n, begin, end);
                set->d.keep(d, n, begin, end);
                size_t wrong = 0;
                for (size_t e = 0; e < n; e++) {
                    const float want = begin <= e && e < end ? (float)e : -INFINITY;
                    wrong += f[e] != want || d[e] != (double)want;
                }
                ck_assert(wrong == 0 && isnan(f[n]) && isnan(d[n]));
            }
}
END_TEST

/* Every number of pairs, both ways of pairing; what stands behind them stays. */
START_TEST(rotate_turns_pairs) {
    const struct attn_rowops *set = rowops_under_test(_i);
    for (size_t n = 0; n < 2 * (LONGEST / 2); n++) {
        const size_t pairs = n / 2;
        const bool interleaved = n % 2 != 0;
        float f[LONGEST], turns_f[LONGEST] = {0};
        double d[LONGEST], turns_d[LONGEST] = {0};
        for (size_t e = 0; e < LONGEST; e++)
            d[e] = f[e] = (float)e;
        for (size_t pair = 0; pair < pairs;
             pair++) { /* exact products, so that FMA shows nothing */
            turns_d[pair] = turns_f[pair] = 0.5f * (float)(pair % 2);
            turns_d[pairs + pair] = turns_f[pairs + pair] = 0.25f;
        }
        set->f.rotate(f, turns_f, pairs, interleaved);
        set->d.rotate(d, turns_d, pairs, interleaved);
        for (size_t e = 0; e < LONGEST; e++) {
            const size_t pair = interleaved ? e / 2 : e % (pairs == 0 ? 1 : pairs);
            const bool second = interleaved ? e % 2 != 0 : e >= pairs;
            const size_t across = interleaved ? 1 : pairs;
            const double cosine = 0.5 * (double)(pair % 2);
            const double want = e >= 2 * pairs ? (double)e
                                : second       ? (double)(e - across) * 0.25 + (double)e * cosine
                                               : (double)e * cosine - (double)(e + across) * 0.25;
            ck_assert(d[e] == want && (double)f[e] == want);
        }
    }
}
END_TEST

START_TEST(all_finite_sees_every_place) {
    const struct attn_rowops *set = rowops_under_test(_i);
    const float values[] = {NAN, INFINITY, -INFINITY};
    for (size_t n = 0; n <= LONGEST; n++) {
        float f[LONGEST + 1] = {0};
        double d[LONGEST + 1] = {0};
        f[0] = FLT_MAX;
        d[0] = -DBL_MAX;
        f[n] = NAN;
        d[n] = (double)NAN;
        ck_assert(set->f.all_finite(f, n) && set->d.all_finite(d, n));
        for (size_t at = 0; at < n; at++) {
            f[at] = values[at % 3];
            d[at] = (double)values[at % 3];
            ck_assert(!set->f.all_finite(f, n) && !set->d.all_finite(d, n));
            f[at] = 0;
            d[at] = 0;
        }
    }
}
END_TEST

static Suite *rowops_suite(void) {
    const TTest *const tests[] = {rows_end_where_they_end,
                                  floats_are_widened,
                                  rows_are_scaled_to_another_place,
                                  rows_are_added_in_proportion,
                                  a_bias_of_minus_infinity_is_selected,
                                  a_sum_that_is_too_low_is_told,
                                  magnitude_is_the_largest,
                                  hide_selects_by_bit,
                                  keep_hides_what_a_run_leaves,
                                  rotate_turns_pairs,
                                  all_finite_sees_every_place};
    return rowops_suite_of("rowops", tests, sizeof tests / sizeof *tests);
}

ATTN_TEST_MAIN(rowops_suite)
