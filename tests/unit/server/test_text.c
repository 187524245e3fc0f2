/* SPDX-License-Identifier: Apache-2.0 */
/* Growing text, and that any bytes become valid JSON strings and label values. */
#include "server/text.h"

#include <string.h>

#include "tests/support/test_main.h"

static void check_written(void (*write)(struct text *, const char *), const char *given,
                          const char *expected) {
    struct text text = {0};
    write(&text, given);
    ck_assert(!text.failed);
    ck_assert_uint_eq(text.length, strlen(expected));
    ck_assert_mem_eq(text.data, expected, text.length);
    text_close(&text);
}

START_TEST(json_strings) {
    check_written(text_json, "", "\"\"");
    check_written(text_json, "a\"b\\c", "\"a\\\"b\\\\c\"");
    check_written(text_json, "\n\x01\x7f", "\"\\u000a\\u0001\\u007f\"");
    check_written(text_json, "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80",
                  "\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\"");
}
END_TEST

/* A byte of no well-formed sequence becomes U+FFFD; what follows is kept. */
START_TEST(json_of_bad_utf8) {
    static const char *const bad[] = {"\xFF", "\x80", "\xC0", "\xF8"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        check_written(text_json, bad[i], "\"\xEF\xBF\xBD\"");
    check_written(text_json, "\xC3(", "\"\xEF\xBF\xBD(\"");
    check_written(text_json, "\xC3", "\"\xEF\xBF\xBD\"");
    check_written(text_json, "\xED\xA0\x80", "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
    check_written(text_json, "\xE0\x80\xAF", "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
    check_written(text_json, "\xF4\x90\x80\x80",
                  "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
}
END_TEST

START_TEST(label_values) {
    check_written(text_label, "a\"b\\c\nd", "\"a\\\"b\\\\c\\nd\"");
}
END_TEST

START_TEST(growth) {
    struct text text = {0};
    for (int i = 0; i < 10000; i++)
        text_format(&text, "%d,", i % 10);
    ck_assert_uint_eq(text.length, 20000);
    ck_assert_mem_eq(text.data + 19990, "5,6,7,8,9,", 10);
    text_clear(&text);
    ck_assert_uint_eq(text.length, 0);
    text_close(&text);
}
END_TEST

/* Whatever room is left, what is added is whole. */
START_TEST(formats_that_just_fit_or_do_not) {
    char long_string[1200];
    memset(long_string, 'x', sizeof long_string);
    for (size_t before = 440; before < 520; before++)
        for (int length = 0; length < 600; length += 1 + length / 80) {
            struct text text = {0};
            text_add(&text, long_string, before);
            text_format(&text, "%.*s|", length, long_string);
            ck_assert(!text.failed);
            ck_assert_uint_eq(text.length, before + (size_t)length + 1);
            ck_assert_mem_eq(text.data, long_string, before + (size_t)length);
            ck_assert_int_eq(text.data[text.length - 1], '|');
            text_close(&text);
        }
}
END_TEST

static Suite *text_suite(void) {
    Suite *suite = suite_create("text");
    TCase *tests = tcase_create("text");
    tcase_add_test(tests, json_strings);
    tcase_add_test(tests, json_of_bad_utf8);
    tcase_add_test(tests, label_values);
    tcase_add_test(tests, growth);
    tcase_add_test(tests, formats_that_just_fit_or_do_not);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(text_suite)
