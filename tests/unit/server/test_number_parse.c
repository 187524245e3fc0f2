/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading number arrays: grammar, shapes, types, and where a fault is said to be. Rounding is
 * test_number_round.c's matter.
 */
#include "server/numbers/numbers.h"
#include "tests/support/guard_page.h"
#include "tests/support/test_main.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { ROOM = 64 };

/* A fault expected in a text: offset and JSON pointer of the element. */
struct refusal {
    enum number_type type;
    const char *text;
    enum number_result result;
    size_t offset;
    const char *pointer;
};

static const struct refusal refusals[] = {
    {NUMBER_F32, "", NUMBER_MALFORMED, 0, ""},
    {NUMBER_F32, "[", NUMBER_MALFORMED, 1, "/0"},
    {NUMBER_F32, "[1", NUMBER_MALFORMED, 2, "/1"},
    {NUMBER_F32, "[1,", NUMBER_MALFORMED, 3, "/1"},
    {NUMBER_F32, "[1,]", NUMBER_MALFORMED, 3, "/1"},
    {NUMBER_F32, "[,1]", NUMBER_MALFORMED, 1, "/0"},
    {NUMBER_F32, "[1 2]", NUMBER_MALFORMED, 3, "/1"},
    {NUMBER_F32, "[1]]", NUMBER_MALFORMED, 3, ""},
    {NUMBER_F32, "[1],", NUMBER_MALFORMED, 3, ""},
    {NUMBER_F32, "[[1],]", NUMBER_MALFORMED, 5, "/1"},
    {NUMBER_F32, "[[1]2]", NUMBER_MALFORMED, 4, "/1"},
    {NUMBER_F32, "[[1]", NUMBER_MALFORMED, 4, "/1"},
    {NUMBER_F32, "[+1]", NUMBER_MALFORMED, 1, "/0"},
    {NUMBER_F32, "[01]", NUMBER_MALFORMED, 2, "/0"},
    {NUMBER_F32, "[-01]", NUMBER_MALFORMED, 3, "/0"},
    {NUMBER_F32, "[.5]", NUMBER_MALFORMED, 1, "/0"},
    {NUMBER_F32, "[5.]", NUMBER_MALFORMED, 3, "/0"},
    {NUMBER_F32, "[5.e1]", NUMBER_MALFORMED, 3, "/0"},
    {NUMBER_F32, "[-]", NUMBER_MALFORMED, 2, "/0"},
    {NUMBER_F32, "[- 1]", NUMBER_MALFORMED, 2, "/0"},
    {NUMBER_F32, "[1e]", NUMBER_MALFORMED, 3, "/0"},
    {NUMBER_F32, "[1e+]", NUMBER_MALFORMED, 4, "/0"},
    {NUMBER_F32, "[1e1.5]", NUMBER_MALFORMED, 4, "/1"},
    {NUMBER_F32, "[0x10]", NUMBER_MALFORMED, 2, "/1"},
    {NUMBER_F32, "[1_000]", NUMBER_MALFORMED, 2, "/1"},
    {NUMBER_F32, "[1,2,NaN]", NUMBER_MALFORMED, 5, "/2"},
    {NUMBER_F32, "[-Infinity]", NUMBER_MALFORMED, 2, "/0"},
    {NUMBER_F32, "[nul]", NUMBER_MALFORMED, 4, "/0"},
    {NUMBER_F32, "[1\v]", NUMBER_MALFORMED, 2, "/1"},
    {NUMBER_F32, "1", NUMBER_WRONG_TYPE, 0, ""},
    {NUMBER_F32, " null ", NUMBER_WRONG_TYPE, 1, ""},
    {NUMBER_BOOL, "true", NUMBER_WRONG_TYPE, 0, ""},
    {NUMBER_F32, "{\"a\":1}", NUMBER_WRONG_TYPE, 0, ""},
    {NUMBER_F32, "[[0,1],[2,null]]", NUMBER_WRONG_TYPE, 10, "/1/1"},
    {NUMBER_F32, "[true]", NUMBER_WRONG_TYPE, 1, "/0"},
    {NUMBER_F32, "[{}]", NUMBER_WRONG_TYPE, 1, "/0"},
    {NUMBER_F32, "[\"1\"]", NUMBER_WRONG_TYPE, 1, "/0"},
    {NUMBER_F32, "[\"nan\"]", NUMBER_WRONG_TYPE, 1, "/0"},
    {NUMBER_F32, "[\"Infinity \"]", NUMBER_WRONG_TYPE, 1, "/0"},
    {NUMBER_F32, "[[1],null]", NUMBER_WRONG_TYPE, 5, "/1"},
    {NUMBER_F32, "[[1],nul]", NUMBER_MALFORMED, 8, "/1"},
    {NUMBER_F32, "[[1],2]", NUMBER_RAGGED, 5, "/1"},
    {NUMBER_F32, "[1,[2]]", NUMBER_RAGGED, 3, "/1"},
    {NUMBER_F32, "[[1,2],[3]]", NUMBER_RAGGED, 9, "/1"},
    {NUMBER_F32, "[[1],[3,4]]", NUMBER_RAGGED, 9, "/1"},
    {NUMBER_F32, "[[1],[]]", NUMBER_RAGGED, 6, "/1"},
    {NUMBER_F32, "[[],[1]]", NUMBER_RAGGED, 6, "/1"},
    {NUMBER_F32, "[[],[[]]]", NUMBER_RAGGED, 5, "/1/0"},
    {NUMBER_F32, "[[[]],[]]", NUMBER_RAGGED, 7, "/1"},
    {NUMBER_F32, "[[],1]", NUMBER_RAGGED, 4, "/1"},
    {NUMBER_F32, "[[[1,2],[3,4]],[[5,6]]]", NUMBER_RAGGED, 21, "/1"},
    {NUMBER_F32, "[[[[[[[[[1]]]]]]]]]", NUMBER_TOO_DEEP, 8, "/0/0/0/0/0/0/0/0"},
    {NUMBER_F32, "[1,1e39]", NUMBER_RANGE, 3, "/1"},
    {NUMBER_F32, "[1,-3.5e38]", NUMBER_RANGE, 3, "/1"},
    {NUMBER_F32, "[1e400]", NUMBER_TOO_LARGE, 1, "/0"},
    {NUMBER_F64, "[1e39,1e309]", NUMBER_TOO_LARGE, 6, "/1"},
    {NUMBER_F16, "[65520]", NUMBER_RANGE, 1, "/0"},
    {NUMBER_F16, "[1e999999999999999999999999]", NUMBER_TOO_LARGE, 1, "/0"},
    {NUMBER_BF16, "[3.4e38]", NUMBER_RANGE, 1, "/0"},
    {NUMBER_I64, "[1.0]", NUMBER_WRONG_TYPE, 1, "/0"},
    {NUMBER_I64, "[1e2]", NUMBER_WRONG_TYPE, 1, "/0"},
    {NUMBER_I64, "[1e400]", NUMBER_WRONG_TYPE, 1, "/0"},
    {NUMBER_I64, "[\"NaN\"]", NUMBER_WRONG_TYPE, 1, "/0"},
    {NUMBER_I64, "[9223372036854775808]", NUMBER_RANGE, 1, "/0"},
    {NUMBER_I64, "[-9223372036854775809]", NUMBER_RANGE, 1, "/0"},
    {NUMBER_I64, "[10000000000000000000]", NUMBER_RANGE, 1, "/0"},
    {NUMBER_I64, "[100000000000000000000000000]", NUMBER_RANGE, 1, "/0"},
    {NUMBER_BOOL, "[0,2]", NUMBER_WRONG_TYPE, 3, "/1"},
    {NUMBER_BOOL, "[-0]", NUMBER_WRONG_TYPE, 1, "/0"},
    {NUMBER_BOOL, "[1.0]", NUMBER_WRONG_TYPE, 1, "/0"},
    {NUMBER_BOOL, "[truth]", NUMBER_MALFORMED, 4, "/0"},
    {NUMBER_BOOL, "[null]", NUMBER_WRONG_TYPE, 1, "/0"},
};

