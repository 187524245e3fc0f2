/* SPDX-License-Identifier: Apache-2.0 */
/* A request out of a file of named tensors; see codec_container.h. */
#include "server/codecs/codec_container.h"

#include <string.h>

#include "server/codecs/codec_request.h"
#include "server/options/options_table.h"

struct reading {
    const struct codec_container *container;
    struct json_document document; /* of the options */
    struct options options;
    bool *used; /* one per entry */
};

/* The entry called `name`, or the number of entries. */
static size_t find(const struct codec_container *container, const char *name) {
    size_t entry = 0;
    while (entry < container->count && strcmp(container->name(container->file, entry), name) != 0)
        entry++;
    return entry;
}

static enum attn_status find_tensor(void *closure, const char *name, enum json_tensor_role role,
                                    struct attn_tensor *out, bool *found) {
    struct reading *const reading = closure;
    const struct codec_container *const container = reading->container;
    const size_t entry = find(container, name);
    (void)role;
    *found = entry < container->count;
    if (!*found)
        return ATTN_OK;
    reading->used[entry] = true;
    return container->tensor(container->file, entry, &reading->options.reader, out);
}

static enum attn_status take_options(struct reading *reading) {
    struct attn_error *const error = reading->options.reader.error;
    char came[JSON_DESCRIPTION_ROOM];
    const struct json_value root = json_document_root(&reading->document);
    if (json_value_kind(root) != JSON_KIND_OBJECT)
        return attn_fail(error, ATTN_BAD_TYPE, reading->container->options_place,
                         "The attention options should be a JSON object, but they are %s.",
                         json_value_describe(root, came));
    const char *name;
    json_t *node;
    enum attn_status status = ATTN_OK;
    json_object_foreach(root.node, name, node) {
        bool known = true;
        if (status == ATTN_OK)
            status = options_give(&reading->options, name,
                                  (struct json_value){&reading->document, node}, &known);
        if (!known)
            status = options_refuse_unknown(&reading->options, name, name);
    }
    return status;
}

static enum attn_status open_options(struct reading *reading, const struct codec_input *input) {
    const struct codec_container *const container = reading->container;
    if (container->options == NULL)
        return ATTN_OK;
    enum attn_status status = codec_request_charge_json(
        input, &reading->options.reader, container->options_place, container->options_length);
    if (status == ATTN_OK)
        status =
            json_document_open(&reading->document, container->options_title, container->options,
                               container->options_length, reading->options.reader.error);
    return status == ATTN_OK ? take_options(reading) : status;
}

static enum attn_status take_tensor(struct reading *reading, const char *name,
                                    struct attn_tensor *out) {
    bool found;
    const enum attn_status status = find_tensor(reading, name, JSON_TENSOR_REAL, out, &found);
    return found ? status : options_refuse_missing(&reading->options, name, name);
}

/* An entry called bias is the bias, unless the option names another. */
static enum attn_status take_bias(struct reading *reading) {
    const struct codec_schema *const schema = reading->options.schema;
    struct attn_request *const attention = &reading->options.request->attention;
    if (schema_option(schema, "bias") == schema->option_count ||
        !attn_tensor_is_none(&attention->bias) ||
        find(reading->container, "bias") == reading->container->count)
        return ATTN_OK;
    return take_tensor(reading, "bias", &attention->bias);
}

static enum attn_status take_operands(struct reading *reading) {
    const struct codec_schema *const schema = reading->options.schema;
    enum attn_status status = ATTN_OK;
    for (size_t i = 0; status == ATTN_OK && i < schema->operand_count; i++) {
        const char *const name = schema->operands[i].name;
        if (schema->operands[i].is_optional &&
            find(reading->container, name) == reading->container->count)
            continue;
        status = take_tensor(reading, name, schema_tensor(schema, i, reading->options.request));
    }
    return status;
}

static enum attn_status refuse_unused(struct reading *reading) {
    const struct codec_container *const container = reading->container;
    const struct codec_schema *const schema = reading->options.schema;
    for (size_t entry = 0; entry < container->count; entry++) {
        const char *const name = container->name(container->file, entry);
        if (!reading->used[entry] && schema_operand(schema, name) == schema->operand_count)
            return options_refuse_unknown(&reading->options, name, name);
    }
    return ATTN_OK;
}

static enum attn_status read_all(struct reading *reading, const struct codec_input *input) {
    const struct codec_container *const container = reading->container;
    enum attn_status status = options_give_query(&reading->options, input);
    if (status == ATTN_OK)
        status = open_options(reading, input);
    if (status == ATTN_OK && container->give != NULL)
        status = container->give(container->file, &reading->options);
    if (status == ATTN_OK)
        status = options_apply(&reading->options);
    if (status == ATTN_OK)
        status = take_bias(reading);
    if (status == ATTN_OK && container->settle != NULL)
        status = container->settle(container->file, &reading->options, reading->used);
    if (status == ATTN_OK)
        status = refuse_unused(reading);
    if (status == ATTN_OK)
        status = take_operands(reading);
    if (reading->options.request->encoding == CODEC_ENCODING_UNSET)
        reading->options.request->encoding = CODEC_NESTED;
    return status;
}

enum attn_status codec_container_read(const struct codec_container *container,
                                      const struct codec_input *input,
                                      const struct json_reader *reader,
                                      struct codec_request *request) {
    struct reading reading = {.container = container, .document = {.name = ""}};
    reading.used = storage_take_array(reader->storage, container->count, sizeof *reading.used);
    if (reading.used == NULL)
        return attn_fail(reader->error, ATTN_NO_MEMORY, "", "There is no memory now.");
    memset(reading.used, 0, container->count * sizeof *reading.used);
    options_init(&reading.options, input->schema, request, *reader,
                 (struct options_tensors){find_tensor, &reading, true});
    const enum attn_status status = read_all(&reading, input);
    options_close(&reading.options);
    json_document_close(&reading.document);
    return status;
}
