/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a request: where its JSON ends, what stands in it, and whose the bytes behind are.
 */
#include "server/codecs/codec_oip_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "server/codecs/codec_request.h"
#include "server/json/json_tensor.h"
#include "server/send_binary.h"

static enum attn_status read_json_length(const struct json_reader *reader,
                                         const struct codec_input *input, size_t *length) {
    const char *const text = input->oip->json_length;
    *length = input->length;
    if (text == NULL)
        return ATTN_OK;
    const size_t digits = strspn(text, "0123456789");
    errno = 0;
    const unsigned long long announced = strtoull(text, NULL, 10);
    if (digits == 0 || text[digits] != '\0' || errno != 0 || announced > input->length)
        return attn_fail(reader->error, ATTN_MALFORMED, "",
                         "%s should be how many of the body's %zu bytes are JSON, but it is "
                         "\"%.30s\".",
                         OIP_LENGTH_HEADER, input->length, text);
    if (announced == 0)
        return attn_fail(reader->error, ATTN_MALFORMED, "",
                         "%s is 0, which means one tensor without JSON; these models need several. "
                         "Send JSON with the inputs.",
                         OIP_LENGTH_HEADER);
    *length = (size_t)announced;
    return ATTN_OK;
}

/* What is wrong with the JSON is often that it ends elsewhere. */
static enum attn_status open_document(struct oip_file *file, const struct json_reader *reader,
                                      size_t length) {
    struct attn_error cause = {.status = ATTN_OK};
    /* Ids of sequences and priorities have 64 bits without a sign. */
    const enum attn_status status = json_document_open_wide(&file->document, "The request's JSON",
                                                            file->input->body, length, &cause);
    if (status == ATTN_OK)
        return ATTN_OK;
    if (attn_status_fault(status) != ATTN_FAULT_MALFORMED)
        return attn_fail(reader->error, status, cause.pointer, "%s", cause.detail);
    if (file->input->oip->json_length == NULL)
        return attn_fail(reader->error, status, cause.pointer,
                         "%.300s Where tensors follow the JSON as bytes, the header "
                         "%s says how long the JSON is.",
                         cause.detail, OIP_LENGTH_HEADER);
    return attn_fail(reader->error, status, cause.pointer,
                     "%.300s By the header %s the JSON has %zu of the body's %zu bytes.",
                     cause.detail, OIP_LENGTH_HEADER, length, file->input->length);
}

static enum attn_status expect_list(const struct json_reader *reader, struct json_value value,
                                    const char *pointer, size_t most, size_t *count) {
    char came[JSON_DESCRIPTION_ROOM];
    if (json_value_kind(value) != JSON_KIND_LIST)
        return attn_fail(reader->error, ATTN_BAD_TYPE, pointer,
                         "Expected a list of objects, but %s came.",
                         json_value_describe(value, came));
    *count = json_array_size(value.node);
    if (*count > most)
        return attn_fail_limit(reader->error, ATTN_BAD_VALUE, pointer, (double)most,
                               "The list has %zu objects; %zu are read.", *count, most);
    return ATTN_OK;
}

static enum attn_status refuse_twice(const struct json_reader *reader, const char *name,
                                     const char *what) {
    return attn_fail(reader->error, ATTN_MALFORMED, name, "Two %s have this name. Give it once.",
                     what);
}

static enum attn_status read_inputs(struct oip_file *file, const struct json_reader *reader,
                                    struct json_value value) {
    char pointer[JSON_POINTER_ROOM];
    size_t count = 0;
    enum attn_status status = expect_list(reader, value, "/inputs", OIP_INPUTS_MAX, &count);
    for (size_t i = 0; status == ATTN_OK && i < count; i++) {
        struct oip_input *const input = &file->inputs[i];
        status = oip_input_read(reader, json_value_item(value, i),
                                json_pointer_index(pointer, "/inputs", i), input);
        if (status == ATTN_OK && oip_file_find(file, input->name) < file->input_count)
            status = refuse_twice(reader, input->name, "inputs");
        file->input_count += status == ATTN_OK;
    }
    return status;
}

/* Whether an output of this name stands before the last one. */
static bool is_wanted_twice(const struct oip_file *file, const char *name) {
    for (size_t i = 0; i < file->output_count; i++)
        if (strcmp(file->outputs[i].name, name) == 0)
            return true;
    return false;
}

