/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How workers wait. Waking a thread takes some 20 us, as long as a small step; so a worker whose
 * last wait was shorter than AWAKE_SECONDS waits awake the next time, for as long at most, and
 * gives its CPU to whoever else can run meanwhile. One wait in vain, and it sleeps at once again: a
 * process without work uses no CPU, and one with a call now and then no more than it did.
 */
#include <sched.h>

#include "core/scheduler_internal.h"

#define AWAKE_SECONDS 50e-6

enum { PAUSES = 32 }; /* between two offers of the CPU: about a microsecond */

static void pause_briefly(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static bool has_work(const struct attn_scheduler *scheduler) {
    return atomic_load_explicit(&scheduler->waiting, memory_order_relaxed) != INT_LEAST64_MAX;
}

static void wait_awake(const struct attn_scheduler *scheduler) {
    const double end = attn_scheduler_now() + AWAKE_SECONDS;
    do {
        for (size_t n = 0; n < PAUSES; n++) {
            if (has_work(scheduler))
                return;
            pause_briefly();
        }
        sched_yield();
    } while (attn_scheduler_now() < end);
}

void attn_worker_judge_wait(struct attn_worker *worker, double now) {
    worker->awake = worker->scheduler->may_wait_awake && now - worker->since < AWAKE_SECONDS;
}

/* What takes the lock off looks for work again under it before it sleeps. */
void attn_worker_wait(struct attn_worker *worker) {
    struct attn_scheduler *scheduler = worker->scheduler;
    const bool awake = worker->awake;
    if (!awake && worker->own.bytes <= ATTN_WORKER_KEPT) {
        pthread_cond_wait(&scheduler->work, &scheduler->lock);
        return;
    }
    worker->awake = false;
    pthread_mutex_unlock(&scheduler->lock);
    if (awake)
        wait_awake(scheduler);
    else
        attn_arena_empty(&worker->own);
    pthread_mutex_lock(&scheduler->lock);
}
