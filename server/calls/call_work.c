/* SPDX-License-Identifier: Apache-2.0 */
/* The phases of a call, and who goes through them; see call_work.h. */
#include "server/calls/call_work.h"

#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "server/buffer_pool.h"
#include "server/clock.h"

/* Larger bodies are decoded by a worker, and larger answers encoded by one: what an I/O thread
 * reads or prints in less than a millisecond. 64 x 64 numbers in JSON are small, three times in a
 * body too. */
#define SMALL_BYTES ((size_t)256 << 10)
/* Larger answers that are packed besides are the workers' too. */
#define SMALL_PACKED_BYTES ((size_t)32 << 10)

static void settle(struct call_work *work, bool succeeded) {
    if (work->kind->settle != NULL && !work->settled) {
        work->settled = true;
        work->kind->settle(work, succeeded);
    }
}

static void conclude(struct exchange_work *base, struct exchange *exchange) {
    struct call_work *work = (struct call_work *)base;
    struct problem problem;
    for (int stage = STAGE_DECODE; stage <= STAGE_ENCODE; stage++)
        exchange->stage[stage] = work->stage[stage];
    exchange->parts = work->parts;
    settle(work, work->error.status == ATTN_OK);
    if (work->error.status != ATTN_OK) {
        problem_from_error(&problem, &work->error);
        problem.code = work->problem != 0 ? work->problem : problem.code;
        problem.failures = work->failures;
        exchange_refuse(exchange, &problem);
        return;
    }
    if (work->kind->go_on != NULL) {
        work->kind->go_on(work, exchange);
        return;
    }
    exchange_answer(exchange, 200, work->answer.media_type,
                    (const char *)work->answer.buffer + work->answer.offset, work->answer.length);
    exchange->answer.json_bytes = work->answer.json_bytes;
    exchange->answer.varies = exchange->answer_varies;
    if (work->packed != NULL) {
        exchange->answer.coding = work->packed->name;
        metrics_count_packed(exchange->service->metrics, coding_index(work->packed), METRICS_OUT);
    }
    if (work->kind->count != NULL)
        work->kind->count(work, exchange);
}

/* The call's turn has come, or it is over. */
static void leave_queue(struct call_work *work) {
    if (atomic_exchange(&work->queued, false))
        admission_leave_queue(work->exchange->service->admission);
}

/* Its part of the backlog is over, and shows how fast the workers are. */
static void leave_backlog(struct call_work *work) {
    const struct exchange *exchange = work->exchange;
    struct backlog *backlog = exchange->service->backlog;
    if (!work->load.is_in)
        return;
    if (work->tasks > 0) {
        const double busy = 1e-9 * (double)atomic_load(&work->busy);
        const double done = (double)atomic_load(&work->load.tasks_done) / (double)work->tasks;
        backlog_learn(backlog, work->pace, work->flops * done, busy);
        backlog_learn(backlog, BACKLOG_BODY, (double)exchange->body_length * done, busy);
    }
    backlog_leave(backlog, &work->load, clock_now());
}

/* It may still be in the queue: its connection died before it could be launched. */
static void work_free(struct exchange_work *base) {
    struct call_work *work = (struct call_work *)base;
    leave_queue(work);
    leave_backlog(work);
    settle(work, false);
    codec_answer_close(&work->answer);
    work->kind->close(work);
    buffer_give(work->shared, work->shared_bytes);
    free(work);
}

void *call_work_create(struct exchange *exchange, const struct call_kind *kind, size_t bytes) {
    struct call_work *work = calloc(1, bytes);
    if (work == NULL) {
        exchange_fail(exchange, ATTN_NO_MEMORY, "There is no memory for this call now.");
        return NULL;
    }
    work->base.conclude = conclude;
    work->base.free = work_free;
    work->kind = kind;
    work->exchange = exchange;
    memcpy(work->stage, exchange->stage, sizeof work->stage); /* of unpacking its body */
    work->parts = exchange->parts;
    exchange->work = &work->base;
    return work;
}

static double stage_ms(const struct call_work *work, enum metrics_stage stage) {
    return work->stage[stage] < 0 ? 0 : 1e-6 * (double)work->stage[stage];
}

void call_work_report(const struct call_work *work, struct codec_report *report) {
    report->id = work->exchange->id;
    report->typeface = work->exchange->service->typeface;
    report->decode_ms = stage_ms(work, STAGE_DECODE);
    report->queue_ms = stage_ms(work, STAGE_QUEUE);
    report->compute_ms = stage_ms(work, STAGE_COMPUTE);
}

static void add_time(struct call_work *work, enum metrics_stage stage, int64_t began,
                     int64_t ended) {
    work->stage[stage] = (work->stage[stage] < 0 ? 0 : work->stage[stage]) + (ended - began);
    trace_parts_add(&work->parts, stage, began, ended);
}

