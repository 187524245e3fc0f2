/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of numbers that are written in pieces: the text that one thread writes, in the room that
 * was reckoned, for any shape, dtype and length of numbers. */
#include <stdlib.h>
#include <string.h>

#include "server/codecs/json_lists.h"
#include "server/numbers/numbers.h"
#include "tests/support/backward_team.h"
#include "tests/support/random.h"
#include "tests/support/test_main.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

static const struct {
    int rank;
    size_t shape[ATTN_MAX_RANK];
} SHAPES[] = {
    {1, {40000}},
    {2, {2, 70001}},
    {2, {50000, 1}},
    {4, {3, 5, 60, 64}},
    {4, {1, 1, 1, 1100000}},
    {4, {9, 1, 7, 999}},
    {3, {2, 0, 5}},
    {0, {0}},
    {2, {3, 0}},
};
static const enum attn_dtype DTYPES[] = {ATTN_FLOAT32, ATTN_FLOAT64, ATTN_FLOAT16, ATTN_BFLOAT16,
                                         ATTN_INT32};

static char *write(const struct attn_result_tensor *tensor, bool nested,
                   const struct number_team *team, size_t *length) {
    size_t room;
    ck_assert(json_lists_room(tensor, nested, &room));
    struct json_text text = {.start = malloc(room), .capacity = room};
    ck_assert_ptr_nonnull(text.start);
    json_lists_write(&text, tensor, nested, team);
    ck_assert_uint_le(text.length, room);
    *length = text.length;
    return text.start;
}

/* Bits of any numbers: the longest texts are among them. */
static void *random_bits(size_t bytes) {
    struct random random = random_seeded(bytes);
    uint64_t *const words = malloc(bytes + sizeof *words);
    ck_assert_ptr_nonnull(words);
    for (size_t n = 0; n <= bytes / sizeof *words; n++)
        words[n] = random_next(&random);
    return words;
}

START_TEST(pieces_make_the_text_of_one) {
    struct attn_result_tensor tensor = {.wanted = true, .rank = SHAPES[_i].rank};
    memcpy(tensor.shape, SHAPES[_i].shape, sizeof tensor.shape);
    for (size_t n = 0; n < COUNT(DTYPES); n++) {
        size_t elements = 0;
        tensor.dtype = DTYPES[n];
        ck_assert(attn_shape_elements(tensor.rank, tensor.shape, &elements) &&
                  attn_shape_bytes(tensor.dtype, tensor.rank, tensor.shape, &tensor.bytes));
        void *const bits = random_bits(tensor.bytes);
        tensor.data = bits;
        for (int nested = 0; nested < 2; nested++) {
            size_t pieces = 0, one, several;
            const struct number_team team = {run_backwards, &pieces, 1, NULL};
            char *const expected = write(&tensor, nested == 1, NULL, &one);
            char *const text = write(&tensor, nested == 1, &team, &several);
            ck_assert_uint_eq(one, several);
            ck_assert_mem_eq(expected, text, one);
            ck_assert_uint_eq(pieces, elements < 32768     ? 0
                                      : elements < 1048576 ? elements / 16384
                                                           : 64);
            free(expected);
            free(text);
        }
        free(bits);
    }
}
END_TEST

/* Each of the sums behind a text's room may wrap; then there is none. */
START_TEST(a_room_that_wraps_is_none) {
    static const struct attn_result_tensor tensors[] = {
        {.dtype = ATTN_FLOAT32, .rank = 1, .shape = {SIZE_MAX / 4}, .bytes = SIZE_MAX},
        {.dtype = ATTN_FLOAT32, .rank = 2, .shape = {SIZE_MAX / 2, 0}},
        {.dtype = ATTN_FLOAT32, .rank = 2, .shape = {SIZE_MAX / (3 * ATTN_MAX_RANK), 0}},
    };
    size_t room;
    for (size_t n = 0; n < COUNT(tensors); n++) {
        ck_assert(!json_lists_room(&tensors[n], true, &room));
    }
    /* As many numbers as have a room at all, and none is left for what pieces need beside it. */
    size_t none, one, most;
    ck_assert(number_array_text_room(NUMBER_F32, 0, &none));
    ck_assert(number_array_text_room(NUMBER_F32, 1, &one));
    most = (SIZE_MAX - none - 3 * ATTN_MAX_RANK) / (one - none);
    const struct attn_result_tensor whole = {
        .dtype = ATTN_FLOAT32, .rank = 1, .shape = {most}, .bytes = most * sizeof(float)};
    ck_assert(!json_lists_room(&whole, true, &room));
}
END_TEST

/* Rows of nothing, and rows in pieces, end when they are not wanted any more. */
START_TEST(cancelled_lists_are_not_written) {
    const struct attn_result_tensor tensors[] = {
        {.dtype = ATTN_FLOAT32, .rank = 2, .shape = {50000, 0}},
        {.dtype = ATTN_FLOAT32, .rank = 1, .shape = {100000}, .bytes = 400000},
    };
    void *const bits = random_bits(400000);
    const atomic_bool cancelled = true;
    const struct attn_checkpoint checkpoint = {.cancelled = &cancelled};
    for (size_t n = 0; n < COUNT(tensors); n++) {
        struct attn_result_tensor tensor = tensors[n];
        size_t pieces = 0, length;
        const struct number_team team = {run_backwards, &pieces, 1, &checkpoint};
        tensor.data = bits;
        free(write(&tensor, true, &team, &length));
        ck_assert_uint_lt(length, 8);
    }
    free(bits);
}
END_TEST

static Suite *json_lists_suite(void) {
    Suite *suite = suite_create("JSON lists");
    TCase *tests = tcase_create("lists");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, a_room_that_wraps_is_none);
    tcase_add_test(tests, cancelled_lists_are_not_written);
    tcase_add_loop_test(tests, pieces_make_the_text_of_one, 0, (int)COUNT(SHAPES));
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(json_lists_suite)
