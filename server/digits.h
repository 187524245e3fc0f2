/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole numbers as text where every call writes some: OpenBLAS brings a library that hooks into
 * printf, which makes each use of it slow for the whole process. Neither writes a NUL.
 */
#ifndef SERVER_DIGITS_H
#define SERVER_DIGITS_H

#include <stddef.h>
#include <stdint.h>

enum { DIGITS_DECIMAL = 20, DIGITS_HEX = 16 }; /* room for the longest */

/* Returns how many bytes were written to `out`. */
static inline size_t digits_decimal(char *out, uint64_t value) {
    size_t count = 1;
    for (uint64_t rest = value; rest >= 10; rest /= 10)
        count++;
    for (size_t at = count; at-- > 0; value /= 10)
        out[at] = (char)('0' + value % 10);
    return count;
}

/* All sixteen digits. */
static inline void digits_hex(char out[DIGITS_HEX], uint64_t value) {
    for (size_t at = DIGITS_HEX; at-- > 0; value >>= 4)
        out[at] = "0123456789abcdef"[value & 15];
}

#endif
