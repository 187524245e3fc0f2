/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays of numbers: from their text straight to the memory they are used from, and sentences
 * about elements that are none.
 */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "server/json/json_value.h"

size_t json_number_size(enum number_type type) {
    static const size_t sizes[NUMBER_TYPE_COUNT] = {
        [NUMBER_F32] = 4,  [NUMBER_F64] = 8, [NUMBER_F16] = 2,
        [NUMBER_BF16] = 2, [NUMBER_I64] = 8, [NUMBER_BOOL] = 1,
    };
    return sizes[type];
}

enum attn_status json_reader_cancelled(const struct json_reader *reader) {
    return attn_fail(reader->error, ATTN_CANCELLED, "", "The call ended before it was read.");
}

enum attn_status json_value_array_text(const struct json_reader *reader, struct json_value value,
                                       struct json_array_text *out) {
    const struct json_cut *const cut = json_value_cut(value);
    *out = (struct json_array_text){0};
    if (cut != NULL) {
        out->text = value.document->text + cut->offset;
        out->length = cut->length;
        out->room = cut->commas + 1;
        out->offset = cut->offset;
        return ATTN_OK;
    }
    /* An array that was not cut is empty throughout, or wrong; its text is made again. */
    out->owned = json_dumps(value.node, JSON_COMPACT);
    if (out->owned == NULL)
        return attn_fail(reader->error, ATTN_NO_MEMORY, "", "There is no memory for the request.");
    out->text = out->owned;
    out->length = strlen(out->owned);
    size_t end, commas = 0;
    const bool ends = number_array_skip(out->text, out->length, &end, &commas);
    assert(ends);
    (void)ends;
    out->room = commas + 1;
    return ATTN_OK;
}

enum { WORD_ROOM = 40 };

/* What is needed to speak about one fault. */
struct fault_place {
    const struct json_reader *reader;
    const char *pointer;
    const char *what;
    enum number_type type;
    char element[NUMBER_POINTER_ROOM];
    size_t offset;
    char found[WORD_ROOM];
};

static enum attn_status refuse_type(const struct fault_place *at) {
    static const char *const elements[NUMBER_TYPE_COUNT] = {
        [NUMBER_F32] = "a number",       [NUMBER_F64] = "a number",
        [NUMBER_F16] = "a number",       [NUMBER_BF16] = "a number",
        [NUMBER_I64] = "a whole number", [NUMBER_BOOL] = "true or false",
    };
    if (at->found[0] == '"')
        return attn_fail(at->reader->error, ATTN_BAD_VALUE, at->pointer,
                         "Element %s is the text %s; the only texts among numbers are \"NaN\", "
                         "\"Infinity\" and \"-Infinity\".",
                         at->element, at->found);
    return attn_fail(at->reader->error, ATTN_BAD_TYPE, at->pointer,
                     "Element %s should be %s, but '%s' came.", at->element, elements[at->type],
                     at->found);
}

static enum attn_status refuse_range(const struct fault_place *at) {
    if (at->type == NUMBER_I64)
        return attn_fail(at->reader->error, ATTN_BAD_VALUE, at->pointer,
                         "Element %s, '%s', is beyond the whole numbers from -2^63 to 2^63 - 1.",
                         at->element, at->found);
    /* Half types come from a dtype that was sent, which a precision leaves as it is. */
    const bool is_half = at->type == NUMBER_F16 || at->type == NUMBER_BF16;
    return attn_fail(at->reader->error, ATTN_BAD_VALUE, at->pointer,
                     "Element %s, '%s', does not fit %s. Choose a wider dtype%s", at->element,
                     at->found, at->what, is_half ? "." : ", or \"precision\": \"float64\".");
}

static enum attn_status refuse_number(const struct fault_place *at, enum number_result result) {
    struct attn_error *const error = at->reader->error;
    switch (result) {
    case NUMBER_CANCELLED:
        return json_reader_cancelled(at->reader);
    case NUMBER_TOO_LARGE:
        return attn_fail(error, ATTN_NUMBER_RANGE, at->pointer,
                         "Element %s, '%s', is beyond every number type (at byte %zu).",
                         at->element, at->found, at->offset);
    case NUMBER_RANGE:
        return refuse_range(at);
    case NUMBER_WRONG_TYPE:
        return refuse_type(at);
    case NUMBER_RAGGED:
        return attn_fail(error, ATTN_BAD_SHAPE, at->pointer,
                         "The nested lists are ragged: %s differs in length or depth from its "
                         "neighbours. A tensor is rectangular.",
                         at->element);
    case NUMBER_TOO_DEEP:
    case NUMBER_TOO_MANY: /* unreached: the room is counted by the text's commas */
        return attn_fail_limit(error, ATTN_BAD_SHAPE, at->pointer, ATTN_MAX_RANK,
                               "The lists are nested too deep: a tensor has a rank of at most %d.",
                               ATTN_MAX_RANK);
    default:
        return attn_fail(error, ATTN_MALFORMED, at->pointer,
                         "Element %s is not JSON near '%s' (at byte %zu). Numbers look like -1.5 "
                         "or 1e-3; non-finite ones are the texts \"NaN\", \"Infinity\" and "
                         "\"-Infinity\".",
                         at->element, at->found, at->offset);
    }
}

