/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What load generators and operators of the Open Inference Protocol ask of a model: statistics and
 * configuration as Triton has them, and the repository, in which every model is always loaded.
 */
#include "core/checked.h"
#include "server/codecs/codec_oip.h"
#include "server/handlers.h"

#define JSON_TYPE "application/json"

static void write_duration(struct text *out, const char *name, uint64_t count, uint64_t ns) {
    text_format(out, "\"%s\":{\"count\":%llu,\"ns\":%llu}", name, (unsigned long long)count,
                (unsigned long long)ns);
}

/* What every batch is made of: a request is one, and what reads its body is its input. */
static void write_compute(struct text *out, const struct metrics_model *counts) {
    write_duration(out, "compute_input", counts->successes, counts->stage_ns[STAGE_DECODE]);
    text_add(out, ",", 1);
    write_duration(out, "compute_infer", counts->successes, counts->stage_ns[STAGE_COMPUTE]);
    text_add(out, ",", 1);
    write_duration(out, "compute_output", counts->successes, counts->stage_ns[STAGE_ENCODE]);
}

/* Clients read every duration without asking whether it is there. */
static void write_statistics(struct text *out, const struct exchange *exchange,
                             const struct oip_model *model) {
    struct metrics_model counts;
    metrics_read_model(exchange->service->metrics, oip_model_index(model), &counts);
    text_format(out,
                "{\"name\":\"%s\",\"version\":\"%s\",\"last_inference\":%llu,"
                "\"inference_count\":%llu,\"execution_count\":%llu,\"inference_stats\":{",
                model->name, OIP_VERSION, (unsigned long long)counts.last_ms,
                (unsigned long long)counts.successes, (unsigned long long)counts.successes);
    write_duration(out, "success", counts.successes, counts.success_ns);
    text_add(out, ",", 1);
    write_duration(out, "fail", counts.failures, counts.failure_ns);
    text_add(out, ",", 1);
    write_duration(out, "queue", counts.successes, counts.stage_ns[STAGE_QUEUE]);
    text_add(out, ",", 1);
    write_compute(out, &counts);
    text_add(out, ",", 1);
    write_duration(out, "cache_hit", 0, 0);
    text_add(out, ",", 1);
    write_duration(out, "cache_miss", 0, 0);
    text_format(out, "},\"batch_stats\":[");
    if (counts.successes > 0) {
        text_format(out, "{\"batch_size\":1,");
        write_compute(out, &counts);
        text_add(out, "}", 1);
    }
    text_format(out, "]}");
}

void oip_model_statistics(struct exchange *exchange) {
    const struct oip_model *model = oip_take_model(exchange);
    if (model == NULL)
        return;
    text_format(&exchange->text, "{\"model_stats\":[");
    write_statistics(&exchange->text, exchange, model);
    text_format(&exchange->text, "]}\n");
    exchange_answer_text(exchange, JSON_TYPE);
}

void oip_all_statistics(struct exchange *exchange) {
    const struct oip_model *model;
    text_format(&exchange->text, "{\"model_stats\":[");
    for (size_t i = 0; (model = oip_model_at(i)) != NULL; i++) {
        text_add(&exchange->text, ",", i > 0);
        write_statistics(&exchange->text, exchange, model);
    }
    text_format(&exchange->text, "]}\n");
    exchange_answer_text(exchange, JSON_TYPE);
}

static void write_tensor(struct text *out, const char *name, enum attn_dtype dtype, int rank) {
    text_format(out, "{\"name\":\"%s\",\"data_type\":\"TYPE_%s\",\"dims\":[", name,
                oip_datatype_name(dtype));
    for (int axis = 0; axis < rank; axis++)
        text_format(out, "%s-1", axis == 0 ? "" : ",");
    text_add(out, "]", 1);
}

static void write_limit(struct text *out, const char *name, size_t bytes, bool first) {
    text_format(out, "%s\"%s\":{\"string_value\":\"%zu\"}", first ? "" : ",", name, bytes);
}

/* max_batch_size 0: shapes are sent as they are, without an axis in front of them. */
void oip_model_config(struct exchange *exchange) {
    const struct oip_model *model = oip_take_model(exchange);
    const struct service_limits *limits = &exchange->service->limits;
    struct text *out = &exchange->text;
    if (model == NULL)
        return;
    text_format(out,
                "{\"name\":\"%s\",\"platform\":\"attentiond\",\"backend\":\"attentiond\","
                "\"version_policy\":{\"latest\":{\"num_versions\":1}},\"max_batch_size\":0,"
                "\"input\":[",
                model->name);
    for (size_t i = 0; i < model->input_count; i++) {
        const struct oip_input_row *row = &model->inputs[i];
        text_add(out, ",", i > 0);
        write_tensor(out, row->name, row->dtype, row->rank);
        text_format(out, ",\"optional\":%s}", row->optional ? "true" : "false");
    }
    text_format(out, "],\"output\":[");
    for (size_t i = 0; i < model->output_count; i++) {
        const struct oip_output_row *row = &model->outputs[i];
        if (row->needs_an_option)
            continue;
        text_add(out, ",", i > 0);
        write_tensor(out, row->name, row->dtype, row->rank);
        text_add(out, "}", 1);
    }
    text_format(out, "],\"parameters\":{");
    write_limit(out, "max_body_bytes", limits->body_bytes, true);
    write_limit(out, "json_max_body_bytes", limits->json_body_bytes, false);
    write_limit(out, "max_result_bytes", limits->call.result_bytes, false);
    text_format(out, "}}\n");
    exchange_answer_text(exchange, JSON_TYPE);
}

/* A body may come, and says nothing that matters. */
bool oip_repository_check(struct exchange *exchange, struct problem *problem) {
    enum { LARGEST = 1 << 20 };
    (void)problem;
    exchange->body_weight = 1;
    exchange->body_limit = attn_min_size(LARGEST, exchange->service->limits.body_bytes);
    return true;
}

void oip_repository_index(struct exchange *exchange) {
    const struct oip_model *model;
    struct text *out = &exchange->text;
    text_add(out, "[", 1);
    for (size_t i = 0; (model = oip_model_at(i)) != NULL; i++)
        text_format(out,
                    "%s{\"name\":\"%s\",\"version\":\"%s\",\"state\":\"READY\",\"reason\":\"\"}",
                    i == 0 ? "" : ",", model->name, OIP_VERSION);
    text_format(out, "]\n");
    exchange_answer_text(exchange, JSON_TYPE);
}

/* To load and unload is to leave a model as it is, for tools do both before and after their work.
 */
void oip_repository_keep(struct exchange *exchange) {
    static const char text[] = "{}\n";
    if (oip_take_model(exchange) != NULL)
        exchange_answer(exchange, 200, JSON_TYPE, text, sizeof text - 1);
}
