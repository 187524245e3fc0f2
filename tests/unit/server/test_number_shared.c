/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays of numbers shared out to threads: the same result, elements, shape or fault as from end to
 * end, for texts of many shapes and spacings, right ones and such with a byte or a word changed.
 */
#include "server/numbers/numbers.h"
#include "tests/support/backward_team.h"
#include "tests/support/random.h"
#include "tests/support/test_main.h"

#include <stdio.h>
#include <string.h>

enum { ROOM = 4096, TEXT = 1 << 16, TEXTS = 400, CHANGES = 60 };

struct outcome {
    enum number_result result;
    struct number_array_shape shape;
    struct number_fault fault;
    float values[ROOM];
};

static void parse(const struct number_team *team, const char *text, size_t length,
                  struct outcome *outcome) {
    memset(outcome, 0, sizeof *outcome);
    outcome->result =
        number_array_parse_shared(team, NULL, NUMBER_F32, text, length, outcome->values, ROOM,
                                  &outcome->shape, &outcome->fault);
    if (outcome->result != NUMBER_OK) { /* what else there is then is not promised */
        memset(outcome->values, 0, sizeof outcome->values);
        memset(&outcome->shape, 0, sizeof outcome->shape);
    }
}

static size_t compare(const char *text, size_t length, size_t piece_bytes) {
    static struct outcome alone, shared;
    size_t pieces = 0;
    const struct number_team team = {run_backwards, &pieces, piece_bytes, NULL};
    parse(NULL, text, length, &alone);
    parse(&team, text, length, &shared);
    ck_assert_msg(alone.result == shared.result && alone.shape.rank == shared.shape.rank &&
                      memcmp(alone.shape.shape, shared.shape.shape, sizeof alone.shape.shape) == 0,
                  "pieces of %zu bytes: result %d, alone %d, of %.300s", piece_bytes,
                  (int)shared.result, (int)alone.result, text);
    ck_assert_mem_eq(alone.values, shared.values, sizeof alone.values);
    if (alone.result != NUMBER_OK)
        ck_assert_mem_eq(&alone.fault, &shared.fault, sizeof alone.fault);
    return pieces;
}

struct writer {
    char text[TEXT];
    size_t length;
    struct random random;
};

static size_t below(struct writer *writer, size_t most) {
    return random_below(&writer->random, most);
}

static void put(struct writer *writer, const char *word) {
    static const char *const blanks[] = {"", "", "", " ", "\n", "\t ", "\r\n"};
    writer->length += (size_t)snprintf(writer->text + writer->length, TEXT - writer->length, "%s%s",
                                       word, blanks[below(writer, 7)]);
}

static void put_number(struct writer *writer) {
    static const char *const words[] = {"1",    "-0",      "0.1",           "12345678.25",
                                        "1e-3", "\"NaN\"", "\"-Infinity\"", "3.14159274101257324"};
    put(writer, words[below(writer, 8)]);
}

/* An array of a random shape whose elements all fit. Counts through it like an odometer. */
static void put_array(struct writer *writer) {
    size_t shape[NUMBER_MAX_RANK], index[NUMBER_MAX_RANK] = {0};
    const int rank = 1 + (int)below(writer, 4);
    size_t count = 1;
    for (int axis = 0; axis < rank; axis++)
        count *= shape[axis] = 1 + below(writer, rank == 1 ? 300 : 7);
    put(writer, "");
    for (size_t n = 0; n < count; n++) {
        int axis = rank;
        while (axis > 0 && index[axis - 1] == 0)
            axis--;
        for (; axis < rank; axis++)
            put(writer, "[");
        put_number(writer);
        for (axis = rank - 1; axis >= 0 && ++index[axis] == shape[axis]; axis--) {
            index[axis] = 0;
            put(writer, "]");
        }
        if (n + 1 < count)
            put(writer, ",");
    }
}

/* A byte that matters to the grammar, somewhere; or one taken out. */
static void spoil(struct writer *writer) {
    static const char bytes[] = "[],\"0x- .e";
    char *const at = writer->text + below(writer, writer->length);
    if (below(writer, 3) == 0) {
        memmove(at, at + 1, strlen(at));
        writer->length--;
    } else {
        *at = bytes[below(writer, sizeof bytes - 1)];
    }
}

