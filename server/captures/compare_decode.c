/* SPDX-License-Identifier: Apache-2.0 */
/* The body of a comparison; see capture_compare.h. */
#include <string.h>

#include "core/checked.h"
#include "server/captures/capture_compare.h"
#include "server/captures/capture_query.h"
#include "server/codecs/npy_header.h"
#include "server/options/options_table.h"
#include "server/send_binary.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

enum { JSON_MOST = 64 << 10 };

static enum attn_status apply_with(struct options *options, struct json_value value,
                                   const char *pointer) {
    const struct json_reader *const reader = &options->reader;
    char came[JSON_DESCRIPTION_ROOM];
    const char *text = json_string_value(value.node);
    if (text == NULL || json_value_kind(value) != JSON_KIND_TEXT)
        return attn_fail(reader->error, ATTN_BAD_TYPE, pointer,
                         "Expected the id of a capture, but %s came.",
                         json_value_describe(value, came));
    options->request->compare.with =
        storage_take_text(reader->storage, text, json_string_length(value.node));
    if (options->request->compare.with == NULL)
        return attn_fail(reader->error, ATTN_NO_MEMORY, "", "There is no memory now.");
    return ATTN_OK;
}

static enum attn_status apply_tolerance(struct options *options, struct json_value value,
                                        const char *pointer, double *out) {
    const enum attn_status status = json_value_real(&options->reader, value, pointer, out);
    if (status == ATTN_OK && *out < 0)
        return attn_fail(options->reader.error, ATTN_BAD_VALUE, pointer,
                         "A tolerance is not negative, got %g.", *out);
    return status;
}

static enum attn_status apply_rtol(struct options *options, struct json_value value,
                                   const char *pointer) {
    return apply_tolerance(options, value, pointer, &options->request->compare.rtol);
}

static enum attn_status apply_atol(struct options *options, struct json_value value,
                                   const char *pointer) {
    return apply_tolerance(options, value, pointer, &options->request->compare.atol);
}

static const struct option WITH_OPTIONS[] = {
    {"with", OPTION_BODY_ONLY, apply_with},
    {"rtol", OPTION_SCALAR, apply_rtol},
    {"atol", OPTION_SCALAR, apply_atol},
    {"timeout_ms", OPTION_SCALAR, options_apply_timeout},
};
static const struct options_hint NO_HINTS[] = {{NULL, NULL}};

/* JSON names a capture; numbers in it would be a slow way to send a map. */
static const struct codec_schema WITH = {
    .title = "A comparison",
    .members = "with",
    .unknown = "a comparison has with, rtol, atol and timeout_ms",
    .options = WITH_OPTIONS,
    .option_count = COUNT(WITH_OPTIONS),
    .hints = NO_HINTS,
};

static const struct codec_operand OPERANDS[] = {
    {"weights", offsetof(struct codec_request, outputs), false}};

static const struct codec_schema SENT = {
    .title = "A comparison",
    .members = "weights",
    .unknown = "a comparison has weights, rtol, atol and timeout_ms",
    .operands = OPERANDS,
    .operand_count = COUNT(OPERANDS),
    .options = WITH_OPTIONS + 1,
    .option_count = COUNT(WITH_OPTIONS) - 1,
    .hints = NO_HINTS,
};

/* ---- an array of numpy's ---- */

static enum attn_status take_real(const char *value, const char *pointer, double *out,
                                  struct attn_error *error) {
    if (number_parse_double(value, strlen(value), out) == NUMBER_OK && *out >= 0)
        return ATTN_OK;
    return attn_fail(error, ATTN_BAD_VALUE, pointer, "A tolerance is a number >= 0, got \"%.40s\".",
                     value);
}

static enum attn_status take_rtol(void *into, const char *value, const char *pointer,
                                  struct attn_error *error) {
    return take_real(value, pointer, &((struct codec_request *)into)->compare.rtol, error);
}

static enum attn_status take_atol(void *into, const char *value, const char *pointer,
                                  struct attn_error *error) {
    return take_real(value, pointer, &((struct codec_request *)into)->compare.atol, error);
}

static enum attn_status take_timeout(void *into, const char *value, const char *pointer,
                                     struct attn_error *error) {
    uint64_t milliseconds;
    if (capture_query_number(value, pointer, INT64_MAX, &milliseconds, error) != ATTN_OK)
        return error->status;
    ((struct codec_request *)into)->timeout_ms = (int64_t)milliseconds;
    return ATTN_OK;
}