/* The last time counts, of a call that goes on as one of another kind. */
static void set_computed(struct call_work *work, int64_t began, int64_t ended) {
    work->stage[STAGE_COMPUTE] = ended - began;
    trace_parts_add(&work->parts, STAGE_COMPUTE, began, ended);
}

static void prepare(struct call_work *work, size_t most_here,
                    const struct attn_checkpoint *checkpoint) {
    const int64_t begin = clock_now();
    work->checkpoint = checkpoint;
    work->most_here = most_here;
    work->on_io_thread = most_here < SIZE_MAX;
    if (work->kind->prepare(work) == ATTN_OK)
        work->phase = CALL_PREPARED;
    add_time(work, STAGE_DECODE, begin, clock_now());
}

/* Puts the packed answer in the place of the plain one, where it is smaller. */
static void pack(struct call_work *work, const struct attn_checkpoint *checkpoint) {
    const struct coding *coding = work->exchange->answer_coding;
    struct codec_answer *answer = &work->answer;
    const size_t room = answer->length;
    void *packed = room == 0 ? NULL : buffer_take(room);
    const size_t length = packed == NULL
                              ? 0
                              : coding_pack(coding, (const char *)answer->buffer + answer->offset,
                                            room, packed, room - 1, checkpoint);
    if (length == 0) {
        buffer_give(packed, room);
        return;
    }
    buffer_give(answer->buffer, answer->capacity);
    answer->buffer = packed;
    answer->capacity = room;
    answer->offset = 0;
    answer->length = length;
    work->packed = coding;
}

static void encode(struct call_work *work, const struct attn_checkpoint *checkpoint) {
    const int64_t begin = clock_now();
    work->checkpoint = checkpoint;
    if (work->kind->encode(work) == ATTN_OK) {
        if (work->exchange->answer_coding != NULL)
            pack(work, checkpoint);
        work->phase = CALL_ENCODED;
    }
    add_time(work, STAGE_ENCODE, begin, clock_now());
}

static struct call_work *work_of(struct attn_job *job) {
    return (struct call_work *)(void *)((char *)job - offsetof(struct call_work, job));
}

static void add_wait(struct call_work *work, int64_t until) {
    add_time(work, STAGE_QUEUE, work->waits_since, until);
}

static void prepare_step(struct attn_job *job, size_t index, void *workspace,
                         const struct attn_checkpoint *checkpoint) {
    struct call_work *work = work_of(job);
    (void)index;
    (void)workspace;
    add_wait(work, clock_now());
    prepare(work, SIZE_MAX, checkpoint);
    work->waits_since = clock_now();
}

/* Once a worker is at it, it does not wait any more. */
static void note_begin(struct call_work *work, int64_t now) {
    int64_t not_begun = 0;
    if (atomic_load_explicit(&work->compute_began, memory_order_relaxed) != 0 ||
        !atomic_compare_exchange_strong(&work->compute_began, &not_begun, now))
        return;
    exchange_leave_queue(work->exchange);
    leave_queue(work);
}

static void compute_step(struct attn_job *job, size_t index, void *workspace,
                         const struct attn_checkpoint *checkpoint) {
    struct call_work *work = work_of(job);
    const int64_t begin = clock_now();
    note_begin(work, begin);
    work->kind->compute(work, index, workspace, checkpoint);
    if (atomic_load_explicit(&job->cancelled, memory_order_relaxed))
        return; /* it may have stopped halfway */
    atomic_fetch_add_explicit(&work->busy, clock_now() - begin, memory_order_relaxed);
    atomic_fetch_add_explicit(&work->load.tasks_done, 1, memory_order_relaxed);
}

static void encode_step(struct attn_job *job, size_t index, void *workspace,
                        const struct attn_checkpoint *checkpoint) {
    (void)index;
    (void)workspace;
    note_begin(work_of(job), clock_now()); /* of a call without tasks */
    encode(work_of(job), checkpoint);
}

static void phase_prepare(struct call_work *work) {
    work->job.step = prepare_step;
    work->job.steps = 1;
    work->job.workspace_bytes = 0;
    work->job.cost = (double)work->exchange->body_length / CODEC_SPEED;
}

static void phase_compute(struct call_work *work) {
    work->job.step = compute_step;
    work->job.steps_wait = work->tasks_wait;
    work->job.steps = work->tasks;
    work->job.workspace_bytes = work->workspace_bytes;
    work->job.cost = service_seconds(work->exchange->service, work->flops);
}

static void phase_encode(struct call_work *work) {
    const int64_t now = clock_now();
    const int64_t began = atomic_load(&work->compute_began);
    const int64_t from = began == 0 ? now : began;
    add_wait(work, from);
    set_computed(work, from, now);
    work->phase = CALL_COMPUTED;
    work->job.step = encode_step;
    work->job.steps_wait = false;
    work->job.steps = 1;
    work->job.workspace_bytes = 0;
    work->job.cost = (double)work->answer.capacity / CODEC_SPEED;
}

