/* SPDX-License-Identifier: Apache-2.0 */
/* Collecting options from the body and the query string, and values that may be tensor names. */
#include "server/options/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/convert.h"
#include "server/options/int_set.h"
#include "server/options/options_table.h"

void options_init(struct options *options, const struct codec_schema *schema,
                  struct codec_request *request, struct json_reader reader,
                  struct options_tensors tensors) {
    *options = (struct options){.schema = schema,
                                .request = request,
                                .reader = reader,
                                .tensors = tensors,
                                .real = ATTN_FLOAT32};
}

void options_close(struct options *options) {
    for (size_t i = 0; i < options->text_count; i++)
        json_document_close(&options->texts[i]);
    free(options->texts);
    options->texts = NULL;
    options->text_count = 0;
}

enum attn_status options_give(struct options *options, const char *name, struct json_value value,
                              bool *known) {
    char pointer[JSON_POINTER_ROOM];
    const size_t index = schema_option(options->schema, name);
    *known = index < options->schema->option_count;
    if (!*known)
        return ATTN_OK;
    if (options->given[index].node != NULL)
        return attn_fail(
            options->reader.error, ATTN_OPTION_TWICE, json_pointer_member(pointer, "", name),
            "%s was given twice. Give it once, in the query string or in the request.", name);
    options->given[index] = value;
    return ATTN_OK;
}

enum attn_status options_apply(struct options *options) {
    enum attn_status status = ATTN_OK;
    for (size_t i = 0; status == ATTN_OK && i < options->schema->option_count; i++) {
        const struct option *const option = &options->schema->options[i];
        char pointer[JSON_POINTER_ROOM];
        if (options->given[i].node != NULL)
            status = option->apply(options, options->given[i],
                                   json_pointer_member(pointer, "", option->name));
    }
    return status;
}

static enum attn_status no_memory(struct options *options) {
    return attn_fail(options->reader.error, ATTN_NO_MEMORY, "", "There is no memory now.");
}

/* Every mask node may name two tensors, and some options one. */
enum { NAMED_MAX = 2 * ATTN_MASK_MAX_NODES + OPTIONS_MAX };

/* What was looked up under this name before, or NULL. */
static struct options_named *recall(const struct options *options, const char *name,
                                    enum json_tensor_role role) {
    for (size_t i = 0; i < options->named_count; i++)
        if (options->named[i].role == role && strcmp(options->named[i].name, name) == 0)
            return &options->named[i];
    return NULL;
}

static struct options_named *remember(struct options *options, const char *name,
                                      enum json_tensor_role role) {
    if (options->named == NULL)
        options->named =
            storage_take_array(options->reader.storage, NAMED_MAX, sizeof *options->named);
    if (options->named == NULL || options->named_count == NAMED_MAX)
        return NULL;
    struct options_named *const named = &options->named[options->named_count];
    *named = (struct options_named){.name = name, .role = role, .tensor = attn_tensor_none()};
    return named;
}

static enum attn_status status_at(const char *pointer) {
    return strncmp(pointer, "/mask", 5) == 0 ? ATTN_BAD_MASK : ATTN_BAD_VALUE;
}

static enum attn_status refuse_name(struct options *options, const char *name,
                                    const char *pointer) {
    char shown[64];
    return attn_fail(options->reader.error, status_at(pointer),
                     options->tensors.names_are_places ? name : pointer,
                     "The request has no tensor called \"%s\". Send it beside %s, or inline.",
                     json_snippet(name, strlen(name), 0, shown, sizeof shown),
                     options->schema->members);
}

/* The request's tensor called what `value` says. */
static enum attn_status find_tensor(struct options *options, struct json_value value,
                                    enum json_tensor_role role, const char *pointer,
                                    struct options_named **out) {
    const char *const name = json_string_value(value.node);
    *out = recall(options, name, role);
    if (*out != NULL)
        return ATTN_OK;
    *out = remember(options, name, role);
    if (*out == NULL)
        return no_memory(options);
    bool found;
    const enum attn_status status =
        options->tensors.find(options->tensors.closure, name, role, &(*out)->tensor, &found);
    if (status == ATTN_OK && !found)
        return refuse_name(options, name, pointer);
    options->named_count += status == ATTN_OK;
    return status;
}

enum attn_status options_tensor(struct options *options, struct json_value value,
                                enum json_tensor_role role, const char *pointer,
                                struct attn_tensor *out) {
    struct options_named *named;
    if (json_value_kind(value) != JSON_KIND_TEXT)
        return json_tensor_read(&options->reader, value, role, options->real, pointer, out, NULL);
    const enum attn_status status = find_tensor(options, value, role, pointer, &named);
    if (status == ATTN_OK)
        *out = named->tensor;
    return status;
}

/* Whether a list option is written as a tensor: by name, or as an object. */
static bool is_tensor(struct json_value value) {
    const enum json_kind kind = json_value_kind(value);
    return kind == JSON_KIND_TEXT || kind == JSON_KIND_OBJECT;
}

