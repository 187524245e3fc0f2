/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers of the Open Inference Protocol: JSON, and behind it the bytes of the outputs that were
 * asked for as such. Those get their places before any compute, so that kernels write into the
 * answer where its order leaves them aligned; the JSON is written behind the compute and moved up
 * to them.
 */
#include <assert.h>
#include <string.h>

#include "core/checked.h"
#include "core/convert.h"
#include "server/buffer_pool.h"
#include "server/codecs/codec_oip_notes.h"
#include "server/codecs/json_lists.h"
#include "server/codecs/json_meta.h"

enum {
    ALIGNMENT = 64,
    OUTPUT_ROOM = 512, /* an output's members, its numbers aside */
    FIXED_ROOM = JSON_META_ROOM + 6 * JSON_LONG_TEXT + 256
};

static bool is_result(const struct oip_output *output) {
    return output->row->source < ATTN_RESULT_COUNT;
}

/* Whether numbers of another type are sent than are made. */
static bool is_converted(const struct oip_output *output) {
    return output->dtype != output->from_dtype;
}

/* Keys or values that the client sent, joined to those before them. */
static const struct attn_tensor *present_of(const struct oip_notes *notes,
                                            const struct oip_output *output) {
    return &notes->present[output->row->source - OIP_PRESENT_KEY];
}

/* What the answer has of the output: its shape and type; nothing wanted where it was not made. */
static void describe(const struct oip_notes *notes, const struct attn_result *result,
                     struct oip_output *output) {
    if (!is_result(output)) {
        const struct attn_tensor *const present = present_of(notes, output);
        output->wanted = output->wanted && !attn_tensor_is_none(present);
        output->dtype = output->from_dtype = present->dtype;
        output->rank = present->rank;
        memcpy(output->shape, present->shape, sizeof output->shape);
        output->from = present->data;
        return;
    }
    const struct attn_result_tensor *const tensor = &result->tensors[output->row->source];
    output->wanted = output->wanted && tensor->wanted;
    output->dtype = output->from_dtype = tensor->dtype;
    if (notes->map_as_q && output->row->source == ATTN_RESULT_WEIGHTS)
        output->dtype = notes->q_dtype;
    output->rank = tensor->rank;
    memcpy(output->shape, tensor->shape, sizeof output->shape);
    if (notes->folds_heads && output->row->source == ATTN_RESULT_OUTPUT)
        output->shape[--output->rank - 1] *= tensor->shape[tensor->rank - 1];
}

/* The output that is made of this result; NULL when none that is wanted is. */
static struct oip_output *output_of(struct oip_notes *notes, int source) {
    for (size_t i = 0; i < notes->output_count; i++)
        if (notes->outputs[i].wanted && notes->outputs[i].row->source == source)
            return &notes->outputs[i];
    return NULL;
}

/* Bytes of the three parts of an answer's memory. */
struct rooms {
    size_t text, bytes, scratch;
};

static bool add_scratch(struct rooms *rooms, size_t bytes) {
    return attn_round_up_size(bytes, ALIGNMENT, &bytes) &&
           attn_add_size(rooms->scratch, bytes, &rooms->scratch);
}

/* What is sent, once its place is known. */
static struct attn_result_tensor sent_of(const struct oip_output *output) {
    struct attn_result_tensor tensor = {.dtype = output->dtype,
                                        .rank = output->rank,
                                        .bytes = output->bytes,
                                        .data = output->place};
    memcpy(tensor.shape, output->shape, sizeof tensor.shape);
    return tensor;
}

/* Gives the output its room; JSON of a converted one needs some for that, too. */
static bool add_output(struct oip_output *output, struct rooms *rooms) {
    const size_t size = attn_dtype_size(output->dtype);
    size_t numbers;
    if (!attn_shape_bytes(output->dtype, output->rank, output->shape, &output->bytes) ||
        !attn_add_size(rooms->text, OUTPUT_ROOM, &rooms->text))
        return false;
    output->offset = rooms->bytes;
    output->in_place =
        output->binary && is_result(output) && !is_converted(output) && output->offset % size == 0;
    if (output->binary)
        return attn_add_size(rooms->bytes, output->bytes, &rooms->bytes);
    const struct attn_result_tensor sent = sent_of(output);
    return json_lists_room(&sent, false, &numbers) &&
           attn_add_size(rooms->text, numbers, &rooms->text) &&
           (!is_converted(output) || add_scratch(rooms, output->bytes));
}

