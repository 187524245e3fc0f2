/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Powers of ten as 128-bit significands, shared by reading and printing numbers.
 * 10^q = (high * 2^64 + low) * 2^(number_power_exponent(q) - 127), high's top bit set, rounded
 * down; exact for 0 <= q <= NUMBER_POWER_EXACT, because 5^55 < 2^128.
 */
#ifndef SERVER_NUMBERS_NUMBER_POWERS_H
#define SERVER_NUMBERS_NUMBER_POWERS_H

#include <stdbool.h>
#include <stdint.h>

__extension__ typedef unsigned __int128 number_uint128;

enum { NUMBER_POWER_FIRST = -342, NUMBER_POWER_LAST = 324, NUMBER_POWER_EXACT = 55 };

struct number_power {
    uint64_t high, low;
};

extern const struct number_power number_powers[NUMBER_POWER_LAST - NUMBER_POWER_FIRST + 1];

static inline bool number_power_is_exact(int q) {
    return q >= 0 && q <= NUMBER_POWER_EXACT;
}

/* floor(log2(10^q)) for |q| <= 1233: 1741647 / 2^19 is log2(10) rounded down far enough. */
static inline int number_power_exponent(int q) {
    return (q * 1741647) >> 19;
}

#endif
