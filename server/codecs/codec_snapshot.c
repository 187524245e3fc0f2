/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots of sessions, both ways; see codec_snapshot.h. */
#include "server/codecs/codec_snapshot.h"

#include <stdio.h>
#include <string.h>

#include "server/codecs/codec_request.h"
#include "server/codecs/codec_safetensors.h"
#include "server/options/options_table.h"

enum { ALIGNMENT = 64, LENGTH_BYTES = 8 };

/* ---- reading ---- */

struct reading {
    struct safetensors_file file;
    struct json_document document; /* of the session's text */
    struct options options;
};

static enum attn_status find_nothing(void *closure, const char *name, enum json_tensor_role role,
                                     struct attn_tensor *out, bool *found) {
    (void)closure;
    (void)name;
    (void)role;
    (void)out;
    *found = false;
    return ATTN_OK;
}

static enum attn_status open_text(struct reading *reading, const struct codec_input *input) {
    static const char place[] = "__metadata__";
    const struct json_reader *reader = &reading->options.reader;
    const char *text;
    size_t length;
    const struct json_value value = reading->file.metadata.node == NULL
                                        ? reading->file.metadata
                                        : json_value_member(reading->file.metadata, "session");
    if (value.node == NULL)
        return attn_fail(reader->error, ATTN_MISSING_FIELD, place,
                         "A snapshot has __metadata__[\"session\"], the text that says what it is "
                         "of; take one with GET /v1/sessions/{id}/kv.");
    enum attn_status status = json_value_text(reader, value, place, &text, &length);
    if (status == ATTN_OK)
        status = codec_request_charge_json(input, reader, place, length);
    if (status == ATTN_OK)
        status = json_document_open(&reading->document, "The session text of __metadata__", text,
                                    length, reader->error);
    return status;
}

/* What the query string says of these stands for what the file says. */
static bool is_overruled(const struct reading *reading, const char *name) {
    const struct options *options = &reading->options;
    return (strcmp(name, "id") == 0 || strcmp(name, "ttl_s") == 0) &&
           options->given[schema_option(options->schema, name)].node != NULL;
}

static enum attn_status take_options(struct reading *reading) {
    struct options *options = &reading->options;
    const struct json_value root = json_document_root(&reading->document);
    char came[JSON_DESCRIPTION_ROOM];
    if (json_value_kind(root) != JSON_KIND_OBJECT)
        return attn_fail(options->reader.error, ATTN_BAD_TYPE, "__metadata__",
                         "The session's text should be a JSON object, but it is %s.",
                         json_value_describe(root, came));
    const char *name;
    json_t *node;
    enum attn_status status = ATTN_OK;
    json_object_foreach(root.node, name, node) {
        bool known = true;
        if (status == ATTN_OK && !is_overruled(reading, name))
            status =
                options_give(options, name, (struct json_value){&reading->document, node}, &known);
        if (!known)
            status = options_refuse_unknown(options, name, name);
    }
    return status == ATTN_OK ? options_apply(options) : status;
}

/* One number per layer, or where they may lack none. */
static enum attn_status check_list(const struct json_reader *reader,
                                   const struct attn_int_list *list, size_t layers,
                                   const char *name, bool is_optional) {
    if ((is_optional && list->values == NULL) || list->count == layers)
        return ATTN_OK;
    return attn_fail(reader->error, list->values == NULL ? ATTN_MISSING_FIELD : ATTN_BAD_VALUE,
                     name, "Expected one number for each of the %zu layers in %s, but %zu came.",
                     layers, name, list->count);
}

static enum attn_status take_entry(struct reading *reading, size_t layer, const char *part,
                                   struct attn_tensor *out) {
    const struct safetensors_file *file = &reading->file;
    const struct json_reader *reader = &reading->options.reader;
    char name[40];
    snprintf(name, sizeof name, "layers.%zu.%s", layer, part);
    const size_t likely = 2 * layer + (part[0] == 'v'); /* as they are written here */
    for (size_t i = 0; i < file->count; i++) {
        const size_t entry = (likely + i) % file->count;
        if (strcmp(file->entries[entry].name, name) == 0)
            return safetensors_tensor(file, entry, reader, out);
    }
    return attn_fail(reader->error, ATTN_MISSING_FIELD, name,
                     "A snapshot has the rows of every layer; it lacks %s.", name);
}

