/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One list of jobs under one lock, one thread per worker, each with a workspace that grows to what
 * its steps need, and another for the steps that it runs at checkpoints. A step is a tile of 100 us
 * and more, so that the lock and the walk over the list (the server bounds its length) are not
 * seen. A checkpoint reads one word, the least cost that waits, as the last walk left it: the walk
 * that finds nothing better puts it right.
 */
#include "core/scheduler.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/checked.h"
#include "core/scheduler_internal.h"

/* Planned seconds by which a second of waiting makes a job look shorter: nothing starves. */
#define AGING 0.5
/* Seconds that a worker may be ahead with what it gives away at checkpoints. */
#define CREDIT 10e-3
/* A step that runs at a checkpoint keeps others waiting: it takes so many planned seconds at most,
 * or this part of the step that it interrupts. Longer ones wait for that to end. */
#define SHORT_SECONDS 1e-3
#define SHORT_PART 0.25
/* What is no such number is as much as can be. */
static int_least64_t nanoseconds(double seconds) {
    return seconds >= 0 && seconds < 9e9 ? (int_least64_t)(1e9 * seconds) : INT_LEAST64_MAX;
}

static bool has_begun(const struct attn_job *job) {
    return job->state.continued || job->state.running > 0 || job->state.next_step > 0;
}

/* Of the steps that have not returned. */
static double remaining_cost(const struct attn_job *job) {
    if (job->steps == 0)
        return 0;
    const size_t steps = job->steps - job->state.next_step + job->state.running;
    return job->cost * (double)steps / (double)job->steps;
}

/* Workers that can be at the job at once. */
static double hands(const struct attn_scheduler *scheduler, const struct attn_job *job) {
    return (double)attn_min_size(scheduler->worker_count, job->steps);
}

static double step_seconds(const struct attn_scheduler *scheduler, const struct attn_job *job) {
    return job->cost * hands(scheduler, job) / (double)job->steps;
}

/* Puts a job into the list, for all to see. */
static void enter(struct attn_scheduler *scheduler, struct attn_job *job) {
    const int_least64_t cost = nanoseconds(remaining_cost(job));
    job->state.next = NULL;
    job->state.previous = scheduler->last;
    *(scheduler->last ? &scheduler->last->state.next : &scheduler->first) = job;
    scheduler->last = job;
    if (!job->last && cost < atomic_load_explicit(&scheduler->waiting, memory_order_relaxed))
        atomic_store_explicit(&scheduler->waiting, cost, memory_order_relaxed);
}

static void leave(struct attn_scheduler *scheduler, struct attn_job *job) {
    struct attn_job *next = job->state.next;
    struct attn_job *previous = job->state.previous;
    *(previous ? &previous->state.next : &scheduler->first) = next;
    *(next ? &next->state.previous : &scheduler->last) = previous;
}

/* A job whose steps were all taken or cancelled and that nobody works on is over. */
static bool is_over(const struct attn_job *job) {
    return job->state.running == 0 && job->state.next_step >= job->steps;
}

static void skip_if_cancelled(struct attn_job *job) {
    if (atomic_load_explicit(&job->cancelled, memory_order_relaxed))
        job->state.next_step = job->steps;
}

/* Whether a step of `job` may run while one of `outer` waits on the same thread. How long either
 * has waited does not count here: one that is at work is not to shut newcomers out as it ages. */
static bool may_interrupt(const struct attn_scheduler *scheduler, const struct attn_job *job,
                          const struct attn_job *outer) {
    const double longest = fmax(SHORT_SECONDS, SHORT_PART * step_seconds(scheduler, outer));
    const bool goes_before =
        outer->last ? !job->last : !job->last && remaining_cost(job) < remaining_cost(outer);
    return goes_before && !job->steps_wait && step_seconds(scheduler, job) <= longest;
}

/* The job to take a step of, or to finish; NULL when there is nothing to do. With `outer`, only one
 * that may interrupt it, which it cannot itself. Under the lock. */
