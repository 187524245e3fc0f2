/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON text written into memory whose size was reckoned before. Texts are clipped to
 * JSON_TEXT_MAX bytes so that the reckoning holds; running out of room is a bug and asserted.
 */
#ifndef SERVER_JSON_JSON_TEXT_H
#define SERVER_JSON_JSON_TEXT_H

#include <stddef.h>

enum { JSON_TEXT_MAX = 512 };

struct json_text {
    char *start;
    size_t length, capacity;
};

void json_text_raw(struct json_text *text, const char *bytes, size_t length);
void json_text_literal(struct json_text *text, const char *literal);
/* Quoted, with escapes; at most JSON_TEXT_MAX bytes of it. */
void json_text_string(struct json_text *text, const char *string);
/* The same for `length` bytes of any length. */
void json_text_escaped(struct json_text *text, const char *bytes, size_t length);
/* The shortest text of a number; "NaN" and the like as strings. */
void json_text_number(struct json_text *text, double value);
/* A duration in milliseconds, to the microsecond. */
void json_text_milliseconds(struct json_text *text, double value);
void json_text_size(struct json_text *text, size_t value);
/* [2,3,4] */
void json_text_shape(struct json_text *text, int rank, const size_t *shape);

#endif
