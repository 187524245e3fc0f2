/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What runs while a step waits at a checkpoint: short steps of cheaper jobs, in a workspace of
 * their own, one after the other, and never for ever. Run it under tsan as well.
 */
#include "tests/unit/core/scheduler_fixture.h"

/* Planned seconds: so many that what the test itself waits changes no order. */
#define BRIEF 1e3
#define LONG 1e6

/* Brings a step of `outer` to its gate; behind it, it passes checkpoints. Noted as "o" at its end.
 */
static void hold(struct counted *outer, size_t steps, double cost) {
    counted_init(outer, steps, cost, &over);
    outer->gate = &gate;
    outer->entered = &entered;
    outer->looks = 3;
    outer->order = &order;
    outer->last_letter = 'o';
    outer->job.workspace_bytes = 1000;
    attn_scheduler_submit(scheduler, &outer->job);
    sem_wait(&entered);
}

static void add(struct counted *job, char letter, size_t steps, double cost) {
    counted_init(job, steps, cost, NULL);
    job->order = &order;
    job->letter = letter;
    job->job.workspace_bytes = 3000;
    attn_scheduler_submit(scheduler, &job->job);
}

/* The step at the gate goes on. It passes checkpoints until so much is noted, and a few. */
static void release(struct counted *outer, size_t awaited) {
    outer->awaited = awaited;
    sem_post(&gate);
    stop();
}

START_TEST(cheaper_jobs_run_at_a_checkpoint_to_their_ends) {
    struct counted outer, jobs[3];
    start(1);
    hold(&outer, 1, LONG);
    add(&jobs[0], 'a', 2, 3 * BRIEF);
    add(&jobs[1], 'b', 3, BRIEF);
    add(&jobs[2], 'c', 1, 2 * BRIEF);
    jobs[1].phases = 2;
    release(&outer, 9);
    ck_assert_str_eq(order.text, "bbbbbbcaao");
    for (size_t n = 0; n < 3; n++)
        ck_assert(!jobs[n].spoiled && !jobs[n].misaligned && !jobs[n].lacked_memory);
    ck_assert(!outer.spoiled && !outer.stopped);
}
END_TEST

START_TEST(dearer_jobs_wait) {
    struct counted outer, dear;
    start(1);
    hold(&outer, 1, BRIEF);
    add(&dear, 'd', 1, 2 * BRIEF);
    release(&outer, 0);
    ck_assert_str_eq(order.text, "od");
}
END_TEST

static void hold_last(struct counted *outer, double cost) {
    counted_init(outer, 1, cost, &over);
    outer->gate = &gate;
    outer->entered = &entered;
    outer->looks = 3;
    outer->order = &order;
    outer->last_letter = 'o';
    outer->job.last = true;
    attn_scheduler_submit(scheduler, &outer->job);
    sem_wait(&entered);
}

/* Also by dearer jobs, as long as their steps are short, and beyond any credit; but not by its
   like. */
START_TEST(a_last_job_is_interrupted_by_any_other) {
    struct counted outer, dear, like;
    start(1);
    hold_last(&outer, BRIEF);
    add(&dear, 'd', 10, 2 * BRIEF);
    counted_init(&like, 1, 1, NULL);
    like.order = &order;
    like.letter = 'l';
    like.job.last = true;
    attn_scheduler_submit(scheduler, &like.job);
    release(&outer, 10);
    ck_assert_str_eq(order.text, "ddddddddddol");
}
END_TEST

START_TEST(a_last_job_interrupts_nobody) {
    struct counted outer, last;
    start(1);
    hold(&outer, 1, LONG);
    counted_init(&last, 1, 0, NULL);
    last.order = &order;
    last.letter = 'l';
    last.job.last = true;
    attn_scheduler_submit(scheduler, &last.job);
    release(&outer, 0);
    ck_assert_str_eq(order.text, "ol");
}
END_TEST

/* The step that waits counts, though it is the job's last: what it costs has not been paid. */
START_TEST(what_counts_is_what_remains_of_the_outer_job) {
    struct counted outer, cheaper, dearer;
    start(1);
    hold(&outer, 2, 10 * BRIEF);
    outer.gate_at = 1;
    sem_post(&gate);
    sem_wait(&entered);
    add(&dearer, 'd', 6, 6 * BRIEF);
    add(&cheaper, 'c', 4, 4 * BRIEF);
    release(&outer, 5);
    ck_assert_str_eq(order.text, "occccodddddd");
}
END_TEST

/* It would keep what comes after it waiting for longer than the step that it interrupts. */
START_TEST(a_long_step_does_not_interrupt) {
    struct counted outer, lengthy, short_steps;
    start(1);
    hold(&outer, 10, 40 * BRIEF);
    add(&lengthy, 'l', 1, 3 * BRIEF);
    add(&short_steps, 's', 10, 9 * BRIEF);
    release(&outer, 10);
    ck_assert_str_eq(order.text, "ssssssssssolooooooooo");
}
END_TEST

