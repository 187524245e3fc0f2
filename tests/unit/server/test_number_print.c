/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Printing numbers: every text reads back to the same bits of its own type, none is longer than
 * it must be, and among the shortest the nearest to the value is chosen (snprintf is the judge).
 */
#include "server/numbers/number_powers.h"
#include "server/numbers/numbers.h"
#include "tests/support/guard_page.h"
#include "tests/support/random.h"
#include "tests/support/test_main.h"

#include <ctype.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static const size_t element_size[] = {
    [NUMBER_F32] = 4,  [NUMBER_F64] = 8, [NUMBER_F16] = 2,
    [NUMBER_BF16] = 2, [NUMBER_I64] = 8, [NUMBER_BOOL] = 1,
};

/* Prints one element in brackets, NUL-terminated. */
static size_t print_bracketed(enum number_type type, uint64_t bits, char *text) {
    text[0] = '[';
    const size_t length = number_print_array(type, &bits, 1, text + 1);
    ck_assert(length <= NUMBER_TEXT_MAX);
    memcpy(text + 1 + length, "]", 2);
    return length + 2;
}

static uint64_t read_back(enum number_type type, const char *text, size_t length) {
    uint64_t bits = 0;
    struct number_array_shape shape;
    struct number_fault fault;
    if (number_array_parse(type, text, length, &bits, 1, &shape, &fault) != NUMBER_OK)
        ck_abort_msg("%.*s does not parse", (int)length, text);
    return bits;
}

/* Returns the text without brackets in a caller's buffer of NUMBER_TEXT_ROOM + 2 bytes. */
static const char *round_trip(enum number_type type, uint64_t bits, char *text) {
    text[0] = '[';
    const size_t length = number_print_array(type, &bits, 1, text + 1);
    text[1 + length] = ']';
    if (length > NUMBER_TEXT_MAX || read_back(type, text, length + 2) != bits)
        ck_abort_msg("type %d, %#llx printed as %.*s", (int)type, (unsigned long long)bits,
                     (int)length, text + 1);
    text[1 + length] = 0;
    return text + 1;
}

/* The significant digits of a number's text, without leading and trailing zeros. */
static int significant_digits(const char *text, char *digits) {
    int count = 0;
    for (; *text != 0 && *text != 'e'; text++)
        if (isdigit((unsigned char)*text) && (count > 0 || *text != '0'))
            digits[count++] = *text;
    while (count > 1 && digits[count - 1] == '0')
        count--;
    digits[count] = 0;
    return count;
}

/*
 * `text` against snprintf of the same value: one digit less must not read back, and as many must
 * give the same digits if they read back (if not, ours are not the nearest but the only ones).
 */
static void expect_shortest(enum number_type type, uint64_t bits, double value, const char *text) {
    char digits[64], other[64], number[64] = "[";
    const int count = significant_digits(text, digits);
    for (int n = count > 1 ? count - 1 : 1; n <= count; n++) {
        const size_t length = (size_t)sprintf(number + 1, "%.*e]", n - 1, value) + 1;
        uint64_t read = 0;
        struct number_array_shape shape;
        struct number_fault fault;
        const bool same =
            number_array_parse(type, number, length, &read, 1, &shape, &fault) == NUMBER_OK &&
            read == bits;
        if (n < count && same)
            ck_abort_msg("%s is longer than %s", text, number);
        number[length - 1] = 0;
        significant_digits(number + 1, other);
        if (n == count && same && strcmp(digits, other) != 0)
            ck_abort_msg("%s is farther away than %s", text, number);
    }
}

static double half_value(enum number_type type, uint64_t bits) {
    const int fraction_bits = type == NUMBER_F16 ? 10 : 7;
    const int min_exponent = type == NUMBER_F16 ? -14 : -126;
    const int fraction = (int)(bits & ((1u << fraction_bits) - 1));
    const int binade = (int)(bits & 0x7fff) >> fraction_bits;
    const double sign = bits >> 15 != 0 ? -1 : 1;
    if (binade == 0)
        return sign * ldexp(fraction, min_exponent - fraction_bits);
    return sign * ldexp(fraction + (1 << fraction_bits), min_exponent - fraction_bits + binade - 1);
}

