/* SPDX-License-Identifier: Apache-2.0 */
/* One step of many sessions: the tasks of all parts as one job; see session_steps.h. */
#include "server/sessions/session_steps.h"

#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "server/clock.h"

/* ---- what fails ---- */

void steps_add_failure(struct steps_call *call, const char *id, const struct problem *problem) {
    struct text *text = &call->failures;
    text_format(text, "%s{\"id\":", text->length == 0 ? "[" : ",");
    text_json(text, id);
    text_format(text, ",\"type\":\"/problems/%s\",\"detail\":", problem_name(problem->code));
    text_json(text, problem->detail);
    if (problem->has_length)
        text_format(text, ",\"length\":%zu", problem->length);
    text_format(text, "}");
}

const char *steps_failures(struct steps_call *call) {
    if (call->failures.length == 0)
        return NULL;
    text_add(&call->failures, "]", 2); /* and its NUL */
    return call->failures.failed ? NULL : call->failures.data;
}

static enum attn_status no_memory(struct attn_error *error) {
    return attn_fail(error, ATTN_NO_MEMORY, "", "There is no memory for this call now.");
}

/* ---- the step ---- */

static struct attn_tensor slice(const struct attn_tensor *all, size_t n) {
    struct attn_tensor one = *all;
    one.data = (const char *)all->data +
               (ptrdiff_t)n * all->stride[0] * (ptrdiff_t)attn_dtype_size(all->dtype);
    one.shape[0] = 1;
    return one;
}

static enum attn_status plan_part(struct steps_call *call, size_t n) {
    struct steps_part *part = &call->parts[n];
    const struct service *service = call->tensors.work.exchange->service;
    const struct codec_request *request = &call->tensors.request;
    const struct codec_session *asked = &request->session;
    const struct attn_request *attention = &request->attention;
    const struct session_step_request wanted = {
        .rows = {slice(&attention->k, n), slice(&attention->v, n), ATTN_LAYOUT_BHTD, false},
        .layer_given = asked->layer_given,
        .position_given = asked->positions.values != NULL,
        .layer = asked->layer,
        .position = asked->positions.values != NULL ? asked->positions.values[n] : 0,
    };
    if (session_step_begin(&part->step, part->session, &wanted,
                           sessions_key_limits(call->tensors.work.exchange), NULL, &part->problem,
                           &part->error) != ATTN_OK)
        return part->error.status;
    part->request = *attention;
    part->request.q = slice(&attention->q, n);
    part->request.k = part->request.v = attn_tensor_none();
    part->request.kv = &part->step.view;
    part->request.preferred_kernel = service->kernel;
    if (attn_call_init(&part->call, &part->request, &part->error) != ATTN_OK)
        return part->error.status;
    return attn_plan_make(&part->call, &service->limits.call, &part->plan, &part->result,
                          &part->error);
}

static void note_failure(struct steps_call *call, const struct steps_part *part) {
    struct call_work *work = &call->tensors.work;
    struct problem problem;
    problem_from_error(&problem, &part->error);
    problem.code = part->problem != 0 ? part->problem : problem.code;
    if (work->error.status == ATTN_OK) {
        work->error = part->error;
        work->problem = part->problem;
    }
    steps_add_failure(call, part->session->id, &problem);
}

/* What all parts need together; places within the shared memory are multiples of 64. */
static enum attn_status add_up(struct steps_call *call) {
    struct call_work *work = &call->tensors.work;
    bool fits = true;
    work->tasks = 0;
    work->pace = attention_call_pace(call->parts[0].plan.kernel);
    for (size_t n = 0; n < call->count; n++) {
        struct steps_part *part = &call->parts[n];
        part->first_task = work->tasks;
        fits &= attn_add_size(work->tasks, part->plan.tasks, &work->tasks);
        work->tasks_wait |= part->plan.slot_bytes > 0;
        work->workspace_bytes = attn_max_size(work->workspace_bytes, part->plan.workspace_bytes);
        work->flops += part->plan.work;
    }
    const size_t hands = call_work_hands(work);
    for (size_t n = 0; n < call->count && fits; n++) {
        size_t bytes;
        fits = attn_round_up_size(attn_heads_bytes(&call->parts[n].plan, hands), 64, &bytes) &&
               attn_add_size(work->shared_bytes, bytes, &work->shared_bytes) &&
               steps_scratch(&call->parts[n], &work->shared_bytes);
    }
    return fits ? ATTN_OK : no_memory(&work->error);
}

