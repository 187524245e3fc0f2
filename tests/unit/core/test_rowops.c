/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Row operations of every instruction set that this machine has, against libm in double: accuracy,
 * what is not finite, and that a place in the row, and so in a vector, changes no bit.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/kernels/rowops.h"
#include "tests/support/test_main.h"

enum { LONGEST = 75 }; /* four vectors of AVX-512 and a part of one */

/* The set under test; the loop index runs over more sets than any machine has. */
static const struct attn_rowops *rowops_under_test(int index) {
    const struct attn_rowops *set = attn_rowops_at((size_t)index);
    return set != NULL ? set : attn_rowops_best();
}

/*
 * From 0 down to where results become subnormal. The float polynomial's own error is 9.1e-8 and
 * five roundings of 6e-8 follow; double keeps eight units in the last place.
 */
START_TEST(exp_is_accurate) {
    const struct attn_rowops *set = rowops_under_test(_i);
    for (int step = 0; step <= 87000; step++) {
        float f = -(float)step * 0.001f;
        double d = -step * 0.008;
        const double want_f = exp((double)f), want_d = exp(d);
        const float sum = set->f.exp_sum(&f, 1, 0);
        ck_assert_msg(fabs((double)f - want_f) <= 3e-7 * want_f, "%s: exp(%g) is %.9g, not %.9g",
                      set->name, -step * 0.001, (double)f, want_f);
        ck_assert(sum == f);
        set->d.exp_sum(&d, 1, 0);
        ck_assert_msg(fabs(d - want_d) <= 8 * DBL_EPSILON * want_d,
                      "%s: exp(%g) is %.17g, not %.17g", set->name, -step * 0.008, d, want_d);
    }
}
END_TEST

START_TEST(exp_of_what_is_hidden_is_exactly_0) {
    const struct attn_rowops *set = rowops_under_test(_i);
    const float hidden[] = {-INFINITY, -FLT_MAX, -1e30f, -1e5f, -200.0f, -104.0f, -88.0f};
    for (size_t n = 0; n < sizeof hidden / sizeof *hidden; n++) {
        float f = hidden[n];
        double d = 10.0 * (double)hidden[n];
        ck_assert(set->f.exp_sum(&f, 1, 0) == 0 && f == 0 && !signbit(f));
        ck_assert(set->d.exp_sum(&d, 1, 0) == 0 && d == 0 && !signbit(d));
    }
}
END_TEST

/* The largest element weighs exactly 1, whatever it is. */
START_TEST(exp_of_the_base_is_exactly_1) {
    const struct attn_rowops *set = rowops_under_test(_i);
    const float bases[] = {0, 1e-30f, -3.25f, 1e5f, -1e5f, FLT_MAX, -FLT_MAX};
    for (size_t n = 0; n < sizeof bases / sizeof *bases; n++) {
        float f = bases[n];
        double d = (double)bases[n];
        ck_assert(set->f.exp_sum(&f, 1, bases[n]) == 1 && f == 1);
        ck_assert(set->d.exp_sum(&d, 1, (double)bases[n]) == 1 && d == 1);
    }
}
END_TEST

START_TEST(exp_lets_nan_through) {
    const struct attn_rowops *set = rowops_under_test(_i);
    for (size_t at = 0; at < LONGEST; at++) {
        float f[LONGEST] = {0};
        double d[LONGEST] = {0};
        f[at] = NAN;
        d[at] = (double)NAN;
        ck_assert(isnan(set->f.exp_sum(f, LONGEST, 0)) && isnan(f[at]));
        ck_assert(isnan(set->d.exp_sum(d, LONGEST, 0)) && isnan(d[at]));
        f[at] = INFINITY;
        d[at] = (double)INFINITY;
        ck_assert(isnan(set->f.exp_sum(f, LONGEST, INFINITY)));
        ck_assert(isnan(set->d.exp_sum(d, LONGEST, (double)INFINITY)));
    }
}
END_TEST

