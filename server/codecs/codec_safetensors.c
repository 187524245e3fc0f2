/* SPDX-License-Identifier: Apache-2.0 */
/*
 * application/vnd.safetensors: entries for the operands and any that a mask or the bias names (an
 * entry called bias needs no naming); options are one JSON string in __metadata__["attention"].
 * Entries that nothing uses are refused.
 */
#include "server/codecs/codec_safetensors.h"

#include <string.h>

#include "server/codecs/codec_request.h"
#include "server/options/options_table.h"

struct container {
    struct safetensors_file file;
    struct json_document document; /* of the options */
    struct options options;
};

static enum attn_status find_entry(void *closure, const char *name, enum json_tensor_role role,
                                   struct attn_tensor *out, bool *found) {
    struct container *const container = closure;
    struct safetensors_entry *const entry = safetensors_find(&container->file, name);
    (void)role;
    *found = entry != NULL;
    return *found ? safetensors_tensor(&container->file, entry, &container->options.reader, out)
                  : ATTN_OK;
}

static enum attn_status open_options(struct container *container) {
    const struct json_reader *const reader = &container->options.reader;
    const char *text;
    size_t length;
    if (container->file.metadata.node == NULL)
        return ATTN_OK;
    const struct json_value value = json_value_member(container->file.metadata, "attention");
    if (value.node == NULL)
        return ATTN_OK;
    const enum attn_status status = json_value_text(reader, value, "__metadata__", &text, &length);
    return status != ATTN_OK
               ? status
               : json_document_open(&container->document, "The attention text of __metadata__",
                                    text, length, reader->error);
}

static enum attn_status take_options(struct container *container) {
    struct attn_error *const error = container->options.reader.error;
    char came[JSON_DESCRIPTION_ROOM];
    if (container->document.root == NULL)
        return ATTN_OK;
    const struct json_value root = json_document_root(&container->document);
    if (json_value_kind(root) != JSON_KIND_OBJECT)
        return attn_fail(error, ATTN_BAD_TYPE, "__metadata__",
                         "The attention options should be a JSON object, but they are %s.",
                         json_value_describe(root, came));
    const char *name;
    json_t *node;
    enum attn_status status = ATTN_OK;
    json_object_foreach(root.node, name, node) {
        bool known = true;
        if (status == ATTN_OK)
            status = options_give(&container->options, name,
                                  (struct json_value){&container->document, node}, &known);
        if (!known)
            status = options_refuse_unknown(&container->options, name, name);
    }
    return status;
}

static enum attn_status take_tensor(struct container *container, const char *name,
                                    struct attn_tensor *out) {
    const struct json_reader *const reader = &container->options.reader;
    struct safetensors_entry *const entry = safetensors_find(&container->file, name);
    if (entry == NULL)
        return options_refuse_missing(&container->options, name, name);
    return safetensors_tensor(&container->file, entry, reader, out);
}

/* An entry called bias is the bias, unless the option names another. */
static enum attn_status take_bias(struct container *container) {
    const struct codec_schema *const schema = container->options.schema;
    struct attn_request *const attention = &container->options.request->attention;
    if (schema_option(schema, "bias") == schema->option_count ||
        !attn_tensor_is_none(&attention->bias) ||
        safetensors_find(&container->file, "bias") == NULL)
        return ATTN_OK;
    return take_tensor(container, "bias", &attention->bias);
}

static enum attn_status take_operands(struct container *container) {
    const struct codec_schema *const schema = container->options.schema;
    enum attn_status status = ATTN_OK;
    for (size_t i = 0; status == ATTN_OK && i < schema->operand_count; i++)
        status = take_tensor(container, schema->operands[i].name,
                             schema_tensor(schema, i, container->options.request));
    return status;
}

static enum attn_status refuse_unused(struct container *container) {
    const struct codec_schema *const schema = container->options.schema;
    for (size_t i = 0; i < container->file.count; i++) {
        const struct safetensors_entry *const entry = &container->file.entries[i];
        if (!entry->used && schema_operand(schema, entry->name) == schema->operand_count)
            return options_refuse_unknown(&container->options, entry->name, entry->name);
    }
    return ATTN_OK;
}

static enum attn_status read_container(struct container *container,
                                       const struct codec_input *input) {
    enum attn_status status = options_give_query(&container->options, input);
    if (status == ATTN_OK)
        status = open_options(container);
    if (status == ATTN_OK)
        status = take_options(container);
    if (status == ATTN_OK)
        status = options_apply(&container->options);
    if (status == ATTN_OK)
        status = take_bias(container);
    if (status == ATTN_OK)
        status = refuse_unused(container);
    if (status == ATTN_OK)
        status = take_operands(container);
    if (container->options.request->encoding == CODEC_ENCODING_UNSET)
        container->options.request->encoding = CODEC_NESTED;
    return status;
}

static enum attn_status decode(const struct codec_input *input, struct codec_request *request,
                               struct attn_error *error) {
    struct container container = {.document = {.root = NULL}};
    const enum attn_status started = codec_request_start(request, error);
    if (started != ATTN_OK)
        return started;
    const struct json_reader reader = {request->storage, error, input->cancelled, input->team};
    options_init(&container.options, input->schema, request, reader,
                 (struct options_tensors){find_entry, &container, true});
    enum attn_status status =
        safetensors_open(&container.file, &reader, input->body, input->length);
    if (status == ATTN_OK) {
        status = read_container(&container, input);
        options_close(&container.options);
        json_document_close(&container.document);
        safetensors_close(&container.file);
    }
    if (status != ATTN_OK)
        codec_request_close(request);
    return status;
}

const struct codec CODEC_SAFETENSORS = {
    .name = "safetensors",
    .media_type = "application/vnd.safetensors",
    .decodes = true,
    .encodes = true,
    .decode = decode,
    .answer_bytes = safetensors_answer_bytes,
    .lay_out = safetensors_answer_lay_out,
    .finish = safetensors_answer_finish,
};
