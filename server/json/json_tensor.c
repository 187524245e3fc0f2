/* SPDX-License-Identifier: Apache-2.0 */
/* The three ways a tensor is written in JSON. */
#include "server/json/json_tensor.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "server/codecs/base64.h"

/* How elements of a dtype are read from text. */
static enum number_type number_type_of(enum attn_dtype dtype) {
    switch (dtype) {
    case ATTN_FLOAT32:
        return NUMBER_F32;
    case ATTN_FLOAT64:
        return NUMBER_F64;
    case ATTN_FLOAT16:
        return NUMBER_F16;
    case ATTN_BFLOAT16:
        return NUMBER_BF16;
    case ATTN_BOOL:
        return NUMBER_BOOL;
    default:
        return NUMBER_I64;
    }
}

/* The least and largest value of an integer dtype, within int64. */
static void integer_range(enum attn_dtype dtype, int64_t *least, int64_t *most) {
    const unsigned bits = (unsigned)attn_dtype_size(dtype) * 8;
    const bool is_signed = attn_dtype_name(dtype)[0] == 'i';
    const unsigned magnitude = bits == 64 || is_signed ? bits - 1 : bits;
    *most = (int64_t)((UINT64_C(1) << magnitude) - 1);
    *least = is_signed ? -*most - 1 : 0;
}

/* Narrows int64 elements to `dtype` where they lie: element i moves down to i * size. */
static enum attn_status narrow(const struct json_reader *reader, const char *pointer,
                               enum attn_dtype dtype, void *values, size_t count) {
    int64_t least, most;
    integer_range(dtype, &least, &most);
    const size_t size = attn_dtype_size(dtype);
    char *const bytes = values;
    for (size_t i = 0; i < count; i++) {
        int64_t value;
        memcpy(&value, bytes + i * sizeof value, sizeof value);
        if (value < least || value > most)
            return attn_fail(reader->error, ATTN_BAD_VALUE, pointer,
                             "Element %zu, %lld, does not fit %s.", i, (long long)value,
                             attn_dtype_name(dtype));
        memcpy(bytes + i * size, &value, size);
    }
    return ATTN_OK;
}

enum attn_status json_tensor_elements(const struct json_reader *reader, struct json_value value,
                                      const char *pointer, enum attn_dtype dtype, void **data,
                                      struct number_array_shape *shape) {
    const enum number_type type = number_type_of(dtype);
    const enum attn_status status =
        json_value_numbers(reader, value, pointer, type, attn_dtype_name(dtype), data, shape);
    if (status != ATTN_OK || type != NUMBER_I64 || dtype == ATTN_INT64)
        return status;
    size_t count = 1;
    for (int i = 0; i < shape->rank; i++)
        count *= shape->shape[i];
    return narrow(reader, pointer, dtype, *data, count);
}

/* The dtype of numbers that were sent without one. */
static enum attn_dtype default_dtype(struct json_value numbers, enum json_tensor_role role,
                                     enum attn_dtype real) {
    if (role == JSON_TENSOR_REAL)
        return real;
    const struct json_cut *const cut = json_value_cut(numbers);
    if (cut == NULL)
        return ATTN_INT64;
    const char *const text = numbers.document->text + cut->offset;
    size_t at = 0;
    while (memchr("[ \t\r\n", text[at], 5) != NULL)
        at++;
    assert(at < cut->length); /* its last byte is a bracket that closes */
    return text[at] == 't' || text[at] == 'f' ? ATTN_BOOL : ATTN_INT64;
}

static enum attn_status read_nested(const struct json_reader *reader, struct json_value value,
                                    enum json_tensor_role role, enum attn_dtype real,
                                    const char *pointer, struct attn_tensor *out) {
    void *data;
    struct number_array_shape shape;
    const enum attn_dtype dtype = default_dtype(value, role, real);
    const enum attn_status status =
        json_tensor_elements(reader, value, pointer, dtype, &data, &shape);
    if (status != ATTN_OK)
        return status;
    if (shape.rank > ATTN_MAX_RANK)
        return attn_fail_limit(reader->error, ATTN_BAD_SHAPE, pointer, ATTN_MAX_RANK,
                               "The lists are nested %d deep; a tensor has a rank of at most %d.",
                               shape.rank, ATTN_MAX_RANK);
    *out = attn_tensor_view(data, dtype, shape.rank, shape.shape);
    return ATTN_OK;
}

static enum attn_status read_axes(const struct json_reader *reader,
                                  const struct attn_int_list *axes, const char *pointer,
                                  size_t shape[ATTN_MAX_RANK]) {
    if (axes->count > ATTN_MAX_RANK)
        return attn_fail_limit(reader->error, ATTN_BAD_SHAPE, pointer, ATTN_MAX_RANK,
                               "The shape has %zu axes; a tensor has a rank of at most %d.",
                               axes->count, ATTN_MAX_RANK);
    for (size_t i = 0; i < axes->count; i++) {
        if (axes->values[i] < 0)
            return attn_fail(reader->error, ATTN_BAD_SHAPE, pointer,
                             "Axis %zu of the shape is %lld; an axis has 0 or more elements.", i,
                             (long long)axes->values[i]);
        shape[i] = (size_t)axes->values[i];
    }
    return ATTN_OK;
}

