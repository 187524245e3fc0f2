/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Base64, sixteen characters at a time: classes of characters are told apart by lane-wise
 * comparisons, and bits are packed by shifts within ever wider lanes. The rest, the padding and
 * any block with a fault go through the plain code, which knows where the fault is. Refuses what
 * base64.h says.
 */
#include "server/codecs/base64.h"
#include "core/checked.h"

#include <string.h>

enum { BLOCK_TEXT = 16, BLOCK_BYTES = 12, INVALID = 64 };

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "lanes are packed low byte first");

typedef uint8_t lanes8 __attribute__((vector_size(BLOCK_TEXT)));
typedef int8_t signed8 __attribute__((vector_size(BLOCK_TEXT)));
typedef uint16_t lanes16 __attribute__((vector_size(BLOCK_TEXT)));
typedef uint32_t lanes32 __attribute__((vector_size(BLOCK_TEXT)));
typedef uint64_t lanes64 __attribute__((vector_size(BLOCK_TEXT)));

/* Lanes with a byte in [first, first + count): all bits set. */
static inline lanes8 within(lanes8 bytes, uint8_t first, uint8_t count) {
    return (lanes8)(bytes - first < count);
}

/* Decodes 16 characters to 12 bytes, storing 14; false when one is not of the alphabet. */
static inline bool decode_block(const char *text, uint8_t *out) {
    lanes8 c;
    memcpy(&c, text, sizeof c);
    const lanes8 upper = within(c, 'A', 26);
    const lanes8 lower = within(c, 'a', 26);
    const lanes8 digit = within(c, '0', 10);
    const lanes8 plus = (lanes8)(c == '+');
    const lanes8 slash = (lanes8)(c == '/');
    const lanes64 valid = (lanes64)(upper | lower | digit | plus | slash);
    if ((valid[0] & valid[1]) != UINT64_MAX)
        return false;
    const lanes8 sixes = ((c - 'A') & upper) | ((c - ('a' - 26)) & lower) |
                         ((c + (52 - '0')) & digit) | (plus & 62) | (slash & 63);
    /* The first byte of text is in the low end of each lane and must end up in the high one. */
    const lanes16 a = (lanes16)sixes;
    const lanes32 b = (lanes32)((a & 0xff) << 6 | a >> 8);
    const lanes64 d = (lanes64)((b & 0xffff) << 12 | b >> 16);
    const lanes64 bits = ((d & 0xffffffff) << 24 | d >> 32) << 16;
    const uint64_t first = __builtin_bswap64(bits[0]);
    const uint64_t second = __builtin_bswap64(bits[1]);
    memcpy(out, &first, sizeof first);
    memcpy(out + BLOCK_BYTES / 2, &second, sizeof second);
    return true;
}

/* Encodes 12 bytes to 16 characters; reads 14 bytes. */
static inline void encode_block(const uint8_t *bytes, char *out) {
    uint64_t first, second;
    memcpy(&first, bytes, sizeof first);
    memcpy(&second, bytes + BLOCK_BYTES / 2, sizeof second);
    const lanes64 bits = {__builtin_bswap64(first) >> 16, __builtin_bswap64(second) >> 16};
    const lanes32 d = (lanes32)(bits >> 24 | (bits & 0xffffff) << 32);
    const lanes16 b = (lanes16)(d >> 12 | (d & 0xfff) << 16);
    const signed8 v = (signed8)(b >> 6 | (b & 63) << 8);
    const signed8 c = v + 'A' + ((v > 25) & ('a' - 'A' - 26)) + ((v > 51) & ('0' - 'a' - 26)) +
                      ((v > 61) & ('+' - '0' - 10)) + ((v > 62) & ('/' - '+' - 1));
    memcpy(out, &c, sizeof c);
}

static unsigned value_of(unsigned char c) {
    if (c >= 'A' && c <= 'Z')
        return (unsigned)(c - 'A');
    if (c >= 'a' && c <= 'z')
        return (unsigned)(c - 'a') + 26;
    if (c >= '0' && c <= '9')
        return (unsigned)(c - '0') + 52;
    return c == '+' ? 62 : c == '/' ? 63 : INVALID;
}

/*
 * Decodes count <= 4 characters to the count * 6 / 8 whole bytes in them; *spare gets the bits
 * left over. Returns count, or the index of the first character outside the alphabet.
 */
static size_t decode_few(const char *text, size_t count, uint8_t *out, uint32_t *spare) {
    uint32_t bits = 0;
    for (size_t i = 0; i < count; i++) {
        const unsigned value = value_of((unsigned char)text[i]);
        if (value == INVALID)
            return i;
        bits |= value << (18 - 6 * i);
    }
    const size_t bytes = count * 6 / 8;
    for (size_t i = 0; i < bytes; i++)
        out[i] = (uint8_t)(bits >> (16 - 8 * i));
    *spare = bits & ((UINT32_C(1) << (24 - 8 * bytes)) - 1);
    return count;
}

/* Full blocks and quads of the first length characters, a multiple of four without padding. */
static size_t decode_whole(const char *text, size_t length, uint8_t *out) {
    size_t at = 0;
    while (length - at >= BLOCK_TEXT && decode_block(text + at, out + at / 4 * 3))
        at += BLOCK_TEXT;
    uint32_t spare;
    for (; at < length; at += 4) {
        const size_t done = decode_few(text + at, 4, out + at / 4 * 3, &spare);
        if (done != 4)
            return at + done;
    }
    return length;
}

bool base64_decode(const char *text, size_t length, void *out, size_t *size, size_t *fault) {
    uint8_t *const bytes = out;
    const size_t tail = length == 0 ? 0 : length % 4 == 0 ? 4 : length % 4;
    const size_t whole = length - tail;
    size_t digits = tail;
    if (tail == 4 && text[length - 1] == '=')
        digits = text[length - 2] == '=' ? 2 : 3;
    uint32_t spare = 0;
    size_t done = decode_whole(text, whole, bytes);
    if (done == whole)
        done += decode_few(text + whole, digits, bytes + whole / 4 * 3, &spare);
    if (done < whole + digits || tail % 4 != 0 || spare != 0) {
        *fault = done < whole + digits ? done : tail % 4 != 0 ? length : done - 1;
        return false;
    }
    *size = whole / 4 * 3 + digits * 6 / 8;
    return true;
}

size_t base64_decoded_room(size_t length) {
    return length / 4 * 3 + BASE64_SLACK;
}

bool base64_encoded_size(size_t size, size_t *length) {
    return attn_mul_size(size / 3 + (size % 3 != 0), 4, length);
}

static void encode_few(const uint8_t *bytes, size_t count, char *out) {
    uint32_t bits = 0;
    for (size_t i = 0; i < count; i++)
        bits |= (uint32_t)bytes[i] << (16 - 8 * i);
    for (size_t i = 0; i < 4; i++)
        out[i] = i <= count ? alphabet[bits >> (18 - 6 * i) & 63] : '=';
}

size_t base64_encode(const void *bytes, size_t size, char *out) {
    const uint8_t *const in = bytes;
    size_t at = 0;
    for (; size - at >= BLOCK_BYTES + 2; at += BLOCK_BYTES)
        encode_block(in + at, out + at / 3 * 4);
    for (; at < size; at += attn_min_size(3, size - at))
        encode_few(in + at, attn_min_size(3, size - at), out + at / 3 * 4);
    return (size + 2) / 3 * 4;
}
