/* SPDX-License-Identifier: Apache-2.0 */
/* What a key may use: rates that fill up again, counts that are given back. */
#include "server/auth/account.h"

#include "tests/support/test_main.h"

#define SECOND INT64_C(1000000000)

static struct account *account;

static void setup(void) {
    account = account_create();
}

static void teardown(void) {
    account_unref(account);
}

static bool enters(const struct account_limits *limits, double seconds) {
    const bool entered =
        account_enter(account, limits, SECOND + (int64_t)(seconds * 1e9)).refusal == ACCOUNT_FINE;
    if (entered)
        account_leave(account);
    return entered;
}

START_TEST(no_limits_limit_nothing) {
    const struct account_limits none = {0};
    for (int i = 0; i < 1000; i++)
        ck_assert(enters(&none, 0));
    ck_assert(account_reserve(account, &none, SIZE_MAX / 2));
    account_release(account, SIZE_MAX / 2);
    ck_assert_int_eq(account_charge(account, &none, 1e300, 1).refusal, ACCOUNT_FINE);
}
END_TEST

START_TEST(a_burst_and_then_the_rate) {
    const struct account_limits limits = {.requests_per_second = 10, .burst = 3};
    for (int i = 0; i < 3; i++)
        ck_assert(enters(&limits, 0));
    const struct account_answer refused = account_enter(account, &limits, SECOND);
    ck_assert_int_eq(refused.refusal, ACCOUNT_RATE);
    ck_assert_double_eq_tol(refused.wait_seconds, 0.1, 1e-9);
    ck_assert(!enters(&limits, 0.099));
    ck_assert(enters(&limits, 0.101));
    ck_assert(!enters(&limits, 0.102));
    for (int i = 0; i < 3; i++) /* a rest fills the burst, and not more */
        ck_assert(enters(&limits, 100));
    ck_assert(!enters(&limits, 100));
}
END_TEST

START_TEST(a_slow_rate_lets_one_in) {
    const struct account_limits limits = {.requests_per_second = 0.5};
    ck_assert(enters(&limits, 0));
    ck_assert(!enters(&limits, 1.9));
    ck_assert(enters(&limits, 2.1));
}
END_TEST

START_TEST(calls_in_flight) {
    const struct account_limits limits = {.calls = 2};
    ck_assert_int_eq(account_enter(account, &limits, 1).refusal, ACCOUNT_FINE);
    ck_assert_int_eq(account_enter(account, &limits, 1).refusal, ACCOUNT_FINE);
    ck_assert_int_eq(account_enter(account, &limits, 1).refusal, ACCOUNT_CALLS);
    account_leave(account);
    ck_assert_int_eq(account_enter(account, &limits, 1).refusal, ACCOUNT_FINE);
    account_leave(account);
    account_leave(account);
}
END_TEST

START_TEST(memory_in_flight) {
    const struct account_limits limits = {.memory = 100};
    ck_assert(account_reserve(account, &limits, 60));
    ck_assert(!account_reserve(account, &limits, 41));
    ck_assert(!account_reserve(account, &limits, SIZE_MAX));
    ck_assert(account_reserve(account, &limits, 40));
    account_release(account, 100);
    ck_assert(account_reserve(account, &limits, 100));
    account_release(account, 100);
}
END_TEST

/* A call is charged when it is known what it needs, so the debt is paid afterwards. */
START_TEST(work_is_paid_afterwards) {
    const struct account_limits limits = {.flops_per_second = 100};
    ck_assert_int_eq(account_charge(account, &limits, 350, SECOND).refusal, ACCOUNT_FINE);
    const struct account_answer refused = account_charge(account, &limits, 1, SECOND);
    ck_assert_int_eq(refused.refusal, ACCOUNT_WORK);
    ck_assert_double_eq_tol(refused.wait_seconds, 2.5, 1e-9);
    ck_assert_int_eq(account_charge(account, &limits, 1, SECOND + 24 * SECOND / 10).refusal,
                     ACCOUNT_WORK);
    ck_assert_int_eq(account_charge(account, &limits, 1, SECOND + 26 * SECOND / 10).refusal,
                     ACCOUNT_FINE);
}
END_TEST

static Suite *account_suite(void) {
    Suite *suite = suite_create("account");
    TCase *tests = tcase_create("account");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, no_limits_limit_nothing);
    tcase_add_test(tests, a_burst_and_then_the_rate);
    tcase_add_test(tests, a_slow_rate_lets_one_in);
    tcase_add_test(tests, calls_in_flight);
    tcase_add_test(tests, memory_in_flight);
    tcase_add_test(tests, work_is_paid_afterwards);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(account_suite)
