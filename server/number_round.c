/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decimal to binary with one rounding, for any binary format up to 64 bits, by the method of
 * D. Lemire, "Number parsing at a gigabyte per second", Software: Practice and Experience 51
 * (2021): multiply the mantissa by a 128-bit power of ten and look whether the product's error
 * could reach the point halfway between two values. Where it could, number_exceeds() compares
 * exactly. Refuses numbers that round beyond the format's largest finite value.
 */
#include "server/number_decimal.h"
#include "server/number_format.h"
#include "server/number_powers.h"

#include <assert.h>

/* The two neighbours are lower and lower + 1 (as bits of a magnitude). */
enum direction { ROUND_DOWN, ROUND_UP, ROUND_UNSURE };
struct rounding {
    uint64_t lower;
    enum direction direction;
};

/* The product mantissa * 10^q: bits * 2^(exponent - 127), bits' top bit set, then 64 more bits. */
struct product {
    number_uint128 bits;
    uint64_t tail;
    int exponent;
};

static struct product multiply(uint64_t mantissa, int q) {
    const struct number_power *power = &number_powers[q - NUMBER_POWER_FIRST];
    const int zeros = __builtin_clzll(mantissa);
    mantissa <<= zeros;
    const number_uint128 low = (number_uint128)mantissa * power->low;
    const number_uint128 high = (number_uint128)mantissa * power->high + (uint64_t)(low >> 64);
    struct product product = {high, (uint64_t)low, number_power_exponent(q) + 64 - zeros};
    if (high >> 127 == 0) {
        product.bits = high << 1 | product.tail >> 63;
        product.tail <<= 1;
        product.exponent--;
    }
    return product;
}

/* Of a value in [product, product + 4), or exactly the product: which neighbour is nearest? */
static struct rounding round_product(const struct number_format *format, struct product product,
                                     bool exact) {
    const int below = format->min_exponent - product.exponent;
    const int keep = format->fraction_bits + 1 - (below > 0 ? below : 0);
    if (keep < 0) {
        /* Under half the smallest value; unless the error carries to exactly half and beyond. */
        const bool unsure = keep == -1 && !exact && product.bits + 4 < 4;
        return (struct rounding){0, unsure ? ROUND_UNSURE : ROUND_DOWN};
    }
    const number_uint128 half = (number_uint128)1 << (127 - keep);
    const number_uint128 rest = product.bits & (half - 1 + half);
    const uint64_t kept = keep == 0 ? 0 : (uint64_t)(product.bits >> (128 - keep));
    const uint64_t binade = below > 0 ? 0 : (uint64_t)-below;
    struct rounding rounding = {(binade << format->fraction_bits) + kept, ROUND_UNSURE};
    if (rest > half || (exact && rest == half && (product.tail != 0 || (kept & 1) != 0)))
        rounding.direction = ROUND_UP;
    else if (exact || (rest < half && half - rest >= 4))
        rounding.direction = ROUND_DOWN;
    return rounding;
}

static struct rounding approximate(const struct number_format *format, uint64_t mantissa,
                                   int64_t exponent) {
    /* 2^64 * 10^-343 is less than half the smallest float64, 10^309 more than the largest. */
    if (mantissa == 0 || exponent < NUMBER_POWER_FIRST)
        return (struct rounding){0, ROUND_DOWN};
    if (exponent > 308)
        return (struct rounding){format->infinity, ROUND_DOWN};
    const bool exact = exponent >= 0 && exponent <= NUMBER_POWER_EXACT;
    return round_product(format, multiply(mantissa, (int)exponent), exact);
}

/* Compares with the point halfway between lower and the next value. */
static uint64_t round_exactly(const struct number_format *format,
                              const struct number_decimal *decimal, uint64_t lower) {
    const struct number_parts parts = number_take_apart(format, lower);
    return lower +
           number_exceeds(decimal, 2 * parts.significand + 1, parts.exponent - 1, (lower & 1) != 0);
}

static uint64_t round_magnitude(const struct number_format *format,
                                const struct number_decimal *decimal) {
    const struct rounding low = approximate(format, decimal->mantissa, decimal->exponent);
    bool sure = low.direction != ROUND_UNSURE;
    const uint64_t nearest = low.lower + (low.direction == ROUND_UP);
    if (decimal->truncated && sure) {
        const struct rounding high = approximate(format, decimal->mantissa + 1, decimal->exponent);
        sure =
            high.direction != ROUND_UNSURE && high.lower + (high.direction == ROUND_UP) == nearest;
    }
    if (sure || low.lower >= format->infinity)
        return nearest;
    return round_exactly(format, decimal, low.lower);
}

enum number_result number_round(const struct number_decimal *decimal, enum number_type type,
                                uint64_t *bits) {
    assert((unsigned)type < sizeof number_formats / sizeof number_formats[0]);
    const struct number_format *format = &number_formats[type];
    const uint64_t magnitude = round_magnitude(format, decimal);
    if (magnitude >= format->infinity) {
        const struct number_format *widest = &number_formats[NUMBER_F64];
        return round_magnitude(widest, decimal) >= widest->infinity ? NUMBER_TOO_LARGE
                                                                    : NUMBER_RANGE;
    }
    *bits = magnitude | (uint64_t)decimal->negative << format->sign_bit;
    return NUMBER_OK;
}