START_TEST(max_passes_over_nan_and_respects_the_floor) {
    const struct attn_rowops *set = rowops_under_test(_i);
    for (size_t n = 0; n <= LONGEST; n++)
        for (size_t at = 0; at < n; at++) {
            float f[LONGEST];
            double d[LONGEST];
            for (size_t e = 0; e < LONGEST; e++) {
                f[e] = e < n ? NAN : 1e30f;
                d[e] = (double)f[e];
            }
            f[at] = -3;
            d[at] = -3;
            ck_assert(set->f.max(f, n, -INFINITY) == -3 &&
                      set->d.max(d, n, -(double)INFINITY) == -3);
            ck_assert(set->f.max(f, n, 2) == 2 && set->d.max(d, n, 2) == 2);
        }
    ck_assert(set->f.max(NULL, 0, -INFINITY) == -INFINITY);
}
END_TEST

/* Rows whose maximum moves, stays, was none, is none still or is infinite, and one with a NaN, as
 * max and exp_sum would do them one by one. */
START_TEST(soften_is_a_step_of_each_row) {
    enum { STRIDE = LONGEST + 5, KINDS = 6 };
    static const float before[KINDS] = {-1, 9, -INFINITY, -INFINITY, 2, 0.5f};
    const struct attn_rowops *set = rowops_under_test(_i);
    for (size_t count = 1; count <= ATTN_SOFTEN_ROWS; count++)
        for (size_t n = 1; n <= LONGEST; n++) {
            float s[ATTN_SOFTEN_ROWS * STRIDE], want[LONGEST];
            float m[ATTN_SOFTEN_ROWS], l[ATTN_SOFTEN_ROWS], shrink[ATTN_SOFTEN_ROWS];
            for (size_t e = 0; e < ATTN_SOFTEN_ROWS * STRIDE; e++)
                s[e] = e / STRIDE % KINDS == 3 ? -INFINITY : 0.125f * (float)(e * 5 % 23);
            s[4 * STRIDE + n / 2] = INFINITY;
            s[5 * STRIDE + n / 2] = NAN;
            for (size_t r = 0; r < count; r++) {
                m[r] = before[r % KINDS];
                l[r] = 3;
            }
            set->f.soften(s, STRIDE, count, n, m, l, shrink);
            for (size_t r = 0; r < count; r++) {
                const float old = before[r % KINDS];
                for (size_t e = 0; e < n; e++)
                    want[e] =
                        r % KINDS == 3 ? -INFINITY : 0.125f * (float)((r * STRIDE + e) * 5 % 23);
                if (r == 4 || r == 5)
                    want[n / 2] = r == 4 ? INFINITY : NAN;
                const float largest = set->f.max(want, n, old);
                float change = largest == old ? 0 : old - largest;
                set->f.exp_sum(&change, 1, 0);
                const float sum = set->f.exp_sum(want, n, largest == -INFINITY ? 0 : largest);
                ck_assert(m[r] == largest && shrink[r] == change);
                ck_assert(isnan(sum) ? isnan(l[r])
                                     : fabsf(l[r] - (3 * change + sum)) <= 1e-6f * l[r]);
                for (size_t e = 0; e < n; e++)
                    ck_assert(isnan(want[e]) ? isnan(s[r * STRIDE + e])
                                             : s[r * STRIDE + e] == want[e]);
            }
        }
}
END_TEST

/* A value stands at every place of rows of every length; the elements behind the row stay. */
START_TEST(a_place_in_the_row_changes_no_bit) {
    const struct attn_rowops *set = rowops_under_test(_i);
    float alone_exp = -1.2345f, alone_cap = 0.7f;
    double wide_exp = -1.2345, wide_cap = 0.7;
    set->f.exp_sum(&alone_exp, 1, 0);
    set->d.exp_sum(&wide_exp, 1, 0);
    set->f.softcap(&alone_cap, 1, 1.5f);
    set->d.softcap(&wide_cap, 1, 1.5);
    for (size_t n = 1; n < LONGEST; n++) {
        float f[2][LONGEST];
        double d[2][LONGEST];
        for (size_t e = 0; e < LONGEST; e++) {
            f[0][e] = e < n ? -1.2345f : 7;
            d[0][e] = e < n ? -1.2345 : 7;
            f[1][e] = e < n ? 0.7f : 7;
            d[1][e] = e < n ? 0.7 : 7;
        }
        set->f.exp_sum(f[0], n, 0);
        set->d.exp_sum(d[0], n, 0);
        set->f.softcap(f[1], n, 1.5f);
        set->d.softcap(d[1], n, 1.5);
        for (size_t e = 0; e < LONGEST; e++) {
            ck_assert(f[0][e] == (e < n ? alone_exp : 7) && d[0][e] == (e < n ? wide_exp : 7));
            ck_assert(f[1][e] == (e < n ? alone_cap : 7) && d[1][e] == (e < n ? wide_cap : 7));
        }
    }
}
END_TEST

