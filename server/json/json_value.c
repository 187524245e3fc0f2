/* SPDX-License-Identifier: Apache-2.0 */
/* Single values: words, numbers and texts, and sentences about what came instead. */
#include "server/json/json_value.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/json/json_unescape.h"

static void describe_number(const json_t *node, char out[JSON_DESCRIPTION_ROOM]) {
    char text[NUMBER_TEXT_ROOM + 1];
    if (json_is_integer(node)) {
        snprintf(out, JSON_DESCRIPTION_ROOM, "the number %lld",
                 (long long)json_integer_value(node));
        return;
    }
    text[number_print_f64(json_real_value(node), text)] = 0;
    snprintf(out, JSON_DESCRIPTION_ROOM, "the number %s", text);
}

static void describe_text(const json_t *node, char out[JSON_DESCRIPTION_ROOM]) {
    char text[48];
    json_snippet(json_string_value(node), json_string_length(node), 0, text, sizeof text);
    snprintf(out, JSON_DESCRIPTION_ROOM, "the text \"%s\"", text);
}

static void describe_numbers(struct json_value value, char out[JSON_DESCRIPTION_ROOM]) {
    const struct json_cut *const cut = json_value_cut(value);
    char text[40];
    json_snippet(value.document->text, cut->offset + cut->length, cut->offset, text, sizeof text);
    snprintf(out, JSON_DESCRIPTION_ROOM, "the list %s%s", text,
             cut->length < sizeof text ? "" : "...");
}

const char *json_value_describe(struct json_value value, char out[JSON_DESCRIPTION_ROOM]) {
    static const char *const plain[] = {
        [JSON_KIND_NULL] = "null",
        [JSON_KIND_LONG_TEXT] = "a long text",
        [JSON_KIND_LIST] = "a list that is not of numbers",
        [JSON_KIND_OBJECT] = "an object",
    };
    const enum json_kind kind = json_value_kind(value);
    switch (kind) {
    case JSON_KIND_BOOL:
        snprintf(out, JSON_DESCRIPTION_ROOM, "%s", json_is_true(value.node) ? "true" : "false");
        break;
    case JSON_KIND_NUMBER:
        describe_number(value.node, out);
        break;
    case JSON_KIND_TEXT:
        describe_text(value.node, out);
        break;
    case JSON_KIND_NUMBERS:
        describe_numbers(value, out);
        break;
    case JSON_KIND_LIST:
        snprintf(out, JSON_DESCRIPTION_ROOM, "%s",
                 json_array_size(value.node) == 0 ? "an empty list" : plain[kind]);
        break;
    default:
        snprintf(out, JSON_DESCRIPTION_ROOM, "%s", plain[kind]);
    }
    return out;
}

const char *json_pointer_member(char out[JSON_POINTER_ROOM], const char *base, const char *name) {
    int at = snprintf(out, JSON_POINTER_ROOM, "%s/", base);
    assert(at > 0);
    for (; *name != 0 && at < JSON_POINTER_ROOM - 2; name++) {
        const bool escaped = *name == '~' || *name == '/';
        if (escaped)
            out[at++] = '~';
        out[at++] = *name == '~' ? '0' : *name == '/' ? '1' : *name;
        out[at] = 0;
    }
    return out;
}

const char *json_pointer_index(char out[JSON_POINTER_ROOM], const char *base, size_t index) {
    char number[24];
    snprintf(number, sizeof number, "%zu", index);
    return json_pointer_member(out, base, number);
}

/* "a, b or c" */
static void list_words(const char *const *words, size_t count, char *out, size_t size) {
    size_t at = 0;
    for (size_t i = 0; i < count; i++)
        at += (size_t)snprintf(out + at, size - at, "%s\"%s\"",
                               i == 0          ? ""
                               : i + 1 < count ? ", "
                                               : " or ",
                               words[i]);
    assert(at < size);
}