static bool reckon(struct oip_notes *notes, const struct attn_result *result, struct rooms *rooms) {
    *rooms = (struct rooms){.text = FIXED_ROOM};
    for (size_t i = 0; i < notes->output_count; i++) {
        struct oip_output *const output = &notes->outputs[i];
        describe(notes, result, output);
        if (output->wanted && !add_output(output, rooms))
            return false;
    }
    for (int i = 0; i < ATTN_RESULT_COUNT; i++) {
        const struct oip_output *const output = output_of(notes, i);
        const bool in_place = output != NULL && output->in_place;
        if (result->tensors[i].wanted && !in_place && !add_scratch(rooms, result->tensors[i].bytes))
            return false;
    }
    return attn_round_up_size(rooms->text, ALIGNMENT, &rooms->text);
}

bool oip_answer_bytes(const struct attn_call *call, const struct codec_request *request,
                      const struct attn_result *result, size_t *bytes) {
    struct rooms rooms;
    (void)call;
    return reckon(oip_notes_of(request), result, &rooms) &&
           attn_add_size(rooms.text, rooms.bytes, bytes) &&
           attn_add_size(*bytes, rooms.scratch, bytes);
}

static char *take_scratch(char **scratch, size_t bytes) {
    char *const place = *scratch;
    *scratch += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return place;
}

static void place_outputs(struct oip_notes *notes, struct attn_result *result, char *bytes,
                          char *scratch) {
    for (size_t i = 0; i < notes->output_count; i++) {
        struct oip_output *const output = &notes->outputs[i];
        if (!output->wanted)
            continue;
        if (output->binary)
            output->place = bytes + output->offset;
        else
            output->place = is_converted(output) ? take_scratch(&scratch, output->bytes) : NULL;
    }
    for (int i = 0; i < ATTN_RESULT_COUNT; i++) {
        struct attn_result_tensor *const tensor = &result->tensors[i];
        struct oip_output *const output = output_of(notes, i);
        if (!tensor->wanted)
            continue;
        tensor->data = output != NULL && output->in_place ? output->place
                                                          : take_scratch(&scratch, tensor->bytes);
        if (output != NULL)
            output->from = tensor->data;
    }
}

enum attn_status oip_answer_lay_out(const struct attn_call *call,
                                    const struct codec_request *request, struct attn_result *result,
                                    struct codec_answer *answer, struct attn_error *error) {
    struct oip_notes *const notes = oip_notes_of(request);
    struct rooms rooms;
    (void)call;
    *answer = (struct codec_answer){.media_type = CODEC_OIP.media_type};
    if (!reckon(notes, result, &rooms) ||
        !attn_add_size(rooms.text, rooms.bytes, &answer->capacity))
        return attn_fail(error, ATTN_RESULT_TOO_LARGE, "",
                         "The answer would be larger than can be addressed.");
    answer->header_bytes = rooms.text;
    answer->scratch_bytes = rooms.scratch;
    answer->buffer = buffer_take(answer->capacity);
    answer->scratch = buffer_take(rooms.scratch);
    if (answer->buffer == NULL || answer->scratch == NULL) {
        codec_answer_close(answer);
        return attn_fail(error, ATTN_NO_MEMORY, "", "There is no memory for this answer now.");
    }
    place_outputs(notes, result, (char *)answer->buffer + rooms.text, answer->scratch);
    return ATTN_OK;
}

/* Rounds once: from what was made, by way of double, to what is sent. */
static void convert(const struct oip_output *output) {
    enum { AT_ONCE = 256 };
    double values[AT_ONCE];
    const size_t from = attn_dtype_size(output->from_dtype), to = attn_dtype_size(output->dtype);
    const size_t count = output->bytes / to;
    for (size_t at = 0; at < count; at += AT_ONCE) {
        const size_t n = attn_min_size(AT_ONCE, count - at);
        attn_load_double(output->from_dtype, (const char *)output->from + at * from, 1, n, values);
        attn_store_double(output->dtype, (char *)output->place + at * to, 1, n, values);
    }
}

/* What is not sent from where it was made is brought to its place. */
static void settle(struct oip_output *output) {
    if (output->place == NULL)
        output->place = (void *)(uintptr_t)output->from;
    else if (is_converted(output))
        convert(output);
    else if (!output->in_place && output->bytes > 0)
        memcpy(output->place, output->from, output->bytes);
}

static void write_member(struct json_text *text, const char *name, double value) {
    json_text_literal(text, name);
    json_text_number(text, value);
}

/*
 * What the first axis of the statistics counts: "rows,empty_rows,...". It stands here because
 * readers take an output that has parameters for one that is bytes.
 */
static void write_stats_order(struct json_text *text) {
    json_text_literal(text, ",\"stats_order\":\"");
    for (int stat = 0; stat < ATTN_STATS; stat++) {
        json_text_literal(text, stat == 0 ? "" : ",");
        json_text_literal(text, attn_stat_name((enum attn_stat)stat));
    }
    json_text_literal(text, "\"");
}