/* A tensor for a list option: rank 1, of a class. */
static enum attn_status list_tensor(struct options *options, struct json_value value,
                                    enum json_tensor_role role, const char *pointer,
                                    struct attn_tensor *out) {
    char text[96];
    const enum attn_status status = options_tensor(options, value, role, pointer, out);
    if (status != ATTN_OK)
        return status;
    if (out->rank != 1)
        return attn_fail(options->reader.error, ATTN_BAD_SHAPE, pointer,
                         "Expected a tensor of rank 1, but its shape is %s.",
                         attn_shape_text(out->rank, out->shape, text, sizeof text));
    const bool is_real = attn_dtype_class(out->dtype) == ATTN_CLASS_FLOAT;
    if (is_real != (role == JSON_TENSOR_REAL))
        return attn_fail(options->reader.error, ATTN_BAD_DTYPE, pointer,
                         "Expected a tensor of %s, but its dtype is %s.",
                         is_real ? "whole numbers" : "floating-point numbers",
                         attn_dtype_name(out->dtype));
    return ATTN_OK;
}

/* The entry that list_tensor() has just looked up, when `value` is a name. */
static struct options_named *named_of(const struct options *options, struct json_value value,
                                      enum json_tensor_role role) {
    const char *const name = json_string_value(value.node);
    return name == NULL ? NULL : recall(options, name, role);
}

/* Whole numbers are read as int64, to which larger ones would be cut. */
static enum attn_status refuse_huge(struct options *options, const struct attn_tensor *tensor,
                                    size_t element, const char *pointer) {
    char text[ATTN_INT_TEXT_ROOM];
    return attn_fail(options->reader.error, status_at(pointer), pointer,
                     "Element %zu is %s, which is beyond every length and position; those are "
                     "below 2^63 - 1.",
                     element, attn_tensor_int_text(tensor, (ptrdiff_t)element, text));
}

enum attn_status options_ints(struct options *options, struct json_value value, const char *pointer,
                              struct attn_int_list *out) {
    struct attn_tensor tensor;
    if (!is_tensor(value))
        return json_value_ints(&options->reader, value, pointer, out);
    const enum attn_status status = list_tensor(options, value, JSON_TENSOR_MASK, pointer, &tensor);
    if (status != ATTN_OK)
        return status;
    struct options_named *const named = named_of(options, value, JSON_TENSOR_MASK);
    if (named != NULL && named->ints != NULL) {
        *out = (struct attn_int_list){named->ints, tensor.shape[0]};
        return ATTN_OK;
    }
    int64_t *const values =
        storage_take_array(options->reader.storage, tensor.shape[0], sizeof *values);
    if (values == NULL)
        return no_memory(options);
    for (size_t i = 0; i < tensor.shape[0]; i++) {
        values[i] = attn_tensor_int_at(&tensor, (ptrdiff_t)i);
        if (tensor.dtype == ATTN_UINT64 && values[i] == INT64_MAX)
            return refuse_huge(options, &tensor, i, pointer);
    }
    if (named != NULL)
        named->ints = values;
    *out = (struct attn_int_list){values, tensor.shape[0]};
    return ATTN_OK;
}

enum attn_status options_int_set(struct options *options, struct json_value value,
                                 const char *pointer, struct attn_int_list *out) {
    const enum attn_status status = options_ints(options, value, pointer, out);
    if (status != ATTN_OK || int_set_is_one(out->values, out->count))
        return status;
    struct options_named *const named = named_of(options, value, JSON_TENSOR_MASK);
    if (named != NULL && named->set.values != NULL) {
        *out = named->set;
        return ATTN_OK;
    }
    /* What stands inline was read for this option alone. A list with a name may be another's as
       well, and there its order counts. */
    int64_t *values = (int64_t *)out->values;
    if (named != NULL) {
        values = storage_take_array(options->reader.storage, out->count, sizeof *values);
        if (values == NULL)
            return no_memory(options);
        memcpy(values, out->values, out->count * sizeof *values);
    }
    out->values = values;
    if (!int_set_make(values, out->count, options->reader.cancelled, &out->count))
        return json_reader_cancelled(&options->reader);
    if (named != NULL)
        named->set = *out;
    return ATTN_OK;
}

enum attn_status options_reals(struct options *options, struct json_value value,
                               const char *pointer, struct attn_real_list *out) {
    struct attn_tensor tensor;
    if (!is_tensor(value))
        return json_value_reals(&options->reader, value, pointer, out);
    const enum attn_status status = list_tensor(options, value, JSON_TENSOR_REAL, pointer, &tensor);
    if (status != ATTN_OK)
        return status;
    double *const values =
        storage_take_array(options->reader.storage, tensor.shape[0], sizeof *values);
    if (values == NULL)
        return no_memory(options);
    attn_load_double(tensor.dtype, tensor.data, 1, tensor.shape[0], values);
    *out = (struct attn_real_list){values, tensor.shape[0]};
    return ATTN_OK;
}
