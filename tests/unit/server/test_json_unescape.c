/* SPDX-License-Identifier: Apache-2.0 */
/* Escapes of JSON strings, and the parser when memory runs out. */
#include <stdlib.h>
#include <string.h>

#include "server/json/json_load.h"
#include "server/json/json_unescape.h"
#include "tests/support/guard_page.h"
#include "tests/support/random.h"
#include "tests/support/test_main.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

static const struct {
    const char *text, *plain; /* plain NULL: refused */
} TEXTS[] = {
    {"", ""},
    {"abc", "abc"},
    {"a\\/b\\\\c\\\"d", "a/b\\c\"d"},
    {"\\b\\f\\n\\r\\t", "\b\f\n\r\t"},
    {"\\u0041\\u00e9\\u20AC", "A\xc3\xa9\xe2\x82\xac"},
    {"\\u007f\\u0080\\u07ff\\u0800\\uffff", "\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf"},
    {"\\ud83d\\ude00.", "\xf0\x9f\x98\x80."},
    {"\\udbff\\udfff", "\xf4\x8f\xbf\xbf"},
    {"\\", NULL},
    {"\\x", NULL},
    {"\\u", NULL},
    {"\\u12", NULL},
    {"\\u12g4", NULL},
    {"\\u0000", NULL},
    {"\\ud83d", NULL},
    {"\\ud83d\\n", NULL},
    {"\\ud83d\\u0041", NULL},
    {"\\ud83d\\udbff", NULL},
    {"\\ud83d\\ue000", NULL},
    {"\\ud83d\\uffff", NULL},
    {"\\ude00", NULL},
    {"\\ud83d\\ude0", NULL},
};

START_TEST(escapes_are_replaced) {
    const size_t length = strlen(TEXTS[_i].text);
    struct guard_page in = guard_page_create(64), room = guard_page_create(64);
    char blank[64] = {0};
    const char *const text = guard_page_copy(&in, TEXTS[_i].text, length);
    char *const out = guard_page_copy(&room, blank, length);
    size_t size = 0;
    ck_assert_int_eq(json_unescape(text, length, out, &size), TEXTS[_i].plain != NULL);
    if (TEXTS[_i].plain != NULL) {
        ck_assert_uint_eq(size, strlen(TEXTS[_i].plain));
        ck_assert_mem_eq(out, TEXTS[_i].plain, size);
    }
    guard_page_free(&in);
    guard_page_free(&room);
}
END_TEST

/* Whatever the writer escapes, reading gives back; bytes at random never lead out of the room. */
START_TEST(any_text_is_survived) {
    struct random random = random_seeded(9);
    struct guard_page in = guard_page_create(64), room = guard_page_create(64);
    for (int round = 0; round < 20000; round++) {
        char text[40];
        const size_t length = random_below(&random, sizeof text);
        size_t size;
        for (size_t i = 0; i < length; i++)
            text[i] = "\\\\\\\\uuuddD8c0eEfF1\"n/z"[random_below(&random, 23)];
        const char *const copy = guard_page_copy(&in, text, length);
        char *const out = guard_page_copy(&room, text, length);
        if (json_unescape(copy, length, out, &size))
            ck_assert_uint_le(size, length);
    }
    guard_page_free(&in);
    guard_page_free(&room);
}
END_TEST

START_TEST(nodes_live_in_the_storage) {
    static const char text[] = "{\"a\":[1,2.5,{\"b\":\"c\"}],\"d\":null}";
    struct storage *const storage = storage_create();
    bool exhausted = true;
    json_error_t cause;
    const json_t *const root = json_load(storage, text, strlen(text), &cause, &exhausted);
    ck_assert(root != NULL && !exhausted);
    ck_assert_int_eq(json_integer_value(json_array_get(json_object_get(root, "a"), 0)), 1);
    ck_assert_ptr_null(json_load(storage, "{\"a\":1,\"a\":2}", 13, &cause, &exhausted));
    ck_assert(!exhausted && json_error_code(&cause) == json_error_duplicate_key);
    storage_free(storage);
}
END_TEST

/* Nodes made outside of a load come from malloc, before and behind one. */
START_TEST(other_nodes_are_unaffected) {
    json_error_t cause;
    bool exhausted;
    json_t *const before = json_object();
    struct storage *const storage = storage_create();
    ck_assert_ptr_nonnull(json_load(storage, "[]", 2, &cause, &exhausted));
    json_t *const behind = json_array();
    storage_free(storage);
    ck_assert_int_eq(json_object_set_new(before, "x", behind), 0);
    ck_assert_uint_eq(json_object_size(before), 1);
    json_decref(before);
}
END_TEST

static Suite *json_unescape_suite(void) {
    Suite *const suite = suite_create("json_unescape");
    TCase *const tests = tcase_create("text");
    tcase_add_loop_test(tests, escapes_are_replaced, 0, COUNT(TEXTS));
    tcase_add_test(tests, any_text_is_survived);
    tcase_add_test(tests, nodes_live_in_the_storage);
    tcase_add_test(tests, other_nodes_are_unaffected);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(json_unescape_suite)
