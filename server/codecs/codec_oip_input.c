/* SPDX-License-Identifier: Apache-2.0 */
/* One input or output of a request: {"name", "shape", "datatype", "parameters", "data"}. */
#include <string.h>

#include "server/codecs/codec_oip_file.h"
#include "server/json/json_tensor.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* Parameters by which an input or output would lie somewhere else, or be something else. */
static const struct {
    const char *name, *sentence;
} NOT_SERVED[] = {
    {"shared_memory_region", "Shared memory is not served. Send the tensor's data, or its bytes."},
    {"classification", "Classification is not served. Ask for the output as it is."},
};

enum attn_status oip_flag_read(const struct json_reader *reader, struct json_value value,
                               const char *pointer, bool *flag) {
    char came[JSON_DESCRIPTION_ROOM];
    if (json_value_kind(value) != JSON_KIND_BOOL)
        return attn_fail(reader->error, ATTN_BAD_TYPE, pointer,
                         "Expected true or false, but %s came.", json_value_describe(value, came));
    *flag = json_is_true(value.node);
    return ATTN_OK;
}

/* The parameters of an input or output; node NULL when there are none. */
static enum attn_status read_parameters(const struct json_reader *reader, struct json_value value,
                                        const char *pointer, struct json_value *out) {
    char came[JSON_DESCRIPTION_ROOM], where[JSON_POINTER_ROOM];
    *out = json_value_member(value, "parameters");
    if (out->node == NULL)
        return ATTN_OK;
    json_pointer_member(where, pointer, "parameters");
    if (json_value_kind(*out) != JSON_KIND_OBJECT)
        return attn_fail(reader->error, ATTN_BAD_TYPE, where, "Expected an object, but %s came.",
                         json_value_describe(*out, came));
    for (size_t i = 0; i < COUNT(NOT_SERVED); i++)
        if (json_value_member(*out, NOT_SERVED[i].name).node != NULL)
            return attn_fail(reader->error, ATTN_UNKNOWN_FIELD, where, "%s",
                             NOT_SERVED[i].sentence);
    return ATTN_OK;
}

static enum attn_status read_name(const struct json_reader *reader, struct json_value value,
                                  const char *pointer, const char **name) {
    char came[JSON_DESCRIPTION_ROOM];
    if (json_value_kind(value) != JSON_KIND_OBJECT)
        return attn_fail(reader->error, ATTN_BAD_TYPE, pointer,
                         "Expected an object with a name, but %s came.",
                         json_value_describe(value, came));
    const struct json_value member = json_value_member(value, "name");
    *name = json_string_value(member.node);
    if (*name != NULL)
        return ATTN_OK;
    return attn_fail(reader->error, member.node == NULL ? ATTN_MISSING_FIELD : ATTN_BAD_TYPE,
                     pointer, "It needs a name, which is a short text.");
}

enum attn_status oip_wanted_read(const struct json_reader *reader, struct json_value value,
                                 const char *pointer, struct oip_wanted *wanted) {
    struct json_value parameters = {NULL, NULL};
    enum attn_status status = read_name(reader, value, pointer, &wanted->name);
    if (status == ATTN_OK)
        status = read_parameters(reader, value, pointer, &parameters);
    if (status != ATTN_OK || parameters.node == NULL)
        return status;
    const struct json_value binary = json_value_member(parameters, "binary_data");
    return binary.node == NULL ? ATTN_OK : oip_flag_read(reader, binary, pointer, &wanted->binary);
}

static enum attn_status read_datatype(const struct json_reader *reader, struct json_value value,
                                      struct oip_input *input) {
    char came[JSON_DESCRIPTION_ROOM];
    const struct json_value datatype = json_value_member(value, "datatype");
    if (datatype.node == NULL)
        return attn_fail(reader->error, ATTN_MISSING_FIELD, input->name,
                         "The input needs a datatype, such as \"FP32\".");
    const char *const name = json_string_value(datatype.node);
    if (name != NULL && oip_datatype_find(name, &input->dtype))
        return ATTN_OK;
    return attn_fail(reader->error, name == NULL ? ATTN_BAD_TYPE : ATTN_BAD_DTYPE, input->name,
                     "The datatype should be FP32, FP64, FP16, BF16, BOOL or a whole number type "
                     "such as INT64 or UINT8, but %s came.",
                     json_value_describe(datatype, came));
}

