/* SPDX-License-Identifier: Apache-2.0 */
/* When a request was in which stage. */
#include "server/tracing/trace_parts.h"

#include "tests/support/test_main.h"

START_TEST(a_stage_may_come_twice) {
    struct trace_parts parts = {.count = 0};
    trace_parts_add(&parts, STAGE_QUEUE, 10, 20);
    trace_parts_add(&parts, STAGE_DECODE, 20, 35);
    trace_parts_add(&parts, STAGE_QUEUE, 35, 40);
    ck_assert_uint_eq(parts.count, 3);
    ck_assert_int_eq(parts.at[2].stage, STAGE_QUEUE);
    ck_assert_int_eq(parts.at[0].ended, 20);
    ck_assert_int_eq(parts.at[2].began, 35);
}
END_TEST

START_TEST(one_that_goes_on_is_one) {
    struct trace_parts parts = {.count = 0};
    trace_parts_add(&parts, STAGE_DECODE, 10, 20);
    trace_parts_add(&parts, STAGE_DECODE, 21, 30);
    ck_assert_uint_eq(parts.count, 1);
    ck_assert_int_eq(parts.at[0].began, 10);
    ck_assert_int_eq(parts.at[0].ended, 30);
}
END_TEST

START_TEST(what_finds_no_room_is_not_kept) {
    struct trace_parts parts = {.count = 0};
    for (int i = 0; i < 2 * TRACE_PARTS_MOST; i++)
        trace_parts_add(&parts, i % 2 == 0 ? STAGE_QUEUE : STAGE_DECODE, i, i + 1);
    ck_assert_uint_eq(parts.count, TRACE_PARTS_MOST);
    ck_assert_int_eq(parts.at[TRACE_PARTS_MOST - 1].ended, TRACE_PARTS_MOST);
}
END_TEST

static Suite *trace_parts_suite(void) {
    Suite *suite = suite_create("trace_parts");
    TCase *tests = tcase_create("trace_parts");
    tcase_add_test(tests, a_stage_may_come_twice);
    tcase_add_test(tests, one_that_goes_on_is_one);
    tcase_add_test(tests, what_finds_no_room_is_not_kept);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(trace_parts_suite)
