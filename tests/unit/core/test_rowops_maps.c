/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The row operations that maps are reduced with, of every instruction set that this CPU has,
 * against plain loops in double: at every length around the vectors', with NaN and -inf.
 */
#include <math.h>
#include <string.h>

#include "core/kernels/rowops.h"
#include "tests/support/random.h"
#include "tests/support/test_main.h"

enum { LONGEST = 70, ROWS = 5, STRIDE = 80 };

/* Rows of both types with the same numbers, and weights beside scores. */
struct rows {
    float f[ROWS * STRIDE], pf[ROWS * STRIDE];
    double d[ROWS * STRIDE], pd[ROWS * STRIDE];
};

/* Some scores hidden, with weight 0. */
static struct rows rows_made(uint64_t seed) {
    struct random random = random_seeded(seed);
    struct rows rows;
    for (size_t n = 0; n < ROWS * STRIDE; n++) {
        const bool hidden = random_unit(&random) < 0.2;
        rows.f[n] = hidden ? -INFINITY : (float)(4 * random_unit(&random) - 2);
        rows.pf[n] = hidden ? 0 : (float)random_unit(&random) * 0.125f;
        rows.d[n] = (double)rows.f[n];
        rows.pd[n] = (double)rows.pf[n];
    }
    return rows;
}

static void expect(double got, double want, double tolerance, const char *what, size_t n) {
    if (isnan(want) ? !isnan(got) : got != want && !(fabs(got - want) <= tolerance))
        ck_abort_msg("%s of %zu: %g, not %g", what, n, got, want);
}

static const struct attn_rowops *set_at(int index) {
    return attn_rowops_at((size_t)index);
}

START_TEST(largest_and_sum) {
    const struct attn_rowops *ops = set_at(_i);
    struct rows rows = rows_made(1);
    for (size_t n = 0; n <= LONGEST; n++) {
        double largest = -INFINITY, sum = 0;
        for (size_t j = 0; j < n; j++) {
            largest = fmax(largest, rows.d[j]);
            sum += rows.pd[j];
        }
        expect((double)ops->f.largest(rows.f, n), largest, 0, "largest float", n);
        expect(ops->d.largest(rows.d, n), largest, 0, "largest double", n);
        expect((double)ops->f.sum(rows.pf, n), sum, 1e-5, "sum float", n);
        expect(ops->d.sum(rows.pd, n), sum, 1e-13, "sum double", n);
    }
    for (size_t at = 0; at < LONGEST; at++) {
        struct rows odd = rows;
        odd.f[at] = NAN;
        odd.d[at] = (double)NAN;
        expect((double)ops->f.largest(odd.f, LONGEST), (double)NAN, 0, "NaN float", at);
        expect(ops->d.largest(odd.d, LONGEST), (double)NAN, 0, "NaN double", at);
    }
}
END_TEST

START_TEST(columns_of_rows) {
    const struct attn_rowops *ops = set_at(_i);
    struct rows rows = rows_made(2);
    rows.f[STRIDE + 3] = NAN;
    rows.d[STRIDE + 3] = (double)NAN;
    for (size_t n = 1; n <= LONGEST; n++) {
        float f[3][STRIDE];
        double d[3][STRIDE];
        ops->f.rows_largest(rows.f, STRIDE, ROWS, n, f[0]);
        ops->d.rows_largest(rows.d, STRIDE, ROWS, n, d[0]);
        ops->f.rows_sum(rows.pf, STRIDE, ROWS, n, f[1]);
        ops->d.rows_sum(rows.pd, STRIDE, ROWS, n, d[1]);
        ops->f.rows_seen(rows.f, STRIDE, ROWS, n, f[2]);
        ops->d.rows_seen(rows.d, STRIDE, ROWS, n, d[2]);
        for (size_t j = 0; j < n; j++) {
            double largest = -INFINITY, sum = 0, seen = 0;
            for (size_t r = 0; r < ROWS; r++) {
                const double x = rows.d[r * STRIDE + j];
                largest = isnan(x) || x > largest ? x : largest;
                sum += rows.pd[r * STRIDE + j];
                seen += x != -INFINITY;
            }
            expect((double)f[0][j], largest, 0, "rows_largest float", j);
            expect(d[0][j], largest, 0, "rows_largest double", j);
            expect((double)f[1][j], sum, 1e-6, "rows_sum float", j);
            expect(d[1][j], sum, 1e-15, "rows_sum double", j);
            expect((double)f[2][j], seen, 0, "rows_seen float", j);
            expect(d[2][j], seen, 0, "rows_seen double", j);
        }
    }
}
END_TEST