/* It may wait for the very step that it would interrupt, or for one that waits for this worker. */
START_TEST(steps_that_wait_for_others_do_not_interrupt) {
    struct counted outer, waiting, brief;
    start(1);
    hold(&outer, 1, LONG);
    add(&waiting, 'w', 1, BRIEF);
    waiting.job.steps_wait = true;
    add(&brief, 'b', 1, 2 * BRIEF);
    release(&outer, 1);
    ck_assert_str_eq(order.text, "bow");
}
END_TEST

START_TEST(a_quarter_of_a_very_long_step_is_not_long) {
    struct counted outer, lengthy;
    start(1);
    hold(&outer, 1, LONG);
    add(&lengthy, 'l', 1, LONG / 5);
    release(&outer, 1);
    ck_assert_str_eq(order.text, "lo");
}
END_TEST

static void submit_at_once(struct attn_job *job, size_t index, void *workspace,
                           const struct attn_checkpoint *checkpoint) {
    static struct counted inner;
    add(&inner, 'i', 1, 0);
    run_step(job, index, workspace, checkpoint);
}

START_TEST(what_runs_at_a_checkpoint_is_not_interrupted) {
    struct counted outer, nested;
    start(1);
    hold(&outer, 1, LONG);
    counted_init(&nested, 1, BRIEF, NULL);
    nested.order = &order;
    nested.last_letter = 'n';
    nested.looks = 5;
    nested.job.step = submit_at_once;
    attn_scheduler_submit(scheduler, &nested.job);
    release(&outer, 2);
    ck_assert_str_eq(order.text, "nio");
}
END_TEST

START_TEST(a_worker_has_one_step_of_a_job_in_hand) {
    struct counted outer;
    start(1);
    hold(&outer, 4, BRIEF);
    outer.letter = 'b';
    release(&outer, 0);
    ck_assert_str_eq(order.text, "obobobo");
    ck_assert(!outer.spoiled);
}
END_TEST

START_TEST(a_cancelled_job_is_over_at_a_checkpoint) {
    struct counted outer, cancelled, brief;
    start(1);
    hold(&outer, 1, LONG);
    add(&cancelled, 'c', 1, 2 * BRIEF);
    add(&brief, 'b', 1, BRIEF);
    atomic_store(&cancelled.job.cancelled, true);
    release(&outer, 1);
    ck_assert_str_eq(order.text, "bo");
    ck_assert_uint_eq(atomic_load(&cancelled.phases_done), 1);
}
END_TEST

/* ---- nothing starves ---- */

/* Planned seconds of a step that may interrupt any. */
#define MOMENT 1e-4

enum { STREAM_SECONDS = 20 };

/* A brief job that comes again for as long as the long one is there. */
struct stream {
    struct counted counted;
    struct counted *until;
    time_t end;
    unsigned rounds;
};

static bool come_again(struct attn_job *job) {
    struct stream *stream = (struct stream *)job;
    const bool over_now = atomic_load(&stream->until->phases_done) > 0 || time(NULL) > stream->end;
    stream->rounds++;
    if (!over_now)
        attn_scheduler_submit(scheduler, job);
    return false;
}

static void spend(struct attn_job *job, size_t index, void *workspace,
                  const struct attn_checkpoint *checkpoint) {
    (void)job, (void)index, (void)workspace, (void)checkpoint;
    sleep_milliseconds(1);
}

/* Two that take turns: at every checkpoint one is there. */
START_TEST(a_stream_of_cheaper_jobs_does_not_starve_a_long_one) {
    static struct stream streams[2];
    struct counted outer;
    start(1);
    hold(&outer, 2, 0.05);
    for (size_t n = 0; n < 2; n++) {
        counted_init(&streams[n].counted, 1, MOMENT, NULL);
        streams[n].counted.job.step = spend;
        streams[n].counted.job.finished = come_again;
        streams[n].until = &outer;
        streams[n].end = time(NULL) + STREAM_SECONDS;
        streams[n].rounds = 0;
        attn_scheduler_submit(scheduler, &streams[n].counted.job);
    }
    release(&outer, 0);
    ck_assert_uint_eq(atomic_load(&outer.steps_done), 2);
    ck_assert(time(NULL) <= streams[0].end);
    ck_assert_uint_ge(streams[0].rounds + streams[1].rounds, 2);
}
END_TEST

/* Not among those that wait, but for the one that is at work. */
START_TEST(age_does_not_count_at_a_checkpoint) {
    struct counted outer, equal, brief;
    start(1);
    hold(&outer, 1, 2 * MOMENT);
    add(&equal, 'e', 1, 2 * MOMENT);
    sleep_milliseconds(100);
    add(&brief, 'b', 1, MOMENT);
    release(&outer, 1);
    ck_assert_str_eq(order.text, "boe");
}
END_TEST