/* Relative to the result also near 0, where 1 - 2/(e^2x + 1) alone would lose every digit. */
START_TEST(softcap_is_accurate) {
    const struct attn_rowops *set = rowops_under_test(_i);
    for (int power = -300; power <= 40; power++)
        for (int sign = -1; sign <= 1; sign += 2) {
            const double s = sign * exp2(power * 0.125);
            float f = (float)s;
            double d = s;
            const double want_f = 3 * tanh((double)f / 3), want_d = 3 * tanh(s / 3);
            set->f.softcap(&f, 1, 3);
            set->d.softcap(&d, 1, 3);
            ck_assert_msg(fabs((double)f - want_f) <= 5e-7 * fabs(want_f),
                          "%s: softcap(%g) is %.9g, not %.9g", set->name, s, (double)f, want_f);
            ck_assert_msg(fabs(d - want_d) <= 4 * DBL_EPSILON * fabs(want_d),
                          "%s: softcap(%g) is %.17g, not %.17g", set->name, s, d, want_d);
        }
}
END_TEST

START_TEST(softcap_of_what_is_not_finite) {
    const struct attn_rowops *set = rowops_under_test(_i);
    float f[] = {INFINITY, -INFINITY, NAN, 0};
    double d[] = {(double)INFINITY, -(double)INFINITY, (double)NAN, 0};
    set->f.softcap(f, 4, 5);
    set->d.softcap(d, 4, 5);
    ck_assert(f[0] == 5 && f[1] == -5 && isnan(f[2]) && f[3] == 0);
    ck_assert(d[0] == 5 && d[1] == -5 && isnan(d[2]) && d[3] == 0);
}
END_TEST

/* The largest cap is none, to the bit; the smallest makes everything the cap. */
START_TEST(softcap_takes_every_normal_cap) {
    const struct attn_rowops *set = rowops_under_test(_i);
    const float values[] = {1e-42f, 1e-20f, 0.3f, -7.5f, 1e10f, -1e30f};
    for (size_t n = 0; n < sizeof values / sizeof *values; n++) {
        float huge = values[n], tiny = values[n];
        double wide = (double)values[n];
        set->f.softcap(&huge, 1, FLT_MAX);
        ck_assert_msg(huge == values[n], "%s: %g became %g", set->name, (double)values[n],
                      (double)huge);
        set->f.softcap(&tiny, 1, FLT_MIN);
        ck_assert(fabsf(tiny) <= FLT_MIN && (signbit(tiny) != 0) == (values[n] < 0));
        set->d.softcap(&wide, 1, DBL_MIN);
        ck_assert(fabs(wide) <= DBL_MIN);
    }
}
END_TEST

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
    const TTest *const tests[] = {exp_is_accurate,
                                  exp_of_what_is_hidden_is_exactly_0,
                                  exp_of_the_base_is_exactly_1,
                                  exp_lets_nan_through,
                                  max_passes_over_nan_and_respects_the_floor,
                                  soften_is_a_step_of_each_row,
                                  a_place_in_the_row_changes_no_bit,
                                  softcap_is_accurate,
                                  softcap_of_what_is_not_finite,
                                  softcap_takes_every_normal_cap,
                                  rows_end_where_they_end,
                                  rows_are_added_in_proportion,
                                  a_bias_of_minus_infinity_is_selected,
                                  a_sum_that_is_too_low_is_told,
                                  magnitude_is_the_largest,
                                  hide_selects_by_bit,
                                  keep_hides_what_a_run_leaves,
                                  rotate_turns_pairs,
                                  all_finite_sees_every_place};
    Suite *suite = suite_create("rowops");
    TCase *cases = tcase_create("every instruction set");
    int sets = 0;
    while (attn_rowops_at((size_t)sets) != NULL)
        sets++;
    for (size_t n = 0; n < sizeof tests / sizeof *tests; n++)
        tcase_add_loop_test(cases, tests[n], 0, sets);
    suite_add_tcase(suite, cases);
    return suite;
}

ATTN_TEST_MAIN(rowops_suite)