START_TEST(every_half_is_shortest_and_comes_back) {
    static const struct {
        enum number_type type;
        uint64_t infinity;
        size_t longest;
    } halves[] = {{NUMBER_F16, 0x7c00, 11}, {NUMBER_BF16, 0x7f80, 18}};
    char text[NUMBER_TEXT_ROOM + 2];
    for (size_t h = 0; h < 2; h++) {
        for (uint64_t bits = 0; bits < 0x10000; bits++) {
            if ((bits & 0x7fff) > halves[h].infinity)
                continue; /* every NaN prints as the one name */
            const char *number = round_trip(halves[h].type, bits, text);
            if (strlen(number) > halves[h].longest)
                ck_abort_msg("%s is longer than promised", number);
            if ((bits & 0x7fff) != 0 && (bits & 0x7fff) != halves[h].infinity)
                expect_shortest(halves[h].type, bits, half_value(halves[h].type, bits), number);
        }
    }
}
END_TEST

START_TEST(float32_bits_come_back) {
    char text[NUMBER_TEXT_ROOM + 2];
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 1009)
        if ((bits & 0x7fffffff) <= 0x7f800000 && strlen(round_trip(NUMBER_F32, bits, text)) > 18)
            ck_abort_msg("%s is longer than promised", text);
}
END_TEST

START_TEST(float32_is_shortest) {
    struct random random = random_seeded(21);
    char text[NUMBER_TEXT_ROOM + 2];
    for (uint32_t i = 0; i < 100000; i++) {
        /* Every power of two and its neighbours (lopsided intervals), then anything. */
        const uint32_t edge = (i / 3 << 23) + i % 3 - 1;
        const uint32_t bits = i > 0 && i < 3 * 255 ? edge : (uint32_t)random_next(&random);
        float value;
        memcpy(&value, &bits, sizeof value);
        if (isfinite(value) && value != 0)
            expect_shortest(NUMBER_F32, bits, (double)value, round_trip(NUMBER_F32, bits, text));
    }
}
END_TEST

START_TEST(float64_is_shortest_and_comes_back) {
    struct random random = random_seeded(22);
    char text[NUMBER_TEXT_ROOM + 2];
    for (uint64_t i = 0; i < 600000; i++) {
        const uint64_t edge = (i / 3 << 52) + i % 3 - 1;
        const uint64_t bits = i > 0 && i < UINT64_C(3) * 2047 ? edge : random_next(&random);
        double value;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value) || value == 0)
            continue;
        const char *number = round_trip(NUMBER_F64, bits, text);
        if (i < 60000)
            expect_shortest(NUMBER_F64, bits, value, number);
    }
}
END_TEST

START_TEST(whole_numbers_and_booleans_come_back) {
    char text[NUMBER_TEXT_ROOM + 2];
    struct random random = random_seeded(23);
    for (int i = 0; i < 100000; i++)
        round_trip(NUMBER_I64, random_next(&random) >> random_below(&random, 64), text);
    ck_assert_str_eq(round_trip(NUMBER_I64, UINT64_C(1) << 63, text), "-9223372036854775808");
    ck_assert_str_eq(round_trip(NUMBER_I64, UINT64_MAX, text), "-1");
    ck_assert_str_eq(round_trip(NUMBER_I64, 0, text), "0");
    ck_assert_str_eq(round_trip(NUMBER_BOOL, 1, text), "true");
    ck_assert_str_eq(round_trip(NUMBER_BOOL, 0, text), "false");
}
END_TEST

