/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decimal to binary with one rounding by the method of D. Lemire, "Number parsing at a gigabyte
 * per second", Software: Practice and Experience 51 (2021): multiply the mantissa by a 128-bit
 * power of ten and look whether the product's error could reach the point halfway between two
 * values. Inline, for the loop over an array's elements; what it cannot decide is number_round()'s
 * work. Internal to the number_*.c files.
 */
#ifndef SERVER_NUMBERS_NUMBER_ROUND_H
#define SERVER_NUMBERS_NUMBER_ROUND_H

#include "server/numbers/number_format.h"
#include "server/numbers/number_powers.h"

/*
 * mantissa * 10^q is in [high:low, high:low + 4) * 2^(exponent - 127), high's top bit set. Where
 * number_product_is_exact() it is high:low, exactly.
 */
struct number_product {
    uint64_t high, low;
    int exponent;
};

/*
 * 5^27 < 2^64, so that the product has no more than 128 bits. It has more for the other exact
 * powers, but no number with one of those lies halfway between two values, for 5^28 > 2^54.
 */
static inline bool number_product_is_exact(int q) {
    return q >= 0 && q <= 27;
}

/* mantissa > 0 and q within the table. */
static inline struct number_product number_multiply(uint64_t mantissa, int q) {
    const struct number_power *power = &number_powers[q - NUMBER_POWER_FIRST];
    const int zeros = __builtin_clzll(mantissa);
    mantissa <<= zeros;
    const number_uint128 tail = (number_uint128)mantissa * power->low;
    const number_uint128 bits = (number_uint128)mantissa * power->high + (uint64_t)(tail >> 64);
    /* Two factors in [1, 2): the product is below 4, and one bit shorter when below 2. */
    const int carry = (int)(bits >> 127);
    const int shift = 1 - carry;
    const struct number_product product = {(uint64_t)(bits >> 64) << shift |
                                               (uint64_t)bits >> 63 >> carry,
                                           (uint64_t)bits << shift | (uint64_t)tail >> 63 >> carry,
                                           number_power_exponent(q) + 63 - zeros + carry};
    return product;
}

/*
 * The nearest value's magnitude into *bits, where that is certain and no exception: false for
 * numbers at or next to halfway points, and for those that underflow to zero or overflow.
 */
static inline bool number_round_fast(const struct number_format *format, uint64_t mantissa,
                                     int64_t exponent, uint64_t *bits) {
    if (mantissa == 0) {
        *bits = 0;
        return true;
    }
    if (exponent < NUMBER_POWER_FIRST || exponent > NUMBER_POWER_LAST)
        return false;
    const struct number_product product = number_multiply(mantissa, (int)exponent);
    const int binade = product.exponent - format->min_exponent;
    const int keep = format->fraction_bits + 1 + (binade < 0 ? binade : 0);
    if (keep <= 0)
        return false;
    const uint64_t kept = product.high >> (64 - keep);
    const uint64_t half = UINT64_C(1) << (63 - keep);
    const uint64_t rest = product.high & (2 * half - 1);
    if (rest - half + 1 < 2 && product.low + 4 < 5)
        return false;
    *bits = ((uint64_t)(binade < 0 ? 0 : binade) << format->fraction_bits) + kept + (rest >= half);
    return *bits < format->infinity;
}

#endif