/* `before`: blanks in front of its text. */
static void expect_refusal(const struct refusal *refusal, size_t before, const char *text,
                           size_t length) {
    double out[ROOM];
    struct number_array_shape shape;
    struct number_fault fault = {SIZE_MAX, -1, {0}};
    char pointer[NUMBER_POINTER_ROOM];
    const enum number_result result =
        number_array_parse(refusal->type, text, length, out, ROOM, &shape, &fault);
    ck_assert_msg(result == refusal->result, "%s gave %d, expected %d", refusal->text, (int)result,
                  (int)refusal->result);
    number_fault_pointer(&fault, pointer);
    ck_assert_msg(fault.offset == before + refusal->offset &&
                      strcmp(pointer, refusal->pointer) == 0,
                  "%s faulted at %zu %s, expected %zu %s", refusal->text, fault.offset, pointer,
                  before + refusal->offset, refusal->pointer);
}

START_TEST(a_fault_is_named_and_placed) {
    const struct refusal *refusal = &refusals[_i];
    struct guard_page guard = guard_page_create(ROOM);
    const size_t length = strlen(refusal->text);
    expect_refusal(refusal, 0, guard_page_copy(&guard, refusal->text, length), length);
    guard_page_free(&guard);
    /* Amid enough text for the fast scanner; where the end itself is no fault. */
    if (refusal->offset == length)
        return;
    enum { BEFORE = 16 };
    char padded[BEFORE + 2 * ROOM + 1];
    const int padded_length =
        snprintf(padded, sizeof padded, "%*s%-*s", BEFORE, "", 2 * ROOM, refusal->text);
    expect_refusal(refusal, BEFORE, padded, (size_t)padded_length);
}
END_TEST