/* The members of a tensor object; node NULL where one is missing. */
struct tensor_members {
    struct json_value shape, dtype, data, base64;
};

static enum attn_status take_members(const struct json_reader *reader, struct json_value value,
                                     const char *pointer, struct tensor_members *members) {
    static const char *const names[] = {"shape", "dtype", "data", "base64"};
    const char *name;
    json_t *node;
    json_object_foreach(value.node, name, node) {
        bool known = false;
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            known = known || strcmp(name, names[i]) == 0;
        char where[JSON_POINTER_ROOM], shown[32];
        if (!known && strcmp(name, "0") == 0)
            return attn_fail(reader->error, ATTN_UNKNOWN_FIELD,
                             json_pointer_member(where, pointer, name),
                             "A list has become an object with the members \"0\", \"1\" and so "
                             "on, as JSON.stringify makes it of a typed array: send "
                             "Array.from(array), or shape, dtype and base64.");
        if (!known)
            return attn_fail(reader->error, ATTN_UNKNOWN_FIELD,
                             json_pointer_member(where, pointer, name),
                             "A tensor has shape, dtype, and data or base64, but no \"%s\".",
                             json_snippet(name, strlen(name), 0, shown, sizeof shown));
    }
    *members = (struct tensor_members){
        json_value_member(value, "shape"), json_value_member(value, "dtype"),
        json_value_member(value, "data"), json_value_member(value, "base64")};
    if (members->shape.node == NULL)
        return attn_fail(reader->error, ATTN_MISSING_FIELD, pointer,
                         "A tensor written as an object needs \"shape\": a list of axis lengths.");
    if (members->data.node != NULL && members->base64.node != NULL)
        return attn_fail(reader->error, ATTN_BAD_VALUE, pointer,
                         "The tensor has both \"data\" and \"base64\"; give one of them.");
    if (members->data.node == NULL && members->base64.node == NULL)
        return attn_fail(reader->error, ATTN_MISSING_FIELD, pointer,
                         "The tensor lacks its elements: \"data\" (a flat list) or \"base64\".");
    return ATTN_OK;
}

static enum attn_status read_dtype(const struct json_reader *reader, struct json_value value,
                                   const char *pointer, enum attn_dtype *out) {
    char came[JSON_DESCRIPTION_ROOM];
    const char *const name = json_string_value(value.node);
    if (name != NULL && attn_dtype_from_name(name, out))
        return ATTN_OK;
    return attn_fail(reader->error, name == NULL ? ATTN_BAD_TYPE : ATTN_BAD_DTYPE, pointer,
                     "The dtype should be float32, float64, float16, bfloat16, bool or a whole "
                     "number type such as int32 or uint8, but %s came.",
                     json_value_describe(value, came));
}

static enum attn_status read_data(const struct json_reader *reader, struct json_value data,
                                  const char *pointer, struct attn_tensor *out) {
    char came[JSON_DESCRIPTION_ROOM], text[96];
    const enum json_kind kind = json_value_kind(data);
    if (kind != JSON_KIND_NUMBERS && kind != JSON_KIND_LIST)
        return attn_fail(reader->error, ATTN_BAD_TYPE, pointer,
                         "\"data\" should be a flat list of numbers, but %s came.",
                         json_value_describe(data, came));
    void *elements;
    struct number_array_shape found;
    const enum attn_status status =
        json_tensor_elements(reader, data, pointer, out->dtype, &elements, &found);
    if (status != ATTN_OK)
        return status;
    size_t wanted = 0;
    attn_shape_text(out->rank, out->shape, text, sizeof text);
    attn_shape_elements(out->rank, out->shape, &wanted);
    if (found.rank != 1)
        return attn_fail(reader->error, ATTN_BAD_SHAPE, pointer,
                         "\"data\" should be one flat list, without lists inside.");
    if (found.shape[0] != wanted)
        return attn_fail(reader->error, ATTN_BAD_SHAPE, pointer,
                         "The shape %s needs %zu number%s, but \"data\" has %zu.", text, wanted,
                         attn_plural(wanted), found.shape[0]);
    out->data = elements;
    return ATTN_OK;
}

/* Characters between two looks at whether the reader was cancelled. */
enum { BASE64_PIECE = 4 << 20 };