START_TEST(pieces_make_the_whole) {
    static struct writer writer;
    size_t most = 0;
    for (uint64_t seed = 1; seed <= TEXTS; seed++) {
        writer.length = 0;
        writer.random = random_seeded(seed);
        put_array(&writer);
        for (size_t piece = 1; piece < 200; piece += 1 + piece / 3) {
            const size_t pieces = compare(writer.text, writer.length, piece);
            most = pieces > most ? pieces : most;
        }
    }
    ck_assert_uint_eq(most, 64);
}
END_TEST

START_TEST(spoilt_texts_have_the_same_fault) {
    static struct writer writer, changed;
    for (uint64_t seed = 1; seed <= TEXTS; seed++) {
        writer.length = 0;
        writer.random = random_seeded(seed);
        put_array(&writer);
        for (int change = 0; change < CHANGES; change++) {
            changed = writer;
            changed.random = random_seeded(seed * 1000 + (uint64_t)change);
            spoil(&changed);
            compare(changed.text, changed.length, 1 + below(&changed, 40));
        }
    }
}
END_TEST

START_TEST(texts_of_several_arrays_are_none) {
    static const char *const texts[] = {
        "[[1,2],[3,4]],[[5,6],[7,8]]",
        "[1,2],[3,4]",
        "[[1,2],[3,4],[5]]",
        "[[1,2],[3,4]],[5,6]",
        "[[[1],[2]],[[3]]]",
        "[[[1]],[[2],[3]]]",
        "[[1],[2,3]]",
        "[[[1],[2]],[[3],4]]",
        "[1,2,3]]",
        "[[[[[[[[[1,2]]]]]]]]]",
        "[[[1],[2]],[[3],[4]],[[5],[6],[7]],[[8]],[[1],[2]],[[3],[4]],[[5],[6],[7]],[[8]]]",
        "[[1,2,3]",
        "[[],[]]",
        "[[1,\"a]b\"],[2,3]]",
        "[[[1],[2],[3]],[[4],[5]],[[6]]]",
        "[[[1],[2]],[[3]],[[4],[5],[6]],[[7],[8]]]",
        "[[[1],[2]],[[3],[4]],[[5]],[[6],[7],[8]]]",
        "[[[1],[2]],[[3]],[[4],[5],[6]],[[7]],[[8],[9],[0]]]"};
    for (size_t n = 0; n < sizeof texts / sizeof *texts; n++)
        for (size_t piece = 1; piece < 48; piece++)
            compare(texts[n], strlen(texts[n]), piece);
}
END_TEST

START_TEST(too_many_and_cancelled) {
    static char text[2 * ROOM + 4];
    static float values[ROOM];
    struct number_array_shape shape;
    struct number_fault fault;
    size_t pieces = 0;
    const struct number_team team = {run_backwards, &pieces, 64, NULL};
    const atomic_bool cancelled = true;
    memset(text, '1', sizeof text);
    text[0] = '[';
    for (size_t n = 0; n <= ROOM; n++)
        text[2 * n + 2] = n == ROOM ? ']' : ',';
    const size_t length = 2 * ROOM + 3;
    ck_assert_int_eq(number_array_parse_shared(&team, NULL, NUMBER_F32, text, length, values, ROOM,
                                               &shape, &fault),
                     NUMBER_TOO_MANY);
    ck_assert_int_eq(number_array_parse_shared(&team, &cancelled, NUMBER_F32, text, length, values,
                                               ROOM, &shape, &fault),
                     NUMBER_CANCELLED);
}
END_TEST

static Suite *number_shared_suite(void) {
    Suite *suite = suite_create("numbers, shared");
    TCase *tests = tcase_create("shared");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, pieces_make_the_whole);
    tcase_add_test(tests, spoilt_texts_have_the_same_fault);
    tcase_add_test(tests, texts_of_several_arrays_are_none);
    tcase_add_test(tests, too_many_and_cancelled);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(number_shared_suite)