struct shaped {
    const char *text;
    int rank;
    size_t shape[NUMBER_MAX_RANK];
};

static const struct shaped shaped_texts[] = {
    {"[]", 1, {0}},
    {"[7]", 1, {1}},
    {" \t\r\n[ 7 , 8 ] \n", 1, {2}},
    {"[[],[]]", 2, {2, 0}},
    {"[[[]]]", 3, {1, 1, 0}},
    {"[[[],[]],[[],[]],[[],[]]]", 3, {3, 2, 0}},
    {"[[1,2,3],[4,5,6]]", 2, {2, 3}},
    {"[ [ [1 , 2] ,\n [3,4] , [5,6] ] ]", 3, {1, 3, 2}},
    {"[[[[[[[[1,2]]]]]]]]", 8, {1, 1, 1, 1, 1, 1, 1, 2}},
    {"[[[[[[[[]]]]]]]]", 8, {1, 1, 1, 1, 1, 1, 1, 0}},
};

START_TEST(a_rectangle_gives_its_shape) {
    const struct shaped *shaped = &shaped_texts[_i];
    float out[ROOM];
    struct number_array_shape shape;
    struct number_fault fault;
    ck_assert_int_eq(
        number_array_parse_f32(shaped->text, strlen(shaped->text), out, ROOM, &shape, &fault),
        NUMBER_OK);
    ck_assert_int_eq(shape.rank, shaped->rank);
    for (int axis = 0; axis < shape.rank; axis++)
        ck_assert_uint_eq(shape.shape[axis], shaped->shape[axis]);
}
END_TEST

START_TEST(values_are_stored_in_c_order) {
    const char text[] = "[[1,-2.5,3e2],[\"NaN\",\"Infinity\",\"-Infinity\"],[-0,-0.0,0]]";
    double out[9];
    struct number_array_shape shape;
    struct number_fault fault;
    ck_assert_int_eq(number_array_parse_f64(text, strlen(text), out, 9, &shape, &fault), NUMBER_OK);
    ck_assert(out[0] == 1 && out[1] == -2.5 && out[2] == 300);
    ck_assert(isnan(out[3]) && out[4] == INFINITY && out[5] == -INFINITY);
    ck_assert(out[6] == 0 && signbit(out[6]) && signbit(out[7]) && !signbit(out[8]));
}
END_TEST

