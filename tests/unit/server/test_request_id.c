/* SPDX-License-Identifier: Apache-2.0 */
/* Which ids are taken over from the client, and what is made instead. */
#include "server/request_id.h"

#include <string.h>

#include "tests/support/test_main.h"

START_TEST(sane_ids_are_kept) {
    char longest[REQUEST_ID_SIZE], id[REQUEST_ID_SIZE];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    const char *const sane[] = {"a", "A-Z_0.9:/+=", longest};
    for (size_t i = 0; i < sizeof sane / sizeof *sane; i++) {
        request_id_choose(sane[i], id);
        ck_assert_str_eq(id, sane[i]);
    }
}
END_TEST

START_TEST(others_are_replaced) {
    char too_long[REQUEST_ID_SIZE + 1], id[REQUEST_ID_SIZE], other[REQUEST_ID_SIZE];
    memset(too_long, 'x', sizeof too_long - 1);
    too_long[sizeof too_long - 1] = '\0';
    const char *const odd[] = {NULL, "", "a b", "a\"b", "\xC3\xA9", "a\nb", too_long};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        request_id_choose(odd[i], id);
        request_id_choose(odd[i], other);
        ck_assert_uint_eq(strspn(id, "0123456789abcdef"), 32);
        ck_assert_uint_eq(strlen(id), 32);
        ck_assert_str_ne(id, other);
    }
}
END_TEST

#define TRACE "0af7651916cd43dd8448eb211c80319c"

START_TEST(trace_ids) {
    char id[TRACE_ID_SIZE];
    ck_assert(trace_id_read("00-" TRACE "-b7ad6b7169203331-01", id));
    ck_assert_str_eq(id, TRACE);
    ck_assert(trace_id_read("01-" TRACE "-b7ad6b7169203331-01-more", id));
}
END_TEST

START_TEST(bad_trace_parents) {
    static const char *const bad[] = {
        NULL,
        "",
        "00-" TRACE "-b7ad6b7169203331",
        "00-" TRACE "-b7ad6b7169203331-01-more",
        "00-" TRACE "-b7ad6b7169203331-01x",
        "ff-" TRACE "-b7ad6b7169203331-01",
        "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-" TRACE "-0000000000000000-01",
        "00_" TRACE "_b7ad6b7169203331_01",
    };
    char id[TRACE_ID_SIZE];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert(!trace_id_read(bad[i], id));
        ck_assert_str_eq(id, "");
    }
}
END_TEST

static Suite *request_id_suite(void) {
    Suite *suite = suite_create("request_id");
    TCase *tests = tcase_create("request_id");
    tcase_add_test(tests, sane_ids_are_kept);
    tcase_add_test(tests, others_are_replaced);
    tcase_add_test(tests, trace_ids);
    tcase_add_test(tests, bad_trace_parents);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(request_id_suite)
