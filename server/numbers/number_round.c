/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decimal to binary with one rounding, the whole of it: see number_round.h for the method. Where
 * the product's error could reach a halfway point, number_exceeds() compares exactly. Refuses
 * numbers that round beyond the format's largest finite value.
 */
#include "server/numbers/number_round.h"
#include "server/numbers/number_decimal.h"

#include <assert.h>

/* The two neighbours are lower and lower + 1 (as bits of a magnitude). */
enum direction { ROUND_DOWN, ROUND_UP, ROUND_UNSURE };
struct rounding {
    uint64_t lower;
    enum direction direction;
};

/* Which neighbour is nearest to a product, given exactly or not. */
static struct rounding round_product(const struct number_format *format,
                                     const struct number_product *product, bool exact) {
    const number_uint128 bits = (number_uint128)product->high << 64 | product->low;
    const int binade = product->exponent - format->min_exponent;
    const int keep = format->fraction_bits + 1 + (binade < 0 ? binade : 0);
    if (keep < 0) {
        /* Under half the smallest value; unless the error, for the power of a fraction is never
           exact, carries to half of it and beyond. */
        const bool unsure = keep == -1 && bits + 4 < 4;
        return (struct rounding){0, unsure ? ROUND_UNSURE : ROUND_DOWN};
    }
    const number_uint128 half = (number_uint128)1 << (127 - keep);
    const number_uint128 rest = bits & (half - 1 + half);
    const uint64_t kept = keep == 0 ? 0 : product->high >> (64 - keep);
    const uint64_t skipped = binade < 0 ? 0 : (uint64_t)binade;
    struct rounding rounding = {(skipped << format->fraction_bits) + kept, ROUND_UNSURE};
    if (rest > half || (exact && rest == half && (kept & 1) != 0))
        rounding.direction = ROUND_UP;
    else if (exact || rest + 4 <= half)
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
    const struct number_product product = number_multiply(mantissa, (int)exponent);
    return round_product(format, &product, number_product_is_exact((int)exponent));
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
