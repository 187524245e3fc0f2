/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options written as text, in the query string above all. A value that starts like JSON is JSON;
 * any other is a number, true or false, or else a text, and in an option that takes a list commas
 * separate such values. Each value becomes a JSON document of its own, so that it is read like one
 * from a body.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/options/options_table.h"

/* A byte of a value that JSON writes with an escape takes at most six: \u001f. */
enum { BYTES_PER_BYTE = 6 };

/* Appends to text[*at ..], which has room for so many bytes per byte of a value, and brackets. */
static void append(char *text, size_t *at, const char *bytes, size_t length) {
    memcpy(text + *at, bytes, length);
    *at += length;
}

static bool is_literal(const char *value, size_t length) {
    double number;
    return (length == 4 && memcmp(value, "true", 4) == 0) ||
           (length == 5 && memcmp(value, "false", 5) == 0) ||
           number_parse_double(value, length, &number) != NUMBER_MALFORMED;
}

static void append_byte(char *text, size_t *at, char byte) {
    char escape[BYTES_PER_BYTE + 1];
    if ((unsigned char)byte < 0x20) {
        snprintf(escape, sizeof escape, "\\u%04x", (unsigned)(unsigned char)byte);
        append(text, at, escape, BYTES_PER_BYTE);
        return;
    }
    if (byte == '"' || byte == '\\')
        append(text, at, "\\", 1);
    append(text, at, &byte, 1);
}

/* One value as JSON: as it stands, or quoted. */
static void append_value(char *text, size_t *at, const char *value, size_t length) {
    if (is_literal(value, length)) {
        append(text, at, value, length);
        return;
    }
    append(text, at, "\"", 1);
    for (size_t i = 0; i < length; i++)
        append_byte(text, at, value[i]);
    append(text, at, "\"", 1);
}

static void append_list(char *text, size_t *at, const char *value) {
    const size_t first = strcspn(value, ",");
    if (value[first] == 0) {
        append_value(text, at, value, first);
        return;
    }
    append(text, at, "[", 1);
    for (;;) {
        const size_t length = strcspn(value, ",");
        append_value(text, at, value, length);
        value += length;
        if (*value == 0)
            break;
        append(text, at, ",", 1);
        value++;
    }
    append(text, at, "]", 1);
}

/* The JSON text of a query value, in storage; NULL when there is no memory. */
static char *json_text(struct storage *storage, enum option_query form, const char *value) {
    /* At worst every byte is escaped, or is a comma between empty texts: "",  and brackets. */
    char *const text = storage_take_array(storage, strlen(value) + 2, BYTES_PER_BYTE);
    size_t at = 0;
    if (text == NULL)
        return NULL;
    if (*value != 0 && strchr("{[\"", *value) != NULL)
        append(text, &at, value, strlen(value));
    else if (form == OPTION_LIST)
        append_list(text, &at, value);
    else
        append_value(text, &at, value, strlen(value));
    text[at] = 0;
    return text;
}

enum { TEXTS_MAX = OPTIONS_MAX + OPTIONS_OWN_TEXTS };

static enum attn_status refuse_name(struct options *options, const char *name) {
    char pointer[JSON_POINTER_ROOM];
    json_pointer_member(pointer, "", name);
    if (schema_operand(options->schema, name) < options->schema->operand_count)
        return attn_fail(options->reader.error, ATTN_UNKNOWN_FIELD, pointer,
                         "%s is a tensor: it stands in the body, not in the query string.", name);
    return options_refuse_unknown(options, name, pointer);
}

enum attn_status options_open_text(struct options *options, const char *title, const char *text,
                                   struct json_value *out) {
    char *const name = storage_take_text(options->reader.storage, title, strlen(title));
    if (options->texts == NULL)
        options->texts = calloc(TEXTS_MAX, sizeof *options->texts);
    if (options->texts == NULL || name == NULL)
        return attn_fail(options->reader.error, ATTN_NO_MEMORY, "", "There is no memory now.");
    assert(options->text_count < TEXTS_MAX);
    struct json_document *const document = &options->texts[options->text_count];
    const enum attn_status status =
        json_document_open(document, name, text, strlen(text), options->reader.error);
    options->text_count += status == ATTN_OK;
    *out = json_document_root(document);
    return status;
}

enum attn_status options_give_text(struct options *options, const char *place, const char *name,
                                   const char *value, bool *known) {
    char title[64];
    struct json_value root = {NULL, NULL};
    const size_t index = schema_option(options->schema, name);
    *known = index < options->schema->option_count;
    if (!*known)
        return ATTN_OK;
    const struct option *const option = &options->schema->options[index];
    if (options->given[index].node != NULL)
        return options_give(options, name, options->given[index], known);
    const char *const text = json_text(options->reader.storage, option->query, value);
    if (text == NULL)
        return attn_fail(options->reader.error, ATTN_NO_MEMORY, "", "There is no memory now.");
    snprintf(title, sizeof title, "%s %s", place, option->name);
    const enum attn_status status = options_open_text(options, title, text, &root);
    return status != ATTN_OK ? status : options_give(options, name, root, known);
}

enum attn_status options_give_query(struct options *options, const struct codec_input *input) {
    enum attn_status status = ATTN_OK;
    for (size_t i = 0; status == ATTN_OK && i < input->query_count; i++) {
        const struct codec_query_option *const given = &input->query[i];
        bool known;
        status =
            options_give_text(options, "The query string's", given->name, given->value, &known);
        if (!known)
            status = refuse_name(options, given->name);
    }
    return status;
}
