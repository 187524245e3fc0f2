/* SPDX-License-Identifier: Apache-2.0 */
/* Lists to sets: every order, repetition and sign, the ends of int64, and a sort that is called
 * off. */
#include "server/options/int_set.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/support/random.h"
#include "tests/support/test_main.h"

enum { MOST = 600, LONG = 1 << 21 };

static int compare(const void *x, const void *y) {
    const int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
    return (a > b) - (a < b);
}

/* Against the C library's sort, and its neighbours compared. */
static void check(const int64_t *values, size_t count) {
    int64_t wanted[MOST], got[MOST];
    size_t distinct = 0, kept = MOST + 1;
    memcpy(got, values, count * sizeof *got);
    memcpy(wanted, values, count * sizeof *wanted);
    qsort(wanted, count, sizeof *wanted, compare);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || wanted[i] != wanted[i - 1])
            wanted[distinct++] = wanted[i];
    ck_assert(int_set_make(got, count, NULL, &kept));
    ck_assert_uint_eq(kept, distinct);
    ck_assert_mem_eq(got, wanted, distinct * sizeof *got);
    ck_assert(int_set_is_one(got, kept));
    ck_assert_int_eq(int_set_is_one(values, count),
                     distinct == count && memcmp(values, wanted, count * sizeof *values) == 0);
}

/* Few values and many, of both signs, of all sizes and of one. */
START_TEST(a_set_is_sorted_and_has_no_repetition) {
    static const uint64_t bounds[] = {1, 2, 5, 50, 1000, UINT64_C(1) << 40, UINT64_MAX};
    struct random random = random_seeded(5);
    for (size_t count = 0; count <= MOST; count = count < 40 ? count + 1 : count * 5 / 4)
        for (size_t b = 0; b < sizeof bounds / sizeof *bounds; b++) {
            int64_t values[MOST];
            for (size_t i = 0; i < count; i++)
                values[i] = (int64_t)(random_below(&random, bounds[b]) - bounds[b] / 2);
            check(values, count);
            qsort(values, count, sizeof *values, compare);
            check(values, count);
            for (size_t i = 0; i < count / 2; i++) {
                const int64_t value = values[i];
                values[i] = values[count - 1 - i];
                values[count - 1 - i] = value;
            }
            check(values, count);
        }
}
END_TEST

START_TEST(the_ends_of_int64_are_values) {
    int64_t values[MOST];
    static const int64_t ends[] = {INT64_MAX, INT64_MIN, 0, -1, 1, INT64_MIN + 1};
    for (size_t i = 0; i < MOST; i++)
        values[i] = ends[i % 6];
    check(values, 6);
    check(values, MOST);
}
END_TEST

/* Ones too many for a test of their order, in an order that no sort likes. */
static int64_t *long_list(void) {
    struct random random = random_seeded(6);
    int64_t *values = malloc(LONG * sizeof *values);
    ck_assert_ptr_nonnull(values);
    for (size_t i = 0; i < LONG; i++)
        values[i] = (int64_t)random_next(&random);
    return values;
}

START_TEST(a_sort_is_called_off) {
    const atomic_bool cancelled = true;
    int64_t *const values = long_list();
    const int64_t first = values[0], last = values[LONG - 1];
    size_t kept;
    ck_assert(!int_set_make(values, LONG, &cancelled, &kept));
    ck_assert(values[0] == first && values[LONG - 1] == last);
    free(values);
}
END_TEST

/* No order is a bad case: random numbers and equal ones take a fraction of a second. */
START_TEST(long_lists_are_sorted_soon) {
    int64_t *const values = long_list();
    size_t kept;
    const clock_t began = clock();
    ck_assert(int_set_make(values, LONG, NULL, &kept));
    ck_assert(int_set_is_one(values, kept));
    ck_assert_uint_eq(kept, LONG);
    for (size_t i = 0; i < LONG; i++)
        values[i] = 7;
    ck_assert(int_set_make(values, LONG, NULL, &kept));
    ck_assert_uint_eq(kept, 1);
    ck_assert((double)(clock() - began) / CLOCKS_PER_SEC < 5);
    free(values);
}
END_TEST

static Suite *int_set_suite(void) {
    Suite *const suite = suite_create("int_set");
    TCase *const tests = tcase_create("set");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, a_set_is_sorted_and_has_no_repetition);
    tcase_add_test(tests, the_ends_of_int64_are_values);
    tcase_add_test(tests, a_sort_is_called_off);
    tcase_add_test(tests, long_lists_are_sorted_soon);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(int_set_suite)
