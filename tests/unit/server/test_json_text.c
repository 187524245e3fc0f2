/* SPDX-License-Identifier: Apache-2.0 */
/* Texts that go into answers and refusals: escaped, cut to their room, and as pointers. */
#include <string.h>

#include "server/json/json_document.h"
#include "server/json/json_text.h"
#include "server/json/json_value.h"
#include "tests/support/test_main.h"

START_TEST(what_json_cannot_hold_is_escaped) {
    static const char bytes[] = "a\"\\\n\x1f~\xc3\xa4";
    static const char expected[] = "\"a\\\"\\\\\\u000a\\u001f~\xc3\xa4\"";
    char room[64];
    struct json_text text = {.start = room, .capacity = sizeof room};
    json_text_escaped(&text, bytes, sizeof bytes - 1);
    ck_assert_uint_eq(text.length, sizeof expected - 1);
    ck_assert_mem_eq(text.start, expected, text.length);
}
END_TEST

START_TEST(a_snippet_is_ascii_and_fits) {
    static const char bytes[] = "ab ~\x7f\xc3\n";
    char out[6];
    ck_assert_str_eq(json_snippet(bytes, sizeof bytes - 1, 2, out, sizeof out), " ~???");
    ck_assert_str_eq(json_snippet(bytes, sizeof bytes - 1, 0, out, sizeof out), "ab ~?");
}
END_TEST

/* A name may be as long as a body; what is left of it is a pointer all the same. */
START_TEST(a_long_name_is_cut) {
    char name[2 * JSON_POINTER_ROOM], pointer[JSON_POINTER_ROOM];
    memset(name, '/', sizeof name - 1);
    name[sizeof name - 1] = 0;
    json_pointer_member(pointer, "/q", name);
    ck_assert_uint_lt(strlen(pointer), sizeof pointer);
    ck_assert_uint_gt(strlen(pointer), sizeof pointer - 4);
    ck_assert_int_eq(strncmp(pointer, "/q/~1~1", 7), 0);
    ck_assert_str_eq(json_pointer_member(pointer, "", "a~b/c"), "/a~0b~1c");
}
END_TEST

static Suite *json_text_suite(void) {
    Suite *suite = suite_create("JSON texts");
    TCase *texts = tcase_create("texts");
    tcase_add_test(texts, what_json_cannot_hold_is_escaped);
    tcase_add_test(texts, a_snippet_is_ascii_and_fits);
    tcase_add_test(texts, a_long_name_is_cut);
    suite_add_tcase(suite, texts);
    return suite;
}

ATTN_TEST_MAIN(json_text_suite)
