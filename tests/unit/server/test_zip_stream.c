/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One member's bytes, step by step: what comes between two steps, which a whole archive cannot be
 * made to meet, and deflated data that go on without a byte in them.
 */
#include <stdlib.h>
#include <string.h>

#include "server/codecs/zip_stream.h"
#include "tests/support/test_main.h"

static const char TEXT[] = "abc";

static struct zip_member member_of(const char *data, size_t packed, bool deflated) {
    const struct zip_member member = {.name = "q",
                                      .data = data,
                                      .packed = packed,
                                      .size = sizeof TEXT,
                                      .crc = (uint32_t)crc32(0, (const Bytef *)TEXT, sizeof TEXT),
                                      .deflated = deflated};
    return member;
}

/* Cancelled when the header was read and its array was not. */
START_TEST(a_cancelled_array_is_not_passed) {
    atomic_bool cancelled = false;
    struct attn_error error = {.status = ATTN_OK};
    const struct json_reader reader = {.error = &error, .cancelled = &cancelled};
    const struct zip_member member = member_of(TEXT, sizeof TEXT, false);
    struct zip_stream stream;
    char first;
    const char *rest;
    ck_assert_int_eq(zip_stream_open(&stream, &member, &reader), ATTN_OK);
    ck_assert_int_eq(zip_stream_read(&stream, &first, 1), ATTN_OK);
    atomic_store(&cancelled, true);
    ck_assert_int_eq(zip_stream_view(&stream, &rest, sizeof TEXT - 1), ATTN_CANCELLED);
    ck_assert_int_eq(error.status, ATTN_CANCELLED);
    zip_stream_close(&stream);
}
END_TEST

enum { BLOCK = 5, BLOCKS = 1 << 19 };

/* A stored block of deflated data; a byte of bits, its length, and the same inverted. */
static char *put_block(char *at, bool is_last, const char *bytes, size_t count) {
    const char head[BLOCK] = {(char)is_last, (char)count, 0, (char)~count, -1};
    memcpy(at, head, BLOCK);
    memcpy(at + BLOCK, bytes, count);
    return at + BLOCK + count;
}

/* The text, and then more blocks without a byte than are given to the inflater at once. */
static enum attn_status read_with_empty_blocks(bool has_end, struct attn_error *error) {
    const struct json_reader reader = {.error = error};
    char *const packed = malloc((BLOCKS + 2) * BLOCK + sizeof TEXT), text[sizeof TEXT];
    struct zip_stream stream;
    ck_assert_ptr_nonnull(packed);
    char *end = put_block(packed, false, TEXT, sizeof TEXT);
    for (size_t n = 0; n < BLOCKS; n++)
        end = put_block(end, false, "", 0);
    if (has_end)
        end = put_block(end, true, "", 0);
    const struct zip_member member = member_of(packed, (size_t)(end - packed), true);
    ck_assert_int_eq(zip_stream_open(&stream, &member, &reader), ATTN_OK);
    ck_assert_int_eq(zip_stream_read(&stream, text, sizeof text), ATTN_OK);
    ck_assert_str_eq(text, TEXT);
    const enum attn_status status = zip_stream_end(&stream);
    zip_stream_close(&stream);
    free(packed);
    return status;
}

START_TEST(empty_blocks_behind_the_last_byte) {
    struct attn_error error = {.status = ATTN_OK};
    ck_assert_int_eq(read_with_empty_blocks(true, &error), ATTN_OK);
    ck_assert_int_eq(read_with_empty_blocks(false, &error), ATTN_MALFORMED);
    ck_assert_ptr_nonnull(strstr(error.detail, "end too soon"));
}
END_TEST

static Suite *zip_stream_suite(void) {
    Suite *const suite = suite_create("zip_stream");
    TCase *const tests = tcase_create("stream");
    tcase_add_test(tests, a_cancelled_array_is_not_passed);
    tcase_add_test(tests, empty_blocks_behind_the_last_byte);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(zip_stream_suite)
