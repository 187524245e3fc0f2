/* SPDX-License-Identifier: Apache-2.0 */
/* What the scheduler's own files share. */
#ifndef ATTN_CORE_SCHEDULER_INTERNAL_H
#define ATTN_CORE_SCHEDULER_INTERNAL_H

#include <pthread.h>
#include <time.h>

#include "core/scheduler.h"

/* Bytes of a workspace that a worker keeps for other work: a job had reserved what is beyond. */
#define ATTN_WORKER_KEPT ((size_t)1 << 20)

struct attn_arena {
    void *memory;
    size_t bytes;
};

struct attn_worker {
    struct attn_scheduler *scheduler;
    pthread_t thread;
    struct attn_arena own, nested;
    double busy_seconds;  /* under the lock */
    double credit, since; /* seconds that it may give away, and as of when */
    bool awake;           /* its next wait begins so */
    /* The step that may be interrupted, and what it was given. */
    struct attn_job *job;
    struct attn_checkpoint checkpoint;
};

struct attn_scheduler {
    pthread_mutex_t lock;
    pthread_cond_t work; /* a step may be there, or `stopping` */
    pthread_cond_t idle; /* the list became empty */
    struct attn_job *first, *last;
    atomic_int_least64_t waiting; /* written under the lock; see struct attn_checkpoint */
    bool stopping;
    int niceness;
    bool may_wait_awake; /* there is a CPU for each worker */
    size_t worker_count;
    struct attn_worker workers[];
};

static inline double attn_scheduler_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void attn_arena_empty(struct attn_arena *arena);

/* Waits until there may be work. Called and returns under the lock. */
void attn_worker_wait(struct attn_worker *worker);
/* At the begin of a step: whether a wait such as the last one should begin awake. */
void attn_worker_judge_wait(struct attn_worker *worker, double now);

#endif
