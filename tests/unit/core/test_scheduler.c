/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler: every step runs once and before `finished`, phases follow each other, a cancelled
 * job skips what it can, and nothing is left behind. Run it under tsan as well.
 */
#include "tests/unit/core/scheduler_fixture.h"

START_TEST(every_step_of_many_jobs_runs_once) {
    enum { JOBS = 100 };
    static struct counted jobs[JOBS];
    start(4);
    for (size_t n = 0; n < JOBS; n++) {
        counted_init(&jobs[n], n % MAX_STEPS, (double)(n % 7), &over);
        jobs[n].job.workspace_bytes = n * 100;
        attn_scheduler_submit(scheduler, &jobs[n].job);
    }
    for (size_t n = 0; n < JOBS; n++)
        sem_wait(&over);
    stop();
    for (size_t n = 0; n < JOBS; n++) {
        for (size_t step = 0; step < MAX_STEPS; step++)
            ck_assert_uint_eq(atomic_load(&jobs[n].ran[step]), step < n % MAX_STEPS);
        ck_assert_uint_eq(atomic_load(&jobs[n].phases_done), 1);
        ck_assert_uint_eq(jobs[n].in_time, 1);
        ck_assert(!jobs[n].misaligned && !jobs[n].lacked_memory);
    }
}
END_TEST

static pthread_barrier_t meeting;
static void *met[2];

/* Returns only when two workers are inside at once. */
static void meet(struct attn_job *job, size_t index, void *workspace,
                 const struct attn_checkpoint *checkpoint) {
    met[index] = workspace;
    pthread_barrier_wait(&meeting);
    run_step(job, index, workspace, checkpoint);
}

START_TEST(steps_of_one_job_run_at_once_on_workspaces_of_their_own) {
    struct counted pair;
    start(2);
    pthread_barrier_init(&meeting, NULL, 2);
    counted_init(&pair, 2, 1, &over);
    pair.job.step = meet;
    pair.job.workspace_bytes = 256;
    attn_scheduler_submit(scheduler, &pair.job);
    sem_wait(&over);
    stop();
    ck_assert_ptr_nonnull(met[0]);
    ck_assert_ptr_ne(met[0], met[1]);
    ck_assert_uint_eq(atomic_load(&pair.steps_done), 2);
}
END_TEST

START_TEST(a_job_goes_on_while_finished_says_so) {
    struct counted job;
    start(3);
    counted_init(&job, 5, 1, &over);
    job.phases = 4;
    attn_scheduler_submit(scheduler, &job.job);
    sem_wait(&over);
    stop();
    ck_assert_uint_eq(atomic_load(&job.phases_done), 4);
    ck_assert_uint_eq(job.in_time, 4);
    for (size_t step = 0; step < 5; step++)
        ck_assert_uint_eq(atomic_load(&job.ran[step]), 4);
}
END_TEST

static void run_second_phase(struct attn_job *job, size_t index, void *workspace,
                             const struct attn_checkpoint *checkpoint) {
    (void)checkpoint;
    memset(workspace, 1, job->workspace_bytes);
    atomic_fetch_add(&((struct counted *)job)->ran[10 + index], 1);
}

/* As a decode step ends: the job becomes a wider one with another step and workspace. */
static bool change_phase(struct attn_job *job) {
    struct counted *counted = (struct counted *)job;
    if (atomic_fetch_add(&counted->phases_done, 1) == 1) {
        sem_post(counted->over);
        return false;
    }
    job->step = run_second_phase;
    job->steps = 7;
    job->workspace_bytes = 100000;
    job->cost = 2;
    return true;
}

START_TEST(a_phase_may_change_what_a_step_is) {
    struct counted job;
    start(2);
    counted_init(&job, 1, 1, &over);
    job.job.finished = change_phase;
    attn_scheduler_submit(scheduler, &job.job);
    sem_wait(&over);
    stop();
    ck_assert_uint_eq(atomic_load(&job.ran[0]), 1);
    for (size_t step = 0; step < 7; step++)
        ck_assert_uint_eq(atomic_load(&job.ran[10 + step]), 1);
    ck_assert_uint_eq(atomic_load(&job.phases_done), 2);
}
END_TEST

static bool free_itself(struct attn_job *job) {
    sem_t *waiting = ((struct counted *)job)->over;
    free(job);
    sem_post(waiting);
    return false;
}

START_TEST(a_job_may_be_gone_when_finished_returns) {
    start(3);
    for (size_t n = 0; n < 50; n++) {
        struct counted *job = malloc(sizeof *job);
        ck_assert_ptr_nonnull(job);
        counted_init(job, n % 5, 1, &over);
        job->job.finished = free_itself;
        attn_scheduler_submit(scheduler, &job->job);
    }
    for (size_t n = 0; n < 50; n++)
        sem_wait(&over);
    stop();
}
END_TEST

START_TEST(a_cancelled_job_runs_no_step_but_finishes) {
    struct counted blocker, job;
    start(1);
    block_worker(&blocker);
    counted_init(&job, 5, 1, &over);
    attn_scheduler_submit(scheduler, &job.job);
    atomic_store(&job.job.cancelled, true);
    sem_post(&gate);
    sem_wait(&over);
    stop();
    ck_assert_uint_eq(atomic_load(&job.steps_done), 0);
    ck_assert_uint_eq(atomic_load(&job.phases_done), 1);
    ck_assert_uint_eq(atomic_load(&blocker.steps_done), 1);
}
END_TEST

