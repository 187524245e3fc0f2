/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The binary floating-point formats of enum number_type as numbers, so that reading and printing
 * are written once for all of them. Internal to the number_*.c files.
 */
#ifndef SERVER_NUMBERS_NUMBER_FORMAT_H
#define SERVER_NUMBERS_NUMBER_FORMAT_H

#include "server/numbers/numbers.h"

/* fraction_bits follow an implied one; normal values start at 2^min_exponent. */
struct number_format {
    int fraction_bits;
    int min_exponent;
    int sign_bit;
    uint64_t infinity;
};

static const struct number_format number_formats[] = {
    [NUMBER_F32] = {23, -126, 31, UINT64_C(0x7f800000)},
    [NUMBER_F64] = {52, -1022, 63, UINT64_C(0x7ff0000000000000)},
    [NUMBER_F16] = {10, -14, 15, UINT64_C(0x7c00)},
    [NUMBER_BF16] = {7, -126, 15, UINT64_C(0x7f80)},
};

/* A magnitude's bits (no sign) as significand * 2^exponent. */
struct number_parts {
    uint64_t significand;
    int exponent;
};

static inline struct number_parts number_take_apart(const struct number_format *format,
                                                    uint64_t magnitude) {
    const uint64_t implied = UINT64_C(1) << format->fraction_bits;
    const int binade = (int)(magnitude >> format->fraction_bits);
    const struct number_parts parts = {(magnitude & (implied - 1)) | (binade == 0 ? 0 : implied),
                                       format->min_exponent - format->fraction_bits +
                                           (binade == 0 ? 0 : binade - 1)};
    return parts;
}

#endif