static const struct capture_argument ARGUMENTS[] = {
    {"rtol", take_rtol}, {"atol", take_atol}, {"timeout_ms", take_timeout}};

/* The array that is the body, as a view of it. */
static enum attn_status read_npy(const struct exchange *exchange, struct attn_error *error,
                                 struct attn_tensor *out) {
    struct npy_header header;
    size_t text, before, bytes;
    char prefix[NPY_PREFIX_BYTES] = "";
    memcpy(prefix, exchange->body, attn_min_size(exchange->body_length, sizeof prefix));
    if (npy_prefix_read(prefix, "/weights", error, &text, &before) != ATTN_OK)
        return error->status;
    if (exchange->body_length < before + text)
        return attn_fail(error, ATTN_MALFORMED, "/weights", "The array's header is cut off.");
    if (npy_header_read((const char *)exchange->body + before, text, "/weights", error, &header) !=
        ATTN_OK)
        return error->status;
    if (header.kind != NPY_NUMBERS || header.big_endian)
        return attn_fail(error, ATTN_BAD_DTYPE, "/weights",
                         "The array must be of little-endian numbers: numpy.asarray(x, '<f4').");
    if (!attn_shape_bytes(header.dtype, header.rank, header.shape, &bytes) ||
        bytes != exchange->body_length - before - text ||
        (before + text) % attn_dtype_size(header.dtype) != 0)
        return attn_fail(
            error, ATTN_MALFORMED, "/weights",
            "The array has more or fewer bytes than its header says, or does not begin "
            "at a multiple of its elements' size.");
    *out = npy_header_view(&header, (const char *)exchange->body + before + text);
    return ATTN_OK;
}

static enum attn_status decode_npy(struct tensor_call *call) {
    const struct exchange *exchange = call->work.exchange;
    struct attn_error *const error = &call->work.error;
    struct attn_error cause = {.status = ATTN_OK};
    if (capture_query_read(exchange, ARGUMENTS, COUNT(ARGUMENTS), &call->request, error) !=
            ATTN_OK ||
        call_work_take_deadline(&call->work, call->request.timeout_ms) != ATTN_OK)
        return error->status;
    const enum attn_status status = read_npy(exchange, &cause, &call->request.outputs);
    if (status == ATTN_MALFORMED) /* no checksum tells bytes that were lost from other faults */
        return attn_fail_limit(error, status, cause.pointer, cause.limit, "%.300s %s", cause.detail,
                               SEND_BINARY);
    if (status != ATTN_OK)
        *error = cause;
    return status;
}

static bool is_npy(const struct exchange *exchange) {
    static const char magic[] = "\x93NUMPY";
    return exchange->body_length >= sizeof magic - 1 &&
           memcmp(exchange->body, magic, sizeof magic - 1) == 0;
}

enum attn_status compare_decode(struct tensor_call *call) {
    struct exchange *exchange = call->work.exchange;
    struct attn_error *error = &call->work.error;
    bool undecided = false;
    if (is_npy(exchange)) {
        call->request.compare =
            (struct codec_compare){NULL, CODEC_COMPARE_RTOL, CODEC_COMPARE_ATOL};
        return decode_npy(call);
    }
    call->in = codec_for_request(exchange->content_type, exchange->body, exchange->body_length,
                                 &undecided);
    if (call->in == NULL || !call->in->decodes)
        return attn_fail(error, ATTN_MALFORMED, "",
                         "The body is JSON such as {\"with\": \"ID\"}, or a map: numpy.save(file, "
                         "weights), or safetensors or npz with weights. %s",
                         SEND_BINARY);
    const bool names = call->in == codec_find("json");
    if (names && exchange->body_length > JSON_MOST)
        return attn_fail_limit(error, ATTN_BODY_TOO_LARGE, "", JSON_MOST,
                               "JSON that names a capture has at most %d bytes. Send a map as npy, "
                               "npz or safetensors.",
                               JSON_MOST);
    if (tensor_call_decode(call, names ? &WITH : &SENT) != ATTN_OK)
        return error->status;
    if (names && call->request.compare.with == NULL)
        return attn_fail(error, ATTN_MISSING_FIELD, "/with",
                         "Say with which capture to compare: {\"with\": \"ID\"}.");
    return ATTN_OK;
}
