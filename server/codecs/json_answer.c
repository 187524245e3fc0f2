/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON answer. Kernels write into scratch that is laid out and charged beforehand; the text is
 * written behind the compute, into a buffer of the longest size it can have.
 */
#include <assert.h>
#include <string.h>

#include "core/checked.h"
#include "server/codecs/base64.h"
#include "server/codecs/codec_json.h"
#include "server/codecs/json_lists.h"
#include "server/codecs/json_meta.h"
#include "server/numbers/numbers.h"

enum {
    FRAME_ROOM = 256 /* per tensor: its name, and {"shape":[...],"dtype":"...","base64":""} */
};

static bool tensor_text_room(const struct attn_result_tensor *tensor, enum codec_encoding encoding,
                             size_t *room) {
    size_t text;
    const bool fits = encoding == CODEC_BASE64
                          ? base64_encoded_size(tensor->bytes, &text)
                          : json_lists_room(tensor, encoding == CODEC_NESTED, &text);
    return fits && attn_add_size(text, FRAME_ROOM, room);
}

/* One statistic of all heads, as a tensor. */
static struct attn_result_tensor stat_of(const struct attn_result *result, enum attn_stat stat) {
    const struct attn_result_tensor *const stats = &result->tensors[ATTN_RESULT_STATS];
    struct attn_result_tensor one = *stats;
    one.rank--;
    memmove(one.shape, stats->shape + 1, (size_t)one.rank * sizeof *one.shape);
    one.bytes = stats->bytes / ATTN_STATS;
    if (stats->data != NULL)
        one.data = (char *)stats->data + (size_t)stat * one.bytes;
    return one;
}

bool json_stats_room(const struct attn_result *result, size_t *room) {
    *room = 0;
    if (!result->tensors[ATTN_RESULT_STATS].wanted)
        return true;
    for (int stat = 0; stat < ATTN_STATS; stat++) {
        const struct attn_result_tensor one = stat_of(result, (enum attn_stat)stat);
        size_t text;
        if (!tensor_text_room(&one, CODEC_NESTED, &text) || !attn_add_size(*room, text, room))
            return false;
    }
    return true;
}

/* Room for a wanted result's text. */
static bool text_room(const struct codec_request *request, const struct attn_result *result,
                      int name, size_t *room) {
    if (name == ATTN_RESULT_STATS)
        return json_stats_room(result, room);
    return tensor_text_room(&result->tensors[name], request->encoding, room);
}

/* Bytes of the float scratch and of the text; either may be NULL. */
static bool reckon(const struct codec_request *request, const struct attn_result *result,
                   size_t *scratch, size_t *text) {
    *scratch = 0;
    *text = JSON_META_ROOM;
    for (int i = 0; i < ATTN_RESULT_COUNT; i++) {
        const struct attn_result_tensor *const tensor = &result->tensors[i];
        size_t bytes = 0, room = 0;
        if (!tensor->wanted)
            continue;
        if (!attn_round_up_size(tensor->bytes, CODEC_ALIGNMENT, &bytes) ||
            !attn_add_size(*scratch, bytes, scratch) || !text_room(request, result, i, &room) ||
            !attn_add_size(*text, room, text))
            return false;
    }
    return true;
}

bool json_answer_bytes(const struct attn_call *call, const struct codec_request *request,
                       const struct attn_result *result, size_t *bytes) {
    size_t scratch, text;
    (void)call;
    return reckon(request, result, &scratch, &text) && attn_add_size(scratch, text, bytes);
}

enum attn_status json_answer_lay_out(const struct attn_call *call,
                                     const struct codec_request *request,
                                     struct attn_result *result, struct codec_answer *answer,
                                     struct attn_error *error) {
    (void)call;
    *answer = (struct codec_answer){.media_type = CODEC_JSON.media_type};
    if (!reckon(request, result, &answer->scratch_bytes, &answer->capacity))
        return attn_fail(error, ATTN_RESULT_TOO_LARGE, "",
                         "The answer's text would be larger than can be addressed.");
    return codec_answer_take(answer, result, error);
}

static void write_flat(struct json_text *text, const struct attn_result_tensor *tensor,
                       enum codec_encoding encoding, const struct number_team *team) {
    json_text_literal(text, "{\"shape\":");
    json_text_shape(text, tensor->rank, tensor->shape);
    json_text_literal(text, ",\"dtype\":\"");
    json_text_literal(text, attn_dtype_name(tensor->dtype));
    if (encoding == CODEC_FLAT) {
        json_text_literal(text, "\",\"data\":");
        json_lists_write(text, tensor, false, team);
        json_text_literal(text, "}");
        return;
    }
    json_text_literal(text, "\",\"base64\":\"");
    text->length += base64_encode(tensor->data, tensor->bytes, text->start + text->length);
    json_text_literal(text, "\"}");
}

void json_stats_write(struct json_text *text, const struct attn_result *result) {
    for (int stat = 0; stat < ATTN_STATS; stat++) {
        const struct attn_result_tensor one = stat_of(result, (enum attn_stat)stat);
        json_text_literal(text, stat == 0 ? "{\"" : ",\"");
        json_text_literal(text, attn_stat_name((enum attn_stat)stat));
        json_text_literal(text, "\":");
        json_lists_write(text, &one, true, NULL);
    }
    json_text_literal(text, "}");
}

enum attn_status json_answer_finish(const struct codec_report *report,
                                    const struct codec_request *request,
                                    const struct attn_result *result, struct codec_answer *answer,
                                    struct attn_error *error) {
    struct json_text text = {.start = answer->buffer, .capacity = answer->capacity};
    json_text_literal(&text, "{");
    for (int i = 0; i < ATTN_RESULT_COUNT; i++) {
        const struct attn_result_tensor *const tensor = &result->tensors[i];
        if (!tensor->wanted)
            continue;
        json_text_literal(&text, "\"");
        json_text_literal(&text, attn_result_tensor_name((enum attn_result_name)i));
        json_text_literal(&text, "\":");
        if (i == ATTN_RESULT_STATS)
            json_stats_write(&text, result);
        else if (request->encoding == CODEC_NESTED)
            json_lists_write(&text, tensor, true, report->team);
        else
            write_flat(&text, tensor, request->encoding, report->team);
        json_text_literal(&text, ",");
    }
    json_text_literal(&text, "\"meta\":");
    json_meta_write(&text, report, result);
    json_text_literal(&text, "}\n");
    answer->length = text.length;
    if (report->team != NULL && attn_checkpoint_is_cancelled(report->team->checkpoint))
        return attn_fail(error, ATTN_CANCELLED, "", "Nobody waits for the answer.");
    return ATTN_OK;
}
