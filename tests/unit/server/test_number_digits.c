/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of digits: both ways to take sixteen, against a loop over bytes, for every length, what
 * stands around them being any byte; and a text that fills the memory there is.
 */
#include "server/numbers/number_digits.h"
#include "server/numbers/numbers.h"
#include "tests/support/guard_page.h"
#include "tests/support/random.h"
#include "tests/support/test_main.h"

enum { BEFORE = NUMBER_DIGITS_BEFORE, ROOM = BEFORE + 40 };

typedef int append(uint64_t *mantissa, const char *p);

static append *const ways[] = {
    number_append16_words,
#if defined(__SSE2__)
    number_append16_sse2,
#endif
    number_append16,
};

static int append_plainly(uint64_t *mantissa, const char *p) {
    int count = 0;
    for (; count < 16 && p[count] >= '0' && p[count] <= '9'; count++)
        *mantissa = *mantissa * 10 + (uint64_t)(p[count] - '0');
    return count;
}

static void fill(struct random *random, char *text) {
    for (size_t i = 0; i < ROOM; i++)
        text[i] = (char)random_next(random);
}

static void compare(append *way, uint64_t mantissa, const char *p) {
    uint64_t expected = mantissa, got = mantissa;
    const int count = append_plainly(&expected, p);
    ck_assert_int_eq(way(&got, p), count);
    ck_assert_uint_eq(got, expected);
}

START_TEST(as_a_loop_over_bytes) {
    struct random random = random_seeded(5);
    char text[ROOM];
    for (int round = 0; round < 40000; round++) {
        fill(&random, text);
        const size_t digits = random_below(&random, 21);
        for (size_t i = 0; i < digits; i++)
            text[BEFORE + i] = "0123456789"[random_below(&random, 10)];
        compare(ways[_i], round % 2 == 0 ? 7 : random_next(&random), text + BEFORE);
    }
}
END_TEST

START_TEST(every_byte_but_ten_ends_them) {
    char text[ROOM];
    for (int byte = 0; byte < 256; byte++)
        for (int count = 0; count <= 16; count++) {
            memset(text, byte, sizeof text);
            memset(text + BEFORE, '9', (size_t)count);
            compare(ways[_i], 0, text + BEFORE);
        }
}
END_TEST

START_TEST(twenty_four_are_too_many) {
    char text[ROOM + 1] = "                0123456789012345678901234567890";
    for (size_t count = 0; count < 30; count++) {
        memset(text + BEFORE, '1', count);
        text[BEFORE + count] = ',';
        uint64_t got = 0, expected = 0;
        const char *const after = number_append_all(&got, text + BEFORE);
        ck_assert_ptr_eq(after, count < 24 ? text + BEFORE + count : NULL);
        for (size_t i = 0; i < count; i++)
            expected = expected * 10 + 1;
        if (after != NULL)
            ck_assert_uint_eq(got, expected);
    }
}
END_TEST

/* It begins where memory begins and ends where it ends, whatever stands first and last. */
START_TEST(nothing_around_a_text_is_read) {
    static const char *const firsts[] = {"[0.5,", "[-0.123456789,", "[1,2,3.25,", "[[[[1e2,"};
    struct guard_page guard = guard_page_create(1);
    char *const text = guard.mapping;
    float *const out = malloc(guard.capacity * sizeof *out);
    for (size_t i = 0; i < sizeof firsts / sizeof *firsts; i++) {
        const size_t head = strlen(firsts[i]), depth = strspn(firsts[i], "[");
        memcpy(text, firsts[i], head);
        size_t at = head;
        while (at + 6 + depth < guard.capacity) {
            memcpy(text + at, "-2.50,", 6);
            at += 6;
        }
        memset(text + at - 1, '0', guard.capacity - depth - at + 1);
        memset(text + guard.capacity - depth, ']', depth);
        struct number_array_shape shape;
        struct number_fault fault;
        ck_assert_int_eq(number_array_parse(NUMBER_F32, text, guard.capacity, out, guard.capacity,
                                            &shape, &fault),
                         NUMBER_OK);
        ck_assert(out[shape.shape[shape.rank - 1] - 1] == -2.5F);
    }
    free(out);
    guard_page_free(&guard);
}
END_TEST

static Suite *number_digits_suite(void) {
    Suite *suite = suite_create("number_digits");
    TCase *tests = tcase_create("digits");
    const int count = (int)(sizeof ways / sizeof *ways);
    tcase_add_loop_test(tests, as_a_loop_over_bytes, 0, count);
    tcase_add_loop_test(tests, every_byte_but_ten_ends_them, 0, count);
    tcase_add_test(tests, twenty_four_are_too_many);
    tcase_add_test(tests, nothing_around_a_text_is_read);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(number_digits_suite)