/* The same array at every distance from the end of a text, across both scanners. */
START_TEST(the_distance_to_the_end_does_not_matter) {
    const char text[] = "[1,-2.5 ,0.125, 12345678,123456789,1.5e3,-0.0,true]";
    const double expected[] = {1, -2.5, 0.125, 12345678, 123456789, 1500, -0.0};
    for (int space = 0; space < 200; space++) {
        char padded[16 + sizeof text + 200];
        double out[8];
        struct number_array_shape shape;
        struct number_fault fault;
        const int length = snprintf(padded, sizeof padded, "%*s%.*s%*s]", space % 2 == 0 ? 16 : 0,
                                    "", (int)strlen(text) - 6, text, space, "");
        ck_assert_int_eq(number_array_parse_f64(padded, (size_t)length, out, 8, &shape, &fault),
                         NUMBER_OK);
        ck_assert_uint_eq(shape.shape[0], 7);
        ck_assert_mem_eq(out, expected, sizeof expected);
    }
}
END_TEST

START_TEST(half_types_know_the_non_finite_names) {
    const char text[] = "[\"NaN\",\"Infinity\",\"-Infinity\",-0,1]";
    const uint16_t f16[] = {0x7e00, 0x7c00, 0xfc00, 0x8000, 0x3c00};
    const uint16_t bf16[] = {0x7fc0, 0x7f80, 0xff80, 0x8000, 0x3f80};
    uint16_t out[5];
    struct number_array_shape shape;
    struct number_fault fault;
    ck_assert_int_eq(number_array_parse_f16(text, strlen(text), out, 5, &shape, &fault), NUMBER_OK);
    ck_assert_mem_eq(out, f16, sizeof out);
    ck_assert_int_eq(number_array_parse_bf16(text, strlen(text), out, 5, &shape, &fault),
                     NUMBER_OK);
    ck_assert_mem_eq(out, bf16, sizeof out);
}
END_TEST

START_TEST(whole_numbers_keep_all_64_bits) {
    const char text[] = "[0,-0,9223372036854775807,-9223372036854775808,1234567890123456789]";
    const int64_t expected[] = {0, 0, INT64_MAX, INT64_MIN, INT64_C(1234567890123456789)};
    int64_t out[5];
    struct number_array_shape shape;
    struct number_fault fault;
    ck_assert_int_eq(number_array_parse_i64(text, strlen(text), out, 5, &shape, &fault), NUMBER_OK);
    ck_assert_mem_eq(out, expected, sizeof out);
}
END_TEST

START_TEST(booleans_are_words_or_digits) {
    const char text[] = "[[true,false],[ 1 , 0 ]]";
    const uint8_t expected[] = {1, 0, 1, 0};
    uint8_t out[4];
    struct number_array_shape shape;
    struct number_fault fault;
    ck_assert_int_eq(number_array_parse_bool(text, strlen(text), out, 4, &shape, &fault),
                     NUMBER_OK);
    ck_assert_mem_eq(out, expected, sizeof out);
}
END_TEST

START_TEST(room_is_never_exceeded) {
    const char text[] = "[[1,2],[3,4]]";
    float out[4] = {0, 0, 0, -9};
    struct number_array_shape shape;
    struct number_fault fault;
    ck_assert_int_eq(number_array_parse_f32(text, strlen(text), out, 3, &shape, &fault),
                     NUMBER_TOO_MANY);
    ck_assert(out[2] == 3 && out[3] == -9);
    ck_assert_uint_eq(fault.offset, 10);
    ck_assert_int_eq(number_array_parse_f32("[1,]", 4, out, 1, &shape, &fault), NUMBER_MALFORMED);
    ck_assert_int_eq(number_array_parse_f32("[]", 2, out, 0, &shape, &fault), NUMBER_OK);
}
END_TEST

