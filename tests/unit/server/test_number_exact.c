/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The comparison behind rounding, without the guess before it: numbers far from the point between
 * two neighbours, near it and on it, and texts with more digits than a mantissa has.
 */
#include <string.h>

#include "server/numbers/number_decimal.h"
#include "tests/support/test_main.h"

static bool exceeds(const char *text, uint64_t half, int exponent, bool odd) {
    struct number_decimal decimal;
    number_scan(text, text + strlen(text), &decimal);
    ck_assert(decimal.valid);
    return number_exceeds(&decimal, half, exponent, odd);
}

START_TEST(sizes_decide_first) {
    ck_assert(exceeds("1e60", 3, 1, false));
    ck_assert(!exceeds("3", 1, 200, true));
    ck_assert(!exceeds("1e-60", 1, 0, true));
}
END_TEST

START_TEST(ties_go_to_even) {
    ck_assert(exceeds("9", 9, 0, true));
    ck_assert(!exceeds("9", 9, 0, false));
    ck_assert(exceeds("10", 9, 0, false));
    ck_assert(!exceeds("8", 9, 0, true));
}
END_TEST

/* 2^100, and its neighbours in the last of 31 digits. */
START_TEST(every_digit_counts) {
    ck_assert(exceeds("1267650600228229401496703205376", 1, 100, true));
    ck_assert(!exceeds("1267650600228229401496703205376", 1, 100, false));
    ck_assert(exceeds("1267650600228229401496703205377", 1, 100, false));
    ck_assert(!exceeds("1267650600228229401496703205375", 1, 100, true));
    ck_assert(exceeds("0.001267650600228229401496703205377e33", 1, 100, false));
    ck_assert(exceeds("1267650600228229401496703205376.00000000000000000001", 1, 100, false));
}
END_TEST

static Suite *number_exact_suite(void) {
    Suite *suite = suite_create("number_exact");
    TCase *exact = tcase_create("exact");
    tcase_add_test(exact, sizes_decide_first);
    tcase_add_test(exact, ties_go_to_even);
    tcase_add_test(exact, every_digit_counts);
    suite_add_tcase(suite, exact);
    return suite;
}

ATTN_TEST_MAIN(number_exact_suite)
