/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Open Inference Protocol but for inference: health, and what the models are. Its clients parse
 * strictly: members that they do not know of make some of them fail.
 */
#include <stdio.h>

#include "server/codecs/codec_oip.h"
#include "server/handlers.h"

#define JSON_TYPE "application/json"

void oip_live(struct exchange *exchange) {
    static const char text[] = "{\"live\":true}\n";
    exchange_answer(exchange, 200, JSON_TYPE, text, sizeof text - 1);
}

/* The protocol's text says "live" for readiness too, and its clients read "ready". */
void oip_ready(struct exchange *exchange) {
    static const char text[] = "{\"live\":true,\"ready\":true}\n";
    if (ops_check_ready(exchange))
        exchange_answer(exchange, 200, JSON_TYPE, text, sizeof text - 1);
}

void oip_server_metadata(struct exchange *exchange) {
    static const char text[] =
        "{\"name\":\"attentiond\",\"version\":\"" ATTN_VERSION "\",\"extensions\":["
        "\"binary_tensor_data\",\"model_configuration\",\"model_repository\",\"parameters\","
        "\"schedule_policy\",\"statistics\"]}\n";
    exchange_answer(exchange, 200, JSON_TYPE, text, sizeof text - 1);
}

/* "attention, onnx_attention" */
static const char *list_models(char *text, size_t size) {
    const struct oip_model *model;
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; (model = oip_model_at(i)) != NULL && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i == 0 ? "" : ", ", model->name);
    return text;
}

const struct oip_model *oip_find_model(const struct exchange *exchange, struct problem *problem) {
    const struct route_capture name = route_captured(&exchange->captures, "model");
    const struct route_capture version = route_captured(&exchange->captures, "version");
    const struct oip_model *model;
    char models[160];
    size_t i = 0;
    while ((model = oip_model_at(i)) != NULL && !route_capture_is(name, model->name))
        i++;
    if (model == NULL)
        problem_set(problem, PROBLEM_NOT_FOUND, NULL,
                    "There is no model \"%.*s\"; the models are %s.", (int)name.length, name.text,
                    list_models(models, sizeof models));
    else if (version.text != NULL && !route_capture_is(version, OIP_VERSION))
        problem_set(problem, PROBLEM_NOT_FOUND, NULL,
                    "The model %s has no version \"%.*s\"; its one version is %s.", model->name,
                    (int)version.length, version.text, OIP_VERSION);
    else
        return model;
    return NULL;
}

const struct oip_model *oip_take_model(struct exchange *exchange) {
    struct problem problem;
    const struct oip_model *model = oip_find_model(exchange, &problem);
    if (model == NULL)
        exchange_refuse(exchange, &problem);
    return model;
}

void oip_models(struct exchange *exchange) {
    const struct oip_model *model;
    struct text *out = &exchange->text;
    text_format(out, "{\"models\":[");
    for (size_t i = 0; (model = oip_model_at(i)) != NULL; i++)
        text_format(out, "%s\"%s\"", i == 0 ? "" : ",", model->name);
    text_format(out, "]}\n");
    exchange_answer_text(exchange, JSON_TYPE);
}

void oip_model_ready(struct exchange *exchange) {
    const struct oip_model *model = oip_take_model(exchange);
    if (model == NULL || !ops_check_ready(exchange))
        return;
    text_format(&exchange->text, "{\"name\":\"%s\",\"ready\":true}\n", model->name);
    exchange_answer_text(exchange, JSON_TYPE);
}

/* Every axis varies: "[-1,-1]". */
static void write_axes(struct text *out, int rank) {
    text_add(out, "[", 1);
    for (int axis = 0; axis < rank; axis++)
        text_format(out, "%s-1", axis == 0 ? "" : ",");
    text_add(out, "]", 1);
}

static void write_tensor(struct text *out, const char *name, enum attn_dtype dtype, int rank) {
    text_format(out, "{\"name\":\"%s\",\"datatype\":\"%s\",\"shape\":", name,
                oip_datatype_name(dtype));
    write_axes(out, rank);
    text_add(out, "}", 1);
}

static void write_inputs(struct text *out, const struct oip_model *model) {
    text_format(out, ",\"inputs\":[");
    for (size_t i = 0; i < model->input_count; i++) {
        const struct oip_input_row *row = &model->inputs[i];
        text_add(out, ",", i > 0);
        write_tensor(out, row->name, row->dtype, row->rank);
    }
    text_add(out, "]", 1);
}

static void write_outputs(struct text *out, const struct oip_model *model) {
    text_format(out, ",\"outputs\":[");
    for (size_t i = 0; i < model->output_count; i++) {
        const struct oip_output_row *row = &model->outputs[i];
        if (row->needs_an_option)
            continue;
        text_add(out, ",", i > 0);
        write_tensor(out, row->name, row->dtype, row->rank);
    }
    text_add(out, "]", 1);
}

void oip_model_metadata(struct exchange *exchange) {
    const struct oip_model *model = oip_take_model(exchange);
    struct text *out = &exchange->text;
    if (model == NULL)
        return;
    text_format(out,
                "{\"name\":\"%s\",\"versions\":[\"" OIP_VERSION "\"],\"platform\":\"attentiond\"",
                model->name);
    write_inputs(out, model);
    write_outputs(out, model);
    text_format(out, "}\n");
    exchange_answer_text(exchange, JSON_TYPE);
}