START_TEST(steps_after_the_cancelling_one_are_skipped) {
    struct counted job;
    start(1);
    counted_init(&job, 9, 1, &over);
    job.cancel_after = 3;
    job.phases = 3;
    attn_scheduler_submit(scheduler, &job.job);
    sem_wait(&over);
    stop();
    ck_assert_uint_eq(atomic_load(&job.steps_done), 4);
    ck_assert_uint_eq(atomic_load(&job.phases_done), 3);
}
END_TEST

/* The sanitizers' allocators end the process where malloc would return NULL. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TOO_MUCH_MEMORY SIZE_MAX
#else
#define TOO_MUCH_MEMORY (SIZE_MAX / 4)
#endif

START_TEST(a_step_without_workspace_is_skipped_and_said) {
    struct counted greedy, modest;
    start(1);
    counted_init(&greedy, 3, 1, &over);
    greedy.job.workspace_bytes = TOO_MUCH_MEMORY;
    counted_init(&modest, 2, 2, &over);
    modest.job.workspace_bytes = 4096;
    attn_scheduler_submit(scheduler, &greedy.job);
    attn_scheduler_submit(scheduler, &modest.job);
    sem_wait(&over);
    sem_wait(&over);
    stop();
    ck_assert_uint_eq(atomic_load(&greedy.steps_done), 0);
    ck_assert(greedy.lacked_memory);
    ck_assert_uint_eq(atomic_load(&modest.steps_done), 2);
    ck_assert(!modest.lacked_memory);
}
END_TEST

static void take_a_while(struct attn_job *job, size_t index, void *workspace,
                         const struct attn_checkpoint *checkpoint) {
    sleep_milliseconds(1);
    run_step(job, index, workspace, checkpoint);
}

START_TEST(free_waits_for_jobs_and_their_phases) {
    static struct counted jobs[20];
    start(2);
    for (size_t n = 0; n < 20; n++) {
        counted_init(&jobs[n], 3, 1, NULL);
        jobs[n].job.step = take_a_while;
        jobs[n].phases = 2;
        attn_scheduler_submit(scheduler, &jobs[n].job);
    }
    stop();
    for (size_t n = 0; n < 20; n++)
        ck_assert_uint_eq(atomic_load(&jobs[n].steps_done), 6);
    attn_scheduler_free(&scheduler);
}
END_TEST

static void *submit_many(void *jobs) {
    for (size_t n = 0; n < 50; n++) {
        counted_init((struct counted *)jobs + n, 1 + n % 3, 1, &over);
        attn_scheduler_submit(scheduler, &((struct counted *)jobs + n)->job);
        if (n % 5 == 0)
            atomic_store(&((struct counted *)jobs + n)->job.cancelled, true);
        attn_scheduler_read(scheduler);
    }
    return NULL;
}

START_TEST(anybody_may_submit_cancel_and_read_at_once) {
    static struct counted jobs[3][50];
    pthread_t threads[3];
    start(2);
    for (size_t n = 0; n < 3; n++)
        pthread_create(&threads[n], NULL, submit_many, jobs[n]);
    for (size_t n = 0; n < 3; n++)
        pthread_join(threads[n], NULL);
    for (size_t n = 0; n < 150; n++)
        sem_wait(&over);
    stop();
    for (size_t n = 0; n < 150; n++) {
        const struct counted *job = &jobs[n / 50][n % 50];
        ck_assert_uint_eq(atomic_load(&job->phases_done), 1);
        if (n % 50 % 5 != 0)
            ck_assert_uint_eq(atomic_load(&job->steps_done), job->job.steps);
    }
}
END_TEST

START_TEST(inline_runs_the_same_way) {
    struct counted job;
    _Alignas(64) char workspace[128];
    counted_init(&job, 5, 1, NULL);
    job.phases = 3;
    job.job.workspace_bytes = sizeof workspace;
    attn_job_run_inline(&job.job, workspace);
    ck_assert_uint_eq(atomic_load(&job.steps_done), 15);
    ck_assert_uint_eq(job.in_time, 3);

    counted_init(&job, 5, 1, NULL);
    job.cancel_after = 1;
    attn_job_run_inline(&job.job, workspace);
    ck_assert_uint_eq(atomic_load(&job.steps_done), 2);
    ck_assert_uint_eq(atomic_load(&job.phases_done), 1);
}
END_TEST

static Suite *scheduler_suite(void) {
    Suite *suite = suite_create("scheduler");
    TCase *steps = tcase_create("steps");
    tcase_add_test(steps, every_step_of_many_jobs_runs_once);
    tcase_add_test(steps, steps_of_one_job_run_at_once_on_workspaces_of_their_own);
    tcase_add_test(steps, a_job_goes_on_while_finished_says_so);
    tcase_add_test(steps, a_phase_may_change_what_a_step_is);
    tcase_add_test(steps, a_job_may_be_gone_when_finished_returns);
    tcase_add_test(steps, a_step_without_workspace_is_skipped_and_said);
    tcase_add_test(steps, inline_runs_the_same_way);
    suite_add_tcase(suite, steps);
    TCase *cancelling = tcase_create("cancelling");
    tcase_add_test(cancelling, a_cancelled_job_runs_no_step_but_finishes);
    tcase_add_test(cancelling, steps_after_the_cancelling_one_are_skipped);
    tcase_add_test(cancelling, anybody_may_submit_cancel_and_read_at_once);
    tcase_add_test(cancelling, free_waits_for_jobs_and_their_phases);
    suite_add_tcase(suite, cancelling);
    return suite;
}

ATTN_TEST_MAIN(scheduler_suite)
