/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any one JSON number: its scanner and its rounding to a binary format. The common short ones have
 * a faster way of their own in number_row.c. Internal to the number_*.c files. The scanner refuses
 * what the grammar of RFC 8259 section 6 does not allow and reads no byte at or past `end`.
 */
#ifndef SERVER_NUMBERS_NUMBER_DECIMAL_H
#define SERVER_NUMBERS_NUMBER_DECIMAL_H

#include "server/numbers/numbers.h"

/* A scanned number: (-1)^negative * mantissa * 10^exponent, plus what `truncated` left out. */
struct number_decimal {
    uint64_t mantissa; /* every digit, or the 19 leading ones */
    int64_t exponent;  /* of the mantissa's last digit */
    bool negative;
    bool valid;             /* the grammar was kept */
    bool integer;           /* written without point and exponent */
    bool truncated;         /* non-zero digits follow the mantissa's */
    const char *digits;     /* the text from the first digit … */
    const char *digits_end; /* … to just past the last one before an exponent */
};

enum { NUMBER_MANTISSA_DIGITS = 19 }; /* 10^19 < 2^64 */

/*
 * Scans the number at p. Returns where it ends; when decimal->valid is false, that is the first
 * byte that breaks the grammar.
 */
const char *number_scan(const char *p, const char *end, struct number_decimal *decimal);

/*
 * Rounds to the type's bits, to nearest even; the type is one of the four floating ones. Returns
 * NUMBER_OK, NUMBER_RANGE or NUMBER_TOO_LARGE.
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

#endif
