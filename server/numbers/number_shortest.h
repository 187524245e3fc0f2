/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binary to the shortest decimal that reads back to the same bits, by the method of R. Giulietti,
 * "The Schubfach way to render doubles" (2020): of the decimals of the coarsest power-of-ten grid
 * that has one inside the value's rounding interval, the one nearest the value. One routine serves
 * every format, since it only sees significand, exponent and interval. Internal to number_print.c.
 */
#ifndef SERVER_NUMBERS_NUMBER_SHORTEST_H
#define SERVER_NUMBERS_NUMBER_SHORTEST_H

#include "server/numbers/number_powers.h"

/* digits * 10^exponent, at most 17 digits; the last ones may be zeros. */
struct number_shortest {
    uint64_t digits;
    int64_t exponent;
};

/*
 * Four times a value and the ends of its rounding interval in units of 10^k, as fixed-point numbers
 * with `point` bits after the point. A whole number x is inside where low <= x and x <= high.
 */
struct number_scaled {
    uint64_t value, low, high;
    int point;
};

/*
 * power * factor / 2^128 "rounded to odd": rounded down, and the last bit set when the product is
 * not whole. One in the second word is the power's error, not a remainder.
 */
static inline uint64_t number_multiply_to_odd(struct number_power power, uint64_t factor) {
    const number_uint128 low = (number_uint128)power.low * factor;
    const number_uint128 high = (number_uint128)power.high * factor + (uint64_t)(low >> 64);
    return (uint64_t)(high >> 64) | ((uint64_t)high > 1);
}

/*
 * For significands c of up to 53 bits. 4c - below and 4c + 2 are the interval's ends; they belong
 * to it unless c is odd, since ties are read back to even.
 */
static inline struct number_scaled number_scale_wide(uint64_t c, unsigned below, int shift, int q) {
    struct number_power power = number_powers[q - NUMBER_POWER_FIRST];
    power.low += !number_power_is_exact(q); /* carries nothing: none is all ones, by trial of all */
    const struct number_scaled scaled = {
        number_multiply_to_odd(power, 4 * c << shift),
        number_multiply_to_odd(power, (4 * c - below) << shift) + (c & 1),
        number_multiply_to_odd(power, (4 * c + 2) << shift) - (c & 1), 0};
    return scaled;
}

/*
 * For significands of up to 24 bits. One product with 64 bits of the power leaves 32 bits after
 * the point, and the interval's ends are a shifted power away. An end that is whole comes out as
 * that number or one more or less in the last place; one that is not is farther from any (true of
 * every float32, by trial of all). Hence the 1, and 3 where ends do not belong.
 */
static inline struct number_scaled number_scale_narrow(uint64_t c, unsigned below, int shift,
                                                       int q) {
    enum { EXACT = 27 }; /* 5^27 < 2^64 */
    const uint64_t power = number_powers[q - NUMBER_POWER_FIRST].high + (q < 0 || q > EXACT);
    const uint64_t value = (uint64_t)((number_uint128)power * (c << (shift + 34)) >> 64);
    const uint64_t two = power >> (31 - shift);
    const uint64_t outside = 3 * (c & 1);
    const struct number_scaled scaled = {value, value - (below == 2 ? two : two / 2) + outside - 1,
                                         value + two - outside + 1, 32};
    return scaled;
}

/*
 * The one multiple of ten units inside the interval, if there is one; else the unit nearest the
 * value, ties to even. Where the lower half of the interval is narrow (`closer`) the nearest unit
 * may be outside; then the one above is inside.
 */
static inline uint64_t number_choose(const struct number_scaled *scaled, bool closer) {
    const int point = scaled->point + 2;
    const uint64_t unit = scaled->value >> point;
    const uint64_t rest = scaled->value - (unit << point);
    bool up = rest + (unit & 1) > UINT64_C(1) << (point - 1);
    if (closer)
        up |= scaled->low > unit << point;
    if (unit < 10) /* only tiny subnormals: one digit, and no other is shorter */
        return unit + up;
    const uint64_t below = scaled->high >> point;
    const uint64_t tens = (scaled->point > 0 ? (uint32_t)below / 10 : below / 10) * 10;
    /* As likely as not, so chosen without a branch. */
    const uint64_t inside = 0 - (uint64_t)(scaled->low <= tens << point);
    return (tens & inside) | ((unit + up) & ~inside);
}

/*
 * The shortest decimal for c * 2^q, c > 0, whose lower neighbour is at half the distance of the
 * upper one when `closer`.
 */
static inline __attribute__((always_inline)) struct number_shortest
number_shorten(uint64_t c, int q, bool closer, bool wide) {
    /*
     * floor(log10(2^q)), or of 3/4 * 2^q, the interval's width when the lower half is narrower:
     * so the interval is at least one unit of 10^k wide, and less than ten.
     */
    const int k = (q * 1262611 - (closer ? 524031 : 0)) >> 22;
    const int shift = q + number_power_exponent(-k) + 1;
    const struct number_scaled scaled = wide ? number_scale_wide(c, 2 - closer, shift, -k)
                                             : number_scale_narrow(c, 2 - closer, shift, -k);
    return (struct number_shortest){number_choose(&scaled, closer), k};
}

#endif