static enum attn_status read_shape(const struct json_reader *reader, struct json_value value,
                                   struct oip_input *input) {
    struct attn_int_list axes;
    const struct json_value shape = json_value_member(value, "shape");
    if (shape.node == NULL)
        return attn_fail(reader->error, ATTN_MISSING_FIELD, input->name,
                         "The input needs a shape: a list of axis lengths.");
    const enum attn_status status = json_value_ints(reader, shape, input->name, &axes);
    if (status != ATTN_OK)
        return status;
    if (axes.count > ATTN_MAX_RANK)
        return attn_fail_limit(reader->error, ATTN_BAD_SHAPE, input->name, ATTN_MAX_RANK,
                               "The shape has %zu axes; a tensor has a rank of at most %d.",
                               axes.count, ATTN_MAX_RANK);
    for (size_t i = 0; i < axes.count; i++) {
        if (axes.values[i] < 0)
            return attn_fail(reader->error, ATTN_BAD_SHAPE, input->name,
                             "Axis %zu of the shape is %lld; an axis has 0 or more elements.", i,
                             (long long)axes.values[i]);
        input->shape[i] = (size_t)axes.values[i];
    }
    input->rank = (int)axes.count;
    if (!attn_shape_bytes(input->dtype, input->rank, input->shape, &input->size))
        return attn_fail(reader->error, ATTN_BAD_SHAPE, input->name,
                         "The shape asks for more bytes than can be counted.");
    return ATTN_OK;
}

/* The bytes that follow the JSON for this input must be those of its shape. */
static enum attn_status read_size(const struct json_reader *reader, struct json_value size,
                                  const struct oip_input *input) {
    char shape[96];
    int64_t bytes = 0;
    const enum attn_status status = json_value_int(reader, size, input->name, 0, INT64_MAX, &bytes);
    if (status != ATTN_OK)
        return status;
    if ((size_t)bytes == input->size)
        return ATTN_OK;
    attn_shape_text(input->rank, input->shape, shape, sizeof shape);
    return attn_fail(reader->error, ATTN_MALFORMED, input->name,
                     "binary_data_size is %lld, but the shape %s of %s needs %zu byte%s.",
                     (long long)bytes, shape, oip_datatype_name(input->dtype), input->size,
                     attn_plural(input->size));
}

/* Exactly one of data and binary_data_size; null counts as no data, for so KServe's client sends an
   empty tensor. */
static enum attn_status read_source(const struct json_reader *reader, struct json_value value,
                                    struct json_value parameters, struct oip_input *input) {
    const struct json_value data = json_value_member(value, "data");
    const bool has_data = data.node != NULL && json_value_kind(data) != JSON_KIND_NULL;
    struct json_value size = {NULL, NULL};
    if (parameters.node != NULL)
        size = json_value_member(parameters, "binary_data_size");
    if (has_data && size.node != NULL)
        return attn_fail(reader->error, ATTN_BAD_VALUE, input->name,
                         "The input has both data and binary_data_size; give one of them.");
    if (!has_data && size.node == NULL)
        return attn_fail(reader->error, ATTN_MISSING_FIELD, input->name,
                         "The input lacks its elements: data, a list of numbers, or "
                         "parameters.binary_data_size and that many bytes behind the JSON.");
    if (!has_data)
        return read_size(reader, size, input);
    input->data = data;
    return ATTN_OK;
}

enum attn_status oip_input_read(const struct json_reader *reader, struct json_value value,
                                const char *pointer, struct oip_input *input) {
    struct json_value parameters = {NULL, NULL};
    *input = (struct oip_input){.bytes = NULL};
    enum attn_status status = read_name(reader, value, pointer, &input->name);
    if (status == ATTN_OK)
        status = read_parameters(reader, value, pointer, &parameters);
    if (status == ATTN_OK)
        status = read_datatype(reader, value, input);
    if (status == ATTN_OK)
        status = read_shape(reader, value, input);
    if (status == ATTN_OK)
        status = read_source(reader, value, parameters, input);
    return status;
}
