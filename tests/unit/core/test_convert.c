/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Float conversions: every half and every bfloat both ways, and narrowing against a search for the
 * nearest value that knows nothing of bits: candidates are widened and their distances compared in
 * double, where the neighbours of every value tested here are exact.
 */
#include "core/convert.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "tests/support/random.h"
#include "tests/support/test_main.h"

/* A 16-bit format by its description alone: exponent bits, mantissa bits. */
struct small {
    int exponent, mantissa;
};

static const struct small HALF = {5, 10}, BFLOAT = {8, 7};

/* The value of a magnitude pattern; what would be infinity counts on, as rounding needs it. */
static double value_of(struct small format, unsigned magnitude) {
    const int bias = (1 << (format.exponent - 1)) - 1;
    const int exponent = (int)(magnitude >> format.mantissa);
    const double fraction = magnitude & ((1U << format.mantissa) - 1);
    const double one = 1 << format.mantissa;
    return exponent == 0 ? ldexp(fraction / one, 1 - bias)
                         : ldexp(1 + fraction / one, exponent - bias);
}

static unsigned infinity_of(struct small format) {
    return ((1U << format.exponent) - 1) << format.mantissa;
}

/* The nearest pattern of a positive value, ties to the even one, found by bisection. */
static uint16_t nearest(struct small format, double value) {
    unsigned below = 0, above = infinity_of(format);
    if (value >= value_of(format, above))
        return (uint16_t)above;
    while (above - below > 1) {
        const unsigned middle = (below + above) / 2;
        if (value_of(format, middle) <= value)
            below = middle;
        else
            above = middle;
    }
    const double down = value - value_of(format, below), up = value_of(format, above) - value;
    if (down == up)
        return (uint16_t)(below % 2 == 0 ? below : above);
    return (uint16_t)(down < up ? below : above);
}

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* libcheck notes every assertion that passes, which would dominate in loops this long. */
static void expect(double value, unsigned got, unsigned wanted) {
    if (got != wanted)
        ck_abort_msg("%a became %#x, expected %#x", value, got, wanted);
}

START_TEST(every_half_goes_there_and_back) {
    for (unsigned i = 0; i < 65536; i++) {
        const uint16_t half = (uint16_t)i;
        const float value = attn_half_to_float(half);
        const unsigned magnitude = i & 0x7fff;
        if (magnitude > infinity_of(HALF)) {
            ck_assert(isnan(value));
            ck_assert_uint_gt(attn_half_from_float(value) & 0x7fffU, 0x7c00);
            ck_assert_uint_gt(attn_half_from_double((double)value) & 0x7fffU, 0x7c00);
            continue;
        }
        const double expected =
            magnitude == infinity_of(HALF) ? (double)INFINITY : value_of(HALF, magnitude);
        expect(i, fabs((double)value) == expected, true);
        expect(i, !!signbit(value), i >> 15);
        expect(i, attn_half_from_float(value), i);
        expect(i, attn_half_from_double((double)value), i);
    }
}
END_TEST

START_TEST(every_bfloat_goes_there_and_back) {
    for (unsigned i = 0; i < 65536; i++) {
        const float value = attn_bfloat_to_float((uint16_t)i);
        expect(i, bits_of(value), i << 16);
        if (isnan(value)) {
            ck_assert_uint_gt(attn_bfloat_from_float(value) & 0x7fffU, 0x7f80);
            ck_assert_uint_gt(attn_bfloat_from_double((double)value) & 0x7fffU, 0x7f80);
            continue;
        }
        expect(i, attn_bfloat_from_float(value), i);
        expect(i, attn_bfloat_from_double((double)value), i);
    }
}
END_TEST

/* Both signs of a double, and of a float when it is one, into both formats. */
static void check_narrowing(double value) {
    const unsigned half = nearest(HALF, value), bfloat = nearest(BFLOAT, value);
    expect(value, attn_half_from_double(value), half);
    expect(-value, attn_half_from_double(-value), half | 0x8000);
    expect(value, attn_bfloat_from_double(value), bfloat);
    expect(-value, attn_bfloat_from_double(-value), bfloat | 0x8000);
    const float single = (float)value;
    if ((double)single != value)
        return;
    expect(value, attn_half_from_float(single), half);
    expect(-value, attn_half_from_float(-single), half | 0x8000);
    expect(value, attn_bfloat_from_float(single), bfloat);
    expect(-value, attn_bfloat_from_float(-single), bfloat | 0x8000);
}