/* Rows of a [30][70] array, so that blocks, rows and both scanners meet at every phase. */
START_TEST(arrays_come_back_whole) {
    enum { ROWS = 30, COLUMNS = 70, TEXT = ROWS * (COLUMNS * 25 + 64) };
    static const uint64_t keep[] = {[NUMBER_F32] = UINT64_C(0xffffffff),
                                    [NUMBER_F64] = UINT64_MAX,
                                    [NUMBER_F16] = 0xffff,
                                    [NUMBER_BF16] = 0xffff,
                                    [NUMBER_I64] = UINT64_MAX,
                                    [NUMBER_BOOL] = 1};
    const enum number_type type = (enum number_type)_i;
    const size_t size = element_size[type];
    struct random random = random_seeded(31);
    char *values = calloc(ROWS * COLUMNS, size);
    char *back = calloc(ROWS * COLUMNS, size);
    char *text = malloc(TEXT);
    for (size_t n = 0; n < ROWS * COLUMNS; n++) {
        /* Often small whole numbers, zeros and short ones; never a NaN with bits of its own. */
        uint64_t bits = random_next(&random) & keep[type];
        if (n % 3 == 0)
            bits = type == NUMBER_F64 || type == NUMBER_I64 ? bits & UINT64_C(0x400ff00000000000)
                                                            : bits & 0x41f0;
        if (type == NUMBER_BOOL)
            bits &= 1;
        memcpy(values + n * size, &bits, size);
        char one[NUMBER_TEXT_ROOM + 2];
        if (number_print_array(type, &bits, 1, one) == 5 && one[0] == '"') /* "NaN" */
            memset(values + n * size, 0, size);
    }
    size_t length = 0;
    for (size_t row = 0; row < ROWS; row++) {
        length += (size_t)sprintf(text + length, row == 0 ? "[[" : ",[");
        length += number_print_array(type, values + row * COLUMNS * size, COLUMNS, text + length);
        text[length++] = ']';
    }
    text[length++] = ']';
    struct number_array_shape shape;
    struct number_fault fault;
    ck_assert_int_eq(number_array_parse(type, text, length, back, ROWS * COLUMNS, &shape, &fault),
                     NUMBER_OK);
    ck_assert(shape.rank == 2 && shape.shape[0] == ROWS && shape.shape[1] == COLUMNS);
    ck_assert_int_eq(memcmp(values, back, ROWS * COLUMNS * size), 0);
    free(values);
    free(back);
    free(text);
}
END_TEST

static const struct {
    double value;
    const char *f64, *f32;
} forms[] = {
    {0, "0", "0"},
    {-0.0, "-0.0", "-0.0"},
    {1, "1", "1"},
    {-1, "-1", "-1"},
    {0.1, "0.1", "0.1"},
    {-0.5, "-0.5", "-0.5"},
    {10, "10", "10"},
    {12.5, "12.5", "12.5"},
    {100, "100", "100"},
    {1234.5, "1234.5", "1234.5"},
    {0.00001, "0.00001", "0.00001"},
    {0.000001, "1e-6", "1e-6"},
    {1.5e-7, "1.5e-7", "1.5e-7"},
    {16777216, "16777216", "16777216"},
    {123456789, "123456789", "123456790"},
    {1e16, "10000000000000000", "10000000000000000"},
    {1e17, "1e17", "1e17"},
    {12345678901234567.0, "12345678901234568", "12345678000000000"},
    {1.0 / 3, "0.3333333333333333", "0.33333334"},
    {1e23, "1e23", "1e23"},
    {-1.2345678901234567e-308, "-1.2345678901234567e-308", "-0.0"},
    {5e-324, "5e-324", "0"},
    {1.401298464324817e-45, "1.401298464324817e-45", "1e-45"},
    {1.7976931348623157e308, "1.7976931348623157e308", "\"Infinity\""},
    {INFINITY, "\"Infinity\"", "\"Infinity\""},
    {-INFINITY, "\"-Infinity\"", "\"-Infinity\""},
    {NAN, "\"NaN\"", "\"NaN\""},
    {-NAN, "\"NaN\"", "\"NaN\""},
};