enum attn_status json_value_word(const struct json_reader *reader, struct json_value value,
                                 const char *pointer, const char *const *words, size_t count,
                                 size_t *index) {
    char list[256], came[JSON_DESCRIPTION_ROOM];
    const char *const text = json_string_value(value.node);
    for (size_t i = 0; text != NULL && i < count; i++) {
        if (strcmp(text, words[i]) == 0) {
            *index = i;
            return ATTN_OK;
        }
    }
    list_words(words, count, list, sizeof list);
    return attn_fail(reader->error, text == NULL ? ATTN_BAD_TYPE : ATTN_BAD_VALUE, pointer,
                     "Expected %s, but %s came.", list, json_value_describe(value, came));
}

enum attn_status json_value_int(const struct json_reader *reader, struct json_value value,
                                const char *pointer, int64_t least, int64_t most, int64_t *out) {
    char came[JSON_DESCRIPTION_ROOM];
    if (value.document->wide && fabs(json_real_value(value.node)) >= 0x1p63)
        return attn_fail(reader->error, ATTN_BAD_VALUE, pointer,
                         "Expected a whole number from %lld to %lld, but %s came.",
                         (long long)least, (long long)most, json_value_describe(value, came));
    if (!json_is_integer(value.node))
        return attn_fail(reader->error, ATTN_BAD_TYPE, pointer,
                         "Expected a whole number, written without a point, but %s came.",
                         json_value_describe(value, came));
    const int64_t number = json_integer_value(value.node);
    if (number > most)
        return attn_fail(reader->error, ATTN_BAD_VALUE, pointer,
                         "Expected a whole number of at most %lld, but %lld came.", (long long)most,
                         (long long)number);
    if (number < least)
        return attn_fail(reader->error, ATTN_BAD_VALUE, pointer,
                         "Expected a whole number of at least %lld, but %lld came.",
                         (long long)least, (long long)number);
    *out = number;
    return ATTN_OK;
}

static bool is_non_finite_word(const json_t *node) {
    static const char *const words[] = {"NaN", "Infinity", "-Infinity"};
    const char *const text = json_string_value(node);
    for (size_t i = 0; text != NULL && i < sizeof words / sizeof *words; i++)
        if (strcmp(text, words[i]) == 0)
            return true;
    return false;
}

enum attn_status json_value_real(const struct json_reader *reader, struct json_value value,
                                 const char *pointer, double *out) {
    char came[JSON_DESCRIPTION_ROOM];
    if (json_is_number(value.node)) {
        *out = json_number_value(value.node);
        return ATTN_OK;
    }
    const bool non_finite = is_non_finite_word(value.node);
    return attn_fail(reader->error, non_finite ? ATTN_BAD_VALUE : ATTN_BAD_TYPE, pointer,
                     "Expected a finite number, but %s came.", json_value_describe(value, came));
}

/* A cut text; only one with escapes is copied. */
static enum attn_status long_text(const struct json_reader *reader, struct json_value value,
                                  const char *pointer, const char **text, size_t *length) {
    const struct json_cut *const cut = json_value_cut(value);
    *text = value.document->text + cut->offset + 1;
    *length = cut->length - 2;
    if (memchr(*text, '\\', *length) == NULL)
        return ATTN_OK;
    char *const copy = storage_take(reader->storage, *length);
    if (copy == NULL)
        return attn_fail(reader->error, ATTN_NO_MEMORY, pointer, "There is no memory now.");
    if (!json_unescape(*text, *length, copy, length))
        return attn_fail(reader->error, ATTN_MALFORMED, pointer,
                         "The text that begins at byte %zu has an escape that JSON does not know.",
                         cut->offset);
    *text = copy;
    return ATTN_OK;
}

enum attn_status json_value_text(const struct json_reader *reader, struct json_value value,
                                 const char *pointer, const char **text, size_t *length) {
    char came[JSON_DESCRIPTION_ROOM];
    switch (json_value_kind(value)) {
    case JSON_KIND_TEXT:
        *text = json_string_value(value.node);
        *length = json_string_length(value.node);
        return ATTN_OK;
    case JSON_KIND_LONG_TEXT:
        return long_text(reader, value, pointer, text, length);
    default:
        return attn_fail(reader->error, ATTN_BAD_TYPE, pointer, "Expected a text, but %s came.",
                         json_value_describe(value, came));
    }
}