static enum attn_status take_layers(struct reading *reading) {
    struct codec_session *session = &reading->options.request->session;
    const struct json_reader *reader = &reading->options.reader;
    const int64_t layers = session->spec.layers;
    if (layers < 0 || (size_t)layers * 2 != reading->file.count)
        return attn_fail(reader->error, ATTN_BAD_VALUE, "layers",
                         "Expected k and v of each of %lld layers, but the file has %zu tensors.",
                         (long long)layers, reading->file.count);
    const size_t count = (size_t)layers;
    struct attn_tensor *k = storage_take_array(reader->storage, count, sizeof *k);
    struct attn_tensor *v = storage_take_array(reader->storage, count, sizeof *v);
    if (k == NULL || v == NULL)
        return attn_fail(reader->error, ATTN_NO_MEMORY, "", "There is no memory now.");
    session->k = k;
    session->v = v;
    enum attn_status status = check_list(reader, &session->lengths, count, "lengths", false);
    if (status == ATTN_OK)
        status = check_list(reader, &session->gap_keys, count, "gap_keys", true);
    if (status == ATTN_OK)
        status = check_list(reader, &session->gap_counts, count, "gap_counts", true);
    for (size_t layer = 0; layer < count && status == ATTN_OK; layer++) {
        status = take_entry(reading, layer, "k", &k[layer]);
        if (status == ATTN_OK)
            status = take_entry(reading, layer, "v", &v[layer]);
    }
    return status;
}

static enum attn_status read_all(struct reading *reading, const struct codec_input *input) {
    enum attn_status status = options_give_query(&reading->options, input);
    if (status == ATTN_OK)
        status = open_text(reading, input);
    if (status == ATTN_OK)
        status = take_options(reading);
    if (status == ATTN_OK)
        status = take_layers(reading);
    return status;
}

enum attn_status codec_snapshot_read(const struct codec_input *input, struct codec_request *request,
                                     struct attn_error *error) {
    struct reading reading = {.document = {.name = ""}};
    const enum attn_status started = codec_request_start(request, error);
    if (started != ATTN_OK)
        return started;
    const struct json_reader reader = {request->storage, error, input->cancelled, input->team};
    enum attn_status status = safetensors_open(&reading.file, &reader, input);
    if (status == ATTN_OK) {
        options_init(&reading.options, input->schema, request, reader,
                     (struct options_tensors){find_nothing, NULL, true});
        status = read_all(&reading, input);
        options_close(&reading.options);
        json_document_close(&reading.document);
        safetensors_close(&reading.file);
    }
    if (status != ATTN_OK)
        codec_request_close(request);
    return status;
}

/* ---- writing ---- */

static void write_entry(struct text *text, size_t layer, const char *part,
                        const struct attn_kv_spec *spec, size_t rows, int64_t width, size_t begin,
                        size_t bytes) {
    text_format(text,
                ",\"layers.%zu.%s\":{\"dtype\":\"%s\",\"shape\":[%lld,%zu,%lld],"
                "\"data_offsets\":[%zu,%zu]}",
                layer, part, attn_dtype_safetensors_name(spec->dtype), (long long)spec->Hkv, rows,
                (long long)width, begin, begin + bytes);
}

/* A JSON text within a JSON text: nothing in it but quotes needs an escape. */
static void write_quoted(struct text *text, const struct text *plain) {
    text_add(text, "\"", 1);
    for (size_t i = 0; i < plain->length; i++) {
        if (plain->data[i] == '"' || plain->data[i] == '\\')
            text_add(text, "\\", 1);
        text_add(text, &plain->data[i], 1);
    }
    text_add(text, "\"", 1);
}

void codec_snapshot_head(struct text *text, const struct text *session,
                         const struct attn_kv_spec *spec,
                         const struct codec_snapshot_layer *layers) {
    static const char nothing[LENGTH_BYTES] = "";
    size_t at = 0;
    text_add(text, nothing, sizeof nothing);
    text_format(text, "{\"__metadata__\":{\"session\":");
    write_quoted(text, session);
    text_format(text, "}");
    for (size_t layer = 0; layer < (size_t)spec->layers; layer++) {
        const struct codec_snapshot_layer *one = &layers[layer];
        write_entry(text, layer, "k", spec, one->rows, spec->D, at, one->k_bytes);
        at += one->k_bytes;
        write_entry(text, layer, "v", spec, one->rows, spec->Dv, at, one->v_bytes);
        at += one->v_bytes;
    }
    text_add(text, "}", 1);
    while (!text->failed && text->length % ALIGNMENT != 0)
        text_add(text, " ", 1);
    text->failed |= session->failed;
    if (text->failed)
        return;
    const uint64_t length = text->length - LENGTH_BYTES;
    memcpy(text->data, &length, sizeof length);
}
