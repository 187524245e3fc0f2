/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One JSON number: its scanner (inline, for the loop over an array's elements) and its rounding to
 * a binary format. Internal to the number_*.c files. The scanner refuses what the grammar of
 * RFC 8259 section 6 does not allow and reads no byte at or past `end`.
 */
#ifndef SERVER_NUMBER_DECIMAL_H
#define SERVER_NUMBER_DECIMAL_H

#include "server/numbers.h"

#include <string.h>

/* A scanned number: (-1)^negative * mantissa * 10^exponent, plus what `truncated` left out. */
struct number_decimal {
    uint64_t mantissa; /* every digit, or the 19 leading ones */
    int64_t exponent;  /* of the mantissa's last digit */
    bool negative;
    bool integer;           /* written without point and exponent */
    bool truncated;         /* non-zero digits follow the mantissa's */
    const char *digits;     /* the text from the first digit … */
    const char *digits_end; /* … to just past the last one before an exponent */
};

enum { NUMBER_MANTISSA_DIGITS = 19 }; /* 10^19 < 2^64 */

/* Takes the 19 leading significant digits where there are more digits than that. */
void number_decimal_truncate(struct number_decimal *decimal);

/* Reads "e" and what follows; *p stands at the 'e' and then past the number or at its fault. */
bool number_scan_exponent(const char **p, const char *end, struct number_decimal *decimal);

/*
 * Rounds to the type's bits, to nearest even; the type is one of the four floating ones. Returns
 * NUMBER_OK, NUMBER_RANGE or NUMBER_TOO_LARGE. (Eisel-Lemire with an exact comparison where it
 * cannot decide.)
 */
enum number_result number_round(const struct number_decimal *decimal, enum number_type type,
                                uint64_t *bits);

/*
 * True when the decimal lies above half_mantissa * 2^half_exponent, or equals it and `odd` is set.
 * Exact for any decimal that is within a factor of two of the other side and in float64's range.
 */
bool number_exceeds(const struct number_decimal *decimal, uint64_t half_mantissa, int half_exponent,
                    bool odd);

/* The byte at p, or 0, which no JSON token holds, at the end. */
static inline unsigned char number_peek(const char *p, const char *end) {
    return p < end ? (unsigned char)*p : 0;
}

static inline bool number_is_digit(unsigned char c) {
    return (unsigned char)(c - '0') < 10;
}

/* Eight bytes with the first in the least significant place, '0' taken off each. */
static inline uint64_t number_load_digits(const char *p) {
    uint64_t word;
    memcpy(&word, p, sizeof word);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word ^ UINT64_C(0x3030303030303030);
}

/* The number eight digit values make, the most significant in the lowest byte. */
static inline uint64_t number_join_digits(uint64_t digits) {
    const uint64_t mask = UINT64_C(0x000000ff000000ff);
    const uint64_t pairs = digits * 10 + (digits >> 8);
    return ((pairs & mask) * (100 + (UINT64_C(1000000) << 32)) +
            (pairs >> 16 & mask) * (1 + (UINT64_C(10000) << 32))) >>
           32;
}

/* Appends the run of digits at p to *value (modulo 2^64) and returns where it ends. */
static inline const char *number_scan_digits(const char *p, const char *end, uint64_t *value) {
    static const uint32_t power[8] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000};
    uint64_t sum = *value;
    while (end - p >= 8) {
        const uint64_t digits = number_load_digits(p);
        /* Bit 7 of the first byte above 9 is set; carries spoil only the bytes after it. */
        const uint64_t others =
            ((digits + UINT64_C(0x7676767676767676)) | digits) & UINT64_C(0x8080808080808080);
        if (others != 0) {
            const int count = __builtin_ctzll(others) >> 3;
            *value = sum * power[count] + number_join_digits(digits << (56 - 8 * count) << 8);
            return p + count;
        }
        sum = sum * 100000000 + number_join_digits(digits);
        p += 8;
    }
    while (p < end && number_is_digit((unsigned char)*p))
        sum = sum * 10 + (uint64_t)(*p++ - '0');
    *value = sum;
    return p;
}

/*
 * Scans the number at *p and moves *p past it. Returns false for bad grammar, *p then being at
 * the first byte that does not fit.
 */
static inline bool number_scan(const char **p, const char *end, struct number_decimal *decimal) {
    const char *at = *p;
    decimal->negative = number_peek(at, end) == '-';
    at += decimal->negative;
    decimal->digits = at;
    uint64_t mantissa = (unsigned char)(number_peek(at, end) - '0');
    if (mantissa > 9) {
        *p = at;
        return false;
    }
    at++;
    if (number_is_digit(number_peek(at, end))) {
        if (mantissa == 0) {
            *p = at;
            return false;
        }
        at = number_scan_digits(at, end, &mantissa);
    }
    decimal->integer = true;
    decimal->truncated = false;
    decimal->exponent = 0;
    const char *point = at;
    if (number_peek(at, end) == '.') {
        at = number_scan_digits(at + 1, end, &mantissa);
        decimal->exponent = point + 1 - at;
        decimal->integer = false;
        if (decimal->exponent == 0) {
            *p = at;
            return false;
        }
    }
    decimal->digits_end = at;
    decimal->mantissa = mantissa;
    *p = at;
    if ((number_peek(at, end) | 0x20) == 'e' && !number_scan_exponent(p, end, decimal))
        return false;
    if (at - decimal->digits - (at != point) > NUMBER_MANTISSA_DIGITS)
        number_decimal_truncate(decimal);
    return true;
}

#endif
