/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options in the query string. A value that starts like JSON is JSON; any other is a number, true
 * or false, or else a text, and in an option that takes a list commas separate such values. Each
 * value becomes a JSON document of its own, so that it is read like one from a body.
 */
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

static enum attn_status refuse_name(struct options *options, const char *name) {
    char pointer[JSON_POINTER_ROOM];
    json_pointer_member(pointer, "", name);
    if (schema_operand(options->schema, name) < options->schema->operand_count)
        return attn_fail(options->reader.error, ATTN_UNKNOWN_FIELD, pointer,
                         "%s is a tensor: it stands in the body, not in the query string.", name);
    return options_refuse_unknown(options, name, pointer);
}

static enum attn_status give(struct options *options, const struct codec_query_option *given) {
    char title[64];
    bool known;
    const size_t index = schema_option(options->schema, given->name);
    if (index == options->schema->option_count)
        return refuse_name(options, given->name);
    const struct option *const option = &options->schema->options[index];
    char *const text = json_text(options->reader.storage, option->query, given->value);
    snprintf(title, sizeof title, "The query string's %s", option->name);
    char *const name = storage_take_text(options->reader.storage, title, strlen(title));
    if (text == NULL || name == NULL)
        return attn_fail(options->reader.error, ATTN_NO_MEMORY, "", "There is no memory now.");
    struct json_document *const document = &options->query[options->query_count];
    const enum attn_status status =
        json_document_open(document, name, text, strlen(text), options->reader.error);
    if (status != ATTN_OK)
        return status;
    options->query_count++;
    return options_give(options, option->name, json_document_root(document), &known);
}

enum attn_status options_give_query(struct options *options, const struct codec_input *input) {
    if (input->query_count == 0)
        return ATTN_OK;
    options->query = calloc(input->query_count, sizeof *options->query);
    if (options->query == NULL)
        return attn_fail(options->reader.error, ATTN_NO_MEMORY, "", "There is no memory now.");
    enum attn_status status = ATTN_OK;
    for (size_t i = 0; status == ATTN_OK && i < input->query_count; i++)
        status = give(options, &input->query[i]);
    return status;
}
