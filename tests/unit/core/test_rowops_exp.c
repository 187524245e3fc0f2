/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exponentials and soft caps of every instruction set that this machine has, against libm in
 * double: accuracy, what is not finite, and that a place in the row changes no bit.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "tests/support/test_main.h"
#include "tests/unit/core/rowops_fixture.h"

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

static Suite *rowops_exp_suite(void) {
    const TTest *const tests[] = {exp_is_accurate,
                                  exp_of_what_is_hidden_is_exactly_0,
                                  exp_of_the_base_is_exactly_1,
                                  exp_lets_nan_through,
                                  max_passes_over_nan_and_respects_the_floor,
                                  soften_is_a_step_of_each_row,
                                  a_place_in_the_row_changes_no_bit,
                                  softcap_is_accurate,
                                  softcap_of_what_is_not_finite,
                                  softcap_takes_every_normal_cap};
    return rowops_suite_of("rowops, exp", tests, sizeof tests / sizeof *tests);
}

ATTN_TEST_MAIN(rowops_exp_suite)
