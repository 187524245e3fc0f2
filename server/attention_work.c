/* SPDX-License-Identifier: Apache-2.0 */
/* The phases of an attention call; see attention_work.h. */
#include "server/attention_work.h"

#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "server/clock.h"

/* Bytes per second at which bodies are decoded and answers encoded, for ordering jobs. */
#define CODEC_SPEED 5e8

static void work_free(struct exchange_work *base) {
    struct attention_work *work = (struct attention_work *)base;
    codec_answer_close(&work->answer);
    attn_call_close(&work->call);
    codec_request_close(&work->request);
    free(work);
}

struct attention_work *attention_work_create(struct exchange *exchange) {
    struct attention_work *work = calloc(1, sizeof *work);
    if (work == NULL)
        return NULL;
    work->base.free = work_free;
    work->exchange = exchange;
    attn_request_init(&work->request.attention);
    for (size_t i = 0; i < STAGE_COUNT; i++)
        work->stage[i] = -1;
    return work;
}

/* Memory for the answer and the workers' workspaces, at once or not at all. */
static enum attn_status reserve(struct attention_work *work) {
    const struct service *service = work->exchange->service;
    size_t answer, workspaces, bytes;
    if (!work->out->answer_bytes(&work->call, &work->request, &work->result, &answer))
        return attn_fail(&work->error, ATTN_RESULT_TOO_LARGE, "",
                         "The answer would be larger than any memory. Ask for fewer rows, cols or "
                         "heads.");
    const size_t hands = attn_min_size(service->workers, work->plan.tasks);
    if (!attn_mul_size(work->plan.workspace_bytes, hands, &workspaces) ||
        !attn_add_size(answer, workspaces, &bytes) || bytes > admission_budget(service->admission))
        return attn_fail_limit(&work->error, ATTN_RESULT_TOO_LARGE, "",
                               (double)admission_budget(service->admission),
                               "The answer and its computation need more than the %zu bytes that "
                               "this service has for all calls. Ask for fewer rows, cols or heads, "
                               "or for safetensors.",
                               admission_budget(service->admission));
    if (!exchange_reserve(work->exchange, bytes))
        return attn_fail(&work->error, ATTN_OVERLOADED, "",
                         "There is no memory for the answer now; try again after the time that "
                         "Retry-After says, or ask for less.");
    return ATTN_OK;
}

/* The call's own deadline may be sooner than the one it came under. */
static enum attn_status check_deadline(struct attention_work *work) {
    struct exchange *exchange = work->exchange;
    const uint64_t own = work->request.timeout_ms > 0 ? (uint64_t)work->request.timeout_ms : 0;
    const int64_t deadline =
        clock_earlier(atomic_load(&exchange->deadline), clock_deadline(exchange->began, own));
    atomic_store(&exchange->deadline, deadline);
    if (deadline == 0 || clock_now() < deadline)
        return ATTN_OK;
    return attn_fail(
        &work->error, ATTN_DEADLINE, "",
        "The call did not finish before its deadline. Give it more with timeout_ms, or "
        "ask for less.");
}

static enum attn_status decode_and_plan(struct attention_work *work) {
    const struct exchange *exchange = work->exchange;
    const struct codec_input input = {exchange->body, exchange->body_length, exchange->query,
                                      exchange->query_count, &work->job.cancelled};
    struct attn_error *error = &work->error;
    enum attn_status status = work->in->decode(&input, &work->request, error);
    if (status == ATTN_OK && work->request.attention.kernel == NULL)
        work->request.attention.kernel = exchange->service->kernel;
    if (status == ATTN_OK)
        status = check_deadline(work);
    if (status == ATTN_OK)
        status = attn_call_init(&work->call, &work->request.attention, error);
    if (status == ATTN_OK)
        status = attn_plan_make(&work->call, &exchange->service->limits.call, &work->plan,
                                &work->result, error);
    if (status == ATTN_OK)
        status = reserve(work);
    if (status == ATTN_OK)
        status =
            work->out->lay_out(&work->call, &work->request, &work->result, &work->answer, error);
    return status;
}

void attention_work_prepare(struct attention_work *work) {
    const int64_t begin = clock_now();
    if (decode_and_plan(work) == ATTN_OK)
        work->phase = ATTENTION_PREPARED;
    work->stage[STAGE_DECODE] = clock_now() - begin;
}

static double stage_ms(const struct attention_work *work, enum metrics_stage stage) {
    return work->stage[stage] < 0 ? 0 : 1e-6 * (double)work->stage[stage];
}

static void encode(struct attention_work *work) {
    const int64_t begin = clock_now();
    const struct codec_report report = {
        .id = work->exchange->id,
        .call = &work->call,
        .kernel = work->plan.kernel->name,
        .decode_ms = stage_ms(work, STAGE_DECODE),
        .queue_ms = stage_ms(work, STAGE_QUEUE),
        .compute_ms = stage_ms(work, STAGE_COMPUTE),
        .flops = work->plan.flops,
    };
    if (work->out->finish(&report, &work->request, &work->result, &work->answer, &work->error) ==
        ATTN_OK)
        work->phase = ATTENTION_ENCODED;
    work->stage[STAGE_ENCODE] = clock_now() - begin;
}

