/* SPDX-License-Identifier: Apache-2.0 */
/*
 * application/json: tensors and options as members of one object. Members that are neither are
 * refused, unless a mask or the bias names them as a tensor.
 */
#include "server/codecs/codec_json.h"

#include <string.h>

#include "server/codecs/codec_request.h"
#include "server/options/options_table.h"
#include "server/send_binary.h"

enum { EXTRA_MAX = 64 };

/* A member that is neither an option nor an operand. */
struct extra {
    const char *name;
    json_t *node;
    bool used;
};

struct body {
    struct json_document document;
    struct options options;
    struct json_value operands[OPERANDS_MAX]; /* as the schema numbers them */
    struct extra extras[EXTRA_MAX];
    size_t extra_count;
};

static enum attn_status find_extra(void *closure, const char *name, enum json_tensor_role role,
                                   struct attn_tensor *out, bool *found) {
    struct body *const body = closure;
    char pointer[JSON_POINTER_ROOM];
    *found = false;
    for (size_t i = 0; i < body->extra_count; i++) {
        struct extra *const extra = &body->extras[i];
        if (strcmp(extra->name, name) != 0)
            continue;
        *found = extra->used = true;
        return json_tensor_read(
            &body->options.reader, (struct json_value){&body->document, extra->node}, role,
            body->options.real, json_pointer_member(pointer, "", name), out, NULL);
    }
    return ATTN_OK;
}

static enum attn_status take_extra(struct body *body, const char *name, json_t *node) {
    if (body->extra_count == EXTRA_MAX)
        return attn_fail_limit(body->options.reader.error, ATTN_UNKNOWN_FIELD, "", EXTRA_MAX,
                               "The request has more than %d members that are no options. Leave "
                               "out those that no mask or bias names.",
                               EXTRA_MAX);
    body->extras[body->extra_count++] = (struct extra){name, node, false};
    return ATTN_OK;
}

static enum attn_status take_member(struct body *body, const char *name, json_t *node) {
    const struct codec_schema *const schema = body->options.schema;
    const struct json_value value = {&body->document, node};
    const size_t operand = schema_operand(schema, name);
    bool known;
    if (operand < schema->operand_count) {
        body->operands[operand] = value;
        return ATTN_OK;
    }
    const enum attn_status status = options_give(&body->options, name, value, &known);
    return status != ATTN_OK || known ? status : take_extra(body, name, node);
}

static enum attn_status take_members(struct body *body) {
    const struct json_value root = json_document_root(&body->document);
    char came[JSON_DESCRIPTION_ROOM];
    if (json_value_kind(root) != JSON_KIND_OBJECT)
        return attn_fail(body->options.reader.error, ATTN_BAD_TYPE, "",
                         "Expected a JSON object with %s, but %s came.",
                         body->options.schema->members, json_value_describe(root, came));
    const char *name;
    json_t *node;
    enum attn_status status = ATTN_OK;
    json_object_foreach(root.node, name, node) {
        if (status == ATTN_OK)
            status = take_member(body, name, node);
    }
    return status;
}

static enum attn_status refuse_unused(struct body *body) {
    char pointer[JSON_POINTER_ROOM];
    for (size_t i = 0; i < body->extra_count; i++)
        if (!body->extras[i].used)
            return options_refuse_unknown(&body->options, body->extras[i].name,
                                          json_pointer_member(pointer, "", body->extras[i].name));
    return ATTN_OK;
}

/* An answer is written as the first operand came. */
static enum attn_status read_operands(struct body *body, enum codec_encoding *form) {
    const struct codec_schema *const schema = body->options.schema;
    const struct json_reader *const reader = &body->options.reader;
    enum attn_status status = ATTN_OK;
    for (size_t i = 0; status == ATTN_OK && i < schema->operand_count; i++) {
        const char *const name = schema->operands[i].name;
        char pointer[JSON_POINTER_ROOM];
        json_pointer_member(pointer, "", name);
        if (body->operands[i].node == NULL && schema->operands[i].is_optional)
            continue;
        status = body->operands[i].node == NULL
                     ? options_refuse_missing(&body->options, name, pointer)
                     : json_tensor_read(
                           reader, body->operands[i], JSON_TENSOR_REAL, body->options.real, pointer,
                           schema_tensor(schema, i, body->options.request), i == 0 ? form : NULL);
    }
    return status;
}