static struct attn_job *choose(struct attn_scheduler *scheduler, const struct attn_job *outer) {
    const double now = attn_scheduler_now();
    struct attn_job *best = NULL;
    double best_rank = INFINITY;
    double cheapest = INFINITY;
    for (struct attn_job *job = scheduler->first; job != NULL; job = job->state.next) {
        skip_if_cancelled(job);
        if (is_over(job))
            return job;
        if (job->state.next_step >= job->steps)
            continue;
        if (!job->last)
            cheapest = fmin(cheapest, remaining_cost(job));
        if (outer != NULL && !may_interrupt(scheduler, job, outer))
            continue;
        const double rank = remaining_cost(job) - AGING * (now - job->state.enqueued_at);
        const bool earlier = best == NULL || (best->last && !job->last) ||
                             (best->last == job->last && rank < best_rank);
        if (earlier) {
            best = job;
            best_rank = rank;
        }
    }
    atomic_store_explicit(&scheduler->waiting, nanoseconds(cheapest), memory_order_relaxed);
    return best;
}

void attn_arena_empty(struct attn_arena *arena) {
    free(arena->memory);
    *arena = (struct attn_arena){0};
}

/* Makes the arena at least `bytes` large; false when there is no memory for it. */
static bool fit(struct attn_arena *arena, size_t bytes) {
    size_t rounded;
    if (bytes <= arena->bytes && (arena->bytes <= ATTN_WORKER_KEPT || bytes > ATTN_WORKER_KEPT))
        return true;
    if (!attn_round_up_size(bytes, 64, &rounded))
        return false;
    attn_arena_empty(arena);
    arena->memory = aligned_alloc(64, rounded);
    arena->bytes = arena->memory ? rounded : 0;
    return arena->memory != NULL;
}

/* The worker has worked on its own step since it last asked. */
static void earn(struct attn_worker *worker) {
    const double now = attn_scheduler_now();
    worker->credit = fmin(worker->credit + (now - worker->since), CREDIT);
    worker->since = now;
}

/* It has given its time away. */
static void spend(struct attn_worker *worker) {
    const double now = attn_scheduler_now();
    worker->credit -= now - worker->since;
    worker->since = now;
}

/* Takes one step of `job`, or marks it as lacking memory. Called and returns under the lock. */
static void take_step(struct attn_worker *worker, struct attn_job *job, struct attn_arena *arena,
                      const struct attn_checkpoint *checkpoint) {
    struct attn_scheduler *scheduler = worker->scheduler;
    const size_t index = job->state.next_step++;
    job->state.running++;
    pthread_mutex_unlock(&scheduler->lock);
    const bool ready = fit(arena, job->workspace_bytes);
    if (ready)
        job->step(job, index, arena->memory, checkpoint);
    pthread_mutex_lock(&scheduler->lock);
    if (!ready) { /* the other steps are of no use then, and may wait for this one */
        job->state.no_memory = true;
        atomic_store_explicit(&job->cancelled, true, memory_order_relaxed);
    }
    job->state.running--;
}

static void begin_phase(struct attn_job *job) {
    job->state.next_step = 0;
    job->state.running = 0;
    job->state.continued = false;
}

/* Ends or continues a job that is over. Called and returns under the lock. */
static void finish(struct attn_scheduler *scheduler, struct attn_job *job) {
    leave(scheduler, job);
    begin_phase(job);
    pthread_mutex_unlock(&scheduler->lock);
    const bool goes_on = job->finished(job);
    pthread_mutex_lock(&scheduler->lock);
    if (goes_on) {
        job->state.continued = true;
        enter(scheduler, job);
        pthread_cond_broadcast(&scheduler->work);
    }
    if (scheduler->first == NULL)
        pthread_cond_broadcast(&scheduler->idle);
}

/* One step of a job that was chosen, its end, or both. Called and returns under the lock. */
static void advance(struct attn_worker *worker, struct attn_job *job, struct attn_arena *arena,
                    const struct attn_checkpoint *checkpoint) {
    if (!is_over(job))
        take_step(worker, job, arena, checkpoint);
    skip_if_cancelled(job);
    if (is_over(job))
        finish(worker->scheduler, job);
}

