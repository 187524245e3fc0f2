/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON answer. Kernels write into scratch that is laid out and charged beforehand; the text is
 * written behind the compute, into a buffer of the longest size it can have.
 */
#include <assert.h>
#include <string.h>

#include "core/checked.h"
#include "server/buffer_pool.h"
#include "server/codecs/base64.h"
#include "server/codecs/codec_json.h"
#include "server/codecs/json_meta.h"
#include "server/numbers/numbers.h"

enum {
    ALIGNMENT = 64,
    FRAME_ROOM = 256 /* per tensor: its name, and {"shape":[...],"dtype":"...","base64":""} */
};

/* Indices are widened while they are printed; all else is floating point. */
static enum number_type number_type_of(enum attn_dtype dtype) {
    switch (dtype) {
    case ATTN_FLOAT64:
        return NUMBER_F64;
    case ATTN_FLOAT16:
        return NUMBER_F16;
    case ATTN_BFLOAT16:
        return NUMBER_BF16;
    case ATTN_INT32:
        return NUMBER_I64;
    default:
        assert(dtype == ATTN_FLOAT32);
        return NUMBER_F32;
    }
}

/* How a tensor's axes are printed: `rows` lists of `width` numbers, inside `outer` axes. */
struct nesting {
    int outer;
    size_t rows, width;
};

/* An empty axis ends the nesting: [2,0,3] is [[],[]]. */
static struct nesting nesting_of(const struct attn_result_tensor *tensor) {
    struct nesting nesting = {0, 1, 1};
    if (tensor->rank == 0)
        return nesting;
    while (nesting.outer < tensor->rank - 1 && tensor->shape[nesting.outer] > 0)
        nesting.rows *= tensor->shape[nesting.outer++];
    nesting.width = tensor->shape[nesting.outer];
    return nesting;
}

static bool tensor_text_room(const struct attn_result_tensor *tensor, enum codec_encoding encoding,
                             size_t *room) {
    const enum number_type type = number_type_of(tensor->dtype);
    const size_t elements = tensor->bytes / attn_dtype_size(tensor->dtype);
    size_t text, lists;
    if (encoding == CODEC_BASE64)
        return base64_encoded_size(tensor->bytes, &text) && attn_add_size(text, FRAME_ROOM, room);
    const struct nesting nesting = nesting_of(tensor);
    /* Every list adds two brackets and a comma; the outer lists are at most as many per axis. */
    return number_array_text_room(type, elements, &text) &&
           attn_mul_size(nesting.rows, 3 * ATTN_MAX_RANK, &lists) &&
           attn_add_size(text, lists, &text) && attn_add_size(text, FRAME_ROOM, room);
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
        if (!attn_round_up_size(tensor->bytes, ALIGNMENT, &bytes) ||
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
    answer->scratch = buffer_take(answer->scratch_bytes);
    answer->buffer = buffer_take(answer->capacity);
    if (answer->scratch == NULL || answer->buffer == NULL) {
        codec_answer_close(answer);
        return attn_fail(error, ATTN_NO_MEMORY, "", "There is no memory for this answer now.");
    }
    char *at = answer->scratch;
    for (int i = 0; i < ATTN_RESULT_COUNT; i++) {
        struct attn_result_tensor *const tensor = &result->tensors[i];
        if (!tensor->wanted)
            continue;
        tensor->data = at;
        at += (tensor->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    return ATTN_OK;
}

static void write_indices(struct json_text *text, const int32_t *values, size_t count) {
    enum { AT_ONCE = 64 };
    int64_t wide[AT_ONCE];
    for (size_t at = 0; at < count; at += AT_ONCE) {
        const size_t n = attn_min_size(AT_ONCE, count - at);
        for (size_t i = 0; i < n; i++)
            wide[i] = values[at + i];
        if (at > 0)
            json_text_literal(text, ",");
        text->length += number_print_array(NUMBER_I64, wide, n, text->start + text->length);
    }
}

static void write_numbers(struct json_text *text, const struct attn_result_tensor *tensor,
                          size_t first, size_t count) {
    const char *const values = (const char *)tensor->data + first * attn_dtype_size(tensor->dtype);
    if (tensor->dtype == ATTN_INT32) {
        write_indices(text, (const int32_t *)tensor->data + first, count);
        return;
    }
    text->length += number_print_array(number_type_of(tensor->dtype), values, count,
                                       text->start + text->length);
    assert(text->length <= text->capacity);
}

/* How many outer axes have a list that begins at row `row` (or ends before it). */
static int boundaries(const struct attn_result_tensor *tensor, int outer, size_t row) {
    int count = 0;
    for (int axis = outer - 1; axis >= 0 && row % tensor->shape[axis] == 0; axis--) {
        row /= tensor->shape[axis];
        count++;
    }
    return count;
}

static void write_times(struct json_text *text, char byte, int count) {
    for (int i = 0; i < count; i++)
        json_text_raw(text, &byte, 1);
}

static void write_nested(struct json_text *text, const struct attn_result_tensor *tensor) {
    const struct nesting nesting = nesting_of(tensor);
    if (tensor->rank == 0) {
        write_numbers(text, tensor, 0, 1);
        return;
    }
    for (size_t row = 0; row < nesting.rows; row++) {
        if (row > 0)
            json_text_literal(text, ",");
        write_times(text, '[', 1 + boundaries(tensor, nesting.outer, row));
        write_numbers(text, tensor, row * nesting.width, nesting.width);
        write_times(text, ']', 1 + boundaries(tensor, nesting.outer, row + 1));
    }
}

static void write_flat(struct json_text *text, const struct attn_result_tensor *tensor,
                       enum codec_encoding encoding) {
    json_text_literal(text, "{\"shape\":");
    json_text_shape(text, tensor->rank, tensor->shape);
    json_text_literal(text, ",\"dtype\":\"");
    json_text_literal(text, attn_dtype_name(tensor->dtype));
    if (encoding == CODEC_FLAT) {
        json_text_literal(text, "\",\"data\":[");
        write_numbers(text, tensor, 0, tensor->bytes / attn_dtype_size(tensor->dtype));
        json_text_literal(text, "]}");
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
        write_nested(text, &one);
    }
    json_text_literal(text, "}");
}

enum attn_status json_answer_finish(const struct codec_report *report,
                                    const struct codec_request *request,
                                    const struct attn_result *result, struct codec_answer *answer,
                                    struct attn_error *error) {
    struct json_text text = {.start = answer->buffer, .capacity = answer->capacity};
    (void)error;
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
            write_nested(&text, tensor);
        else
            write_flat(&text, tensor, request->encoding);
        json_text_literal(&text, ",");
    }
    json_text_literal(&text, "\"meta\":");
    json_meta_write(&text, report, result);
    json_text_literal(&text, "}\n");
    answer->length = text.length;
    return ATTN_OK;
}
