/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of the Open Inference Protocol: inputs are tensors, parameters are options, and outputs
 * say what comes back.
 */
#include "server/codecs/codec_oip.h"

#include <stdio.h>
#include <string.h>

#include "server/codecs/codec_container.h"
#include "server/codecs/codec_oip_notes.h"
#include "server/codecs/codec_request.h"
#include "server/options/options_table.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* Parameters that clients send of themselves, and that change nothing here. */
static const char *const IGNORED[] = {"binary_data_output", "priority",     "sequence_id",
                                      "sequence_start",     "sequence_end", "headers",
                                      "content_type",       "timeout"};
static const char IGNORED_PREFIX[] = "triton_";

static bool is_ignored(const char *name) {
    for (size_t i = 0; i < COUNT(IGNORED); i++)
        if (strcmp(IGNORED[i], name) == 0)
            return true;
    return strncmp(name, IGNORED_PREFIX, sizeof IGNORED_PREFIX - 1) == 0;
}

/* A text is read as in the query string; all else as what it is. */
static enum attn_status give_parameter(struct options *options, const char *name,
                                       struct json_value value) {
    char pointer[JSON_POINTER_ROOM];
    const char *text;
    size_t length;
    bool known = true;
    enum attn_status status;
    json_pointer_member(pointer, "/parameters", name);
    const enum json_kind kind = json_value_kind(value);
    if (kind != JSON_KIND_TEXT && kind != JSON_KIND_LONG_TEXT) {
        status = options_give(options, name, value, &known);
    } else {
        status = json_value_text(&options->reader, value, pointer, &text, &length);
        const char *const copy = storage_take_text(options->reader.storage, text, length);
        if (status == ATTN_OK && copy == NULL)
            status = attn_fail(options->reader.error, ATTN_NO_MEMORY, pointer,
                               "There is no memory now.");
        if (status == ATTN_OK)
            status = options_give_text(options, "The parameter", name, copy, &known);
    }
    return known ? status : options_refuse_unknown(options, name, pointer);
}

/* Gives every parameter that is an option. */
static enum attn_status give_parameters(const struct oip_file *file, struct options *options) {
    const char *name;
    json_t *node;
    enum attn_status status = ATTN_OK;
    json_object_foreach(file->parameters.node, name, node) {
        if (status == ATTN_OK && !is_ignored(name))
            status = give_parameter(options, name, (struct json_value){&file->document, node});
    }
    return status;
}

static enum attn_status give(const void *opened, struct options *options) {
    const struct oip_file *const file = opened;
    enum attn_status status = ATTN_OK;
    if (file->parameters.node != NULL)
        status = give_parameters(file, options);
    return status == ATTN_OK ? file->input->oip->model->give(file, options) : status;
}

static enum attn_status settle(const void *opened, struct options *options, const bool *used) {
    const struct oip_file *const file = opened;
    return file->input->oip->model->settle(file, options, used);
}

/* The protocol's timeout, in microseconds; 0 is none. The shorter one counts. */
static enum attn_status take_timeout(const struct oip_file *file, const struct json_reader *reader,
                                     struct codec_request *request) {
    int64_t us = 0;
    if (file->parameters.node == NULL)
        return ATTN_OK;
    const struct json_value timeout = json_value_member(file->parameters, "timeout");
    if (timeout.node == NULL)
        return ATTN_OK;
    const enum attn_status status =
        json_value_int(reader, timeout, "/parameters/timeout", 0, INT64_MAX, &us);
    const int64_t ms = us / 1000 + (us % 1000 != 0);
    if (ms > 0 && (request->timeout_ms == 0 || ms < request->timeout_ms))
        request->timeout_ms = ms;
    return status;
}

static enum attn_status refuse_output(const struct oip_model *model, const char *name,
                                      struct attn_error *error) {
    char names[256], shown[40];
    size_t used = 0;
    names[0] = '\0';
    for (size_t i = 0; i < model->output_count && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i == 0 ? "" : ", ",
                                 model->outputs[i].name);
    return attn_fail(error, ATTN_UNKNOWN_FIELD, "/outputs",
                     "The model %s has no output \"%s\"; it has %s.", model->name,
                     json_snippet(name, strlen(name), 0, shown, sizeof shown), names);
}

/* The outputs that the request lists, in its order; or all that there are, none of them wanted yet.
 */
static enum attn_status note_outputs(const struct oip_file *file, struct oip_notes *notes,
                                     struct attn_error *error) {
    const struct oip_model *const model = notes->model;
    notes->listed = file->output_count > 0;
    notes->output_count = notes->listed ? file->output_count : model->output_count;
    for (size_t i = 0; i < notes->output_count; i++) {
        const struct oip_wanted *const wanted = notes->listed ? &file->outputs[i] : NULL;
        size_t row = notes->listed ? 0 : i;
        while (notes->listed && row < model->output_count &&
               strcmp(model->outputs[row].name, wanted->name) != 0)
            row++;
        if (row == model->output_count)
            return refuse_output(model, wanted->name, error);
        notes->outputs[i] =
            (struct oip_output){.row = &model->outputs[row],
                                .binary = notes->listed ? wanted->binary : file->binary_output,
                                .wanted = notes->listed};
    }
    return ATTN_OK;
}

/* The notes of an opened request, without what decoding will find. */
static enum attn_status take_notes(const struct oip_file *file, const struct json_reader *reader,
                                   struct codec_request *request) {
    struct oip_notes *const notes = storage_take(reader->storage, sizeof *notes);
    const char *id = file->id;
    if (id != NULL)
        id = storage_take_text(reader->storage, id, strlen(id));
    if (notes == NULL || (id == NULL && file->id != NULL))
        return attn_fail(reader->error, ATTN_NO_MEMORY, "", "There is no memory now.");
    *notes = (struct oip_notes){.model = file->input->oip->model, .id = id};
    notes->present[0] = notes->present[1] = attn_tensor_none();
    notes->onnx.mask = notes->onnx.past[0] = notes->onnx.past[1] = attn_tensor_none();
    notes->onnx.left = notes->onnx.right = -1;
    request->notes = notes;
    return note_outputs(file, notes, reader->error);
}

static enum attn_status read_file(struct oip_file *file, const struct codec_input *input,
                                  const struct json_reader *reader, struct codec_request *request) {
    const struct codec_container container = {
        .count = file->input_count,
        .name = oip_file_name,
        .tensor = oip_file_tensor,
        .file = file,
        .give = give,
        .settle = settle,
    };
    enum attn_status status = take_notes(file, reader, request);
    if (status == ATTN_OK)
        status = codec_container_read(&container, input, reader, request);
    if (status == ATTN_OK)
        status = take_timeout(file, reader, request);
    return status == ATTN_OK ? input->oip->model->complete(file, reader, request) : status;
}

static enum attn_status decode(const struct codec_input *input, struct codec_request *request,
                               struct attn_error *error) {
    struct oip_file file;
    const enum attn_status started = codec_request_start(request, error);
    if (started != ATTN_OK)
        return started;
    const struct json_reader reader = {request->storage, error, input->cancelled, input->team};
    enum attn_status status = oip_file_open(&file, &reader, input);
    if (status == ATTN_OK) {
        status = read_file(&file, input, &reader, request);
        oip_file_close(&file);
    }
    if (status != ATTN_OK)
        codec_request_close(request);
    return status;
}

const struct codec CODEC_OIP = {
    .name = "oip",
    .media_type = "application/json",
    .decodes = true,
    .encodes = true,
    .decode = decode,
    .answer_bytes = oip_answer_bytes,
    .lay_out = oip_answer_lay_out,
    .finish = oip_answer_finish,
};
