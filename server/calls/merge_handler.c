/* SPDX-License-Identifier: Apache-2.0 */
/* POST /v1/merge: partial results over disjoint ranges of keys become one. */
#include <stddef.h>

#include "server/calls/tensor_call.h"
#include "server/handlers.h"
#include "server/options/options_table.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

static const struct codec_operand OPERANDS[] = {
    {"outputs", offsetof(struct codec_request, outputs), false},
    {"lses", offsetof(struct codec_request, lses), false},
};

static const struct option OPTIONS[] = {
    {"precision", OPTION_SCALAR, options_apply_precision},
    {"sink", OPTION_LIST, options_apply_sink},
    {"output_dtype", OPTION_SCALAR, options_apply_output_dtype},
    {"timeout_ms", OPTION_SCALAR, options_apply_timeout},
    {"encoding", OPTION_SCALAR, options_apply_encoding},
};
_Static_assert(COUNT(OPERANDS) <= OPERANDS_MAX && COUNT(OPTIONS) <= OPTIONS_MAX,
               "values have their places");

static const struct options_hint HINTS[] = {
    {"output", "The partial outputs are one tensor called outputs: [P,B,H,T,Dv]"},
    {"lse", "The partials' log-sum-exps are one tensor called lses: [P,B,H,T]"},
    {"partials", "Stack the partial results into outputs [P,B,H,T,Dv] and lses [P,B,H,T]"},
    {"sinks", "It is called sink: one logit per head"},
    {"scale", "The partial results hold it already: it belongs to the calls that made them"},
    {"mask", "The partial results hold it already: it belongs to the calls that made them"},
    {"bias", "The partial results hold it already: it belongs to the calls that made them"},
    {"return", "A merge always returns output and lse"},
    {"timeout", "It is called timeout_ms"},
    {NULL, NULL},
};

static const struct codec_schema SCHEMA = {
    .title = "A merge",
    .members = "outputs and lses",
    .unknown = "a merge has outputs, lses, sink, precision, output_dtype, encoding and timeout_ms",
    .operands = OPERANDS,
    .operand_count = COUNT(OPERANDS),
    .options = OPTIONS,
    .option_count = COUNT(OPTIONS),
    .hints = HINTS,
};

struct merge_call {
    struct tensor_call tensors;
    struct attn_merge merge;
};

static enum attn_status prepare(struct call_work *work) {
    struct merge_call *call = (struct merge_call *)work;
    struct tensor_call *tensors = &call->tensors;
    if (tensor_call_decode(tensors, &SCHEMA) != ATTN_OK)
        return work->error.status;
    const struct attn_request *options = &tensors->request.attention;
    const struct attn_merge_request request = {
        .outputs = tensors->request.outputs,
        .lses = tensors->request.lses,
        .sink = options->sink,
        .precision = options->precision,
        .output_dtype_given = options->output_dtype_given,
        .output_dtype = options->output_dtype,
    };
    if (attn_merge_init(&call->merge, &request, &work->exchange->service->limits.call,
                        &tensors->result, &work->error) != ATTN_OK)
        return work->error.status;
    work->tasks = call->merge.tasks;
    work->flops = call->merge.work;
    work->pace = BACKLOG_MERGE;
    return tensor_call_lay_out(tensors, NULL);
}

static void compute(struct call_work *work, size_t task, void *workspace,
                    const struct attn_checkpoint *checkpoint) {
    struct merge_call *call = (struct merge_call *)work;
    (void)workspace;
    attn_merge_task(&call->merge, &call->tensors.result, task, checkpoint);
}

static enum attn_status encode(struct call_work *work) {
    struct merge_call *call = (struct merge_call *)work;
    struct codec_report report = {.merge = &call->merge, .flops = call->merge.flops};
    return tensor_call_encode(&call->tensors, &report);
}

static void close_call(struct call_work *work) {
    tensor_call_close((struct tensor_call *)work);
}

static const struct call_kind KIND = {
    .prepare = prepare,
    .compute = compute,
    .encode = encode,
    .close = close_call,
    .ask_for_less = "Merge fewer queries or heads per call, or ask for safetensors.",
};

bool merge_check(struct exchange *exchange, struct problem *problem) {
    return tensor_call_check(exchange, NULL, false, problem);
}

void merge_handle(struct exchange *exchange) {
    struct merge_call *call = call_work_create(exchange, &KIND, sizeof *call);
    if (call != NULL && tensor_call_choose_codecs(&call->tensors, NULL, false))
        call_work_begin(&call->tensors.work);
}