static enum attn_status read_outputs(struct oip_file *file, const struct json_reader *reader,
                                     struct json_value value) {
    char pointer[JSON_POINTER_ROOM];
    size_t count = 0;
    enum attn_status status = expect_list(reader, value, "/outputs", OIP_OUTPUTS_MAX, &count);
    for (size_t i = 0; status == ATTN_OK && i < count; i++) {
        struct oip_wanted *const wanted = &file->outputs[i];
        wanted->binary = file->binary_output;
        status = oip_wanted_read(reader, json_value_item(value, i),
                                 json_pointer_index(pointer, "/outputs", i), wanted);
        if (status == ATTN_OK && is_wanted_twice(file, wanted->name))
            status = refuse_twice(reader, wanted->name, "outputs");
        file->output_count += status == ATTN_OK;
    }
    return status;
}

static enum attn_status read_parameters(struct oip_file *file, const struct json_reader *reader,
                                        struct json_value value) {
    char came[JSON_DESCRIPTION_ROOM];
    if (json_value_kind(value) != JSON_KIND_OBJECT)
        return attn_fail(reader->error, ATTN_BAD_TYPE, "/parameters",
                         "Expected an object, but %s came.", json_value_describe(value, came));
    file->parameters = value;
    const struct json_value binary = json_value_member(value, "binary_data_output");
    return binary.node == NULL ? ATTN_OK
                               : oip_flag_read(reader, binary, "/parameters/binary_data_output",
                                               &file->binary_output);
}

static enum attn_status read_id(struct oip_file *file, const struct json_reader *reader,
                                struct json_value value) {
    char came[JSON_DESCRIPTION_ROOM];
    file->id = json_string_value(value.node);
    if (file->id != NULL)
        return ATTN_OK;
    return attn_fail(reader->error, ATTN_BAD_TYPE, "/id",
                     "Expected a text of less than %d bytes, but %s came.", JSON_LONG_TEXT - 2,
                     json_value_describe(value, came));
}

/* What stands at the top, in the order in which it is read. */
static const struct {
    const char *name;
    enum attn_status (*read)(struct oip_file *file, const struct json_reader *reader,
                             struct json_value value); /* NULL: ignored */
} MEMBERS[] = {
    {"id", read_id},         {"parameters", read_parameters},
    {"inputs", read_inputs}, {"outputs", read_outputs},
    {"model_name", NULL},    {"model_version", NULL},
};
enum { MEMBER_COUNT = sizeof MEMBERS / sizeof *MEMBERS };

static enum attn_status refuse_unknown(const struct json_reader *reader, struct json_value root) {
    char pointer[JSON_POINTER_ROOM], shown[40];
    const char *name;
    json_t *node;
    json_object_foreach(root.node, name, node) {
        size_t i = 0;
        while (i < MEMBER_COUNT && strcmp(MEMBERS[i].name, name) != 0)
            i++;
        if (i == MEMBER_COUNT)
            return attn_fail(reader->error, ATTN_UNKNOWN_FIELD,
                             json_pointer_member(pointer, "", name),
                             "A request has id, parameters, inputs and outputs, but no \"%s\". "
                             "Options are parameters.",
                             json_snippet(name, strlen(name), 0, shown, sizeof shown));
    }
    return ATTN_OK;
}

static enum attn_status read_members(struct oip_file *file, const struct json_reader *reader) {
    const struct json_value root = json_document_root(&file->document);
    char came[JSON_DESCRIPTION_ROOM];
    if (json_value_kind(root) != JSON_KIND_OBJECT)
        return attn_fail(reader->error, ATTN_BAD_TYPE, "",
                         "Expected a JSON object with inputs, but %s came.",
                         json_value_describe(root, came));
    enum attn_status status = refuse_unknown(reader, root);
    for (size_t i = 0; status == ATTN_OK && i < MEMBER_COUNT; i++) {
        const struct json_value value = json_value_member(root, MEMBERS[i].name);
        if (value.node != NULL && MEMBERS[i].read != NULL)
            status = MEMBERS[i].read(file, reader, value);
    }
    return status;
}

