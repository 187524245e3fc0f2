/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The safetensors answer. Tensors get their final places before any compute, in falling
 * alignment; the header is written behind it, right-aligned into room that was kept in front of
 * them, and padded with blanks so that the data begins on a multiple of 64.
 */
#include <assert.h>
#include <string.h>

#include "core/checked.h"
#include "server/buffer_pool.h"
#include "server/codec_safetensors.h"
#include "server/json_meta.h"

enum {
    ALIGNMENT = 64,
    LENGTH_BYTES = 8,
    ENTRY_ROOM = 256, /* "weights":{"dtype":...,"shape":[4 numbers],"data_offsets":[2 numbers]}, */
    /* Quoting meta once more at most doubles it. */
    HEADER_BYTES =
        (LENGTH_BYTES + 2 * JSON_META_ROOM + ENTRY_ROOM * (ATTN_RESULT_COUNT + 1) + ALIGNMENT - 1) /
        ALIGNMENT * ALIGNMENT
};

/* Result tensors in the order of their data: falling element size, then as the table has them. */
static size_t data_order(const struct attn_result *result, int order[ATTN_RESULT_COUNT]) {
    size_t count = 0;
    for (size_t size = 8; size > 0; size /= 2)
        for (int i = 0; i < ATTN_RESULT_COUNT; i++)
            if (result->tensors[i].wanted && attn_dtype_size(result->tensors[i].dtype) == size)
                order[count++] = i;
    return count;
}

bool safetensors_answer_bytes(const struct attn_call *call, const struct codec_request *request,
                              const struct attn_result *result, size_t *bytes) {
    size_t sum = HEADER_BYTES;
    (void)call;
    (void)request;
    for (int i = 0; i < ATTN_RESULT_COUNT; i++)
        if (result->tensors[i].wanted && !attn_add_size(sum, result->tensors[i].bytes, &sum))
            return false;
    *bytes = sum;
    return true;
}

enum attn_status safetensors_answer_lay_out(const struct attn_call *call,
                                            const struct codec_request *request,
                                            struct attn_result *result, struct codec_answer *answer,
                                            struct attn_error *error) {
    *answer = (struct codec_answer){.media_type = CODEC_SAFETENSORS.media_type,
                                    .header_bytes = HEADER_BYTES};
    if (!safetensors_answer_bytes(call, request, result, &answer->capacity))
        return attn_fail(error, ATTN_RESULT_TOO_LARGE, "",
                         "The answer would be larger than can be addressed.");
    answer->buffer = buffer_take(answer->capacity);
    if (answer->buffer == NULL) {
        codec_answer_close(answer);
        return attn_fail(error, ATTN_NO_MEMORY, "", "There is no memory for this answer now.");
    }
    int order[ATTN_RESULT_COUNT];
    const size_t count = data_order(result, order);
    char *at = (char *)answer->buffer + HEADER_BYTES;
    for (size_t i = 0; i < count; i++) {
        result->tensors[order[i]].data = at;
        at += result->tensors[order[i]].bytes;
    }
    return ATTN_OK;
}

static void write_entry(struct json_text *text, const struct attn_result_tensor *tensor,
                        const char *name, size_t begin) {
    json_text_literal(text, ",\"");
    json_text_literal(text, name);
    json_text_literal(text, "\":{\"dtype\":\"");
    json_text_literal(text, attn_dtype_safetensors_name(tensor->dtype));
    json_text_literal(text, "\",\"shape\":");
    json_text_shape(text, tensor->rank, tensor->shape);
    json_text_literal(text, ",\"data_offsets\":");
    json_text_shape(text, 2, (const size_t[]){begin, begin + tensor->bytes});
    json_text_literal(text, "}");
}

static void write_header(struct json_text *text, const struct codec_report *report,
                         const struct attn_result *result, size_t *data_bytes) {
    char room[JSON_META_ROOM];
    struct json_text meta = {.start = room, .capacity = sizeof room};
    json_meta_write(&meta, report, result);
    json_text_literal(text, "{\"__metadata__\":{\"meta\":");
    json_text_escaped(text, meta.start, meta.length);
    json_text_literal(text, "}");
    int order[ATTN_RESULT_COUNT];
    const size_t count = data_order(result, order);
    *data_bytes = 0;
    for (size_t i = 0; i < count; i++) {
        const struct attn_result_tensor *const tensor = &result->tensors[order[i]];
        write_entry(text, tensor, attn_result_tensor_name((enum attn_result_name)order[i]),
                    *data_bytes);
        *data_bytes += tensor->bytes;
    }
    json_text_literal(text, "}");
}

enum attn_status safetensors_answer_finish(const struct codec_report *report,
                                           const struct codec_request *request,
                                           const struct attn_result *result,
                                           struct codec_answer *answer, struct attn_error *error) {
    struct json_text text = {.start = answer->buffer, .capacity = HEADER_BYTES - LENGTH_BYTES};
    size_t data_bytes, whole = 0;
    (void)request;
    (void)error;
    write_header(&text, report, result, &data_bytes);
    const bool fits = attn_round_up_size(LENGTH_BYTES + text.length, ALIGNMENT, &whole);
    assert(fits && whole <= HEADER_BYTES);
    (void)fits;
    char *const start = (char *)answer->buffer + (HEADER_BYTES - whole);
    const uint64_t length = whole - LENGTH_BYTES;
    memmove(start + LENGTH_BYTES, text.start, text.length);
    memcpy(start, &length, sizeof length);
    memset(start + LENGTH_BYTES + text.length, ' ', whole - LENGTH_BYTES - text.length);
    answer->offset = HEADER_BYTES - whole;
    answer->length = whole + data_bytes;
    return ATTN_OK;
}