/* What is last gives all that it is asked for. */
static bool may_give(const struct attn_worker *worker) {
    return worker->credit > 0 || worker->job->last;
}

/* Runs what may interrupt the worker's own step while it has credit. Called and returns under the
 * lock. What was looked for in vain is not looked for again during the step. */
static void interrupt(struct attn_worker *worker) {
    struct attn_scheduler *scheduler = worker->scheduler;
    struct attn_job *const outer = worker->job;
    while (may_give(worker) && !atomic_load_explicit(&outer->cancelled, memory_order_relaxed)) {
        struct attn_job *job = choose(scheduler, outer);
        if (job == NULL) {
            worker->checkpoint.cost =
                atomic_load_explicit(&scheduler->waiting, memory_order_relaxed);
            return;
        }
        const struct attn_checkpoint checkpoint = {.cancelled = &job->cancelled};
        advance(worker, job, &worker->nested, &checkpoint);
        spend(worker);
    }
}

static void give_way(void *context) {
    struct attn_worker *worker = context;
    earn(worker);
    if (!may_give(worker))
        return;
    pthread_mutex_lock(&worker->scheduler->lock);
    interrupt(worker);
    pthread_mutex_unlock(&worker->scheduler->lock);
    if (worker->nested.bytes > ATTN_WORKER_KEPT)
        attn_arena_empty(&worker->nested);
    spend(worker);
}

/* One step of a job that was chosen, which may be interrupted. */
static void advance_own(struct attn_worker *worker, struct attn_job *job) {
    const double begin = attn_scheduler_now();
    attn_worker_judge_wait(worker, begin);
    worker->job = job;
    worker->since = begin;
    worker->checkpoint = (struct attn_checkpoint){
        .cancelled = &job->cancelled,
        .waiting = &worker->scheduler->waiting,
        .cost = job->last ? INT_LEAST64_MAX : nanoseconds(remaining_cost(job)),
        .give_way = give_way,
        .context = worker};
    advance(worker, job, &worker->own, &worker->checkpoint);
    earn(worker);
    worker->busy_seconds += worker->since - begin;
}

static void *work(void *argument) {
    struct attn_worker *worker = argument;
    struct attn_scheduler *scheduler = worker->scheduler;
    if (scheduler->niceness > 0) /* of a thread alone, on Linux */
        setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + scheduler->niceness);
    pthread_mutex_lock(&scheduler->lock);
    for (;;) {
        struct attn_job *job = choose(scheduler, NULL);
        if (job != NULL)
            advance_own(worker, job);
        else if (scheduler->stopping)
            break;
        else
            attn_worker_wait(worker);
    }
    pthread_mutex_unlock(&scheduler->lock);
    return NULL;
}

enum attn_status attn_scheduler_create(size_t workers, int niceness, struct attn_scheduler **out,
                                       struct attn_error *error) {
    assert(workers >= 1 && workers <= 4096 && niceness >= 0);
    struct attn_scheduler *scheduler =
        calloc(1, sizeof *scheduler + workers * sizeof *scheduler->workers);
    if (scheduler == NULL)
        return attn_fail(error, ATTN_NO_MEMORY, "", "There is no memory for %zu worker%s.", workers,
                         attn_plural(workers));
    pthread_mutex_init(&scheduler->lock, NULL);
    pthread_cond_init(&scheduler->work, NULL);
    pthread_cond_init(&scheduler->idle, NULL);
    atomic_init(&scheduler->waiting, INT_LEAST64_MAX);
    scheduler->niceness = niceness;
    const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    scheduler->may_wait_awake = cpus > 1 && workers <= (size_t)cpus;
    for (; scheduler->worker_count < workers; scheduler->worker_count++) {
        struct attn_worker *worker = &scheduler->workers[scheduler->worker_count];
        worker->scheduler = scheduler;
        worker->credit = CREDIT;
        if (pthread_create(&worker->thread, NULL, work, worker) != 0) {
            attn_scheduler_free(&scheduler);
            return attn_fail(error, ATTN_OVERLOADED, "", "No more threads can be started.");
        }
    }
    *out = scheduler;
    return ATTN_OK;
}