/* Hands out the bytes behind the JSON, all of which must be somebody's. */
static enum attn_status place_bytes(struct oip_file *file, const struct json_reader *reader,
                                    size_t json_length) {
    const char *const body = file->input->body;
    size_t at = json_length;
    for (size_t i = 0; i < file->input_count; i++) {
        struct oip_input *const input = &file->inputs[i];
        const size_t rest = file->input->length - at;
        if (input->data.node != NULL)
            continue;
        if (input->size > rest)
            return attn_fail(reader->error, ATTN_MALFORMED, input->name,
                             "The input has %zu bytes, but only %zu are left for it: the body has "
                             "%zu, of which the first %zu are JSON by the header %s. %s",
                             input->size, rest, file->input->length, json_length, OIP_LENGTH_HEADER,
                             SEND_BINARY);
        input->bytes = body + at;
        at += input->size;
    }
    if (at == file->input->length)
        return ATTN_OK;
    return attn_fail(reader->error, ATTN_MALFORMED, "",
                     "The body has %zu bytes, of which the first %zu are JSON by the header %s and "
                     "%zu belong to inputs; %zu are left over. %s",
                     file->input->length, json_length, OIP_LENGTH_HEADER, at - json_length,
                     file->input->length - at, SEND_BINARY);
}

enum attn_status oip_file_open(struct oip_file *file, const struct json_reader *reader,
                               const struct codec_input *input) {
    size_t length;
    *file = (struct oip_file){.input = input};
    enum attn_status status = read_json_length(reader, input, &length);
    if (status == ATTN_OK)
        status = open_document(file, reader, length);
    if (status != ATTN_OK)
        return status;
    status = read_members(file, reader);
    if (status == ATTN_OK)
        status = place_bytes(file, reader, length);
    if (status != ATTN_OK)
        oip_file_close(file);
    return status;
}

void oip_file_close(struct oip_file *file) {
    json_document_close(&file->document);
}

size_t oip_file_find(const struct oip_file *file, const char *name) {
    size_t input = 0;
    while (input < file->input_count && strcmp(file->inputs[input].name, name) != 0)
        input++;
    return input;
}

const char *oip_file_name(const void *file, size_t input) {
    return ((const struct oip_file *)file)->inputs[input].name;
}

static enum attn_status tensor_of_bytes(const struct oip_file *file, const struct oip_input *input,
                                        const struct json_reader *reader, const void **data) {
    void *copy;
    *data = input->bytes;
    if ((uintptr_t)input->bytes % attn_dtype_size(input->dtype) == 0)
        return ATTN_OK;
    const enum attn_status status =
        codec_request_take(file->input, reader, input->name, input->size, &copy);
    if (status == ATTN_OK)
        *data = memcpy(copy, input->bytes, input->size);
    return status;
}

static enum attn_status tensor_of_numbers(const struct oip_input *input,
                                          const struct json_reader *reader, const void **data) {
    const enum json_kind kind = json_value_kind(input->data);
    char came[JSON_DESCRIPTION_ROOM], shape[96];
    struct number_array_shape found;
    size_t wanted = 0, count = 1;
    void *elements = NULL;
    if (kind != JSON_KIND_NUMBERS && kind != JSON_KIND_LIST)
        return attn_fail(reader->error, ATTN_BAD_TYPE, input->name,
                         "data should be a list of numbers, but %s came.",
                         json_value_describe(input->data, came));
    const enum attn_status status =
        json_tensor_elements(reader, input->data, input->name, input->dtype, &elements, &found);
    if (status != ATTN_OK)
        return status;
    *data = elements;
    for (int axis = 0; axis < found.rank; axis++)
        count *= found.shape[axis];
    attn_shape_elements(input->rank, input->shape, &wanted);
    if (count == wanted)
        return ATTN_OK;
    attn_shape_text(input->rank, input->shape, shape, sizeof shape);
    return attn_fail(reader->error, ATTN_BAD_SHAPE, input->name,
                     "The shape %s needs %zu number%s, but data has %zu.", shape, wanted,
                     attn_plural(wanted), count);
}

enum attn_status oip_file_tensor(const void *opened, size_t number,
                                 const struct json_reader *reader, struct attn_tensor *out) {
    const struct oip_file *const file = opened;
    const struct oip_input *const input = &file->inputs[number];
    const void *data = NULL;
    const enum attn_status status = input->data.node == NULL
                                        ? tensor_of_bytes(file, input, reader, &data)
                                        : tensor_of_numbers(input, reader, &data);
    if (status == ATTN_OK)
        *out = attn_tensor_view(data, input->dtype, input->rank, input->shape);
    return status;
}
