/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Build-time generator of the table behind decimal <-> binary conversion: the top 128 bits of
 * every power of ten from 10^-342 to 10^324, rounded down, by exact integer arithmetic. Prints C
 * initialisers "{high, low}," for server/numbers/number_powers.c. Refuses nothing: it takes no
 * input.
 *
 * 10^q = 5^q * 2^q, so only 5^|q| matters: its leading bits for q >= 0, those of its reciprocal
 * for q < 0 (found by binary long division).
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { FIRST = -342, LAST = 324, LIMBS = 32 };

/* A natural number, least significant limb first; 32 limbs hold 5^342 (795 bits) and one more. */
struct natural {
    uint32_t limb[LIMBS];
};

static void multiply(struct natural *n, uint32_t by) {
    uint64_t carry = 0;
    for (int i = 0; i < LIMBS; i++) {
        carry += (uint64_t)n->limb[i] * by;
        n->limb[i] = (uint32_t)carry;
        carry >>= 32;
    }
}

/* n = 2n + bit */
static void shift_in(struct natural *n, uint32_t bit) {
    for (int i = 0; i < LIMBS; i++) {
        const uint32_t out = n->limb[i] >> 31;
        n->limb[i] = n->limb[i] << 1 | bit;
        bit = out;
    }
}

static int bit_length(const struct natural *n) {
    for (int i = LIMBS - 1; i >= 0; i--)
        if (n->limb[i] != 0)
            return 32 * i + 32 - __builtin_clz(n->limb[i]);
    return 0;
}

static uint32_t bit_at(const struct natural *n, int position) {
    return position < 0 ? 0 : n->limb[position / 32] >> (position % 32) & 1;
}

static bool at_least(const struct natural *a, const struct natural *b) {
    for (int i = LIMBS - 1; i >= 0; i--)
        if (a->limb[i] != b->limb[i])
            return a->limb[i] > b->limb[i];
    return true;
}

static void subtract(struct natural *a, const struct natural *b) {
    uint64_t borrow = 0;
    for (int i = 0; i < LIMBS; i++) {
        const uint64_t difference = (uint64_t)a->limb[i] - b->limb[i] - borrow;
        a->limb[i] = (uint32_t)difference;
        borrow = difference >> 63;
    }
}

/* Bit number `index` (0 = leading) of the significand of 5^power. */
static uint32_t power_bit(const struct natural *five, int index) {
    return bit_at(five, bit_length(five) - 1 - index);
}

/* The next bit of `remainder` / five, long division by doubling. */
static uint32_t quotient_bit(struct natural *remainder, const struct natural *five) {
    shift_in(remainder, 0);
    if (!at_least(remainder, five))
        return 0;
    subtract(remainder, five);
    return 1;
}

static void print_power(int q) {
    struct natural five = {{1}};
    for (int i = 0; i < (q < 0 ? -q : q); i++)
        multiply(&five, 5);
    /* 2^(bits-1) < five < 2^bits, so doubling this remainder once makes the first quotient bit 1.
     */
    struct natural remainder = {{0}};
    remainder.limb[(bit_length(&five) - 1) / 32] = UINT32_C(1) << (bit_length(&five) - 1) % 32;
    uint64_t word[2];
    for (int w = 0; w < 2; w++) {
        word[w] = 0;
        for (int i = 64 * w; i < 64 * w + 64; i++)
            word[w] =
                word[w] << 1 | (q < 0 ? quotient_bit(&remainder, &five) : power_bit(&five, i));
    }
    printf("{UINT64_C(0x%016" PRIx64 "), UINT64_C(0x%016" PRIx64 ")}, /* 1e%d */\n", word[0],
           word[1], q);
}

int main(void) {
    for (int q = FIRST; q <= LAST; q++)
        print_power(q);
    return fflush(stdout) == 0 ? 0 : 1;
}
