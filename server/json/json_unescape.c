/* SPDX-License-Identifier: Apache-2.0 */
/* Escapes of JSON strings to UTF-8. No escape stands for more bytes than it is written with. */
#include "server/json/json_unescape.h"

#include <stdint.h>
#include <string.h>

struct reader {
    const char *at, *end;
};

static bool read_hex(struct reader *reader, uint32_t *out) {
    uint32_t value = 0;
    if (reader->end - reader->at < 4)
        return false;
    for (int i = 0; i < 4; i++) {
        static const char digits[] = "0123456789abcdef";
        const unsigned char c = (unsigned char)*reader->at++;
        const char *const digit = memchr(digits, c | (c >= 'A' && c <= 'F' ? 0x20 : 0), 16);
        if (digit == NULL)
            return false;
        value = value << 4 | (uint32_t)(digit - digits);
    }
    *out = value;
    return true;
}

/* Behind "\u": one code point, of one escape or of a pair of surrogates. */
static bool read_code_point(struct reader *reader, uint32_t *out) {
    uint32_t low;
    if (!read_hex(reader, out) || *out == 0 || (*out >= 0xdc00 && *out < 0xe000))
        return false;
    if (*out < 0xd800 || *out >= 0xe000)
        return true;
    if (reader->end - reader->at < 6 || memcmp(reader->at, "\\u", 2) != 0)
        return false;
    reader->at += 2;
    if (!read_hex(reader, &low) || low < 0xdc00 || low >= 0xe000)
        return false;
    *out = 0x10000 + ((*out - 0xd800) << 10) + (low - 0xdc00);
    return true;
}

/* The bytes of a code point in UTF-8. */
static size_t encode(uint32_t point, char *out) {
    static const unsigned char leads[] = {0, 0, 0xc0, 0xe0, 0xf0};
    if (point < 0x80) {
        *out = (char)point;
        return 1;
    }
    const size_t size = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    for (size_t i = size - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (point & 0x3f));
        point >>= 6;
    }
    out[0] = (char)(leads[size] | point);
    return size;
}

/* Behind a backslash. */
static bool read_escape(struct reader *reader, uint32_t *point) {
    static const char letters[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    if (reader->at == reader->end)
        return false;
    const char letter = *reader->at++;
    if (letter == 'u')
        return read_code_point(reader, point);
    const char *const known = memchr(letters, letter, sizeof letters - 1);
    if (known == NULL)
        return false;
    *point = (uint32_t)values[known - letters];
    return true;
}

bool json_unescape(const char *text, size_t length, char *out, size_t *size) {
    struct reader reader = {text, text + length};
    char *at = out;
    while (reader.at < reader.end) {
        const char *escape = memchr(reader.at, '\\', (size_t)(reader.end - reader.at));
        const size_t plain = (size_t)((escape == NULL ? reader.end : escape) - reader.at);
        uint32_t point;
        memcpy(at, reader.at, plain);
        at += plain;
        reader.at += plain;
        if (escape == NULL)
            break;
        reader.at++;
        if (!read_escape(&reader, &point))
            return false;
        at += encode(point, at);
    }
    *size = (size_t)(at - out);
    return true;
}