/* The word that the text begins with: a text with its quotes, or up to what ends a number. */
static void show_word(const char *text, size_t length, char found[WORD_ROOM]) {
    static const char more[] = "...";
    json_snippet(text, length, 0, found, WORD_ROOM - sizeof more + 1);
    const size_t first = found[0] != 0;
    char *const end = found + first + strcspn(found + first, ",]} \"");
    if (*end != 0)
        end[found[0] == '"' && *end == '"'] = 0;
    else if ((size_t)(end - found) < length)
        memcpy(end, more, sizeof more);
}

static enum attn_status refuse_array(const struct json_reader *reader, const char *pointer,
                                     enum number_type type, const char *what,
                                     const struct json_array_text *array,
                                     const struct number_fault *fault, enum number_result result) {
    struct fault_place at = {.reader = reader, .pointer = pointer, .what = what, .type = type};
    number_fault_pointer(fault, at.element);
    at.offset = array->offset + fault->offset;
    show_word(array->text + fault->offset, array->length - fault->offset, at.found);
    return refuse_number(&at, result);
}

enum attn_status json_value_numbers(const struct json_reader *reader, struct json_value value,
                                    const char *pointer, enum number_type type, const char *what,
                                    void **out, struct number_array_shape *shape) {
    struct json_array_text array;
    enum attn_status status = ATTN_OK;
    if (json_value_array_text(reader, value, &array) != ATTN_OK)
        return ATTN_NO_MEMORY;
    *out = storage_take_array(reader->storage, array.room, json_number_size(type));
    if (*out == NULL) {
        status = attn_fail(reader->error, ATTN_NO_MEMORY, pointer,
                           "There is no memory for this tensor now.");
    } else {
        struct number_fault fault;
        const enum number_result result =
            number_array_parse_shared(reader->team, reader->cancelled, type, array.text,
                                      array.length, *out, array.room, shape, &fault);
        if (result != NUMBER_OK)
            status = refuse_array(reader, pointer, type, what, &array, &fault, result);
    }
    free(array.owned);
    return status;
}

/* A number alone, or a list of them; `type` says how they are read. */
static enum attn_status read_list(const struct json_reader *reader, struct json_value value,
                                  const char *pointer, enum number_type type, const char *what,
                                  void **out, size_t *count) {
    char came[JSON_DESCRIPTION_ROOM];
    struct number_array_shape shape;
    const enum json_kind kind = json_value_kind(value);
    if (kind != JSON_KIND_NUMBERS && kind != JSON_KIND_LIST)
        return attn_fail(reader->error, ATTN_BAD_TYPE, pointer,
                         "Expected a list of %s, but %s came.", what,
                         json_value_describe(value, came));
    const enum attn_status status =
        json_value_numbers(reader, value, pointer, type, what, out, &shape);
    if (status != ATTN_OK)
        return status;
    if (shape.rank != 1)
        return attn_fail(reader->error, ATTN_BAD_SHAPE, pointer,
                         "Expected a flat list of %s, but lists inside lists came.", what);
    *count = shape.shape[0];
    return ATTN_OK;
}

enum attn_status json_value_ints(const struct json_reader *reader, struct json_value value,
                                 const char *pointer, struct attn_int_list *out) {
    void *values = NULL;
    if (json_value_kind(value) != JSON_KIND_NUMBER) {
        const enum attn_status status =
            read_list(reader, value, pointer, NUMBER_I64, "whole numbers", &values, &out->count);
        if (status == ATTN_OK)
            out->values = values;
        return status;
    }
    int64_t number;
    const enum attn_status status =
        json_value_int(reader, value, pointer, INT64_MIN, INT64_MAX, &number);
    if (status != ATTN_OK)
        return status;
    int64_t *const one = storage_take(reader->storage, sizeof *one);
    if (one == NULL)
        return attn_fail(reader->error, ATTN_NO_MEMORY, pointer, "There is no memory now.");
    *one = number;
    *out = (struct attn_int_list){one, 1};
    return ATTN_OK;
}

enum attn_status json_value_reals(const struct json_reader *reader, struct json_value value,
                                  const char *pointer, struct attn_real_list *out) {
    void *values = NULL;
    if (json_value_kind(value) != JSON_KIND_NUMBER) {
        const enum attn_status status =
            read_list(reader, value, pointer, NUMBER_F64, "numbers", &values, &out->count);
        if (status == ATTN_OK)
            out->values = values;
        return status;
    }
    double *const one = storage_take(reader->storage, sizeof *one);
    if (one == NULL)
        return attn_fail(reader->error, ATTN_NO_MEMORY, pointer, "There is no memory now.");
    *out = (struct attn_real_list){one, 1};
    return json_value_real(reader, value, pointer, one);
}
