/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What it costs to hand two steps to two workers and to know that both are done, when calls follow
 * each other: steps that do nothing but wait for each other, each pair from the end of the last
 * one; and calls of two empty steps from outside, whose caller either looks on or sleeps until the
 * end.
 *
 *   make bench BENCH=forkjoin: handing work to the workers, a few seconds
 *   build/release/bench/forkjoin [calls]
 */
#include "bench/bare_call.h"
#include "bench/figure.h"
#include "bench/yardstick.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CALLS = 5000, WORKERS = 2 };

#define GOAL_MICROSECONDS 2.0

struct call {
    struct attn_job job;
    double *spans; /* seconds of each, `count` of them */
    size_t count, done;
    double begin;
    atomic_size_t arrived;
    atomic_bool over;
    pthread_mutex_t lock;
    pthread_cond_t end;
};

static void meet(struct attn_job *job, size_t index, void *workspace,
                 const struct attn_checkpoint *checkpoint) {
    struct call *call = (struct call *)job;
    (void)index, (void)workspace, (void)checkpoint;
    atomic_fetch_add(&call->arrived, 1);
    while (atomic_load(&call->arrived) < WORKERS)
        continue;
}

static bool tell(struct attn_job *job) {
    struct call *call = (struct call *)job;
    pthread_mutex_lock(&call->lock);
    atomic_store(&call->over, true);
    pthread_cond_signal(&call->end);
    pthread_mutex_unlock(&call->lock);
    return false;
}

/* The next pair begins where this one ends. */
static bool meet_again(struct attn_job *job) {
    struct call *call = (struct call *)job;
    const double now = yardstick_now();
    call->spans[call->done++] = now - call->begin;
    call->begin = now;
    atomic_store(&call->arrived, 0);
    return call->done < call->count || tell(job);
}

static void do_nothing(struct attn_job *job, size_t index, void *workspace,
                       const struct attn_checkpoint *checkpoint) {
    (void)job, (void)index, (void)workspace, (void)checkpoint;
}

static void prepare(struct call *call, bool meeting) {
    call->job = (struct attn_job){.step = meeting ? meet : do_nothing,
                                  .finished = meeting ? meet_again : tell,
                                  .steps = WORKERS,
                                  .cost = 1e-6,
                                  .steps_wait = meeting};
    atomic_store(&call->over, false);
    call->begin = yardstick_now();
}

static void look_on(struct call *call) {
    while (!atomic_load(&call->over))
        continue;
    pthread_mutex_lock(&call->lock); /* for the one who told, to be done with it */
    pthread_mutex_unlock(&call->lock);
}

static void sleep_until_over(struct call *call) {
    pthread_mutex_lock(&call->lock);
    while (!atomic_load(&call->over))
        pthread_cond_wait(&call->end, &call->lock);
    pthread_mutex_unlock(&call->lock);
}

static void report(const char *what, struct call *call, double goal) {
    char beside[64];
    const double median = yardstick_median(call->spans, call->count); /* sorts */
    snprintf(beside, sizeof beside, "p99 %.1f", 1e6 * call->spans[call->count * 99 / 100]);
    figure_print(&(struct figure){.what = what,
                                  .value = 1e6 * median,
                                  .unit = "microseconds, p50",
                                  .at_most = goal,
                                  .beside = beside});
}

static void pairs(struct attn_scheduler *scheduler, struct call *call) {
    call->done = 0;
    prepare(call, true);
    attn_scheduler_submit(scheduler, &call->job);
    sleep_until_over(call);
    report("two steps that meet, from the end of the last two", call, GOAL_MICROSECONDS);
}

static void calls(struct attn_scheduler *scheduler, struct call *call, const char *what,
                  void (*await)(struct call *), double goal) {
    for (call->done = 0; call->done < call->count; call->done++) {
        prepare(call, false);
        attn_scheduler_submit(scheduler, &call->job);
        await(call);
        call->spans[call->done] = yardstick_now() - call->begin;
    }
    report(what, call, goal);
}

int main(int argc, char **argv) {
    const size_t asked = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    static struct call call = {.lock = PTHREAD_MUTEX_INITIALIZER, .end = PTHREAD_COND_INITIALIZER};
    struct attn_scheduler *scheduler;
    struct attn_error error = {0};
    char machine[256];
    setvbuf(stdout, NULL, _IOLBF, 0);
    call.count = asked == 0 ? CALLS : asked;
    call.spans = calloc(call.count, sizeof *call.spans);
    if (call.spans == NULL || attn_scheduler_create(WORKERS, 0, &scheduler, &error) != ATTN_OK)
        return 1;
    printf("%s; %zu calls of each kind, one after the other\n",
           yardstick_machine(machine, sizeof machine), call.count);
    pairs(scheduler, &call);
    calls(scheduler, &call, "two empty steps, the caller looks on", look_on, GOAL_MICROSECONDS);
    calls(scheduler, &call, "two empty steps, the caller sleeps", sleep_until_over, 0);
    attn_scheduler_free(&scheduler);
    free(call.spans);
    return 0;
}
