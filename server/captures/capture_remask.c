/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /v1/captures/{id}/remask: what the kept queries and keys are to each other under another
 * mask, as a capture of its own. Its rows are summed up anew, behind all calls, and its maps have
 * the bits of a call that came with that mask. A mask is all that can be sent.
 */
#include <stdio.h>
#include <string.h>

#include "core/attention.h"
#include "core/checked.h"
#include "server/calls/attention_call.h"
#include "server/captures/capture_query.h"
#include "server/captures/capture_text.h"
#include "server/handlers.h"
#include "server/options/options_table.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* NAME_MOST bytes are a capture's name, of which the mask has MASK_LEAST or more. */
enum { ANSWER_ROOM = 8192, NAME_MOST = 200, MASK_LEAST = 100 };

static const struct option OPTIONS[] = {
    {"mask", OPTION_BODY_ONLY, options_apply_mask},
    {"q_offset", OPTION_BODY_ONLY, options_apply_q_offset},
    {"alibi", OPTION_BODY_ONLY, options_apply_alibi},
    {"name", OPTION_BODY_ONLY, options_apply_capture_name},
    {"timeout_ms", OPTION_SCALAR, options_apply_timeout},
};

static const struct options_hint HINTS[] = {
    {"attn_mask", "The mask is called mask"},
    {"is_causal", "Say \"mask\": \"causal\""},
    {NULL, NULL},
};

static const struct codec_schema SCHEMA = {
    .title = "Another mask",
    .members = "mask",
    .unknown = "another mask has mask, q_offset, alibi, name and timeout_ms",
    .options = OPTIONS,
    .option_count = COUNT(OPTIONS),
    .hints = HINTS,
};

struct remask_call {
    struct tensor_call tensors;
    struct capture *source;
    struct attn_call kept, attends; /* kept: as it is planned and kept; attends: without values */
    struct attn_plan plan;
    struct attn_heads *heads;
    struct capture_call keeping;
    char name[NAME_MOST + 1];
};

/* What the capture that it came from is called, and the mask, as far as there is room for whole
   characters. */
static const char *own_name(struct remask_call *remask) {
    const char *const whose = remask->source->about.name;
    size_t length = attn_min_size(strlen(whose), NAME_MOST - MASK_LEAST);
    while (length > 0 && ((unsigned char)whose[length] & 0xc0) == 0x80)
        length--;
    memcpy(remask->name, whose, length);
    memcpy(remask->name + length, ": ", 2);
    attn_mask_text(&remask->kept.mask, remask->name + length + 2, sizeof remask->name - length - 2);
    return remask->name;
}

/* It stands in no run, whose layers have the masks that they came with. */
static void describe(struct remask_call *remask) {
    struct codec_request *request = &remask->tensors.request;
    const struct capture *source = remask->source;
    const char *name = request->capture.name;
    request->capture = source->about;
    request->capture.run = NULL;
    request->capture.name = name != NULL ? name : own_name(remask);
    request->q_labels = source->q_labels;
    request->k_labels = source->k_labels;
}

static enum attn_status keep(struct remask_call *remask) {
    struct call_work *work = &remask->tensors.work;
    const struct attn_kept *source = remask->source->kept;
    describe(remask);
    if (capture_call_begin(&remask->keeping, work->exchange, &remask->tensors.request,
                           &remask->kept, &remask->plan, &remask->tensors.result,
                           &work->error) != ATTN_OK)
        return work->error.status;
    const char *const refusal = remask->keeping.refusal;
    if (refusal != NULL)
        return attn_fail(&work->error,
                         refusal == CAPTURES_LACK_MEMORY ? ATTN_NO_MEMORY : ATTN_OVERLOADED, "",
                         "It cannot be kept: %s.", refusal);
    remask->keeping.capture->kept->given_dtype = source->given_dtype;
    return ATTN_OK;
}

