/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Base64: the RFC's vectors, every byte at every place, all lengths both ways, and every kind of
 * text that must be refused, with the offset it must name.
 */
#include "server/codecs/base64.h"
#include "tests/support/guard_page.h"
#include "tests/support/random.h"
#include "tests/support/test_main.h"

#include <stdint.h>
#include <string.h>

enum { ROOM = 512 };

static const struct {
    const char *bytes, *text;
} vectors[] = {
    {"", ""},
    {"f", "Zg=="},
    {"fo", "Zm8="},
    {"foo", "Zm9v"},
    {"foob", "Zm9vYg=="},
    {"fooba", "Zm9vYmE="},
    {"foobar", "Zm9vYmFy"},
    {"\xff\xef\xbe\xff\xef\xbe\xff\xef\xbe\xff\xef\xbe\xff\xef\xbe", "/+++/+++/+++/+++/+++"},
};

START_TEST(vectors_hold_both_ways) {
    const size_t size = strlen(vectors[_i].bytes);
    const size_t length = strlen(vectors[_i].text);
    char text[64];
    uint8_t bytes[64];
    size_t got, fault;
    ck_assert(base64_encoded_size(size, &got));
    ck_assert_uint_eq(got, length);
    ck_assert_uint_eq(base64_encode(vectors[_i].bytes, size, text), length);
    ck_assert_int_eq(memcmp(text, vectors[_i].text, length), 0);
    ck_assert(base64_decode(text, length, bytes, &got, &fault));
    ck_assert_uint_eq(got, size);
    ck_assert_int_eq(memcmp(bytes, vectors[_i].bytes, size), 0);
}
END_TEST

/* Input and output end at unreadable pages. */
START_TEST(all_lengths_come_back_within_their_room) {
    struct guard_page in = guard_page_create(ROOM);
    struct guard_page out = guard_page_create(2 * ROOM);
    struct random random = random_seeded(4);
    uint8_t bytes[ROOM];
    char text[2 * ROOM];
    for (size_t size = 0; size < ROOM; size++) {
        for (size_t i = 0; i < size; i++)
            bytes[i] = (uint8_t)random_next(&random);
        size_t length, got, fault;
        ck_assert(base64_encoded_size(size, &length));
        char *encoded = out.mapping + out.capacity - length;
        ck_assert_uint_eq(base64_encode(guard_page_copy(&in, bytes, size), size, encoded), length);
        memcpy(text, encoded, length);
        uint8_t *decoded = (uint8_t *)out.mapping + out.capacity - base64_decoded_room(length);
        struct guard_page source = guard_page_create(2 * ROOM);
        ck_assert(
            base64_decode(guard_page_copy(&source, text, length), length, decoded, &got, &fault));
        ck_assert_uint_eq(got, size);
        ck_assert_int_eq(memcmp(decoded, bytes, size), 0);
        guard_page_free(&source);
    }
    guard_page_free(&in);
    guard_page_free(&out);
}
END_TEST

/* Every other byte, at every place of a text of blocks, quads and a tail, is refused there. */
START_TEST(a_byte_outside_the_alphabet_is_refused_where_it_is) {
    static const char good[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    enum { LENGTH = 60 };
    for (size_t place = 0; place < LENGTH; place++) {
        for (int byte = 0; byte < 256; byte++) {
            char text[LENGTH];
            uint8_t out[ROOM];
            size_t size, fault = SIZE_MAX;
            memset(text, 'A', LENGTH);
            text[place] = (char)byte;
            const bool known = byte != 0 && strchr(good, byte) != NULL;
            const bool padding = byte == '=' && place == LENGTH - 1;
            const bool ok = base64_decode(text, LENGTH, out, &size, &fault);
            if (ok != (known || padding) || (!ok && fault != place))
                ck_abort_msg("byte %d at %zu: %d, fault at %zu", byte, place, ok, fault);
        }
    }
}
END_TEST

static const struct {
    const char *text;
    size_t fault;
} refusals[] = {
    {"Z", 1},
    {"Zg", 2},
    {"Zg=", 2},
    {"Zm9", 3},
    {"Zh==", 1},
    {"Zm9=", 2},
    {"Z===", 1},
    {"====", 0},
    {"=Zg=", 0},
    {"Zg=v", 2},
    {"Zg==Zm9v", 2},
    {"Zm8=Zm9v", 3},
    {"Zm9v\n", 4},
    {"Zm9v====", 4},
    {"Zm9vZ", 5},
    {"Zm-v", 2},
    {"Z m9v", 1},
    {"Zm9vYmFyZm9vYmFyZm9vYmFyZm9vYh==", 29},
    {"Zm9vYmFyZm9vYmFyZm9vYmFyZm9vYmF", 31},
    {"Zm9vYmFyZm9*YmFyZm9vYmFyZm9vYmF", 11},
};

START_TEST(strictness_names_the_place) {
    uint8_t out[ROOM];
    size_t size, fault = SIZE_MAX;
    ck_assert(!base64_decode(refusals[_i].text, strlen(refusals[_i].text), out, &size, &fault));
    ck_assert_msg(fault == refusals[_i].fault, "%s: fault at %zu, expected %zu", refusals[_i].text,
                  fault, refusals[_i].fault);
}
END_TEST

START_TEST(sizes_cannot_wrap) {
    size_t length;
    ck_assert(!base64_encoded_size(SIZE_MAX, &length));
    ck_assert(base64_encoded_size(4, &length));
    ck_assert_uint_eq(length, 8);
}
END_TEST

static Suite *base64_suite(void) {
    Suite *suite = suite_create("base64");
    TCase *tests = tcase_create("base64");
    tcase_add_loop_test(tests, vectors_hold_both_ways, 0, sizeof vectors / sizeof vectors[0]);
    tcase_add_test(tests, all_lengths_come_back_within_their_room);
    tcase_add_test(tests, a_byte_outside_the_alphabet_is_refused_where_it_is);
    tcase_add_loop_test(tests, strictness_names_the_place, 0, sizeof refusals / sizeof refusals[0]);
    tcase_add_test(tests, sizes_cannot_wrap);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(base64_suite)