START_TEST(a_number_has_one_form) {
    char text[NUMBER_TEXT_ROOM];
    size_t length = number_print_f64(forms[_i].value, text);
    text[length] = 0;
    ck_assert_str_eq(text, forms[_i].f64);
    length = number_print_f32((float)forms[_i].value, text);
    text[length] = 0;
    ck_assert_str_eq(text, forms[_i].f32);
}
END_TEST

START_TEST(halves_print_in_their_own_precision) {
    char text[NUMBER_TEXT_ROOM];
    text[number_print_f16(0x2e66, text)] = 0; /* 0.0999755859375 */
    ck_assert_str_eq(text, "0.1");
    text[number_print_bf16(0x3dcd, text)] = 0; /* 0.10009765625 */
    ck_assert_str_eq(text, "0.1");
    text[number_print_f16(0x7bff, text)] = 0;
    ck_assert_str_eq(text, "65500");
}
END_TEST

/* The longest texts of each type, printed to the very end of the promised room. */
START_TEST(an_array_stays_in_its_room) {
    static const struct {
        enum number_type type;
        uint64_t longest;
        size_t length;
    } longest[] = {
        {NUMBER_F32, 0xdb0e1bca, 18},
        {NUMBER_F64, UINT64_C(0x8008e0a3a2bc301f), 24},
        {NUMBER_F16, 0xfc00, 11},
        {NUMBER_BF16, 0xda0e, 18},
        {NUMBER_I64, UINT64_C(1) << 63, 20},
        {NUMBER_BOOL, 0, 5},
    };
    enum { COUNT = 50 };
    struct guard_page guard = guard_page_create(COUNT * 32);
    for (size_t i = 0; i < NUMBER_TYPE_COUNT; i++) {
        char values[COUNT * 8], text[NUMBER_TEXT_ROOM + 2];
        const enum number_type type = longest[i].type;
        ck_assert_uint_eq(print_bracketed(type, longest[i].longest, text), longest[i].length + 2);
        for (size_t n = 0; n < COUNT; n++)
            memcpy(values + n * element_size[type], &longest[i].longest, element_size[type]);
        size_t room;
        ck_assert(number_array_text_room(type, COUNT, &room));
        char *out = guard.mapping + guard.capacity - room;
        const size_t length = number_print_array(type, values, COUNT, out);
        ck_assert_uint_eq(length, COUNT * (longest[i].length + 1) - 1);
        ck_assert_uint_eq(number_print_array(type, values, 0, out), 0);
        ck_assert(out[longest[i].length] == ',');
    }
    guard_page_free(&guard);
    size_t room;
    ck_assert(!number_array_text_room(NUMBER_F32, SIZE_MAX / 19, &room));
}
END_TEST

/* Printing takes the next higher one for powers that are not exact, in their low half alone. */
START_TEST(no_power_needs_a_carry) {
    for (int q = NUMBER_POWER_FIRST; q <= NUMBER_POWER_LAST; q++)
        ck_assert(number_powers[q - NUMBER_POWER_FIRST].low != UINT64_MAX);
}
END_TEST

static Suite *number_print_suite(void) {
    Suite *suite = suite_create("number_print");
    TCase *tests = tcase_create("print");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, every_half_is_shortest_and_comes_back);
    tcase_add_test(tests, float32_bits_come_back);
    tcase_add_test(tests, float32_is_shortest);
    tcase_add_test(tests, float64_is_shortest_and_comes_back);
    tcase_add_test(tests, whole_numbers_and_booleans_come_back);
    tcase_add_loop_test(tests, arrays_come_back_whole, 0, NUMBER_TYPE_COUNT);
    tcase_add_loop_test(tests, a_number_has_one_form, 0, sizeof forms / sizeof forms[0]);
    tcase_add_test(tests, halves_print_in_their_own_precision);
    tcase_add_test(tests, an_array_stays_in_its_room);
    tcase_add_test(tests, no_power_needs_a_carry);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(number_print_suite)
