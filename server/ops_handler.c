/* SPDX-License-Identifier: Apache-2.0 */
/* Health, readiness, metrics, the description at /v1, and the documents. */
#include "server/handlers.h"

#include <string.h>

#include "server/header_list.h"
#include "server/sessions/session_table.h"

#define TEXT_TYPE "text/plain; charset=utf-8"

static void answer_word(struct exchange *exchange, const char *word, size_t length) {
    exchange_answer(exchange, 200, TEXT_TYPE, word, length);
}

void ops_health(struct exchange *exchange) {
    static const char word[] = "ok\n";
    answer_word(exchange, word, sizeof word - 1);
}

bool ops_check_ready(struct exchange *exchange) {
    const enum service_phase phase = service_phase(exchange->service);
    if (phase == SERVICE_STARTING)
        exchange_fail(exchange, PROBLEM_STARTING, "The service takes calls in a moment.");
    else if (phase != SERVICE_READY)
        exchange_fail(exchange, ATTN_DRAINING,
                      "The service takes its last calls; send further ones elsewhere.");
    return phase == SERVICE_READY;
}

void ops_ready(struct exchange *exchange) {
    static const char word[] = "ready\n";
    if (ops_check_ready(exchange))
        answer_word(exchange, word, sizeof word - 1);
}

void ops_metrics(struct exchange *exchange) {
    const bool open = metrics_wants_openmetrics(exchange->accept);
    metrics_write(exchange->service, open, &exchange->text);
    exchange_answer_packed_text(exchange,
                                open ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                     : "text/plain; version=0.0.4; charset=utf-8");
}

void ops_latency(struct exchange *exchange) {
    const struct service *service = exchange->service;
    latency_look(service, 1);
    latency_write(service->latency, service->limits.queue_limit, latency_now(), &exchange->text);
    exchange_answer_packed_text(exchange, "application/json");
}

void ops_document(struct exchange *exchange) {
    const struct document *document = documents_find(exchange->service->documents, exchange->path);
    static const char coding[] = "gzip";
    if (document == NULL) {
        exchange_fail(exchange, PROBLEM_NOT_FOUND,
                      "There is no file \"%.100s\"; / names those that the page needs.",
                      exchange->path);
        return;
    }
    const bool is_packed =
        coding_is_accepted(exchange->accept_encoding, coding_find(coding, sizeof coding - 1));
    const struct document_form *form = is_packed ? &document->packed : &document->plain;
    struct exchange_answer *answer = &exchange->answer;
    if (header_list_has_tag(exchange->if_none_match, form->etag)) {
        exchange_answer(exchange, 304, NULL, NULL, 0);
    } else {
        exchange_answer(exchange, 200, document->media_type, form->bytes, form->length);
        answer->coding = is_packed ? coding : NULL;
    }
    answer->varies = true;
    answer->etag = form->etag;
    answer->is_immutable = document->is_immutable;
    answer->policy = document->policy;
}

static void describe_kernels(struct text *out) {
    const struct attn_kernel *kernel;
    for (size_t i = 0; (kernel = attn_kernel_at(i)) != NULL; i++) {
        text_format(out, "%s{\"name\":", i == 0 ? "" : ",");
        text_json(out, kernel->name);
        text_format(out,
                    ",\"available\":%s,\"default\":%s,\"precisions\":[\"float32\"%s],"
                    "\"scores\":[\"scaled_dot\"%s],\"description\":",
                    kernel->available() ? "true" : "false",
                    kernel == attn_kernel_default() ? "true" : "false",
                    kernel->float32_only ? "" : ",\"float64\"",
                    kernel->products_only ? "" : ",\"additive\"");
        text_json(out, kernel->sentence);
        text_add(out, "}", 1);
    }
}

static void describe_codecs(struct text *out) {
    const struct codec *codec;
    for (size_t i = 0; (codec = codec_at(i)) != NULL; i++) {
        text_format(out, "%s{\"media_type\":", i == 0 ? "" : ",");
        text_json(out, codec->media_type);
        text_format(out, ",\"requests\":%s,\"answers\":%s}", codec->decodes ? "true" : "false",
                    codec->encodes ? "true" : "false");
    }
}

static void describe_codings(struct text *out) {
    const struct coding *coding;
    for (size_t i = 0; (coding = coding_at(i)) != NULL; i++)
        text_format(out, "%s\"%s\"", i == 0 ? "" : ",", coding->name);
}

static void describe_cpu(const struct machine *machine, struct text *out) {
    text_format(out, "{\"model\":");
    text_json(out, machine->model);
    text_format(out, ",\"features\":[");
    for (size_t i = 0; i < machine->feature_count; i++)
        text_format(out, "%s\"%s\"", i == 0 ? "" : ",", machine->features[i]);
    text_format(out, "]}");
}

void ops_describe(struct exchange *exchange) {
    const struct service *service = exchange->service;
    const struct service_limits *limits = &service->limits;
    const struct session_limits *sessions = session_table_limits(service->sessions);
    struct text *out = &exchange->text;
    text_format(out, "{\"name\":\"attentiond\",\"version\":\"%s\",\"kernels\":[", ATTN_VERSION);
    describe_kernels(out);
    text_format(out, "],\"encodings\":[");
    describe_codecs(out);
    text_format(out, "],\"content_codings\":[");
    describe_codings(out);
    text_format(out, "],\"cpu\":");
    describe_cpu(&service->machine, out);
    text_format(out, ",\"threads\":%zu,\"io_threads\":%zu", service->workers, service->io_threads);
    text_format(out,
                ",\"limits\":{\"max_body_bytes\":%zu,\"json_max_body_bytes\":%zu,"
                "\"max_compression_ratio\":%zu,\"max_result_bytes\":%zu,\"max_flops\":%.17g,"
                "\"memory_budget_bytes\":%zu,"
                "\"queue_limit\":%zu,\"queue_work_ms\":%llu,\"queue_timeout_ms\":%llu,"
                "\"request_timeout_ms\":%llu,"
                "\"sessions_memory_bytes\":%zu,\"max_sessions\":%zu,\"session_ttl_ms\":%.0f,"
                "\"max_session_ttl_ms\":%.0f}}\n",
                limits->body_bytes, limits->json_body_bytes, limits->body_ratio,
                limits->call.result_bytes, limits->call.flops, admission_budget(service->admission),
                limits->queue_limit, (unsigned long long)limits->queue_work_ms,
                (unsigned long long)limits->queue_timeout_ms,
                (unsigned long long)limits->request_timeout_ms, sessions->bytes, sessions->count,
                1e3 * sessions->ttl_seconds, 1e3 * sessions->longest_ttl_seconds);
    exchange_answer_text(exchange, "application/json");
}
