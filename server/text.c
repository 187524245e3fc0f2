/* SPDX-License-Identifier: Apache-2.0 */
/* Growing text; see text.h. */
#include "server/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/checked.h"

enum { FIRST_CAPACITY = 512 };

static bool reserve(struct text *text, size_t more) {
    size_t needed;
    if (text->failed || !attn_add_size(text->length, more, &needed)) {
        text->failed = true;
        return false;
    }
    if (needed <= text->capacity)
        return true;
    const size_t capacity =
        attn_max_size(attn_max_size(needed, FIRST_CAPACITY), text->capacity * 2);
    char *data = realloc(text->data, capacity);
    if (data == NULL) {
        text->failed = true;
        return false;
    }
    text->data = data;
    text->capacity = capacity;
    return true;
}

void text_add(struct text *text, const char *bytes, size_t count) {
    if (count == 0 || !reserve(text, count))
        return;
    memcpy(text->data + text->length, bytes, count);
    text->length += count;
}

void text_format(struct text *text, const char *format, ...) {
    enum { USUAL = 64 };
    va_list arguments, again;
    if (!reserve(text, USUAL))
        return;
    const size_t room = text->capacity - text->length;
    va_start(arguments, format);
    va_copy(again, arguments);
    const int length = vsnprintf(text->data + text->length, room, format, arguments);
    va_end(arguments);
    if (length >= 0 && (size_t)length >= room && reserve(text, (size_t)length + 1))
        vsnprintf(text->data + text->length, (size_t)length + 1, format, again);
    if (length >= 0 && !text->failed)
        text->length += (size_t)length;
    va_end(again);
}

/* Bytes of the well-formed UTF-8 sequence at s, by table 3-7 of the Unicode Standard; 0 for none.
 */
static size_t utf8_length(const unsigned char *s) {
    if (s[0] < 0x80)
        return 1;
    if (s[0] < 0xC2 || s[0] > 0xF4)
        return 0;
    const size_t length = s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;
    const unsigned char low = s[0] == 0xE0 ? 0xA0 : s[0] == 0xF0 ? 0x90 : 0x80;
    const unsigned char high = s[0] == 0xED ? 0x9F : s[0] == 0xF4 ? 0x8F : 0xBF;
    if (s[1] < low || s[1] > high)
        return 0;
    for (size_t i = 2; i < length; i++)
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    return length;
}

static bool is_plain(unsigned char c) {
    return c >= 0x20 && c < 0x7F && c != '"' && c != '\\';
}

/* One character that is not plain, or a byte that begins none; returns its bytes. */
static size_t add_json_character(struct text *text, const unsigned char *s) {
    const size_t length = utf8_length(s);
    if (length == 0)
        text_add(text, "\xEF\xBF\xBD", 3);
    else if (length > 1)
        text_add(text, (const char *)s, length);
    else if (s[0] == '"' || s[0] == '\\')
        text_format(text, "\\%c", s[0]);
    else
        text_format(text, "\\u%04x", s[0]);
    return length + (length == 0);
}

void text_json(struct text *text, const char *string) {
    text_add(text, "\"", 1);
    for (const unsigned char *s = (const unsigned char *)string; *s != '\0';) {
        size_t plain = 0;
        while (is_plain(s[plain]))
            plain++;
        text_add(text, (const char *)s, plain);
        s += plain;
        if (*s != '\0')
            s += add_json_character(text, s);
    }
    text_add(text, "\"", 1);
}

void text_label(struct text *text, const char *string) {
    text_add(text, "\"", 1);
    for (; *string != '\0'; string++) {
        if (*string == '\n')
            text_add(text, "\\n", 2);
        else if (*string == '"' || *string == '\\')
            text_format(text, "\\%c", *string);
        else
            text_add(text, string, 1);
    }
    text_add(text, "\"", 1);
}

void text_clear(struct text *text) {
    text->length = 0;
    text->failed = false;
}

void text_close(struct text *text) {
    free(text->data);
    *text = (struct text){0};
}