/* Between every two neighbours of the format: the tie, and one step of a float and of a double to
 * either side of it, where rounding twice (by way of a float) would go wrong. */
static void check_ties(struct small format) {
    for (unsigned i = 0; i < infinity_of(format); i++) {
        const double tie = (value_of(format, i) + value_of(format, i + 1)) / 2;
        check_narrowing(value_of(format, i));
        check_narrowing(tie);
        check_narrowing(nextafter(tie, 0));
        check_narrowing(nextafter(tie, HUGE_VAL));
        check_narrowing((double)nextafterf((float)tie, 0));
        if (tie < 3e38)
            check_narrowing((double)nextafterf((float)tie, HUGE_VALF));
    }
}

START_TEST(halves_round_once_and_to_even) {
    check_ties(HALF);
}
END_TEST

START_TEST(bfloats_round_once_and_to_even) {
    check_ties(BFLOAT);
}
END_TEST

START_TEST(ends_of_the_ranges) {
    ck_assert_uint_eq(attn_half_from_float(65504), 0x7bff);
    ck_assert_uint_eq(attn_half_from_double(65519.999), 0x7bff);
    ck_assert_uint_eq(attn_half_from_float(65520), 0x7c00);
    ck_assert_uint_eq(attn_half_from_double(1e300), 0x7c00);
    ck_assert_uint_eq(attn_half_from_double(-INFINITY), 0xfc00);
    ck_assert_uint_eq(attn_half_from_double(0x1p-25), 0);
    ck_assert_uint_eq(attn_half_from_double(0x1.0000000000001p-25), 1);
    ck_assert_uint_eq(attn_half_from_double(-5e-324), 0x8000);
    ck_assert_uint_eq(attn_half_from_float(1e-45F), 0);
    ck_assert_uint_eq(attn_bfloat_from_float(3.4028235e38F), 0x7f80);
    ck_assert_uint_eq(attn_bfloat_from_double(1e300), 0x7f80);
    ck_assert_uint_eq(attn_bfloat_from_double(-INFINITY), 0xff80);
    ck_assert_uint_eq(attn_bfloat_from_float(0x1p-133F), 1);
    ck_assert_uint_eq(attn_bfloat_from_double(0x1p-134), 0);
    ck_assert_uint_eq(attn_bfloat_from_double(5e-324), 0);
}
END_TEST

/* A NaN whose payload lies in the bits that are dropped would round to infinity or to zero. */
START_TEST(not_a_number_stays_one) {
    static const uint32_t SINGLES[] = {0x7f800001, 0x7fffffff, 0xff800001, 0xffffffff};
    static const uint64_t DOUBLES[] = {0x7ff0000000000001, 0x7fffffffffffffff, 0xfff0000000000001};
    for (size_t i = 0; i < sizeof SINGLES / sizeof *SINGLES; i++) {
        float value;
        memcpy(&value, &SINGLES[i], sizeof value);
        ck_assert_uint_gt(attn_half_from_float(value) & 0x7fffU, 0x7c00);
        ck_assert_uint_gt(attn_bfloat_from_float(value) & 0x7fffU, 0x7f80);
    }
    for (size_t i = 0; i < sizeof DOUBLES / sizeof *DOUBLES; i++) {
        double value;
        memcpy(&value, &DOUBLES[i], sizeof value);
        ck_assert_uint_gt(attn_half_from_double(value) & 0x7fffU, 0x7c00);
        ck_assert_uint_gt(attn_bfloat_from_double(value) & 0x7fffU, 0x7f80);
    }
}
END_TEST

START_TEST(random_values_round_to_the_nearest) {
    struct random random = random_seeded(11);
    for (int i = 0; i < 200000; i++) {
        const double value = ldexp(1 + random_unit(&random), (int)random_below(&random, 60) - 30);
        check_narrowing(value);
        check_narrowing((double)(float)value);
    }
}
END_TEST

enum { RUN = 67, STRIDE = 3 };

static const enum attn_dtype FLOATS[] = {ATTN_FLOAT32, ATTN_FLOAT64, ATTN_FLOAT16, ATTN_BFLOAT16};

