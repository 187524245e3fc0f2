/* SPDX-License-Identifier: Apache-2.0 */
/* POST /v1/attention: decode -> validate -> plan -> lay out the answer -> compute -> finish. */
#include <string.h>

#include "server/calls/attention_call.h"
#include "server/handlers.h"
#include "server/options/options_table.h"

size_t attention_call_pace(const struct attn_kernel *kernel) {
    size_t pace = 0;
    while (pace < BACKLOG_KERNELS - 1 && attn_kernel_at(pace) != kernel)
        pace++;
    return pace;
}

enum attn_status attention_call_plan(struct attention_call *attention) {
    struct tensor_call *tensors = &attention->tensors;
    struct call_work *work = &tensors->work;
    const struct service *service = work->exchange->service;
    struct attn_request *request = &tensors->request.attention;
    request->preferred_kernel = service->kernel;
    if (attn_call_init(&attention->call, request, &work->error) != ATTN_OK ||
        codec_labels_check(&tensors->request, &attention->call, &work->error) != ATTN_OK ||
        (tensors->out->select != NULL &&
         tensors->out->select(&attention->call, &work->error) != ATTN_OK))
        return work->error.status;
    return attn_plan_make(&attention->call, &service->limits.call, &attention->plan,
                          &tensors->result, &work->error);
}

enum attn_status attention_call_lay_out(struct attention_call *attention) {
    struct tensor_call *tensors = &attention->tensors;
    struct call_work *work = &tensors->work;
    work->tasks = attention->plan.tasks;
    work->tasks_wait = attention->plan.slot_bytes > 0;
    work->workspace_bytes = attention->plan.workspace_bytes;
    work->flops = attention->plan.work;
    work->pace = attention_call_pace(attention->plan.kernel);
    const size_t hands = call_work_hands(work);
    work->shared_bytes = attn_heads_bytes(&attention->plan, hands);
    if (tensor_call_lay_out(tensors, &attention->call) != ATTN_OK)
        return work->error.status;
    attention->heads = attn_heads_open(&attention->call, &attention->plan, hands, work->shared);
    return ATTN_OK;
}

enum attn_status attention_call_keep(struct attention_call *attention) {
    struct call_work *work = &attention->tensors.work;
    return capture_call_begin(&attention->keeping, work->exchange, &attention->tensors.request,
                              &attention->call, &attention->plan, &attention->tensors.result,
                              &work->error);
}

static enum attn_status prepare(struct call_work *work) {
    struct attention_call *attention = (struct attention_call *)work;
    if (tensor_call_decode(&attention->tensors, attention->schema) != ATTN_OK ||
        attention_call_plan(attention) != ATTN_OK || attention_call_lay_out(attention) != ATTN_OK)
        return work->error.status;
    return attention_call_keep(attention);
}

void attention_call_compute(struct call_work *work, size_t task, void *workspace,
                            const struct attn_checkpoint *checkpoint) {
    struct attention_call *attention = (struct attention_call *)work;
    (void)task;
    attn_execute_next(&attention->call, &attention->plan, &attention->tensors.result,
                      attention->heads, workspace, checkpoint);
}

enum attn_status attention_call_encode(struct attention_call *attention,
                                       struct codec_report *report) {
    report->call = &attention->call;
    report->kernel = attention->plan.kernel->name;
    report->flops = attention->plan.flops;
    return tensor_call_encode(&attention->tensors, report);
}

static enum attn_status encode(struct call_work *work) {
    struct attention_call *attention = (struct attention_call *)work;
    struct codec_report report = {.id = NULL};
    capture_call_report(&attention->keeping, &report);
    return attention_call_encode(attention, &report);
}

static void settle(struct call_work *work, bool succeeded) {
    capture_call_settle(&((struct attention_call *)work)->keeping, succeeded);
}

void attention_call_count(const struct call_work *work, struct exchange *exchange) {
    const struct attention_call *attention = (const struct attention_call *)work;
    const struct attn_plan *plan = &attention->plan;
    const double computed = (double)atomic_load(&attention->tensors.result.scores_computed);
    exchange->kernel = plan->kernel->name;
    exchange->shape = latency_shape_of(attention->call.Tq, attention->call.Tk);
    if (attention->keeping.capture != NULL) {
        memcpy(exchange->kept_as, attention->keeping.capture->id, sizeof exchange->kept_as);
        exchange->has_changed = true;
    }
    const struct metrics_call counted = {
        .kernel = exchange->kernel,
        .flops = plan->flops,
        .scores_computed = computed,
        .scores_skipped = plan->scores_total > computed ? plan->scores_total - computed : 0,
    };
    metrics_count_call(exchange->service->metrics, &counted);
}

void attention_call_close(struct call_work *work) {
    struct attention_call *attention = (struct attention_call *)work;
    if (attention->heads != NULL)
        attn_heads_close(attention->heads);
    capture_call_close(&attention->keeping);
    attn_call_close(&attention->call);
    tensor_call_close(&attention->tensors);
}

static const struct call_kind KIND = {
    .prepare = prepare,
    .compute = attention_call_compute,
    .encode = encode,
    .settle = settle,
    .count = attention_call_count,
    .close = attention_call_close,
    .ask_for_less =
        "Ask for a pool or top_k of the map, for fewer rows, cols or heads, or for safetensors.",
};

struct tensor_call *attention_call_create(struct exchange *exchange,
                                          const struct codec_schema *schema) {
    struct attention_call *attention = call_work_create(exchange, &KIND, sizeof *attention);
    if (attention == NULL)
        return NULL;
    attention->schema = schema;
    return &attention->tensors;
}

bool attention_check(struct exchange *exchange, struct problem *problem) {
    return tensor_call_check(exchange, NULL, true, problem);
}

void attention_handle(struct exchange *exchange) {
    struct tensor_call *call = attention_call_create(exchange, &ATTENTION_SCHEMA);
    if (call != NULL && tensor_call_choose_codecs(call, NULL, true))
        call_work_begin(&call->work);
}
