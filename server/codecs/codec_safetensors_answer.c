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
#include "server/codecs/codec_json.h"
#include "server/codecs/codec_safetensors.h"
#include "server/codecs/json_meta.h"

enum {
    ALIGNMENT = 64,
    LENGTH_BYTES = 8,
    ENTRY_ROOM = 256, /* "weights":{"dtype":...,"shape":[4 numbers],"data_offsets":[2 numbers]}, */
    /* Quoting meta once more at most doubles it. */
    FIXED_BYTES = LENGTH_BYTES + 2 * JSON_META_ROOM + ENTRY_ROOM * (ATTN_RESULT_COUNT + 1)
};

/* Room for the header: with statistics, which are written once, quoted, and once as they are, at
 * its end, to be quoted from there. */
static bool header_room(const struct attn_result *result, size_t *room, size_t *stats) {
    size_t three;
    return json_stats_room(result, stats) && attn_mul_size(*stats, 3, &three) &&
           attn_add_size(FIXED_BYTES, three, room) && attn_round_up_size(*room, ALIGNMENT, room);
}

/* Result tensors in the order of their data: falling element size, then as the table has them.
 * Statistics are none. */
static size_t data_order(const struct attn_result *result, int order[ATTN_RESULT_COUNT]) {
    size_t count = 0;
    for (size_t size = 8; size > 0; size /= 2)
        for (int i = 0; i < ATTN_RESULT_COUNT; i++)
            if (i != ATTN_RESULT_STATS && result->tensors[i].wanted &&
                attn_dtype_size(result->tensors[i].dtype) == size)
                order[count++] = i;
    return count;
}

bool safetensors_answer_bytes(const struct attn_call *call, const struct codec_request *request,
                              const struct attn_result *result, size_t *bytes) {
    size_t sum, stats;
    (void)call;
    (void)request;
    /* The statistics' own numbers stand behind the data and are not sent. */
    if (!header_room(result, &sum, &stats) || !attn_add_size(sum, sizeof(double), &sum))
        return false;
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
    size_t stats;
    *answer = (struct codec_answer){.media_type = CODEC_SAFETENSORS.media_type};
    if (!safetensors_answer_bytes(call, request, result, &answer->capacity) ||
        !header_room(result, &answer->header_bytes, &stats))
        return attn_fail(error, ATTN_RESULT_TOO_LARGE, "",
                         "The answer would be larger than can be addressed.");
    answer->buffer = buffer_take(answer->capacity);
    if (answer->buffer == NULL) {
        codec_answer_close(answer);
        return attn_fail(error, ATTN_NO_MEMORY, "", "There is no memory for this answer now.");
    }
    int order[ATTN_RESULT_COUNT];
    const size_t count = data_order(result, order);
    char *at = (char *)answer->buffer + answer->header_bytes;
    for (size_t i = 0; i < count; i++) {
        result->tensors[order[i]].data = at;
        at += result->tensors[order[i]].bytes;
    }
    struct attn_result_tensor *const last = &result->tensors[ATTN_RESULT_STATS];
    if (last->wanted)
        last->data = at + (sizeof(double) - (uintptr_t)at % sizeof(double)) % sizeof(double);
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

/* The statistics as a string; their own text is written into the last bytes of the header's room.
 */
static void write_stats(struct json_text *text, const struct attn_result *result, size_t stats) {
    struct json_text plain = {.start = text->start + text->capacity, .capacity = stats};
    if (!result->tensors[ATTN_RESULT_STATS].wanted)
        return;
    json_stats_write(&plain, result);
    json_text_literal(text, ",\"stats\":");
    json_text_escaped(text, plain.start, plain.length);
}

static void write_header(struct json_text *text, const struct codec_report *report,
                         const struct attn_result *result, size_t stats, size_t *data_bytes) {
    char room[JSON_META_ROOM];
    struct json_text meta = {.start = room, .capacity = sizeof room};
    json_meta_write(&meta, report, result);
    json_text_literal(text, "{\"__metadata__\":{\"meta\":");
    json_text_escaped(text, meta.start, meta.length);
    write_stats(text, result, stats);
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
    size_t data_bytes, whole = 0, room = 0, stats = 0;
    (void)request;
    (void)error;
    bool fits = header_room(result, &room, &stats);
    struct json_text text = {.start = answer->buffer, .capacity = room - LENGTH_BYTES - stats};
    write_header(&text, report, result, stats, &data_bytes);
    fits = fits && attn_round_up_size(LENGTH_BYTES + text.length, ALIGNMENT, &whole);
    assert(fits && whole <= room);
    (void)fits;
    char *const start = (char *)answer->buffer + (room - whole);
    const uint64_t length = whole - LENGTH_BYTES;
    memmove(start + LENGTH_BYTES, text.start, text.length);
    memcpy(start, &length, sizeof length);
    memset(start + LENGTH_BYTES + text.length, ' ', whole - LENGTH_BYTES - text.length);
    answer->offset = room - whole;
    answer->length = whole + data_bytes;
    return ATTN_OK;
}