void attn_scheduler_free(struct attn_scheduler **handle) {
    struct attn_scheduler *scheduler = *handle;
    if (scheduler == NULL)
        return;
    pthread_mutex_lock(&scheduler->lock);
    while (scheduler->first != NULL)
        pthread_cond_wait(&scheduler->idle, &scheduler->lock);
    scheduler->stopping = true;
    pthread_cond_broadcast(&scheduler->work);
    pthread_mutex_unlock(&scheduler->lock);
    for (size_t n = 0; n < scheduler->worker_count; n++) {
        pthread_join(scheduler->workers[n].thread, NULL);
        attn_arena_empty(&scheduler->workers[n].own);
        attn_arena_empty(&scheduler->workers[n].nested);
    }
    pthread_cond_destroy(&scheduler->idle);
    pthread_cond_destroy(&scheduler->work);
    pthread_mutex_destroy(&scheduler->lock);
    free(scheduler);
    *handle = NULL;
}

void attn_scheduler_submit(struct attn_scheduler *scheduler, struct attn_job *job) {
    memset(&job->state, 0, sizeof job->state);
    job->state.enqueued_at = attn_scheduler_now();
    pthread_mutex_lock(&scheduler->lock);
    enter(scheduler, job);
    if (job->steps > 1)
        pthread_cond_broadcast(&scheduler->work);
    else
        pthread_cond_signal(&scheduler->work);
    pthread_mutex_unlock(&scheduler->lock);
}

/* True when the job is inside and has a step that nobody took. */
static bool has_step(const struct attn_scheduler *scheduler, const struct attn_job *wanted) {
    struct attn_job *job = scheduler->first;
    while (job != NULL && job != wanted)
        job = job->state.next;
    if (job != NULL)
        skip_if_cancelled(job);
    return job != NULL && job->state.next_step < job->steps;
}

bool attn_scheduler_help(struct attn_scheduler *scheduler, struct attn_job *job, void *workspace,
                         size_t bytes) {
    struct attn_worker caller = {.scheduler = scheduler};
    struct attn_arena arena = {workspace, bytes};
    const struct attn_checkpoint checkpoint = {.cancelled = &job->cancelled};
    pthread_mutex_lock(&scheduler->lock);
    const bool helps = has_step(scheduler, job) && job->workspace_bytes <= bytes;
    if (helps)
        advance(&caller, job, &arena, &checkpoint);
    pthread_mutex_unlock(&scheduler->lock);
    return helps;
}

bool attn_job_lacked_memory(const struct attn_job *job) {
    return job->state.no_memory;
}

struct attn_scheduler_stats attn_scheduler_read(struct attn_scheduler *scheduler) {
    struct attn_scheduler_stats stats = {.workers = scheduler->worker_count};
    pthread_mutex_lock(&scheduler->lock);
    for (size_t n = 0; n < scheduler->worker_count; n++)
        stats.busy_seconds += scheduler->workers[n].busy_seconds;
    for (const struct attn_job *job = scheduler->first; job != NULL; job = job->state.next) {
        *(has_begun(job) ? &stats.jobs_running : &stats.jobs_queued) += 1;
        stats.backlog_seconds += remaining_cost(job);
    }
    pthread_mutex_unlock(&scheduler->lock);
    return stats;
}

void attn_job_run_inline(struct attn_job *job, void *workspace) {
    const struct attn_checkpoint checkpoint = {.cancelled = &job->cancelled};
    memset(&job->state, 0, sizeof job->state);
    do {
        const size_t steps = job->steps;
        for (size_t index = 0; index < steps; index++)
            if (!atomic_load_explicit(&job->cancelled, memory_order_relaxed))
                job->step(job, index, workspace, &checkpoint);
    } while (job->finished(job));
}