/* Scalars only, as the protocol has it. */
static void write_parameters(struct json_text *text, const struct codec_report *report,
                             struct oip_notes *notes, const struct attn_result *result) {
    const struct attn_call *const call = report->call;
    char mask[JSON_TEXT_MAX];
    const bool wide = call->precision == ATTN_PRECISION_FLOAT64;
    json_text_literal(text, ",\"parameters\":{\"request_id\":");
    json_text_string(text, report->id);
    write_member(text, ",\"scale\":", call->scale);
    json_text_literal(text, ",\"mask\":");
    json_text_string(text, attn_mask_text(&call->mask, mask, sizeof mask));
    json_text_literal(text, ",\"kernel\":");
    json_text_string(text, report->kernel);
    json_text_literal(text, ",\"precision\":");
    json_text_string(text, attn_dtype_name(wide ? ATTN_FLOAT64 : ATTN_FLOAT32));
    json_text_literal(text, atomic_load(&result->non_finite) ? ",\"non_finite\":true"
                                                             : ",\"non_finite\":false");
    json_text_literal(text, ",\"empty_rows\":");
    json_text_size(text, (size_t)atomic_load(&result->empty_rows));
    if (call->note != NULL) {
        json_text_literal(text, ",\"note\":");
        json_text_string(text, call->note);
    }
    if (output_of(notes, ATTN_RESULT_STATS) != NULL)
        write_stats_order(text);
    json_text_literal(text, ",\"decode_ms\":");
    json_text_milliseconds(text, report->decode_ms);
    json_text_literal(text, ",\"queue_ms\":");
    json_text_milliseconds(text, report->queue_ms);
    json_text_literal(text, ",\"compute_ms\":");
    json_text_milliseconds(text, report->compute_ms);
    write_member(text, ",\"flops\":", report->flops);
    json_text_literal(text, "}");
}

static void write_output(struct json_text *text, const struct oip_output *output,
                         const struct number_team *team) {
    json_text_literal(text, "{\"name\":\"");
    json_text_literal(text, output->row->name);
    json_text_literal(text, "\",\"datatype\":\"");
    json_text_literal(text, oip_datatype_name(output->dtype));
    json_text_literal(text, "\",\"shape\":");
    json_text_shape(text, output->rank, output->shape);
    if (output->binary) {
        json_text_literal(text, ",\"parameters\":{\"binary_data_size\":");
        json_text_size(text, output->bytes);
        json_text_literal(text, "}");
    } else {
        const struct attn_result_tensor sent = sent_of(output);
        json_text_literal(text, ",\"data\":");
        json_lists_write(text, &sent, false, team);
    }
    json_text_literal(text, "}");
}

static void write_answer(struct json_text *text, const struct codec_report *report,
                         struct oip_notes *notes, const struct attn_result *result) {
    bool first = true;
    json_text_literal(text, "{\"model_name\":\"");
    json_text_literal(text, notes->model->name);
    json_text_literal(text, "\",\"model_version\":\"" OIP_VERSION "\"");
    if (notes->id != NULL) {
        json_text_literal(text, ",\"id\":");
        json_text_escaped(text, notes->id, strlen(notes->id));
    }
    write_parameters(text, report, notes, result);
    json_text_literal(text, ",\"outputs\":[");
    for (size_t i = 0; i < notes->output_count; i++) {
        struct oip_output *const output = &notes->outputs[i];
        if (!output->wanted)
            continue;
        json_text_literal(text, first ? "" : ",");
        first = false;
        settle(output);
        write_output(text, output, report->team);
    }
    json_text_literal(text, "]}");
}

/* Whether some output is bytes, be they none. */
static bool has_bytes(const struct oip_notes *notes) {
    for (size_t i = 0; i < notes->output_count; i++)
        if (notes->outputs[i].wanted && notes->outputs[i].binary)
            return true;
    return false;
}

enum attn_status oip_answer_finish(const struct codec_report *report,
                                   const struct codec_request *request,
                                   const struct attn_result *result, struct codec_answer *answer,
                                   struct attn_error *error) {
    struct oip_notes *const notes = oip_notes_of(request);
    struct json_text text = {.start = answer->buffer, .capacity = answer->header_bytes};
    (void)error;
    write_answer(&text, report, notes, result);
    answer->length = text.length;
    if (!has_bytes(notes))
        return ATTN_OK;
    const size_t room = answer->header_bytes;
    answer->media_type = "application/octet-stream";
    answer->json_bytes = text.length;
    answer->offset = room - text.length;
    answer->length = answer->capacity - answer->offset;
    memmove(text.start + answer->offset, text.start, text.length);
    return ATTN_OK;
}
