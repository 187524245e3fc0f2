/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rounding from decimal to each type: against strtod and strtof (correct in glibc) on random
 * text of many shapes, and against the known neighbours at and beside every kind of halfway point.
 * No mismatch is tolerated: rounding to nearest has one answer.
 */
#include "server/numbers/numbers.h"
#include "tests/support/random.h"
#include "tests/support/test_main.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_ROOM = 2048, SPACE = 80 };

/* The bits one number parses to, or those of infinity where it does not fit. */
static uint64_t bits_of(enum number_type type, const char *number) {
    static const uint64_t infinity[] = {
        [NUMBER_F32] = UINT64_C(0x7f800000),
        [NUMBER_F64] = UINT64_C(0x7ff0000000000000),
        [NUMBER_F16] = UINT64_C(0x7c00),
        [NUMBER_BF16] = UINT64_C(0x7f80),
    };
    enum { BEFORE = 16 };
    char text[BEFORE + TEXT_ROOM + SPACE + 2];
    uint64_t out[2] = {0, 0};
    struct number_array_shape shape;
    struct number_fault fault;
    const size_t length =
        (size_t)snprintf(text, sizeof text, "[%*s%s%*s]", BEFORE, "", number, SPACE, "");
    /* With room around it a number may go through the fast scanner, without it never does. */
    const enum number_result result =
        number_array_parse(type, text, length, &out[0], 1, &shape, &fault);
    text[length - 1 - SPACE] = ']';
    const enum number_result alone =
        number_array_parse(type, text, length - SPACE, &out[1], 1, &shape, &fault);
    if (result != alone || out[0] != out[1])
        ck_abort_msg("type %d, %s: %#llx, but at the end of a text %#llx", (int)type, number,
                     (unsigned long long)out[0], (unsigned long long)out[1]);
    if (result == NUMBER_RANGE || result == NUMBER_TOO_LARGE)
        return infinity[type];
    if (result != NUMBER_OK) /* a ck_assert for each of millions would cost more than the test */
        ck_abort_msg("%s: result %d", number, (int)result);
    return out[0];
}

static void expect(enum number_type type, const char *number, uint64_t expected) {
    const uint64_t got = bits_of(type, number);
    if (got != expected)
        ck_abort_msg("type %d, %s: got %#llx, expected %#llx", (int)type, number,
                     (unsigned long long)got, (unsigned long long)expected);
}

