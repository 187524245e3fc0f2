/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for work: callers who take steps of their own job, workers who wait awake while calls
 * follow each other closely, and who use no CPU thereafter.
 */
#include "tests/unit/core/scheduler_fixture.h"

enum { CLOSE_CALLS = 3000 };

static double seconds_of(clockid_t clock) {
    struct timespec at;
    clock_gettime(clock, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

START_TEST(a_caller_takes_the_steps_that_nobody_does) {
    struct counted blocker, job;
    void *workspace = aligned_alloc(64, 128);
    start(1);
    block_worker(&blocker);
    counted_init(&job, 3, 1, &over);
    job.job.workspace_bytes = 128;
    attn_scheduler_submit(scheduler, &job.job);
    for (unsigned n = 1; n <= 3; n++) {
        ck_assert(attn_scheduler_help(scheduler, &job.job, workspace, 128));
        ck_assert_uint_eq(atomic_load(&job.steps_done), n);
    }
    ck_assert_uint_eq(atomic_load(&job.phases_done), 1); /* with the last step the job has ended */
    ck_assert_uint_eq(job.in_time, 1);
    ck_assert(!attn_scheduler_help(scheduler, &job.job, workspace, 128));
    ck_assert_uint_eq(atomic_load(&job.steps_done), 3);
    sem_post(&gate);
    stop();
    free(workspace);
}
END_TEST

/* The job waits for the worker then. */
START_TEST(a_workspace_that_is_too_small_is_not_used) {
    struct counted blocker, job;
    void *workspace = aligned_alloc(64, 128);
    start(1);
    block_worker(&blocker);
    counted_init(&job, 1, 1, &over);
    job.job.workspace_bytes = 192;
    attn_scheduler_submit(scheduler, &job.job);
    ck_assert(!attn_scheduler_help(scheduler, &job.job, workspace, 128));
    ck_assert_uint_eq(atomic_load(&job.steps_done), 0);
    sem_post(&gate);
    sem_wait(&over);
    ck_assert_uint_eq(atomic_load(&job.steps_done), 1);
    stop();
    free(workspace);
}
END_TEST

/* What a caller's step cancels ends as elsewhere; phases go on on whatever thread. */
START_TEST(a_caller_meets_cancelling_and_phases) {
    struct counted blocker, job;
    start(1);
    block_worker(&blocker);
    counted_init(&job, 3, 1, NULL);
    job.phases = 2;
    job.cancel_after = 1;
    attn_scheduler_submit(scheduler, &job.job);
    while (attn_scheduler_help(scheduler, &job.job, NULL, 0))
        continue;
    ck_assert_uint_eq(atomic_load(&job.steps_done), 2);
    sem_post(&gate);
    stop();
    ck_assert_uint_eq(atomic_load(&job.phases_done), 2);
}
END_TEST

/* Calls that follow each other so closely that workers wait awake: none is lost, each runs once,
 * with the caller's help and without. */
START_TEST(calls_that_follow_closely_all_run) {
    start(2);
    for (size_t n = 0; n < CLOSE_CALLS; n++) {
        struct counted job;
        counted_init(&job, 1 + n % 3, 1, &over);
        attn_scheduler_submit(scheduler, &job.job);
        while (n % 2 == 0 && attn_scheduler_help(scheduler, &job.job, NULL, 0))
            continue;
        sem_wait(&over);
        ck_assert_uint_eq(atomic_load(&job.steps_done), 1 + n % 3);
        ck_assert_uint_eq(atomic_load(&job.phases_done), 1);
        attn_scheduler_read(scheduler); /* the lock: whoever ended the job has left it behind */
    }
    stop();
}
END_TEST

/* After a burst of calls, for a fifth of a second: each worker waits awake once, for 50 us. One
 * that never slept would take 0.2 s; a sanitizer's own thread takes a tenth of that. */
START_TEST(an_idle_scheduler_uses_no_cpu) {
    start(2);
    for (size_t n = 0; n < CLOSE_CALLS; n++) {
        struct counted job;
        counted_init(&job, 2, 1, &over);
        attn_scheduler_submit(scheduler, &job.job);
        sem_wait(&over);
        attn_scheduler_read(scheduler);
    }
    const double before = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    sleep_milliseconds(200);
    const double spent = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - before;
    ck_assert_msg(spent < 50e-3, "%g s of CPU were used", spent);
    stop();
}
END_TEST

static Suite *scheduler_wait_suite(void) {
    Suite *suite = suite_create("scheduler_wait");
    TCase *callers = tcase_create("callers");
    tcase_add_test(callers, a_caller_takes_the_steps_that_nobody_does);
    tcase_add_test(callers, a_workspace_that_is_too_small_is_not_used);
    tcase_add_test(callers, a_caller_meets_cancelling_and_phases);
    suite_add_tcase(suite, callers);
    TCase *waits = tcase_create("waits");
    tcase_set_timeout(waits, 60);
    tcase_add_test(waits, calls_that_follow_closely_all_run);
    tcase_add_test(waits, an_idle_scheduler_uses_no_cpu);
    suite_add_tcase(suite, waits);
    return suite;
}

ATTN_TEST_MAIN(scheduler_wait_suite)