/* Every prefix of a text is refused, at its own end, without a look beyond it. */
START_TEST(a_truncated_array_is_malformed) {
    static const struct {
        enum number_type type;
        const char *text;
    } samples[] = {
        {NUMBER_F32, "[[0.123456789,-12345678.5e-10 ,\"NaN\"],[ 1234567890123456789012.5,0,1E+2]]"},
        {NUMBER_F64, "[[[\"-Infinity\", 0.12345678901234567]],[[\"Infinity\",-1e-300]]]"},
        {NUMBER_F16, "[[],[],[]]"},
        {NUMBER_BF16, "[0.00390625,\t1e-40]"},
        {NUMBER_I64, "[[-9223372036854775808,12],[12345678,123456789]]"},
        {NUMBER_BOOL, "[[true],[false],[0],[1]]"},
    };
    struct guard_page guard = guard_page_create(256);
    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++) {
        const size_t length = strlen(samples[i].text);
        for (size_t cut = 0; cut <= length; cut++) {
            const char *text = guard_page_copy(&guard, samples[i].text, cut);
            double out[ROOM];
            struct number_array_shape shape;
            struct number_fault fault;
            size_t end = 0;
            size_t commas;
            const enum number_result result =
                number_array_parse(samples[i].type, text, cut, out, ROOM, &shape, &fault);
            /* A string cut short is still a string, hence of a wrong type. */
            if (cut == length)
                ck_assert_int_eq(result, NUMBER_OK);
            else
                ck_assert(result == NUMBER_MALFORMED || result == NUMBER_WRONG_TYPE);
            ck_assert(cut == length || fault.offset <= cut);
            ck_assert_int_eq(number_array_skip(text, cut, &end, &commas), cut == length);
            ck_assert(cut != length || end == length);
        }
    }
    guard_page_free(&guard);
}
END_TEST

START_TEST(a_lone_number_is_read_whole) {
    double value = 0;
    ck_assert_int_eq(number_parse_double("-12.5e1", 7, &value), NUMBER_OK);
    ck_assert(value == -125);
    ck_assert_int_eq(number_parse_double("12.5e1", 4, &value), NUMBER_OK);
    ck_assert(value == 12.5);
    ck_assert_int_eq(number_parse_double("1e309", 5, &value), NUMBER_TOO_LARGE);
    static const char *const bad[] = {"", " 1", "1 ", "1,", "--1", "1e", "00", "Infinity"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_int_eq(number_parse_double(bad[i], strlen(bad[i]), &value), NUMBER_MALFORMED);
    ck_assert(value == 12.5);
}
END_TEST

/* Far enough from the text's end for the fast way, which has a sign of its own. */
START_TEST(whole_numbers_of_both_signs) {
    static const char text[] =
        "[-1,20,-300,4000,-50000,600000,-7000000,80000000,-900000000,1,-2,3,-4,"
        "5,-6,7,-8,9,-10,11,-12,13,-14,15,-16,17,-18,19,-20,21,-22,23]";
    static const int64_t first[] = {-1,       20,       -300,       4000, -50000, 600000,
                                    -7000000, 80000000, -900000000, 1,    -2};
    int64_t out[64];
    struct number_array_shape shape;
    struct number_fault fault;
    ck_assert_int_eq(number_array_parse(NUMBER_I64, text, sizeof text - 1, out, 64, &shape, &fault),
                     NUMBER_OK);
    ck_assert_uint_eq(shape.shape[0], 32);
    ck_assert_mem_eq(out, first, sizeof first);
}
END_TEST

static Suite *number_parse_suite(void) {
    Suite *suite = suite_create("number_parse");
    TCase *tests = tcase_create("arrays");
    tcase_add_test(tests, whole_numbers_of_both_signs);
    tcase_add_loop_test(tests, a_fault_is_named_and_placed, 0,
                        sizeof refusals / sizeof refusals[0]);
    tcase_add_loop_test(tests, a_rectangle_gives_its_shape, 0,
                        sizeof shaped_texts / sizeof shaped_texts[0]);
    tcase_add_test(tests, values_are_stored_in_c_order);
    tcase_add_test(tests, the_distance_to_the_end_does_not_matter);
    tcase_add_test(tests, half_types_know_the_non_finite_names);
    tcase_add_test(tests, whole_numbers_keep_all_64_bits);
    tcase_add_test(tests, booleans_are_words_or_digits);
    tcase_add_test(tests, room_is_never_exceeded);
    tcase_add_test(tests, a_truncated_array_is_malformed);
    tcase_add_test(tests, a_lone_number_is_read_whole);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(number_parse_suite)