static void place(struct steps_call *call) {
    const size_t hands = call_work_hands(&call->tensors.work);
    char *shared = call->tensors.work.shared;
    for (size_t n = 0; n < call->count; n++) {
        struct steps_part *part = &call->parts[n];
        size_t bytes = 0;
        part->heads = attn_heads_open(&part->call, &part->plan, hands, shared);
        if (attn_round_up_size(attn_heads_bytes(&part->plan, hands), 64, &bytes))
            shared += bytes;
        shared = steps_place(call, n, shared);
    }
}

static enum attn_status prepare(struct call_work *work) {
    struct steps_call *call = steps_of(work);
    for (size_t n = 0; n < call->count; n++)
        if (plan_part(call, n) != ATTN_OK)
            note_failure(call, &call->parts[n]);
    if (work->error.status != ATTN_OK) {
        work->failures = steps_failures(call);
        return work->error.status;
    }
    if (steps_join(call) != ATTN_OK || add_up(call) != ATTN_OK ||
        tensor_call_lay_out(&call->tensors, &call->parts[0].call) != ATTN_OK)
        return work->error.status;
    place(call);
    return ATTN_OK;
}

static struct steps_part *part_of(const struct steps_call *call, size_t task) {
    size_t first = 0, end = call->count;
    while (end - first > 1) {
        const size_t middle = first + (end - first) / 2;
        if (call->parts[middle].first_task <= task)
            first = middle;
        else
            end = middle;
    }
    return &call->parts[first];
}

static void compute(struct call_work *work, size_t task, void *workspace,
                    const struct attn_checkpoint *checkpoint) {
    struct steps_part *part = part_of(steps_of(work), task);
    attn_execute_next(&part->call, &part->plan, &part->result, part->heads, workspace, checkpoint);
}

static enum attn_status encode(struct call_work *work) {
    struct steps_call *call = steps_of(work);
    struct attn_call shown = call->parts[0].call;
    struct codec_report report = {.call = &shown, .kernel = call->parts[0].plan.kernel->name};
    struct attn_result *all = &call->tensors.result;
    shown.B = call->count;
    for (size_t n = 0; n < call->count; n++) {
        struct steps_part *part = &call->parts[n];
        shown.Tk = attn_max_size(shown.Tk, part->call.Tk);
        report.flops += part->plan.flops;
        if (atomic_load(&part->result.non_finite))
            atomic_store(&all->non_finite, true);
        atomic_fetch_add(&all->empty_rows, atomic_load(&part->result.empty_rows));
    }
    steps_gather(call);
    return tensor_call_encode(&call->tensors, &report);
}

/* ---- its end ---- */

void steps_settle(struct call_work *work, bool succeeded) {
    struct steps_call *call = steps_of(work);
    if (succeeded)
        metrics_count_step(work->exchange->service->metrics, call->count,
                           clock_now() - call->began);
    for (size_t n = 0; n < call->count; n++)
        session_step_end(&call->parts[n].step, succeeded);
    for (size_t n = 0; n < call->count; n++)
        session_wait_end(&call->parts[n].wait);
}

static void count(const struct call_work *work, struct exchange *exchange) {
    const struct steps_call *call = (const struct steps_call *)work;
    for (size_t n = 0; n < call->count; n++) {
        const struct attn_plan *plan = &call->parts[n].plan;
        const struct metrics_call counted = {
            .kernel = plan->kernel->name,
            .flops = plan->flops,
            .scores_computed = (double)atomic_load(&call->parts[n].result.scores_computed),
        };
        metrics_count_call(exchange->service->metrics, &counted);
    }
    exchange->kernel = call->parts[0].plan.kernel->name;
}

void steps_close(struct call_work *work) {
    struct steps_call *call = steps_of(work);
    for (size_t n = 0; call->parts != NULL && n < call->count; n++) {
        struct steps_part *part = &call->parts[n];
        if (part->heads != NULL)
            attn_heads_close(part->heads);
        attn_call_close(&part->call);
        session_wait_close(&part->wait);
        session_unref(part->session);
    }
    free(call->parts);
    free(call->order);
    text_close(&call->failures);
    tensor_call_close(&call->tensors);
}

const struct call_kind STEPS_KIND = {
    .prepare = prepare,
    .compute = compute,
    .encode = encode,
    .settle = steps_settle,
    .count = count,
    .close = steps_close,
    .ask_for_less = STEPS_ASK_FOR_LESS,
};
