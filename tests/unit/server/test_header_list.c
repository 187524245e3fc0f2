/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of list headers and their q-values. */
#include "server/header_list.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/test_main.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* What is read of a header, as "word:quality word:quality". */
static const struct {
    const char *header, *read;
} ROWS[] = {
    {NULL, ""},
    {"", ""},
    {" \t", ""},
    {",, ,", ""},
    {"gzip", "gzip:1"},
    {" gzip\t,\tbr ", "gzip:1 br:1"},
    {"gzip;q=0.5, br;q=0", "gzip:0.5 br:0"},
    {"gzip ; q=0.25 ,, *;Q=1", "gzip:0.25 *:1"},
    {"text/html;level=1;q=0.125", "text/html:0.125"},
    {"text/html;q=0.5;q=0.25", "text/html:0.5"},
    {"a;q=x, b;q=, c;q=-1, d;q=7", "a:0 b:0 c:0 d:1"},
    {"a;qq=0.5, b;q", "a:1 b:1"},
    {"a;q=0.123456789123456789, b", "a:0.12345 b:1"},
    {";q=0.5, b", "b:1"},
    {"a;p=\"x;q=0\", b", "a:1 b:1"},
    {"a;p=\"x, c\";q=0.5, b", "a:0.5 b:1"},
    {"a;p=\"\\\", c\";q=0.5", "a:0.5"},
    {"a;p=\"x;q=0.5, b", "a:1"},
    {"a, \"", "a:1 \":1"},
    {"a;p=\"x\\", "a:1"},
};

START_TEST(elements) {
    const char *at = ROWS[_i].header;
    struct header_item item;
    char read[128] = "";
    while (header_list_next(&at, &item))
        snprintf(read + strlen(read), sizeof read - strlen(read), "%s%.*s:%.5g",
                 read[0] == '\0' ? "" : " ", (int)item.length, item.text, item.quality);
    ck_assert_str_eq(read, ROWS[_i].read);
}
END_TEST

START_TEST(words_in_any_case) {
    const char *at = "GZip;q=1";
    struct header_item item;
    ck_assert(header_list_next(&at, &item));
    ck_assert(header_item_is(&item, "gzip"));
    ck_assert(!header_item_is(&item, "gzi"));
    ck_assert(!header_item_is(&item, "gzipp"));
    ck_assert(!header_list_next(&at, &item));
}
END_TEST

static const struct {
    const char *list;
    bool has;
} TAGS[] = {
    {NULL, false},
    {"", false},
    {"\"ab\"", true},
    {"W/\"ab\"", true},
    {" ,\"x\" ,\tW/\"ab\",", true},
    {"*", true},
    {"\"abc\", \"a\", ab, \"\"", false},
    {"\"x, \"ab\"", false}, /* the tag "x, " and what is none */
    {"\"x, *\"", false},
    {"\"\\\", \"ab\"", true}, /* a backslash is one */
    {"\"ab", false},
    {"x\"ab\"", false},
};

START_TEST(tags) {
    ck_assert_int_eq(header_list_has_tag(TAGS[_i].list, "\"ab\""), TAGS[_i].has);
}
END_TEST

static Suite *header_list_suite(void) {
    Suite *suite = suite_create("header_list");
    TCase *tests = tcase_create("header_list");
    tcase_add_loop_test(tests, elements, 0, COUNT(ROWS));
    tcase_add_test(tests, words_in_any_case);
    tcase_add_loop_test(tests, tags, 0, COUNT(TAGS));
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(header_list_suite)
