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

static Suite *request_id_suite(void) {
    Suite *suite = suite_create("request_id");
    TCase *tests = tcase_create("request_id");
    tcase_add_test(tests, sane_ids_are_kept);
    tcase_add_test(tests, others_are_replaced);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(request_id_suite)
