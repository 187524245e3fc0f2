/* SPDX-License-Identifier: Apache-2.0 */
/* The pieces of JSON text that answers are made of. */
#include "server/json/json_text.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/checked.h"
#include "server/digits.h"
#include "server/numbers/numbers.h"

void json_text_raw(struct json_text *text, const char *bytes, size_t length) {
    assert(length <= text->capacity - text->length);
    memcpy(text->start + text->length, bytes, length);
    text->length += length;
}

void json_text_literal(struct json_text *text, const char *literal) {
    json_text_raw(text, literal, strlen(literal));
}

/* How many bytes from here on stand for themselves. */
static size_t plain_run(const char *bytes, size_t length) {
    size_t run = 0;
    while (run < length && (unsigned char)bytes[run] >= ' ' && bytes[run] != '"' &&
           bytes[run] != '\\')
        run++;
    return run;
}

void json_text_escaped(struct json_text *text, const char *bytes, size_t length) {
    char escape[8];
    json_text_literal(text, "\"");
    for (size_t i = 0; i < length; i++) {
        const size_t run = plain_run(bytes + i, length - i);
        json_text_raw(text, bytes + i, run);
        i += run;
        if (i == length)
            break;
        const unsigned char c = (unsigned char)bytes[i];
        if (c == '"' || c == '\\') {
            const char pair[2] = {'\\', (char)c};
            json_text_raw(text, pair, 2);
        } else {
            snprintf(escape, sizeof escape, "\\u%04x", (unsigned)c);
            json_text_literal(text, escape);
        }
    }
    json_text_literal(text, "\"");
}

void json_text_string(struct json_text *text, const char *string) {
    json_text_escaped(text, string, strnlen(string, JSON_TEXT_MAX));
}

void json_text_number(struct json_text *text, double value) {
    char number[NUMBER_TEXT_ROOM];
    const size_t length = number_print_f64(value, number);
    json_text_raw(text, number, length);
}

void json_text_milliseconds(struct json_text *text, double value) {
    json_text_number(text, round(value * 1e3) / 1e3);
}

void json_text_size(struct json_text *text, size_t value) {
    char number[DIGITS_DECIMAL];
    const size_t length = digits_decimal(number, value);
    json_text_raw(text, number, length);
}

void json_text_shape(struct json_text *text, int rank, const size_t *shape) {
    json_text_literal(text, "[");
    for (int i = 0; i < rank; i++) {
        if (i > 0)
            json_text_literal(text, ",");
        json_text_size(text, shape[i]);
    }
    json_text_literal(text, "]");
}
