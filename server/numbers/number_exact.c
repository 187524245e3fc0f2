/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exact comparison behind number_round(), for the few numbers so close to halfway between two
 * values that 128 bits cannot tell: both sides are brought to whole numbers and compared. The work
 * is bounded: digits beyond the 800th only say "and a little more".
 */
#include "server/numbers/number_decimal.h"
#include "server/numbers/number_powers.h"

#include <assert.h>

/*
 * Halfway points of float64 have at most 768 significant digits, so 800 digits and a mark that
 * more follow decide every comparison. Both sides then stay below 2^2800: 10^800 < 2^2658, and the
 * other side is 54 bits and at most 5^1142.
 */
enum { DIGITS_MAX = 800, LIMBS = 48 };

/* A natural number, least significant limb first, without leading zero limbs. */
struct natural {
    int count;
    uint64_t limb[LIMBS];
};

/* n = n * factor + addend */
static void multiply_add(struct natural *n, uint64_t factor, uint64_t addend) {
    uint64_t carry = addend;
    for (int i = 0; i < n->count; i++) {
        const number_uint128 product = (number_uint128)n->limb[i] * factor + carry;
        n->limb[i] = (uint64_t)product;
        carry = (uint64_t)(product >> 64);
    }
    if (carry != 0) {
        assert(n->count < LIMBS);
        n->limb[n->count++] = carry;
    }
}

/* n = n * base^exponent, base^chunk being the largest power that fits a limb. */
static void multiply_power(struct natural *n, uint64_t base, int chunk, int exponent) {
    for (int left = exponent; left > 0; left -= chunk) {
        uint64_t factor = 1;
        for (int i = 0; i < chunk && i < left; i++)
            factor *= base;
        multiply_add(n, factor, 0);
    }
}

static void multiply_power_of_five(struct natural *n, int exponent) {
    multiply_power(n, 5, 27, exponent);
}

static void multiply_power_of_two(struct natural *n, int exponent) {
    multiply_power(n, 2, 63, exponent);
}

static int compare(const struct natural *a, const struct natural *b) {
    if (a->count != b->count)
        return a->count < b->count ? -1 : 1;
    for (int i = a->count - 1; i >= 0; i--)
        if (a->limb[i] != b->limb[i])
            return a->limb[i] < b->limb[i] ? -1 : 1;
    return 0;
}

/* The first that is not zero: what was truncated has one. */
static const char *first_digit(const struct number_decimal *decimal) {
    const char *p = decimal->digits;
    while (*p == '0' || *p == '.')
        p++;
    assert(p < decimal->digits_end);
    return p;
}

/*
 * Reads up to DIGITS_MAX significant digits of a truncated decimal into *n. Returns how many
 * digits are left out, and in *more whether one of those is not zero.
 */
static int64_t read_digits(const struct number_decimal *decimal, struct natural *n, bool *more) {
    const char *p = first_digit(decimal);
    int64_t left_out = 0;
    *more = false;
    for (int count = 0; p < decimal->digits_end; p++) {
        if (*p == '.')
            continue;
        if (count < DIGITS_MAX) {
            multiply_add(n, 10, (uint64_t)(*p - '0'));
            count++;
        } else {
            left_out++;
            *more |= *p != '0';
        }
    }
    return left_out;
}

/* The exponent of the text's last digit: truncating moved it to the mantissa's last one. */
static int64_t last_digit_exponent(const struct number_decimal *decimal) {
    int64_t dropped = -NUMBER_MANTISSA_DIGITS;
    const char *p = first_digit(decimal);
    for (; p < decimal->digits_end; p++)
        dropped += *p != '.';
    return decimal->exponent - dropped;
}

bool number_exceeds(const struct number_decimal *decimal, uint64_t half_mantissa, int half_exponent,
                    bool odd) {
    struct natural left = {0, {0}};
    struct natural right = {0, {0}};
    bool more = false;
    int64_t exponent = decimal->exponent;
    if (decimal->truncated)
        exponent = last_digit_exponent(decimal) + read_digits(decimal, &left, &more);
    else
        multiply_add(&left, 1, decimal->mantissa);
    multiply_add(&right, 1, half_mantissa);
    assert(exponent > -2000 && exponent < 2000);
    const int ten = (int)exponent;
    /* left * 5^ten * 2^ten against right * 2^half_exponent, with no negative powers. */
    multiply_power_of_five(&left, ten);
    multiply_power_of_five(&right, -ten);
    multiply_power_of_two(&left, ten - half_exponent);
    multiply_power_of_two(&right, half_exponent - ten);
    const int order = compare(&left, &right);
    return order > 0 || (order == 0 && (more || odd));
}
