/* SPDX-License-Identifier: Apache-2.0 */
/* Scans one JSON number of any form and length, byte by byte. Refuses bad grammar. */
#include "server/numbers/number_decimal.h"

static const char *skip_digits(const char *p, const char *end) {
    while (p < end && number_is_digit((unsigned char)*p))
        p++;
    return p;
}

/* Reads the exponent whose 'e' is at p; without a digit the number is not valid. */
static const char *scan_exponent(const char *p, const char *end, struct number_decimal *decimal) {
    /* Far beyond any text's length, so that saturating cannot be seen in the rounded value. */
    const int64_t limit = INT64_C(1000000000000000000);
    p++;
    const bool negative = number_peek(p, end) == '-';
    p += negative || number_peek(p, end) == '+';
    const char *const last = skip_digits(p, end);
    decimal->valid = last != p;
    decimal->integer = false;
    int64_t exponent = 0;
    for (; p < last; p++)
        exponent = exponent < limit / 10 ? exponent * 10 + (*p - '0') : limit;
    decimal->exponent += negative ? -exponent : exponent;
    return last;
}

/* The mantissa of the 19 leading significant digits; what follows them counts as truncated. */
static void take_mantissa(struct number_decimal *decimal) {
    const char *p = decimal->digits;
    while (p < decimal->digits_end && (*p == '0' || *p == '.'))
        p++;
    int count = 0;
    for (; p < decimal->digits_end; p++) {
        if (*p == '.')
            continue;
        if (count++ < NUMBER_MANTISSA_DIGITS) {
            decimal->mantissa = decimal->mantissa * 10 + (uint64_t)(*p - '0');
        } else {
            decimal->truncated |= *p != '0';
            decimal->exponent++;
        }
    }
}

const char *number_scan(const char *p, const char *end, struct number_decimal *decimal) {
    *decimal = (struct number_decimal){.integer = true, .negative = number_peek(p, end) == '-'};
    p += decimal->negative;
    decimal->digits = p;
    p = skip_digits(p, end);
    if (p == decimal->digits)
        return p;
    if (*decimal->digits == '0' && p - decimal->digits > 1)
        return decimal->digits + 1;
    if (number_peek(p, end) == '.') {
        const char *const fraction = p + 1;
        decimal->integer = false;
        p = skip_digits(fraction, end);
        if (p == fraction)
            return p;
        decimal->exponent = fraction - p;
    }
    decimal->valid = true;
    decimal->digits_end = p;
    take_mantissa(decimal);
    return (number_peek(p, end) | 0x20) == 'e' ? scan_exponent(p, end, decimal) : p;
}