static enum attn_status plan(struct remask_call *remask) {
    struct call_work *work = &remask->tensors.work;
    struct attn_request *request = &remask->tensors.request.attention;
    if (request->mask.count == 0)
        return attn_fail(&work->error, ATTN_MISSING_FIELD, "/mask",
                         "Say which mask: {\"mask\": \"causal\"}, or {\"mask\": {\"all\": []}} for "
                         "none.");
    if (attn_kept_remask(remask->source->kept, request, &remask->kept, &work->error) != ATTN_OK ||
        attn_plan_make(&remask->kept, &work->exchange->service->limits.call, &remask->plan,
                       &remask->tensors.result, &work->error) != ATTN_OK)
        return work->error.status;
    remask->attends = remask->kept;
    remask->attends.Dv = 0;
    return ATTN_OK;
}

/* A few bytes ask for a copy of many, which an I/O thread has no time for. */
static enum attn_status prepare(struct call_work *work) {
    struct remask_call *remask = (struct remask_call *)work;
    if (tensor_call_decode(&remask->tensors, &SCHEMA) != ATTN_OK)
        return work->error.status;
    if (call_work_put_off(work)) {
        codec_request_close(&remask->tensors.request);
        return ATTN_CANCELLED;
    }
    if (plan(remask) != ATTN_OK)
        return work->error.status;
    work->tasks = remask->plan.tasks;
    work->workspace_bytes = remask->plan.workspace_bytes;
    work->flops = remask->plan.work;
    work->pace = attention_call_pace(remask->plan.kernel);
    const size_t hands = call_work_hands(work);
    work->shared_bytes = attn_heads_bytes(&remask->plan, hands);
    if (call_work_reserve(work, ANSWER_ROOM) != ATTN_OK)
        return work->error.status;
    remask->heads = attn_heads_open(&remask->attends, &remask->plan, hands, work->shared);
    return keep(remask);
}

static void compute(struct call_work *work, size_t task, void *workspace,
                    const struct attn_checkpoint *checkpoint) {
    struct remask_call *remask = (struct remask_call *)work;
    (void)task;
    attn_execute_next(&remask->attends, &remask->plan, &remask->tensors.result, remask->heads,
                      workspace, checkpoint);
}

static enum attn_status encode(struct call_work *work) {
    (void)work;
    return ATTN_OK;
}

static void settle(struct call_work *work, bool succeeded) {
    capture_call_settle(&((struct remask_call *)work)->keeping, succeeded);
}

/* Its text is small, and written where it is answered: nothing may fail once others have gone for
   the capture. */
static void count(const struct call_work *work, struct exchange *exchange) {
    const struct remask_call *remask = (const struct remask_call *)work;
    capture_text_write(&exchange->text, remask->keeping.capture, false);
    text_add(&exchange->text, "\n", 1);
    exchange->is_lost = exchange->text.failed;
    exchange_answer_text(exchange, "application/json");
    snprintf(exchange->location, sizeof exchange->location, "/v1/captures/%s",
             remask->keeping.capture->id);
    exchange->has_changed = true;
    if (exchange->is_lost)
        return;
    exchange->answer.status = 201;
    exchange->answer.location = exchange->location;
}

static void close_call(struct call_work *work) {
    struct remask_call *remask = (struct remask_call *)work;
    if (remask->heads != NULL)
        attn_heads_close(remask->heads);
    capture_call_close(&remask->keeping);
    attn_call_close(&remask->kept);
    capture_unref(remask->source);
    tensor_call_close(&remask->tensors);
}

static const struct call_kind KIND = {
    .prepare = prepare,
    .compute = compute,
    .encode = encode,
    .settle = settle,
    .count = count,
    .close = close_call,
    .ask_for_less = "Ask for it when less is in flight.",
};

bool capture_remask_check(struct exchange *exchange, struct problem *problem) {
    return tensor_call_check(exchange, codec_find("json"), false, problem);
}

void capture_remask_handle(struct exchange *exchange) {
    struct capture *source;
    struct remask_call *remask = capture_work_create(exchange, &KIND, sizeof *remask, &source);
    if (remask == NULL)
        return;
    remask->source = source;
    remask->tensors.work.job.last = true;
    if (tensor_call_choose_codecs(&remask->tensors, codec_find("json"), false))
        call_work_begin(&remask->tensors.work);
}
