/* SPDX-License-Identifier: Apache-2.0 */
/* Whole numbers as printf writes them. */
#include "server/digits.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/test_main.h"

static void check(uint64_t value) {
    char expected[DIGITS_DECIMAL + 1], got[DIGITS_DECIMAL + 1];
    snprintf(expected, sizeof expected, "%" PRIu64, value);
    got[digits_decimal(got, value)] = '\0';
    ck_assert_str_eq(got, expected);
    snprintf(expected, sizeof expected, "%016" PRIx64, value);
    digits_hex(got, value);
    got[DIGITS_HEX] = '\0';
    ck_assert_str_eq(got, expected);
}

START_TEST(numbers_are_as_printf_writes_them) {
    uint64_t power = 1;
    check(0);
    check(UINT64_MAX);
    for (int n = 0; n < 20; n++, power *= 10) {
        check(power - 1);
        check(power);
        check(power * 7 + 3);
    }
}
END_TEST

static Suite *digits_suite(void) {
    Suite *suite = suite_create("digits");
    TCase *tests = tcase_create("digits");
    tcase_add_test(tests, numbers_are_as_printf_writes_them);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(digits_suite)