void attention_work_compute_all(struct attention_work *work, void *workspace) {
    const int64_t begin = clock_now();
    for (size_t task = 0; task < work->plan.tasks; task++)
        attn_execute_task(&work->call, &work->plan, &work->result, task, workspace,
                          &work->job.cancelled);
    work->stage[STAGE_QUEUE] = 0;
    work->stage[STAGE_COMPUTE] = clock_now() - begin;
    work->phase = ATTENTION_COMPUTED;
    encode(work);
}

bool attention_work_enter_queue(struct attention_work *work) {
    if (!admission_enter_queue(work->exchange->service->admission))
        return false;
    atomic_store(&work->queued, true);
    return true;
}

/* The call's turn has come, or it is over. */
static void leave_queue(struct attention_work *work) {
    if (atomic_exchange(&work->queued, false))
        admission_leave_queue(work->exchange->service->admission);
}

static struct attention_work *work_of(struct attn_job *job) {
    return (struct attention_work *)(void *)((char *)job - offsetof(struct attention_work, job));
}

static void add_wait(struct attention_work *work, int64_t until) {
    const int64_t before = work->stage[STAGE_QUEUE] < 0 ? 0 : work->stage[STAGE_QUEUE];
    work->stage[STAGE_QUEUE] = before + (until - work->waits_since);
}

static void prepare_step(struct attn_job *job, size_t index, void *workspace) {
    struct attention_work *work = work_of(job);
    (void)index;
    (void)workspace;
    add_wait(work, clock_now());
    attention_work_prepare(work);
    work->waits_since = clock_now();
}

static void compute_step(struct attn_job *job, size_t index, void *workspace) {
    struct attention_work *work = work_of(job);
    int64_t not_begun = 0;
    if (atomic_load_explicit(&work->compute_began, memory_order_relaxed) == 0 &&
        atomic_compare_exchange_strong(&work->compute_began, &not_begun, clock_now())) {
        atomic_store(&work->exchange->begin_before, 0);
        leave_queue(work);
    }
    attn_execute_task(&work->call, &work->plan, &work->result, index, workspace, &job->cancelled);
}

static void encode_step(struct attn_job *job, size_t index, void *workspace) {
    (void)index;
    (void)workspace;
    encode(work_of(job));
}

static void phase_prepare(struct attention_work *work) {
    work->job.step = prepare_step;
    work->job.steps = 1;
    work->job.workspace_bytes = 0;
    work->job.cost = (double)work->exchange->body_length / CODEC_SPEED;
}

static void phase_compute(struct attention_work *work) {
    work->job.step = compute_step;
    work->job.steps = work->plan.tasks;
    work->job.workspace_bytes = work->plan.workspace_bytes;
    work->job.cost = service_seconds(work->exchange->service, work->plan.work);
}

static void phase_encode(struct attention_work *work) {
    const int64_t now = clock_now();
    const int64_t began = atomic_load(&work->compute_began);
    add_wait(work, began == 0 ? now : began);
    work->stage[STAGE_COMPUTE] = began == 0 ? 0 : now - began;
    work->phase = ATTENTION_COMPUTED;
    work->job.step = encode_step;
    work->job.steps = 1;
    work->job.workspace_bytes = 0;
    work->job.cost = (double)work->answer.capacity / CODEC_SPEED;
}

/* Sets up the next phase; false when there is none any more. */
static bool next_phase(struct attention_work *work) {
    if (attn_job_lacked_memory(&work->job))
        attn_fail(&work->error, ATTN_NO_MEMORY, "", "There is no memory for this call now.");
    if (work->error.status != ATTN_OK || atomic_load(&work->job.cancelled) ||
        work->phase == ATTENTION_ENCODED)
        return false;
    if (work->phase == ATTENTION_PREPARED && work->job.step != compute_step)
        phase_compute(work);
    else
        phase_encode(work);
    return true;
}

static bool finished(struct attn_job *job) {
    struct attention_work *work = work_of(job);
    struct exchange *exchange = work->exchange;
    if (next_phase(work))
        return true;
    leave_queue(work);
    exchange_wake(exchange, EXCHANGE_EVENT_DONE);
    exchange_unref(exchange); /* the job's; it may be the last */
    return false;
}

void attention_work_submit(struct attention_work *work) {
    exchange_ref(work->exchange);
    work->job.finished = finished;
    work->waits_since = clock_now();
    if (work->phase == ATTENTION_PREPARED)
        phase_compute(work);
    else
        phase_prepare(work);
    attn_scheduler_submit(work->exchange->service->scheduler, &work->job);
}
