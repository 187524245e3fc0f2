/* SPDX-License-Identifier: Apache-2.0 */
/* POST /v1/attention: decode -> validate -> plan -> lay out the answer -> compute -> finish. */
#include "server/calls/tensor_call.h"
#include "server/handlers.h"
#include "server/options/options_table.h"

struct attention_call {
    struct tensor_call tensors;
    const struct codec_schema *schema;
    struct attn_call call;
    struct attn_plan plan;
    struct attn_heads *heads; /* in the work's shared memory; NULL until prepared */
};

static enum attn_status prepare(struct call_work *work) {
    struct attention_call *attention = (struct attention_call *)work;
    struct tensor_call *tensors = &attention->tensors;
    const struct service *service = work->exchange->service;
    struct attn_request *request = &tensors->request.attention;
    if (tensor_call_decode(tensors, attention->schema) != ATTN_OK)
        return work->error.status;
    request->preferred_kernel = service->kernel;
    if (attn_call_init(&attention->call, request, &work->error) != ATTN_OK ||
        codec_labels_check(&tensors->request, &attention->call, &work->error) != ATTN_OK ||
        (tensors->out->select != NULL &&
         tensors->out->select(&attention->call, &work->error) != ATTN_OK) ||
        attn_plan_make(&attention->call, &service->limits.call, &attention->plan, &tensors->result,
                       &work->error) != ATTN_OK)
        return work->error.status;
    work->tasks = attention->plan.tasks;
    work->tasks_wait = attention->plan.slot_bytes > 0;
    work->workspace_bytes = attention->plan.workspace_bytes;
    work->flops = attention->plan.work;
    const size_t hands = call_work_hands(work);
    work->shared_bytes = attn_heads_bytes(&attention->plan, hands);
    if (tensor_call_lay_out(tensors, &attention->call) != ATTN_OK)
        return work->error.status;
    attention->heads = attn_heads_open(&attention->call, &attention->plan, hands, work->shared);
    return ATTN_OK;
}

static void compute(struct call_work *work, size_t task, void *workspace,
                    const struct attn_checkpoint *checkpoint) {
    struct attention_call *attention = (struct attention_call *)work;
    attn_execute_task(&attention->call, &attention->plan, &attention->tensors.result,
                      attention->heads, task, workspace, checkpoint);
}

static enum attn_status encode(struct call_work *work) {
    struct attention_call *attention = (struct attention_call *)work;
    struct codec_report report = {
        .call = &attention->call,
        .kernel = attention->plan.kernel->name,
        .flops = attention->plan.flops,
    };
    return tensor_call_encode(&attention->tensors, &report);
}

static void count(const struct call_work *work, struct exchange *exchange) {
    const struct attention_call *attention = (const struct attention_call *)work;
    const struct attn_plan *plan = &attention->plan;
    const double computed = (double)atomic_load(&attention->tensors.result.scores_computed);
    exchange->kernel = plan->kernel->name;
    const struct metrics_call counted = {
        .kernel = exchange->kernel,
        .flops = plan->flops,
        .scores_computed = computed,
        .scores_skipped = plan->scores_total > computed ? plan->scores_total - computed : 0,
    };
    metrics_count_call(exchange->service->metrics, &counted);
}

static void close_call(struct call_work *work) {
    struct attention_call *attention = (struct attention_call *)work;
    if (attention->heads != NULL)
        attn_heads_close(attention->heads);
    attn_call_close(&attention->call);
    tensor_call_close(&attention->tensors);
}

static const struct call_kind KIND = {
    .prepare = prepare,
    .compute = compute,
    .encode = encode,
    .count = count,
    .close = close_call,
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