START_TEST(the_first_above) {
    const struct attn_rowops *ops = set_at(_i);
    for (size_t n = 1; n <= LONGEST; n++)
        for (size_t at = 0; at <= n; at++)
            for (size_t from = 0; from < n; from += 3) {
                float f[LONGEST] = {0};
                double d[LONGEST] = {0};
                const size_t want = at < from ? n : at;
                if (at < n) {
                    f[at] = at % 2 ? NAN : 1;
                    d[at] = (double)f[at];
                }
                ck_assert_uint_eq(ops->f.find_above(f, from, n, 0), want);
                ck_assert_uint_eq(ops->d.find_above(d, from, n, 0), want);
            }
}
END_TEST

START_TEST(moments_of_a_row) {
    const struct attn_rowops *ops = set_at(_i);
    struct rows rows = rows_made(3);
    for (size_t n = 1; n <= LONGEST; n++) {
        double want[ATTN_MOMENTS] = {0}, f[ATTN_MOMENTS], d[ATTN_MOMENTS];
        for (size_t j = 0; j < n; j++) {
            const double p = rows.pd[j];
            want[ATTN_MOMENT_SUM] += p;
            want[ATTN_MOMENT_SQUARE] += p * p;
            want[ATTN_MOMENT_CUBE] += p * p * p;
            want[ATTN_MOMENT_SCORE] += p == 0 ? 0 : p * (rows.d[j] - 2);
            want[ATTN_MOMENT_DISTANCE] += p * fabs(30.0 - (double)j);
            want[ATTN_MOMENT_LARGEST] = fmax(want[ATTN_MOMENT_LARGEST], p);
            want[ATTN_MOMENT_SEEN] += rows.d[j] != -INFINITY;
        }
        ops->f.moments(rows.pf, rows.f, n, 2, 30, f);
        ops->d.moments(rows.pd, rows.d, n, 2, 30, d);
        for (size_t which = 0; which < ATTN_MOMENTS; which++) {
            expect(f[which], want[which], 2e-4, "moment float", which);
            expect(d[which], want[which], 1e-11, "moment double", which);
        }
    }
}
END_TEST

/* Far from 0, where squares would cancel. */
START_TEST(spread_of_a_row) {
    const struct attn_rowops *ops = set_at(_i);
    struct rows rows = rows_made(4);
    float xf[LONGEST];
    double xd[LONGEST];
    for (size_t j = 0; j < LONGEST; j++) {
        xf[j] = (float)(1000 + (double)(j % 7));
        xd[j] = (double)xf[j];
    }
    for (size_t n = 1; n <= LONGEST; n++) {
        double count = 0, sum = 0, squares = 0, largest = 0, f[ATTN_SPREADS], d[ATTN_SPREADS];
        for (size_t j = 0; j < n; j++)
            if (rows.d[j] != -INFINITY) {
                count++;
                sum += xd[j];
                largest = fmax(largest, xd[j]);
            }
        for (size_t j = 0; j < n && count > 0; j++)
            if (rows.d[j] != -INFINITY)
                squares += (xd[j] - sum / count) * (xd[j] - sum / count);
        const double want[ATTN_SPREADS] = {count, count > 0 ? sum / count : 0, squares, largest};
        ops->f.spread(xf, rows.f, n, f);
        ops->d.spread(xd, rows.d, n, d);
        for (size_t which = 0; which < ATTN_SPREADS; which++) {
            expect(f[which], want[which], 1e-3, "spread float", which);
            expect(d[which], want[which], 1e-9, "spread double", which);
        }
    }
}
END_TEST

static Suite *suite(void) {
    Suite *suite = suite_create("rowops_maps");
    TCase *rows = tcase_create("rows");
    int sets = 0;
    while (set_at(sets) != NULL)
        sets++;
    tcase_add_loop_test(rows, largest_and_sum, 0, sets);
    tcase_add_loop_test(rows, columns_of_rows, 0, sets);
    tcase_add_loop_test(rows, the_first_above, 0, sets);
    tcase_add_loop_test(rows, moments_of_a_row, 0, sets);
    tcase_add_loop_test(rows, spread_of_a_row, 0, sets);
    suite_add_tcase(suite, rows);
    return suite;
}

ATTN_TEST_MAIN(suite)
