/* SPDX-License-Identifier: Apache-2.0 */
/* Health, readiness, metrics, the description at /v1 and the contract. */
#include "server/handlers.h"

#include <string.h>

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

/* Whether a list of entity tags, or "*", has this one; tags are compared weakly, as RFC 9110 has
   it for If-None-Match. */
static bool has_tag(const char *list, const char *etag) {
    const size_t length = strlen(etag);
    for (const char *at = list; at != NULL && *at != '\0'; at += strcspn(at, ",")) {
        at += strspn(at, ", \t");
        if (*at == '*')
            return true;
        at += strncmp(at, "W/", 2) == 0 ? 2 : 0;
        if (strncmp(at, etag, length) == 0)
            return true;
    }
    return false;
}

static void answer_document(struct exchange *exchange, enum document_id id) {
    const struct document *document = &exchange->service->documents[id];
    if (has_tag(exchange->if_none_match, document->etag))
        exchange_answer(exchange, 304, NULL, NULL, 0);
    else
        exchange_answer(exchange, 200, document->media_type, document->text, document->length);
    exchange->answer.etag = document->etag;
    exchange->answer.policy = document->policy;
}

void ops_contract(struct exchange *exchange) {
    answer_document(exchange, DOCUMENT_CONTRACT);
}

void ops_page(struct exchange *exchange) {
    answer_document(exchange, DOCUMENT_PAGE);
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
                "\"queue_limit\":%zu,\"queue_timeout_ms\":%llu,\"request_timeout_ms\":%llu}}\n",
                limits->body_bytes, limits->json_body_bytes, limits->body_ratio,
                limits->call.result_bytes, limits->call.flops, admission_budget(service->admission),
                limits->queue_limit, (unsigned long long)limits->queue_timeout_ms,
                (unsigned long long)limits->request_timeout_ms);
    exchange_answer_text(exchange, "application/json");
}