/* As base64_decode(), piece by piece. Only the last one may end with padding. */
static enum attn_status decode_pieces(const struct json_reader *reader, const char *text,
                                      size_t length, char *bytes, const char *pointer,
                                      size_t *size) {
    size_t fault = 0;
    *size = 0;
    for (size_t at = 0, piece; at < length; at += piece) {
        size_t some;
        piece = length - at > BASE64_PIECE ? (size_t)BASE64_PIECE : length - at;
        const bool is_last = at + piece == length;
        if (reader->cancelled != NULL &&
            atomic_load_explicit(reader->cancelled, memory_order_relaxed))
            return json_reader_cancelled(reader);
        bool valid = base64_decode(text + at, piece, bytes + *size, &some, &fault);
        if (valid && !is_last && some != piece / 4 * 3) {
            valid = false;
            fault = (size_t)((const char *)memchr(text + at, '=', piece) - (text + at));
        }
        if (!valid)
            return attn_fail(reader->error, ATTN_MALFORMED, pointer,
                             "\"base64\" is not base64 at its character %zu: the standard "
                             "alphabet with padding is expected, without white space.",
                             at + fault);
        *size += some;
    }
    return ATTN_OK;
}

static enum attn_status decode_base64(const struct json_reader *reader, const char *text,
                                      size_t length, const char *pointer, struct attn_tensor *out) {
    size_t wanted = 0, size;
    char shape[96];
    attn_shape_text(out->rank, out->shape, shape, sizeof shape);
    attn_shape_bytes(out->dtype, out->rank, out->shape, &wanted);
    void *const bytes = storage_take(reader->storage, base64_decoded_room(length) + BASE64_SLACK);
    if (bytes == NULL)
        return attn_fail(reader->error, ATTN_NO_MEMORY, pointer, "There is no memory now.");
    const enum attn_status status = decode_pieces(reader, text, length, bytes, pointer, &size);
    if (status != ATTN_OK)
        return status;
    if (size != wanted)
        return attn_fail(reader->error, ATTN_BAD_SHAPE, pointer,
                         "The shape %s of %s needs %zu byte%s, but \"base64\" holds %zu.", shape,
                         attn_dtype_name(out->dtype), wanted, attn_plural(wanted), size);
    out->data = bytes;
    return ATTN_OK;
}

static enum attn_status read_base64(const struct json_reader *reader, struct json_value value,
                                    const char *pointer, struct attn_tensor *out) {
    const char *text;
    size_t length;
    const enum attn_status status = json_value_text(reader, value, pointer, &text, &length);
    return status == ATTN_OK ? decode_base64(reader, text, length, pointer, out) : status;
}

static enum attn_status read_object(const struct json_reader *reader, struct json_value value,
                                    enum json_tensor_role role, enum attn_dtype real,
                                    const char *pointer, struct attn_tensor *out) {
    struct tensor_members members;
    struct attn_int_list axes;
    size_t shape[ATTN_MAX_RANK] = {0};
    enum attn_status status = take_members(reader, value, pointer, &members);
    if (status == ATTN_OK)
        status = json_value_ints(reader, members.shape, pointer, &axes);
    if (status == ATTN_OK)
        status = read_axes(reader, &axes, pointer, shape);
    if (status != ATTN_OK)
        return status;
    const bool is_base64 = members.base64.node != NULL;
    enum attn_dtype dtype = is_base64 ? real : default_dtype(members.data, role, real);
    if (members.dtype.node != NULL)
        status = read_dtype(reader, members.dtype, pointer, &dtype);
    if (status != ATTN_OK)
        return status;
    size_t bytes;
    if (!attn_shape_bytes(dtype, (int)axes.count, shape, &bytes))
        return attn_fail(reader->error, ATTN_BAD_SHAPE, pointer,
                         "The shape asks for more bytes than can be counted.");
    *out = attn_tensor_view(NULL, dtype, (int)axes.count, shape);
    return is_base64 ? read_base64(reader, members.base64, pointer, out)
                     : read_data(reader, members.data, pointer, out);
}

enum attn_status json_tensor_read(const struct json_reader *reader, struct json_value value,
                                  enum json_tensor_role role, enum attn_dtype real,
                                  const char *pointer, struct attn_tensor *out,
                                  enum codec_encoding *form) {
    char came[JSON_DESCRIPTION_ROOM];
    enum codec_encoding written = CODEC_NESTED;
    enum attn_status status;
    switch (json_value_kind(value)) {
    case JSON_KIND_NUMBERS:
    case JSON_KIND_LIST:
        status = read_nested(reader, value, role, real, pointer, out);
        break;
    case JSON_KIND_OBJECT:
        written = json_object_get(value.node, "base64") == NULL ? CODEC_FLAT : CODEC_BASE64;
        status = read_object(reader, value, role, real, pointer, out);
        break;
    default:
        status = attn_fail(reader->error, ATTN_BAD_TYPE, pointer,
                           "Expected a tensor - nested lists of numbers, or an object with shape, "
                           "dtype, and data or base64 - but %s came.",
                           json_value_describe(value, came));
    }
    if (form != NULL)
        *form = written;
    return status;
}