/* Sets up the next phase; false when there is none any more. */
static bool next_phase(struct call_work *work) {
    if (attn_job_lacked_memory(&work->job))
        attn_fail(&work->error, ATTN_NO_MEMORY, "", "There is no memory for this call now.");
    if (work->error.status != ATTN_OK || atomic_load(&work->job.cancelled) ||
        work->phase == CALL_ENCODED)
        return false;
    if (work->phase == CALL_PREPARED && work->job.step != compute_step)
        phase_compute(work);
    else
        phase_encode(work);
    return true;
}

static bool finished(struct attn_job *job) {
    struct call_work *work = work_of(job);
    struct exchange *exchange = work->exchange;
    if (next_phase(work))
        return true;
    leave_queue(work);
    leave_backlog(work);
    if (!exchange_wake(exchange, EXCHANGE_EVENT_DONE))
        settle(work, false);  /* something else has ended it: nobody will be answered */
    exchange_unref(exchange); /* the job's; it may be the last */
    return false;
}

/* Hands the rest to the workers, who wake the exchange at the end. The exchange sleeps. */
static void launch(struct exchange *exchange) {
    struct call_work *work = (struct call_work *)exchange->work;
    exchange_ref(exchange);
    work->job.finished = finished;
    work->waits_since = clock_now();
    if (work->phase == CALL_PREPARED)
        phase_compute(work);
    else
        phase_prepare(work);
    attn_scheduler_submit(exchange->service->scheduler, &work->job);
}

/* Computes and encodes a prepared call on its I/O thread; false when there is no memory for it. */
static bool compute_here(struct call_work *work, struct arena *arena) {
    const size_t needed = attn_max_size(work->workspace_bytes, 64);
    if (arena->bytes < needed) {
        buffer_give(arena->memory, arena->bytes);
        arena->memory = buffer_take(needed);
        arena->bytes = arena->memory == NULL ? 0 : needed;
    }
    if (arena->memory == NULL)
        return false;
    const int64_t begin = clock_now();
    add_time(work, STAGE_QUEUE, begin, begin);
    for (size_t task = 0; task < work->tasks; task++)
        work->kind->compute(work, task, arena->memory, NULL);
    set_computed(work, begin, clock_now());
    work->phase = CALL_COMPUTED;
    encode(work, NULL);
    return true;
}

/* The rest is the workers'. */
static void hand_over(struct call_work *work, struct exchange *exchange) {
    if (!work->job.last) { /* what goes last takes nobody's place */
        const size_t tasks = work->phase == CALL_PREPARED ? work->tasks : 0;
        atomic_store(&work->load.tasks, tasks);
        work->load.cancelled = &work->job.cancelled;
        if (!exchange_enter_queue(exchange, &work->load,
                                  call_work_load(work, work->answer.capacity))) {
            settle(work, false);
            return;
        }
        atomic_store(&work->queued, true);
    }
    exchange->cancel = &work->job.cancelled;
    exchange->launch = launch;
}

static bool is_small(const struct call_work *work, const struct service *service) {
    const size_t small = work->exchange->answer_coding == NULL ? SMALL_BYTES : SMALL_PACKED_BYTES;
    return service_seconds(service, work->flops) * (double)service->workers <=
               service->limits.inline_seconds &&
           work->answer.capacity <= small;
}

/* Prepares on the I/O thread. Few bytes may unpack to many: then nothing has come of it, and a
   worker begins anew. */
static void prepare_here(struct call_work *work, struct exchange *exchange) {
    const size_t reserved = exchange->reserved;
    prepare(work, SMALL_BYTES, NULL);
    if (!work->put_off)
        return;
    exchange_release(exchange, exchange->reserved - reserved);
    work->error = (struct attn_error){.status = ATTN_OK};
}

void call_work_begin(struct call_work *work) {
    struct exchange *exchange = work->exchange;
    const struct service *service = exchange->service;
    if (service->limits.inline_seconds > 0 && exchange->body_length <= SMALL_BYTES &&
        admission_queue_depth(service->admission) == 0) {
        prepare_here(work, exchange);
        if (work->put_off || (work->error.status == ATTN_OK && !is_small(work, service))) {
            hand_over(work, exchange);
            return;
        }
        if (work->error.status != ATTN_OK || compute_here(work, exchange->arena)) {
            conclude(&work->base, exchange);
            return;
        }
    }
    hand_over(work, exchange);
}

void call_work_again(struct call_work *work, const struct call_kind *kind) {
    work->kind = kind;
    work->job = (struct attn_job){.step = NULL};
    work->phase = CALL_NEW;
    work->tasks = work->workspace_bytes = 0;
    work->flops = 0;
    work->settled = work->put_off = false;
    atomic_store(&work->compute_began, 0);
    atomic_store(&work->busy, 0);
    call_work_begin(work);
}
