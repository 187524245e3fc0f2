/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs that count what is done with them, and a scheduler whose worker can be held. Not for use in
 * two tests of one process at once: the scheduler and its semaphores are the file's.
 */
#ifndef TESTS_UNIT_CORE_SCHEDULER_FIXTURE_H
#define TESTS_UNIT_CORE_SCHEDULER_FIXTURE_H

#include "core/scheduler.h"
#include "tests/support/test_main.h"

#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <time.h>

enum { MAX_STEPS = 64, MAX_LOG = 32 };

/* Who did what in which order. */
struct order {
    pthread_mutex_t lock;
    char text[MAX_LOG + 1];
    size_t count;
};

/* A job that counts its steps; what it has besides is looked at only where a test sets it. */
struct counted {
    struct attn_job job; /* first: the scheduler's pointer is ours */
    atomic_uint ran[MAX_STEPS];
    atomic_uint steps_done, phases_done;
    unsigned phases;     /* finished() says true until so many have ended */
    size_t cancel_after; /* the step that cancels its own job */
    size_t gate_at;      /* the step that waits for `gate` */
    unsigned looks;      /* checkpoints that each step passes, behind the gate, ... */
    size_t awaited;      /* ... and more until so much is noted */
    sem_t *gate, *entered, *over;
    struct order *order;
    char letter, last_letter; /* noted as a step begins and, if there is one, as it ends */
    unsigned in_time;         /* phases whose steps had all returned when finished() was called */
    bool lacked_memory, misaligned;
    atomic_bool spoiled; /* somebody else wrote into its workspace */
    atomic_bool stopped; /* a checkpoint said so */
};

static inline void note(struct order *order, char letter) {
    pthread_mutex_lock(&order->lock);
    if (order->count < MAX_LOG)
        order->text[order->count++] = letter;
    pthread_mutex_unlock(&order->lock);
}

static inline void sleep_milliseconds(long milliseconds) {
    const struct timespec span = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&span, NULL);
}

/* After a pause, in which its worker earns what it may give away at checkpoints. */
static inline bool awaits(const struct counted *counted, unsigned looks) {
    enum { MOST = 20000 };
    if (counted->awaited == 0 || counted->order->count >= counted->awaited || looks >= MOST)
        return false;
    sleep_milliseconds(1);
    return true;
}

static inline void run_step(struct attn_job *job, size_t index, void *workspace,
                            const struct attn_checkpoint *checkpoint) {
    struct counted *counted = (struct counted *)job;
    const unsigned char mark = (unsigned char)((uintptr_t)job >> 4 ^ index);
    if (job->workspace_bytes > 0)
        memset(workspace, mark, job->workspace_bytes);
    if ((uintptr_t)workspace % 64 != 0)
        counted->misaligned = true;
    if (counted->letter != '\0')
        note(counted->order, counted->letter);
    if (counted->gate != NULL && index == counted->gate_at) {
        sem_post(counted->entered);
        sem_wait(counted->gate);
    }
    for (unsigned look = 0; look < counted->looks || awaits(counted, look); look++)
        if (attn_checkpoint_stops(checkpoint))
            atomic_store(&counted->stopped, true);
    for (size_t n = 0; n < job->workspace_bytes; n++)
        if (((unsigned char *)workspace)[n] != mark)
            atomic_store(&counted->spoiled, true);
    if (counted->last_letter != '\0')
        note(counted->order, counted->last_letter);
    if (index == counted->cancel_after)
        atomic_store(&job->cancelled, true);
    atomic_fetch_add(&counted->ran[index], 1);
    atomic_fetch_add(&counted->steps_done, 1);
}

static inline bool end_phase(struct attn_job *job) {
    struct counted *counted = (struct counted *)job;
    const unsigned phases = atomic_fetch_add(&counted->phases_done, 1) + 1;
    counted->in_time += atomic_load(&counted->steps_done) == job->steps * phases;
    counted->lacked_memory = attn_job_lacked_memory(job);
    if (phases < counted->phases)
        return true;
    if (counted->over != NULL)
        sem_post(counted->over);
    return false;
}

static inline void counted_init(struct counted *counted, size_t steps, double cost, sem_t *over) {
    memset(counted, 0, sizeof *counted);
    counted->job =
        (struct attn_job){.step = run_step, .finished = end_phase, .steps = steps, .cost = cost};
    counted->cancel_after = SIZE_MAX;
    counted->phases = 1;
    counted->over = over;
}

static struct attn_scheduler *scheduler;
static struct order order;
static sem_t over, gate, entered;

static inline void start(size_t workers) {
    struct attn_error error = {.status = ATTN_OK};
    ck_assert_int_eq(attn_scheduler_create(workers, 0, &scheduler, &error), ATTN_OK);
    order = (struct order){.lock = PTHREAD_MUTEX_INITIALIZER};
    sem_init(&over, 0, 0);
    sem_init(&gate, 0, 0);
    sem_init(&entered, 0, 0);
}

static inline void stop(void) {
    attn_scheduler_free(&scheduler);
    ck_assert_ptr_null(scheduler);
}

/* Occupies one worker until the gate is posted. */
static inline void block_worker(struct counted *blocker) {
    counted_init(blocker, 1, 0, NULL);
    blocker->gate = &gate;
    blocker->entered = &entered;
    attn_scheduler_submit(scheduler, &blocker->job);
    sem_wait(&entered);
}

#endif
