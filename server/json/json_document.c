/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening a document: the copy without numbers goes through the JSON parser, whose complaints are
 * turned into sentences with an offset in the caller's own text.
 */
#include "server/json/json_document.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/json/json_load.h"
#include "server/json/json_skeleton.h"

/* Where an offset in the copy lies in the text. */
static size_t original_offset(const struct json_document *document, size_t offset) {
    size_t shift_from = 0, shift_to = 0;
    for (size_t i = 0; i < document->cut_count; i++) {
        const struct json_cut *const cut = &document->cuts[i];
        if (cut->skeleton_end > offset)
            break;
        shift_from = cut->skeleton_end;
        shift_to = cut->offset + cut->length;
    }
    const size_t original = shift_to + (offset - shift_from);
    return original < document->length ? original : document->length;
}

struct complaint {
    enum json_error_code code;
    enum attn_status status;
    const char *sentence;
};

static const struct complaint COMPLAINTS[] = {
    {json_error_duplicate_key, ATTN_MALFORMED,
     "has a name twice in one object. Give every field once"},
    {json_error_invalid_utf8, ATTN_MALFORMED, "is not UTF-8 throughout. Send it as UTF-8"},
    {json_error_numeric_overflow, ATTN_NUMBER_RANGE,
     "has a number that is too large. Numbers must fit a float64, whole ones 64 bits"},
    {json_error_premature_end_of_input, ATTN_MALFORMED, "ends too soon. Something is not closed"},
    {json_error_end_of_input_expected, ATTN_MALFORMED,
     "goes on after its end. Send exactly one JSON document"},
    {json_error_null_character, ATTN_MALFORMED, "has a NUL character. JSON text has none here"},
    {json_error_null_byte_in_key, ATTN_MALFORMED, "has a NUL character. JSON text has none here"},
    {json_error_null_value, ATTN_MALFORMED, "has a NUL character. JSON text has none here"},
};

static enum attn_status complain(const struct json_document *document, const json_error_t *cause,
                                 struct attn_error *error) {
    const enum json_error_code code = json_error_code(cause);
    /* unreached: jansson's int for a place is negative from 2 GiB on */
    const size_t offset =
        original_offset(document, cause->position < 0 ? 0 : (size_t)cause->position);
    for (size_t i = 0; i < sizeof COMPLAINTS / sizeof *COMPLAINTS; i++)
        if (COMPLAINTS[i].code == code)
            return attn_fail(error, COMPLAINTS[i].status, "", "%s %s (at byte %zu).",
                             document->name, COMPLAINTS[i].sentence, offset);
    char before[32];
    const size_t start = offset > 20 ? offset - 20 : 0;
    json_snippet(document->text, offset, start, before, sizeof before);
    return attn_fail(
        error, ATTN_MALFORMED, "",
        "%s is not valid JSON: it cannot be read on at about byte %zu, where '%s' ends."
        " JSON has names and texts in double quotes, commas only between members, and "
        "true, false and null in small letters.",
        document->name, offset, before);
}

static bool is_blank(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (memchr(" \t\r\n", text[i], 4) == NULL)
            return false;
    return true;
}

/* The skeleton's nodes. */
static enum attn_status load(struct json_document *document, const char *skeleton, size_t length,
                             struct attn_error *error) {
    json_error_t cause;
    bool exhausted = true;
    document->nodes = storage_create();
    if (document->nodes != NULL)
        document->root = json_load(document->nodes, skeleton, length, &cause, &exhausted);
    if (document->root != NULL)
        return ATTN_OK;
    if (exhausted)
        return attn_fail(error, ATTN_NO_MEMORY, "", "There is no memory to read the request now.");
    return complain(document, &cause, error);
}

/* Of a document that has its text. */
static enum attn_status open_text(struct json_document *document, struct attn_error *error) {
    if (is_blank(document->text, document->length))
        return attn_fail(error, ATTN_MALFORMED, "", "%s is empty. Send a JSON object.",
                         document->name);
    char *skeleton;
    size_t skeleton_length;
    enum attn_status status = json_skeleton_cut(document, &skeleton, &skeleton_length, error);
    if (status == ATTN_OK)
        status = load(document, skeleton, skeleton_length, error);
    free(skeleton);
    if (status != ATTN_OK)
        json_document_close(document);
    return status;
}

enum attn_status json_document_open(struct json_document *document, const char *name,
                                    const char *text, size_t length, struct attn_error *error) {
    *document = (struct json_document){.name = name, .text = text, .length = length};
    return open_text(document, error);
}

enum attn_status json_document_open_wide(struct json_document *document, const char *name,
                                         const char *text, size_t length,
                                         struct attn_error *error) {
    *document = (struct json_document){.name = name, .text = text, .length = length, .wide = true};
    return open_text(document, error);
}

void json_document_close(struct json_document *document) {
    storage_free(document->nodes);
    free(document->cuts);
    *document = (struct json_document){.name = ""};
}

const struct json_cut *json_value_cut(struct json_value value) {
    const json_t *const number = json_array_get(value.node, 0);
    if (!json_is_integer(number))
        return NULL;
    const size_t index = (size_t)json_integer_value(number);
    assert(index < value.document->cut_count);
    return &value.document->cuts[index];
}

enum json_kind json_value_kind(struct json_value value) {
    switch (json_typeof(value.node)) {
    case JSON_NULL:
        return JSON_KIND_NULL;
    case JSON_TRUE:
    case JSON_FALSE:
        return JSON_KIND_BOOL;
    case JSON_INTEGER:
    case JSON_REAL:
        return JSON_KIND_NUMBER;
    case JSON_STRING:
        return JSON_KIND_TEXT;
    case JSON_OBJECT:
        return JSON_KIND_OBJECT;
    case JSON_ARRAY:
        break;
    }
    const struct json_cut *const cut = json_value_cut(value);
    if (cut == NULL)
        return JSON_KIND_LIST;
    return cut->is_text ? JSON_KIND_LONG_TEXT : JSON_KIND_NUMBERS;
}

struct json_value json_value_member(struct json_value object, const char *name) {
    return (struct json_value){object.document, json_object_get(object.node, name)};
}

struct json_value json_value_item(struct json_value list, size_t index) {
    return (struct json_value){list.document, json_array_get(list.node, index)};
}

const char *json_snippet(const char *text, size_t length, size_t offset, char *out, size_t size) {
    size_t written = 0;
    for (; offset < length && written + 1 < size; offset++)
        out[written++] = text[offset] >= ' ' && text[offset] <= '~' ? text[offset] : '?';
    out[written] = 0;
    return out;
}