static uint64_t double_bits(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static uint64_t float_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Random text: `digits` digits with a point somewhere, and half the time an exponent. */
static void random_number(struct random *random, int digits, int exponent_range, char *out) {
    const int point = 1 + (int)random_below(random, (uint64_t)digits);
    char *p = out;
    if (random_below(random, 2) != 0)
        *p++ = '-';
    for (int i = 0; i < digits; i++) {
        if (i == point)
            *p++ = '.';
        const uint64_t low = i == 0 && point > 1 ? 1 : 0; /* no leading zero before a digit */
        *p++ = (char)('0' + low + random_below(random, 10 - low));
    }
    if (exponent_range > 0)
        p += sprintf(p, "e%d",
                     (int)random_below(random, 2 * (uint64_t)exponent_range) - exponent_range);
    *p = 0;
}

struct shape_of_text {
    int digits, exponent_range, count;
};

static const struct shape_of_text shapes_of_text[] = {
    {1, 50, 20000},  {3, 330, 50000},  {6, 0, 100000},   {6, 45, 100000},  {9, 0, 100000},
    {9, 45, 100000}, {9, 330, 50000},  {16, 30, 50000},  {17, 0, 100000},  {17, 330, 100000},
    {18, 20, 50000}, {19, 0, 100000},  {19, 330, 50000}, {20, 0, 50000},   {20, 330, 50000},
    {25, 0, 50000},  {25, 330, 50000}, {40, 60, 50000},  {120, 330, 5000}, {900, 300, 300},
};

/* Overflow in strtod and strtof gives infinity, as bits_of() does; -inf differs by the sign. */
START_TEST(random_text_agrees_with_libc) {
    const struct shape_of_text *shape = &shapes_of_text[_i];
    struct random random = random_seeded(1 + (uint64_t)_i);
    char number[TEXT_ROOM];
    for (int i = 0; i < shape->count; i++) {
        random_number(&random, shape->digits, shape->exponent_range, number);
        const double wide = strtod(number, NULL);
        const float narrow = strtof(number, NULL);
        expect(NUMBER_F64, number, double_bits(isinf(wide) ? INFINITY : wide));
        expect(NUMBER_F32, number, float_bits(isinf(narrow) ? INFINITY : narrow));
    }
}
END_TEST

START_TEST(printed_bits_come_back) {
    struct random random = random_seeded(77);
    char number[TEXT_ROOM];
    for (int i = 0; i < 200000; i++) {
        uint64_t bits = random_next(&random);
        double wide;
        memcpy(&wide, &bits, sizeof wide);
        if (isfinite(wide)) {
            snprintf(number, sizeof number, "%.17g", wide);
            expect(NUMBER_F64, number, bits);
        }
        const uint32_t word = (uint32_t)random_next(&random);
        float narrow;
        memcpy(&narrow, &word, sizeof narrow);
        if (isfinite(narrow)) {
            snprintf(number, sizeof number, "%.9g", (double)narrow);
            expect(NUMBER_F32, number, word);
        }
    }
}
END_TEST

/*
 * The text of an exact decimal expansion "d.ddde±x" changed by one unit of a digit beyond its last
 * one: upwards by appending 1, downwards by taking one from the last digit and appending 9.
 */
static void nudge(const char *exact, bool up, char *out) {
    const char *e = strchr(exact, 'e');
    size_t mantissa = (size_t)(e - exact);
    memcpy(out, exact, mantissa);
    if (up) {
        out[mantissa++] = '1';
    } else {
        size_t last = mantissa - 1;
        for (; out[last] == '0' || out[last] == '.'; last--)
            out[last] = out[last] == '0' ? '9' : '.';
        out[last]--;
        out[mantissa++] = '9';
    }
    memcpy(out + mantissa, e, strlen(e) + 1);
}

/*
 * At the point halfway between two neighbours, given exactly, and a hair to each side of it.
 * 800 decimals are exact for every such point of the four types (767 at most) in long double.
 */
static void check_halfway(enum number_type type, uint64_t lower, long double halfway,
                          int decimals) {
    char exact[TEXT_ROOM];
    char number[TEXT_ROOM];
    snprintf(exact, sizeof exact, "%.*Le", decimals, halfway);
    expect(type, exact, lower + (lower & 1));
    nudge(exact, true, number);
    expect(type, number, lower + 1);
    nudge(exact, false, number);
    expect(type, number, lower);
}

/* The value of a magnitude's bits, any format; one past the largest is the next power of two. */
static long double value_of(uint64_t bits, int fraction_bits, int min_exponent) {
    const uint64_t implied = UINT64_C(1) << fraction_bits;
    const int binade = (int)(bits >> fraction_bits);
    const uint64_t fraction = bits & (implied - 1);
    if (binade == 0)
        return ldexpl((long double)fraction, min_exponent - fraction_bits);
    return ldexpl((long double)(fraction | implied), min_exponent - fraction_bits + binade - 1);
}

START_TEST(every_halfway_point_of_the_half_types) {
    for (uint64_t bits = 0; bits < 0x7c00; bits++)
        check_halfway(NUMBER_F16, bits, (value_of(bits, 10, -14) + value_of(bits + 1, 10, -14)) / 2,
                      30);
    for (uint64_t bits = 0; bits < 0x7f80; bits += 3)
        check_halfway(NUMBER_BF16, bits,
                      (value_of(bits, 7, -126) + value_of(bits + 1, 7, -126)) / 2, 130);
}
END_TEST

START_TEST(halfway_points_of_float32) {
    struct random random = random_seeded(5);
    for (int i = 0; i < 30000; i++) {
        const uint64_t any = random_below(&random, 0x7f800000);
        /* All the way down and up, subnormals and the overflow border included. */
        const uint64_t bits = i < 100   ? (uint64_t)i
                              : i < 200 ? 0x7f800000u - 1 - (uint64_t)(i - 100)
                              : i < 300 ? 0x800000u + (uint64_t)i - 250
                                        : any;
        check_halfway(NUMBER_F32, bits,
                      (value_of(bits, 23, -126) + value_of(bits + 1, 23, -126)) / 2, 160);
    }
}
END_TEST

/*
 * Sixteen digits next to a halfway point of float32 between 8 and 9: the nearest double is the
 * halfway point itself, so that going through it would round the wrong way half the time.
 */
START_TEST(float32_is_not_rounded_through_float64) {
    struct random random = random_seeded(15);
    char number[TEXT_ROOM];
    for (int i = 0; i < 50000; i++) {
        const uint32_t bits = 0x41000000u + (uint32_t)random_below(&random, 1u << 20);
        float value;
        memcpy(&value, &bits, sizeof value);
        snprintf(number, sizeof number, "%.15f", (double)value + 0x1p-21);
        expect(NUMBER_F32, number, float_bits(strtof(number, NULL)));
    }
}
END_TEST

START_TEST(halfway_points_of_float64) {
    const uint64_t infinity = UINT64_C(0x7ff0000000000000);
    const uint64_t normal = UINT64_C(0x0010000000000000);
    struct random random = random_seeded(6);
    for (int i = 0; i < 4000; i++) {
        const uint64_t any = random_below(&random, infinity);
        const uint64_t near_one =
            (UINT64_C(1023) << 52) - (1 << 30) + random_below(&random, 1u << 31);
        const uint64_t bits = i < 100    ? (uint64_t)i
                              : i < 200  ? infinity - 1 - (uint64_t)(i - 100)
                              : i < 300  ? normal + (uint64_t)i - 250
                              : i < 2000 ? near_one
                                         : any;
        check_halfway(NUMBER_F64, bits,
                      (value_of(bits, 52, -1022) + value_of(bits + 1, 52, -1022)) / 2, 800);
    }
}
END_TEST

START_TEST(random_text_into_half_types) {
    struct random random = random_seeded(9);
    char number[TEXT_ROOM];
    static const struct {
        enum number_type type;
        int fraction_bits, min_exponent, exponent_range;
        uint64_t infinity;
    } halves[] = {{NUMBER_F16, 10, -14, 9, 0x7c00}, {NUMBER_BF16, 7, -126, 45, 0x7f80}};
    for (size_t h = 0; h < 2; h++) {
        for (int i = 0; i < 200000; i++) {
            random_number(&random, 1 + (int)random_below(&random, 12), halves[h].exponent_range,
                          number);
            const uint64_t got = bits_of(halves[h].type, number);
            const uint64_t magnitude = got & 0x7fff;
            const long double value = fabsl(strtold(number, NULL));
            const int m = halves[h].fraction_bits;
            const int e = halves[h].min_exponent;
            /* strtold's own rounding cannot reach past a halfway point, so <= is exact enough. */
            const long double up = (value_of(magnitude, m, e) + value_of(magnitude + 1, m, e)) / 2;
            bool right = magnitude == halves[h].infinity || value <= up;
            if (magnitude > 0)
                right = right &&
                        value >= (value_of(magnitude, m, e) + value_of(magnitude - 1, m, e)) / 2;
            if (!right || magnitude > halves[h].infinity)
                ck_abort_msg("type %d, %s: got %#llx", (int)halves[h].type, number,
                             (unsigned long long)got);
        }
    }
}
END_TEST

START_TEST(single_cases_at_the_borders) {
    static const struct {
        enum number_type type;
        const char *number;
        uint64_t bits;
    } borders[] = {
        {NUMBER_F32, "16777217", 0x4b800000},
        {NUMBER_F32, "16777219", 0x4b800002},
        {NUMBER_F32, "3.4028235677973367e38", 0x7f800000},
        {NUMBER_F32, "3.4028235677973366e38", 0x7f7fffff},
        {NUMBER_F32, "-7.0064923216240853e-46", 0x80000000},
        {NUMBER_F32, "7.0064923216240854e-46", 1},
        {NUMBER_F32, "1.00000005960464477539062499999999999999999999", 0x3f800000},
        {NUMBER_F32, "1.00000017881393432617187499", 0x3f800001},
        {NUMBER_F64, "9007199254740993", UINT64_C(0x4340000000000000)},
        {NUMBER_F64, "1.7976931348623157e308", UINT64_C(0x7fefffffffffffff)},
        {NUMBER_F64, "1.7976931348623158e308", UINT64_C(0x7fefffffffffffff)},
        {NUMBER_F64, "1.7976931348623159e308", UINT64_C(0x7ff0000000000000)},
        {NUMBER_F64, "2.2250738585072011e-308", UINT64_C(0x000fffffffffffff)},
        {NUMBER_F64, "2.4703282292062327e-324", 0},
        {NUMBER_F64, "-2.4703282292062328e-324", UINT64_C(0x8000000000000001)},
        {NUMBER_F64, "0.500000000000000055511151231257827021181583404541015625",
         UINT64_C(0x3fe0000000000000)},
        {NUMBER_F64, "0.5000000000000000555111512312578270211815834045410156250001",
         UINT64_C(0x3fe0000000000001)},
        {NUMBER_F64, "0.001953125000000000216840434497100886801490560173988342285156250",
         UINT64_C(0x3f60000000000000)},
        {NUMBER_F64, "0.001953125000000000216840434497100886801490560173988342285156251",
         UINT64_C(0x3f60000000000001)},
        {NUMBER_F64, "1e-400", 0},
        {NUMBER_F64, "-0e999999999999999999999", UINT64_C(0x8000000000000000)},
        {NUMBER_F64, "0.00000000000000000000000000000000000000000000000000001e53",
         UINT64_C(0x3ff0000000000000)},
        {NUMBER_F16, "65519.999", 0x7bff},
        {NUMBER_F16, "65520", 0x7c00},
        {NUMBER_F16, "2.98023223876953125e-8", 0},
        {NUMBER_F16, "2.98023223876953126e-8", 1},
        {NUMBER_F16, "2049", 0x6800},
        {NUMBER_F16, "2051", 0x6802},
        /* Through float32 this would be 1 + 2^-11 exactly and then tie down to 1. */
        {NUMBER_F16, "1.000488281250000001", 0x3c01},
        {NUMBER_BF16, "1.00390625000000000001", 0x3f81},
        {NUMBER_BF16, "1.00390625", 0x3f80},
    };
    for (size_t i = 0; i < sizeof borders / sizeof borders[0]; i++)
        expect(borders[i].type, borders[i].number, borders[i].bits);
}
END_TEST

/* A million digits are read exactly, and in a time one reading of the text takes. */
START_TEST(very_long_numbers) {
    enum { DIGITS = 1000000 };
    char *text = malloc(DIGITS + 32);
    struct number_array_shape shape;
    struct number_fault fault;
    double out;
    /* 1 + 2^-53, a tie, but for a last digit a million places out. */
    const char *half = "1.00000000000000011102230246251565404236316680908203125";
    memset(text, '0', DIGITS);
    text[0] = '[';
    memcpy(text + 1, half, strlen(half));
    memcpy(text + DIGITS, "1]", 2);
    ck_assert_int_eq(number_array_parse_f64(text, DIGITS + 2, &out, 1, &shape, &fault), NUMBER_OK);
    ck_assert(out == nextafter(1, 2));
    text[DIGITS] = '0';
    ck_assert_int_eq(number_array_parse_f64(text, DIGITS + 2, &out, 1, &shape, &fault), NUMBER_OK);
    ck_assert(out == 1);
    memset(text + 1, '9', DIGITS);
    ck_assert_int_eq(number_array_parse_f64(text, DIGITS + 2, &out, 1, &shape, &fault),
                     NUMBER_TOO_LARGE);
    const size_t tail = (size_t)sprintf(text + DIGITS, "e-%d]", DIGITS - 1);
    ck_assert_int_eq(number_array_parse_f64(text, DIGITS + tail, &out, 1, &shape, &fault),
                     NUMBER_OK);
    ck_assert(out == 1);
    free(text);
}
END_TEST

static Suite *number_round_suite(void) {
    Suite *suite = suite_create("number_round");
    TCase *tests = tcase_create("rounding");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, random_text_agrees_with_libc, 0,
                        sizeof shapes_of_text / sizeof shapes_of_text[0]);
    tcase_add_test(tests, printed_bits_come_back);
    tcase_add_test(tests, every_halfway_point_of_the_half_types);
    tcase_add_test(tests, halfway_points_of_float32);
    tcase_add_test(tests, float32_is_not_rounded_through_float64);
    tcase_add_test(tests, halfway_points_of_float64);
    tcase_add_test(tests, random_text_into_half_types);
    tcase_add_test(tests, single_cases_at_the_borders);
    tcase_add_test(tests, very_long_numbers);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(number_round_suite)
