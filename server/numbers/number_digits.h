/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of decimal digits, many at a time: eight in a word, which any machine can, or sixteen in a
 * vector of SSE2, which every x86-64 has. Nothing here checks where the text ends: whoever calls
 * has seen to the bytes that a function says it reads. Internal to the number_*.c files.
 */
#ifndef SERVER_NUMBERS_NUMBER_DIGITS_H
#define SERVER_NUMBERS_NUMBER_DIGITS_H

#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "server/numbers/number_tens.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "digits are taken low byte first");

/* Of bytes before the digits and from their begin on, which may be read whatever they are. */
enum { NUMBER_DIGITS_BEFORE = 16, NUMBER_DIGITS_AFTER = 24 };

/* Eight bytes with the first in the least significant place, '0' taken off each. */
static inline uint64_t number_load8(const char *p) {
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return word ^ UINT64_C(0x3030303030303030);
}

/* The number eight digit values make, the most significant in the lowest byte. */
static inline uint64_t number_join8(uint64_t digits) {
    const uint64_t mask = UINT64_C(0x000000ff000000ff);
    const uint64_t pairs = digits * 10 + (digits >> 8);
    return ((pairs & mask) * (100 + (UINT64_C(1000000) << 32)) +
            (pairs >> 16 & mask) * (1 + (UINT64_C(10000) << 32))) >>
           32;
}

/* Bit 7 of the first byte that is no digit is set; carries spoil only the bytes after it. */
static inline uint64_t number_mark8(uint64_t digits) {
    return ((digits + UINT64_C(0x7676767676767676)) | digits) & UINT64_C(0x8080808080808080);
}

/* Appends the digits before the first mark to *mantissa and returns how many those are. */
static inline int number_append8(uint64_t *mantissa, uint64_t digits, uint64_t marks) {
    const int mark = __builtin_ctzll(marks); /* 8 count + 7 */
    *mantissa = *mantissa * number_tens[mark >> 3] + number_join8(digits << 8 << (63 - mark));
    return mark >> 3;
}

/* Appends the first digits at p, at most sixteen, to *mantissa, modulo 2^64, and returns how many
   those are. Reads 16 bytes. */
static inline int number_append16_words(uint64_t *mantissa, const char *p) {
    const uint64_t digits = number_load8(p), marks = number_mark8(digits);
    if (marks != 0)
        return number_append8(mantissa, digits, marks);
    *mantissa = *mantissa * 100000000 + number_join8(digits);
    const uint64_t more = number_load8(p + 8), more_marks = number_mark8(more);
    if (more_marks != 0)
        return 8 + number_append8(mantissa, more, more_marks);
    *mantissa = *mantissa * 100000000 + number_join8(more);
    return 16;
}

#if defined(__SSE2__)
/* The number sixteen digit values make, the most significant in the lowest byte: of two, of four,
   of eight in a lane, as in number_join8(). */
static inline uint64_t number_join16(__m128i digits) {
    const __m128i tens = _mm_and_si128(digits, _mm_set1_epi16(0xff));
    const __m128i pairs =
        _mm_add_epi16(_mm_mullo_epi16(tens, _mm_set1_epi16(10)), _mm_srli_epi16(digits, 8));
    const __m128i fours = _mm_madd_epi16(pairs, _mm_set1_epi32(100 | 1 << 16));
    const __m128i eights =
        _mm_madd_epi16(_mm_packs_epi32(fours, fours), _mm_set1_epi32(10000 | 1 << 16));
    const uint64_t halves = (uint64_t)_mm_cvtsi128_si64(eights);
    return (halves & UINT32_MAX) * 100000000 + (halves >> 32);
}

/* The same; reads the 16 bytes before p too, for the digits are moved to the vector's end by being
   read again from where they end there. */
static inline int number_append16_sse2(uint64_t *mantissa, const char *p) {
    /* From byte `count` on, the last `count` of sixteen are 15: the rest are none of the digits. */
    static const uint8_t low_bits[32] = {[16] = 15, 15, 15, 15, 15, 15, 15, 15,
                                         15,        15, 15, 15, 15, 15, 15, 15};
    /* '0' to '9' become the ten largest signed bytes. */
    const __m128i text = _mm_loadu_si128((const __m128i *)(const void *)p);
    const __m128i moved = _mm_add_epi8(text, _mm_set1_epi8(127 - '9'));
    const int are_digits = _mm_movemask_epi8(_mm_cmpgt_epi8(moved, _mm_set1_epi8(127 - 10)));
    const int count = __builtin_ctz(~(unsigned)are_digits);
    const __m128i last = _mm_loadu_si128((const __m128i *)(const void *)(p + count - 16));
    const __m128i mask = _mm_loadu_si128((const __m128i *)(const void *)(low_bits + count));
    *mantissa = *mantissa * number_tens[count] + number_join16(_mm_and_si128(last, mask));
    return count;
}
#endif

static inline int number_append16(uint64_t *mantissa, const char *p) {
#if defined(__SSE2__)
    return number_append16_sse2(mantissa, p);
#else
    return number_append16_words(mantissa, p);
#endif
}

/* Appends the digits at p; returns where they end, or NULL after 24 of them. */
static inline const char *number_append_all(uint64_t *mantissa, const char *p) {
    const int count = number_append16(mantissa, p);
    if (count < 16)
        return p + count;
    const uint64_t digits = number_load8(p + 16), marks = number_mark8(digits);
    return marks == 0 ? NULL : p + 16 + number_append8(mantissa, digits, marks);
}

#endif
