/* SPDX-License-Identifier: Apache-2.0 */
/* Which traceparent headers are taken over, and what is made in the place of others. */
#include "server/tracing/trace_context.h"

#include <string.h>

#include "tests/support/test_main.h"

#define TRACE "0af7651916cd43dd8448eb211c80319c"
#define PARENT "b7ad6b7169203331"
#define NO_TRACE "00000000000000000000000000000000"
#define NO_PARENT "0000000000000000"

/* From the recommendation, sections 2.2.1 (version), 2.2.2 (fields) and 2.2.4 (other versions). */
static const struct {
    const char *header;
    bool is_valid, is_sampled;
} headers[] = {
    {"00-" TRACE "-" PARENT "-01", true, true},
    {"00-" TRACE "-" PARENT "-00", true, false},
    {"00-" TRACE "-" PARENT "-ff", true, true},
    {"00-" TRACE "-" PARENT "-fe", true, false},
    {"00-" TRACE "-" PARENT "-0b", true, true},
    {"00-f0000000000000000000000000000000-f000000000000000-01", true, true},
    {"01-" TRACE "-" PARENT "-01", true, true},
    {"cc-" TRACE "-" PARENT "-01-what-the-future-will-be-like", true, true},
    {"fe-" TRACE "-" PARENT "-00-", true, false},
    {"", false, false},
    {"00", false, false},
    {"ff-" TRACE "-" PARENT "-01", false, false},
    {"ff-" TRACE "-" PARENT "-01-more", false, false},
    {"0-" TRACE "-" PARENT "-01", false, false},
    {"000-" TRACE "-" PARENT "-01", false, false},
    {"0x-" TRACE "-" PARENT "-01", false, false},
    {"FE-" TRACE "-" PARENT "-01", false, false},
    {"00-" TRACE "-" PARENT, false, false},
    {"00-" TRACE "-" PARENT "-", false, false},
    {"00-" TRACE "-" PARENT "-1", false, false},
    {"00-" TRACE "-" PARENT "-0g", false, false},
    {"00-" TRACE "-" PARENT "-0A", false, false},
    {"00-" TRACE "-" PARENT "-001", false, false},
    {"00-" TRACE "-" PARENT "-01-", false, false},
    {"00-" TRACE "-" PARENT "-01-more", false, false},
    {"00-" TRACE "-" PARENT "-01.", false, false},
    {"01-" TRACE "-" PARENT "-01.more", false, false},
    {"00-" TRACE "-" PARENT "-01,00-" TRACE "-" PARENT "-01", false, false},
    {"00-" NO_TRACE "-" PARENT "-01", false, false},
    {"00-" TRACE "-" NO_PARENT "-01", false, false},
    {"01-" NO_TRACE "-" PARENT "-01", false, false},
    {"00-0AF7651916CD43DD8448EB211C80319C-" PARENT "-01", false, false},
    {"00-" TRACE "-B7AD6B7169203331-01", false, false},
    {"00-0af7651916cd43dd8448eb211c80319-" PARENT "-01", false, false},
    {"00-" TRACE "f-" PARENT "-01", false, false},
    {"00-" TRACE "-b7ad6b716920333-01-", false, false},
    {"00-" TRACE "-" PARENT "f-01", false, false},
    {"00_" TRACE "_" PARENT "_01", false, false},
    {"00-0af7651916cd43dd8448eb211c80319\xC3-" PARENT "-01", false, false},
    {" 00-" TRACE "-" PARENT "-01", false, false},
};

static void check_id(const char *id, size_t length) {
    ck_assert_uint_eq(strlen(id), length);
    ck_assert_uint_eq(strspn(id, "0123456789abcdef"), length);
    ck_assert_uint_ne(strspn(id, "0"), length);
}

START_TEST(headers_are_taken_over_or_replaced) {
    struct trace_context context;
    const char *const header = headers[_i].header;
    memset(&context, 0x55, sizeof context);
    trace_context_begin(&context, header, false);
    check_id(context.trace_id, TRACE_ID_SIZE - 1);
    check_id(context.span_id, TRACE_SPAN_SIZE - 1);
    if (headers[_i].is_valid) {
        ck_assert_int_eq(strncmp(context.trace_id, header + 3, 32), 0);
        ck_assert_int_eq(strncmp(context.parent_id, header + 36, 16), 0);
        ck_assert_str_ne(context.span_id, context.parent_id);
    } else {
        ck_assert_str_ne(context.trace_id, TRACE);
        ck_assert_str_eq(context.parent_id, "");
    }
    ck_assert_int_eq(context.is_sampled, headers[_i].is_sampled);
}
END_TEST

START_TEST(nothing_is_made_unasked) {
    struct trace_context context;
    char text[TRACE_PARENT_SIZE];
    trace_context_begin(&context, NULL, false);
    ck_assert_str_eq(context.trace_id, "");
    ck_assert_str_eq(context.span_id, "");
    ck_assert_str_eq(trace_context_write(&context, text), "");
}
END_TEST

START_TEST(each_new_trace_is_another) {
    struct trace_context one, other;
    trace_context_begin(&one, NULL, true);
    trace_context_begin(&other, NULL, true);
    check_id(one.trace_id, TRACE_ID_SIZE - 1);
    ck_assert_str_eq(one.parent_id, "");
    ck_assert_str_ne(one.trace_id, other.trace_id);
    ck_assert_str_ne(one.span_id, other.span_id);
}
END_TEST

START_TEST(what_is_written_can_be_read) {
    struct trace_context one, next;
    char text[TRACE_PARENT_SIZE];
    trace_context_begin(&one, "cc-" TRACE "-" PARENT "-ff-more", false);
    trace_context_begin(&next, trace_context_write(&one, text), false);
    ck_assert_uint_eq(strlen(text), TRACE_PARENT_SIZE - 1);
    ck_assert_int_eq(strncmp(text, "00-" TRACE "-", 36), 0);
    ck_assert_str_eq(text + 52, "-01");
    ck_assert_str_eq(next.trace_id, TRACE);
    ck_assert_str_eq(next.parent_id, one.span_id);
    ck_assert(next.is_sampled);
}
END_TEST

static Suite *trace_context_suite(void) {
    Suite *suite = suite_create("trace_context");
    TCase *tests = tcase_create("trace_context");
    tcase_add_loop_test(tests, headers_are_taken_over_or_replaced, 0,
                        (int)(sizeof headers / sizeof *headers));
    tcase_add_test(tests, nothing_is_made_unasked);
    tcase_add_test(tests, each_new_trace_is_another);
    tcase_add_test(tests, what_is_written_can_be_read);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(trace_context_suite)
