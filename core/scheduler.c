/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One list of jobs under one lock, one thread per worker, each with a workspace that grows to what
 * its steps need. A step is a tile of 100 us and more, so that the lock and the walk over the list
 * (the server bounds its length) are not seen.
 */
#include "core/scheduler.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/checked.h"

/* Planned seconds by which a second of waiting makes a job look shorter: nothing starves. */
#define AGING 0.5

struct worker {
    struct attn_scheduler *scheduler;
    pthread_t thread;
    void *workspace;
    size_t workspace_bytes;
    double busy_seconds; /* under the lock */
};

struct attn_scheduler {
    pthread_mutex_t lock;
    pthread_cond_t work; /* a step may be there, or `stopping` */
    pthread_cond_t idle; /* the list became empty */
    struct attn_job *first, *last;
    bool stopping;
    size_t worker_count;
    struct worker workers[];
};

static double now_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static bool has_begun(const struct attn_job *job) {
    return job->state.continued || job->state.running > 0 || job->state.next_step > 0;
}

static double remaining_cost(const struct attn_job *job) {
    if (job->steps == 0)
        return 0;
    return job->cost * (double)(job->steps - job->state.next_step) / (double)job->steps;
}

static void link_last(struct attn_scheduler *scheduler, struct attn_job *job) {
    job->state.next = NULL;
    job->state.previous = scheduler->last;
    *(scheduler->last ? &scheduler->last->state.next : &scheduler->first) = job;
    scheduler->last = job;
}

static void unlink_job(struct attn_scheduler *scheduler, struct attn_job *job) {
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

/* The job to take a step of, or to finish; NULL when there is nothing to do. Under the lock. */
static struct attn_job *choose(struct attn_scheduler *scheduler) {
    struct attn_job *best = NULL;
    double best_rank = INFINITY;
    const double now = now_seconds();
    for (struct attn_job *job = scheduler->first; job != NULL; job = job->state.next) {
        skip_if_cancelled(job);
        if (is_over(job))
            return job;
        const double rank = remaining_cost(job) - AGING * (now - job->state.enqueued_at);
        if (job->state.next_step < job->steps && (best == NULL || rank < best_rank)) {
            best = job;
            best_rank = rank;
        }
    }
    return best;
}

/* The worker's workspace, at least `bytes` large; false when there is no memory for it. */
static bool ensure_workspace(struct worker *worker, size_t bytes) {
    size_t rounded;
    if (bytes <= worker->workspace_bytes)
        return true;
    if (!attn_round_up_size(bytes, 64, &rounded))
        return false;
    free(worker->workspace);
    worker->workspace = aligned_alloc(64, rounded);
    worker->workspace_bytes = worker->workspace ? rounded : 0;
    return worker->workspace != NULL;
}

/* Takes one step of `job`, or marks it as lacking memory. Called and returns under the lock. */
static void take_step(struct worker *worker, struct attn_job *job) {
    struct attn_scheduler *scheduler = worker->scheduler;
    const size_t index = job->state.next_step++;
    job->state.running++;
    pthread_mutex_unlock(&scheduler->lock);
    const double begin = now_seconds();
    const bool ready = ensure_workspace(worker, job->workspace_bytes);
    if (ready)
        job->step(job, index, worker->workspace);
    const double spent = now_seconds() - begin;
    pthread_mutex_lock(&scheduler->lock);
    worker->busy_seconds += spent;
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
    const double enqueued_at = job->state.enqueued_at;
    unlink_job(scheduler, job);
    begin_phase(job);
    pthread_mutex_unlock(&scheduler->lock);
    const bool goes_on = job->finished(job);
    pthread_mutex_lock(&scheduler->lock);
    if (goes_on) {
        job->state.continued = true;
        job->state.enqueued_at = enqueued_at;
        link_last(scheduler, job);
        pthread_cond_broadcast(&scheduler->work);
    }
    if (scheduler->first == NULL)
        pthread_cond_broadcast(&scheduler->idle);
}

static void *work(void *argument) {
    struct worker *worker = argument;
    struct attn_scheduler *scheduler = worker->scheduler;
    pthread_mutex_lock(&scheduler->lock);
    for (;;) {
        struct attn_job *job = choose(scheduler);
        if (job == NULL && scheduler->stopping)
            break;
        if (job == NULL) {
            pthread_cond_wait(&scheduler->work, &scheduler->lock);
            continue;
        }
        if (!is_over(job))
            take_step(worker, job);
        skip_if_cancelled(job);
        if (is_over(job))
            finish(scheduler, job);
    }
    pthread_mutex_unlock(&scheduler->lock);
    return NULL;
}

enum attn_status attn_scheduler_create(size_t workers, struct attn_scheduler **out,
                                       struct attn_error *error) {
    assert(workers >= 1 && workers <= 4096);
    struct attn_scheduler *scheduler =
        calloc(1, sizeof *scheduler + workers * sizeof *scheduler->workers);
    if (scheduler == NULL)
        return attn_fail(error, ATTN_NO_MEMORY, "", "There is no memory for %zu worker%s.", workers,
                         attn_plural(workers));
    pthread_mutex_init(&scheduler->lock, NULL);
    pthread_cond_init(&scheduler->work, NULL);
    pthread_cond_init(&scheduler->idle, NULL);
    for (; scheduler->worker_count < workers; scheduler->worker_count++) {
        struct worker *worker = &scheduler->workers[scheduler->worker_count];
        worker->scheduler = scheduler;
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
        free(scheduler->workers[n].workspace);
    }
    pthread_cond_destroy(&scheduler->idle);
    pthread_cond_destroy(&scheduler->work);
    pthread_mutex_destroy(&scheduler->lock);
    free(scheduler);
    *handle = NULL;
}

void attn_scheduler_submit(struct attn_scheduler *scheduler, struct attn_job *job) {
    memset(&job->state, 0, sizeof job->state);
    job->state.enqueued_at = now_seconds();
    pthread_mutex_lock(&scheduler->lock);
    link_last(scheduler, job);
    if (job->steps > 1)
        pthread_cond_broadcast(&scheduler->work);
    else
        pthread_cond_signal(&scheduler->work);
    pthread_mutex_unlock(&scheduler->lock);
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
    memset(&job->state, 0, sizeof job->state);
    do {
        const size_t steps = job->steps;
        for (size_t index = 0; index < steps; index++)
            if (!atomic_load_explicit(&job->cancelled, memory_order_relaxed))
                job->step(job, index, workspace);
    } while (job->finished(job));
}
