/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding the end of an array: against a byte-by-byte reference on random text, at every
 * alignment, and with the text's end at an unreadable page.
 */
#include "server/numbers/numbers.h"
#include "tests/support/guard_page.h"
#include "tests/support/random.h"
#include "tests/support/test_main.h"

#include <stdio.h>

enum { ROOM = 4096 };

struct found {
    bool ok;
    size_t end, commas;
};

static struct found skip(const char *text, size_t length) {
    struct found found = {false, SIZE_MAX, SIZE_MAX};
    found.ok = number_array_skip(text, length, &found.end, &found.commas);
    return found;
}

static struct found skip_plainly(const char *text, size_t length) {
    size_t depth = 0, commas = 0;
    bool quoted = false;
    for (size_t i = 0; i < length; i++) {
        if (quoted && text[i] == '\\') {
            i++;
        } else if (text[i] == '"') {
            quoted = !quoted;
        } else if (!quoted) {
            commas += text[i] == ',';
            depth += text[i] == '[';
            depth -= text[i] == ']';
            if (depth == 0)
                return (struct found){true, i + 1, commas};
        }
    }
    return (struct found){false, SIZE_MAX, SIZE_MAX};
}

static void expect_same(const char *text, size_t length) {
    const struct found got = skip(text, length);
    const struct found expected = skip_plainly(text, length);
    if (got.ok != expected.ok || got.end != expected.end || got.commas != expected.commas)
        ck_abort_msg("%.*s: got %d %zu %zu, expected %d %zu %zu", (int)length, text, got.ok,
                     got.end, got.commas, expected.ok, expected.end, expected.commas);
}

/* Bytes that mean something, each as likely as `odds` of 256 says; digits otherwise. */
static size_t random_text(struct random *random, const char *special, uint64_t odds, char *out) {
    const size_t length = 1 + random_below(random, ROOM - 1);
    out[0] = '[';
    for (size_t i = 1; i < length; i++)
        out[i] = random_below(random, 256) < odds ? special[random_below(random, strlen(special))]
                                                  : (char)('0' + random_below(random, 10));
    return length;
}

START_TEST(random_text_agrees_with_a_plain_loop) {
    static const char *const specials[] = {"[],\"\\", "[[],,",     "[[]],,",
                                           "[[]]],",  ",,,,,,,[]", "[[[[]]]\\\\\""};
    struct guard_page guard = guard_page_create(ROOM);
    struct random random = random_seeded(3);
    char text[ROOM];
    for (int i = 0; i < 60000; i++) {
        const uint64_t odds[] = {2, 16, 128, 256};
        const size_t length = random_text(&random, specials[i % 6], odds[i % 4], text);
        expect_same(guard_page_copy(&guard, text, length), length);
    }
    guard_page_free(&guard);
}
END_TEST

START_TEST(long_arrays_keep_their_counts) {
    enum { NUMBERS = 300000 };
    char *text = malloc(2 * NUMBERS + 2);
    for (size_t i = 0; i < NUMBERS; i++)
        memcpy(text + 2 * i, ",,", 2);
    text[0] = '[';
    text[2 * NUMBERS] = ']';
    const struct found found = skip(text, 2 * NUMBERS + 1);
    ck_assert(found.ok && found.end == 2 * NUMBERS + 1 && found.commas == 2 * NUMBERS - 1);
    ck_assert(!skip(text, 2 * NUMBERS).ok);
    free(text);
}
END_TEST

/* Every depth closed at once, at every place within a block. */
START_TEST(many_brackets_close_together) {
    char text[ROOM];
    for (size_t depth = 1; depth < 200; depth++) {
        for (size_t filler = 0; filler < 130; filler++) {
            memset(text, '[', depth);
            memset(text + depth, '7', filler);
            memset(text + depth + filler, ']', depth);
            memset(text + 2 * depth + filler, ']', 64);
            expect_same(text, 2 * depth + filler + 64);
        }
    }
}
END_TEST

START_TEST(brackets_in_strings_do_not_count) {
    const char text[] = "[\"]\",\"\\\"]\",\"\\\\\",[\"[[[,\"]] ,]";
    const struct found found = skip(text, strlen(text));
    ck_assert(found.ok && found.end == strlen(text) - 3 && found.commas == 3);
}
END_TEST

START_TEST(what_is_no_array_is_refused) {
    ck_assert(!skip("", 0).ok);
    ck_assert(!skip("1]", 2).ok);
    ck_assert(!skip("]", 1).ok);
    ck_assert(!skip(" []", 3).ok);
}
END_TEST

static Suite *number_skip_suite(void) {
    Suite *suite = suite_create("number_skip");
    TCase *tests = tcase_create("skip");
    tcase_set_timeout(tests, 30);
    tcase_add_test(tests, random_text_agrees_with_a_plain_loop);
    tcase_add_test(tests, long_arrays_keep_their_counts);
    tcase_add_test(tests, many_brackets_close_together);
    tcase_add_test(tests, brackets_in_strings_do_not_count);
    tcase_add_test(tests, what_is_no_array_is_refused);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(number_skip_suite)
