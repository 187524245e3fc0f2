/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rare parts of scanning a number: exponents, and more digits than a 64-bit mantissa holds.
 */
#include "server/number_decimal.h"

bool number_scan_exponent(const char **p, const char *end, struct number_decimal *decimal) {
    /* Far beyond any text's length, so that saturating cannot be seen in the rounded value. */
    const int64_t limit = INT64_C(1000000000000000000);
    const char *at = *p + 1;
    const bool negative = number_peek(at, end) == '-';
    at += negative || number_peek(at, end) == '+';
    const char *first = at;
    int64_t exponent = 0;
    for (; number_is_digit(number_peek(at, end)); at++)
        exponent = exponent < limit ? exponent * 10 + (*at - '0') : limit;
    *p = at;
    decimal->integer = false;
    decimal->exponent += negative ? -exponent : exponent;
    return at != first;
}

void number_decimal_truncate(struct number_decimal *decimal) {
    const char *p = decimal->digits;
    while (p < decimal->digits_end && (*p == '0' || *p == '.'))
        p++;
    uint64_t mantissa = 0;
    for (int count = 0; count < NUMBER_MANTISSA_DIGITS && p < decimal->digits_end; p++) {
        if (*p == '.')
            continue;
        mantissa = mantissa * 10 + (uint64_t)(*p - '0');
        count++;
    }
    for (; p < decimal->digits_end; p++) {
        if (*p == '.')
            continue;
        decimal->truncated |= *p != '0';
        decimal->exponent++;
    }
    decimal->mantissa = mantissa;
}