/* Values that every float type holds exactly. */
static double exact(int i) {
    return (i % 2 == 0 ? 1 : -1) * ldexp(1 + (i % 16) / 16.0, i % 12 - 6);
}

struct run {
    enum attn_dtype dtype;
    ptrdiff_t stride;
    size_t n;
};

/* Reads a run of exact() values back in both widths and no further. */
static void check_loads(struct run run, const void *memory) {
    float floats[RUN + 1];
    double doubles[RUN + 1];
    floats[run.n] = 77;
    doubles[run.n] = 77;
    attn_load_float(run.dtype, memory, run.stride, run.n, floats);
    attn_load_double(run.dtype, memory, run.stride, run.n, doubles);
    for (size_t i = 0; i <= run.n; i++) {
        const double wanted = i == run.n ? 77 : exact((int)i);
        expect(wanted, (double)floats[i] == wanted, true);
        expect(wanted, doubles[i] == wanted, true);
    }
}

/* Stores a run at a stride from both widths, and sees that nothing beside it was touched. */
static void check_run(struct run run) {
    uint64_t memory[2][RUN * STRIDE + 1];
    float floats[RUN];
    double doubles[RUN];
    const size_t size = attn_dtype_size(run.dtype);
    memset(memory, 0x5a, sizeof memory);
    for (size_t i = 0; i < run.n; i++)
        floats[i] = (float)(doubles[i] = exact((int)i));
    attn_store_float(run.dtype, memory[0], run.stride, run.n, floats);
    attn_store_double(run.dtype, memory[1], run.stride, run.n, doubles);
    for (int wide = 0; wide < 2; wide++) {
        check_loads(run, memory[wide]);
        const unsigned char *bytes = (const unsigned char *)memory[wide];
        for (size_t i = 0; i < sizeof memory[0]; i++) {
            const size_t element = i / size, stride = (size_t)run.stride;
            if (element % stride != 0 || element / stride >= run.n)
                expect((double)i, bytes[i], 0x5a);
        }
    }
}

START_TEST(runs_of_every_length_and_stride) {
    for (size_t d = 0; d < sizeof FLOATS / sizeof *FLOATS; d++)
        for (size_t n = 0; n <= RUN; n++) {
            check_run((struct run){FLOATS[d], 1, n});
            check_run((struct run){FLOATS[d], STRIDE, n});
        }
}
END_TEST

START_TEST(runs_convert_as_single_values_do) {
    static uint16_t patterns[65536];
    static float dense[65536], strided[65536];
    for (unsigned i = 0; i < 65536; i++)
        patterns[i] = (uint16_t)i;
    attn_load_float(ATTN_FLOAT16, patterns, 1, 65536, dense);
    attn_load_float(ATTN_FLOAT16, patterns + 65535, -1, 65536, strided);
    for (unsigned i = 0; i < 65536; i++) {
        const uint32_t expected = bits_of(attn_half_to_float((uint16_t)i));
        expect(i, bits_of(dense[i]), expected);
        expect(i, bits_of(strided[65535 - i]), expected);
    }
}
END_TEST

START_TEST(a_double_becomes_a_float_by_one_rounding) {
    const double source[] = {1 + 0x1p-24, 1 + 0x1.8p-24, 1e300, -0.0, (double)NAN};
    float target[5];
    attn_load_float(ATTN_FLOAT64, source, 1, 5, target);
    ck_assert(target[0] == 1.0F && target[1] == 1 + 0x1p-23F && isinf(target[2]));
    ck_assert(signbit(target[3]) && isnan(target[4]));
}
END_TEST

static Suite *convert_suite(void) {
    Suite *suite = suite_create("convert");
    TCase *tests = tcase_create("conversions");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, every_half_goes_there_and_back);
    tcase_add_test(tests, every_bfloat_goes_there_and_back);
    tcase_add_test(tests, halves_round_once_and_to_even);
    tcase_add_test(tests, bfloats_round_once_and_to_even);
    tcase_add_test(tests, ends_of_the_ranges);
    tcase_add_test(tests, not_a_number_stays_one);
    tcase_add_test(tests, random_values_round_to_the_nearest);
    tcase_add_test(tests, runs_of_every_length_and_stride);
    tcase_add_test(tests, runs_convert_as_single_values_do);
    tcase_add_test(tests, a_double_becomes_a_float_by_one_rounding);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(convert_suite)