static enum attn_status read_body(struct body *body, const struct codec_input *input) {
    enum codec_encoding form = CODEC_NESTED;
    enum attn_status status = options_give_query(&body->options, input);
    if (status == ATTN_OK)
        status = take_members(body);
    if (status == ATTN_OK)
        status = options_apply(&body->options);
    if (status == ATTN_OK)
        status = refuse_unused(body);
    if (status == ATTN_OK)
        status = read_operands(body, &form);
    if (body->options.request->encoding == CODEC_ENCODING_UNSET)
        body->options.request->encoding = form;
    return status;
}

/* Files that lost bytes on their way are no longer known for what they were and end here: JSON
 * begins with none of these bytes, nor with the percent sign of a form. */
static enum attn_status refuse_binary(const struct codec_input *input, struct attn_error *error) {
    const unsigned char first = input->length == 0 ? '{' : *(const unsigned char *)input->body;
    const bool is_text =
        first >= ' ' ? first < 0x7f && first != '%' : first >= '\t' && first <= '\r';
    const bool is_marked = input->length >= 3 && memcmp(input->body, "\xef\xbb\xbf", 3) == 0;
    if (is_text || is_marked)
        return ATTN_OK;
    return attn_fail(error, ATTN_MALFORMED, "",
                     "The body is neither JSON nor a whole safetensors or npz file: its first byte "
                     "is %u. %s",
                     (unsigned)first, SEND_BINARY);
}

/* Requests begin with a brace. What is no JSON and begins otherwise may have been a file whose
 * first bytes, as those of a safetensors length, are letters or digits. */
static bool begins_as_request(const struct codec_input *input) {
    const char *const body = input->body;
    size_t at = 0;
    while (at < input->length && memchr(" \t\r\n", body[at], 4) != NULL)
        at++;
    return at == input->length || body[at] == '{';
}

static enum attn_status open_document(struct json_document *document,
                                      const struct codec_input *input, struct attn_error *error) {
    struct attn_error cause = {.status = ATTN_OK};
    const enum attn_status status =
        json_document_open(document, "The body", input->body, input->length, &cause);
    if (status == ATTN_OK)
        return ATTN_OK;
    if (attn_status_fault(status) == ATTN_FAULT_MALFORMED && !begins_as_request(input))
        return attn_fail(error, status, cause.pointer, "%.300s %s", cause.detail, SEND_BINARY);
    *error = cause;
    return status;
}

static enum attn_status decode(const struct codec_input *input, struct codec_request *request,
                               struct attn_error *error) {
    struct body body = {0};
    const enum attn_status started = codec_request_start(request, error);
    if (started != ATTN_OK)
        return started;
    const struct json_reader reader = {request->storage, error, input->cancelled, input->team};
    options_init(&body.options, input->schema, request, reader,
                 (struct options_tensors){find_extra, &body, false});
    enum attn_status status = refuse_binary(input, error);
    if (status == ATTN_OK)
        status = open_document(&body.document, input, error);
    if (status == ATTN_OK) {
        status = read_body(&body, input);
        options_close(&body.options);
        json_document_close(&body.document);
    }
    if (status != ATTN_OK)
        codec_request_close(request);
    return status;
}

const struct codec CODEC_JSON = {
    .name = "json",
    .media_type = "application/json",
    .decodes = true,
    .encodes = true,
    .decode = decode,
    .answer_bytes = json_answer_bytes,
    .lay_out = json_answer_lay_out,
    .finish = json_answer_finish,
};