/* A long step that looks up once, beside a job of brief ones that comes again and again. */
static void run_beside(struct counted *outer, struct stream *stream,
                       void (*step)(struct attn_job *, size_t, void *,
                                    const struct attn_checkpoint *)) {
    start(1);
    hold(outer, 1, LONG);
    outer->looks = 1;
    counted_init(&stream->counted, 1, MOMENT, NULL);
    stream->counted.job.step = step;
    stream->counted.job.finished = come_again;
    stream->until = outer;
    stream->end = time(NULL) + STREAM_SECONDS;
    attn_scheduler_submit(scheduler, &stream->counted.job);
    release(outer, 0);
}

/* A worker gives as much as it takes, and a little at first. */
START_TEST(a_step_has_half_of_its_workers_time) {
    static struct stream stream;
    struct counted outer;
    run_beside(&outer, &stream, spend);
    ck_assert_uint_ge(stream.rounds, 1);
    ck_assert_uint_le(stream.rounds, 11 + 1); /* a millisecond each, of ten; and one afterwards */
}
END_TEST

static void cancel_long_one(struct attn_job *job, size_t index, void *workspace,
                            const struct attn_checkpoint *checkpoint) {
    struct stream *stream = (struct stream *)job;
    spend(job, index, workspace, checkpoint);
    atomic_store(&stream->until->job.cancelled, true);
}

START_TEST(a_step_that_is_cancelled_meanwhile_hears_of_it_at_once) {
    static struct stream stream;
    struct counted outer;
    run_beside(&outer, &stream, cancel_long_one);
    ck_assert(outer.stopped);
    ck_assert_uint_le(stream.rounds, 2);
}
END_TEST

/* ---- many at once ---- */

START_TEST(many_jobs_interrupt_each_other) {
    enum { JOBS = 300 };
    static struct counted jobs[JOBS];
    start(3);
    for (size_t n = 0; n < JOBS; n++) {
        counted_init(&jobs[n], 1 + n % 7, (double)(1 + n * 37 % 11) * MOMENT, &over);
        jobs[n].looks = 4;
        jobs[n].phases = 1 + n % 2;
        jobs[n].job.workspace_bytes = n % 50 == 0 ? 3 << 20 : 64 * (n % 40);
        attn_scheduler_submit(scheduler, &jobs[n].job);
        if (n % 13 == 0)
            atomic_store(&jobs[n].job.cancelled, true);
    }
    for (size_t n = 0; n < JOBS; n++)
        sem_wait(&over);
    stop();
    for (size_t n = 0; n < JOBS; n++) {
        ck_assert_uint_eq(atomic_load(&jobs[n].phases_done), jobs[n].phases);
        ck_assert(!jobs[n].spoiled && !jobs[n].misaligned && !jobs[n].lacked_memory);
        for (size_t step = 0; step < jobs[n].job.steps && n % 13 != 0; step++)
            ck_assert_uint_eq(atomic_load(&jobs[n].ran[step]), jobs[n].phases);
    }
}
END_TEST

static Suite *scheduler_checkpoints_suite(void) {
    Suite *suite = suite_create("scheduler_checkpoints");
    TCase *order_of = tcase_create("what runs");
    tcase_add_test(order_of, a_last_job_is_interrupted_by_any_other);
    tcase_add_test(order_of, a_last_job_interrupts_nobody);
    tcase_add_test(order_of, cheaper_jobs_run_at_a_checkpoint_to_their_ends);
    tcase_add_test(order_of, dearer_jobs_wait);
    tcase_add_test(order_of, what_counts_is_what_remains_of_the_outer_job);
    tcase_add_test(order_of, a_long_step_does_not_interrupt);
    tcase_add_test(order_of, steps_that_wait_for_others_do_not_interrupt);
    tcase_add_test(order_of, a_quarter_of_a_very_long_step_is_not_long);
    tcase_add_test(order_of, what_runs_at_a_checkpoint_is_not_interrupted);
    tcase_add_test(order_of, a_worker_has_one_step_of_a_job_in_hand);
    tcase_add_test(order_of, a_cancelled_job_is_over_at_a_checkpoint);
    suite_add_tcase(suite, order_of);
    TCase *starving = tcase_create("starving");
    tcase_set_timeout(starving, 2 * STREAM_SECONDS);
    tcase_add_test(starving, a_stream_of_cheaper_jobs_does_not_starve_a_long_one);
    tcase_add_test(starving, age_does_not_count_at_a_checkpoint);
    tcase_add_test(starving, a_step_has_half_of_its_workers_time);
    tcase_add_test(starving, a_step_that_is_cancelled_meanwhile_hears_of_it_at_once);
    suite_add_tcase(suite, starving);
    TCase *many = tcase_create("many");
    tcase_add_test(many, many_jobs_interrupt_each_other);
    suite_add_tcase(suite, many);
    return suite;
}

ATTN_TEST_MAIN(scheduler_checkpoints_suite)
