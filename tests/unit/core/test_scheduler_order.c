/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which job the scheduler takes: the one with the least remaining cost, unless another has waited;
 * and what it says about those inside.
 */
#include "tests/unit/core/scheduler_fixture.h"

#include <math.h>

START_TEST(stats_say_what_is_inside_and_return_to_zero) {
    struct counted blocker, waiting;
    start(1);
    struct attn_scheduler_stats stats = attn_scheduler_read(scheduler);
    ck_assert_uint_eq(stats.workers, 1);
    ck_assert_uint_eq(stats.jobs_queued + stats.jobs_running, 0);
    ck_assert(stats.busy_seconds == 0 && stats.backlog_seconds == 0);

    block_worker(&blocker);
    counted_init(&waiting, 4, 2.5, &over);
    attn_scheduler_submit(scheduler, &waiting.job);
    stats = attn_scheduler_read(scheduler);
    ck_assert_uint_eq(stats.jobs_running, 1);
    ck_assert_uint_eq(stats.jobs_queued, 1);
    ck_assert(stats.backlog_seconds == 2.5);
    sleep_milliseconds(2);
    sem_post(&gate);
    sem_wait(&over);

    stats = attn_scheduler_read(scheduler);
    ck_assert_uint_eq(stats.jobs_queued + stats.jobs_running, 0);
    ck_assert(stats.backlog_seconds == 0);
    ck_assert_msg(stats.busy_seconds >= 0.002, "%g", stats.busy_seconds);
    stop();
}
END_TEST

/* Letters of the jobs in the order in which their steps ran. */
static void add_lettered(struct counted *job, char letter, size_t steps, double cost) {
    counted_init(job, steps, cost, &over);
    job->order = &order;
    job->letter = letter;
    attn_scheduler_submit(scheduler, &job->job);
}

START_TEST(the_shortest_job_goes_first) {
    struct counted blocker, jobs[4];
    start(1);
    block_worker(&blocker);
    add_lettered(&jobs[0], 'l', 2, 1000);
    add_lettered(&jobs[1], 's', 2, 10);
    add_lettered(&jobs[2], 'm', 2, 100);
    add_lettered(&jobs[3], 't', 2, 1);
    sem_post(&gate);
    stop();
    ck_assert_str_eq(order.text, "ttssmmll");
}
END_TEST

START_TEST(what_counts_is_the_cost_that_remains) {
    struct counted jobs[3];
    start(1);
    counted_init(&jobs[0], 4, 4000, &over);
    jobs[0].order = &order;
    jobs[0].letter = 'a';
    jobs[0].gate = &gate;
    jobs[0].gate_at = 2;
    jobs[0].entered = &entered;
    attn_scheduler_submit(scheduler, &jobs[0].job);
    sem_wait(&entered);
    add_lettered(&jobs[1], 'b', 1, 2000);
    add_lettered(&jobs[2], 'c', 1, 500);
    sem_post(&gate);
    stop();
    ck_assert_str_eq(order.text, "aaacab");
}
END_TEST

/* However long the machine pauses here, the first has waited that much longer. */
START_TEST(a_job_that_has_waited_goes_before_a_shorter_one) {
    struct counted blocker, jobs[2];
    start(1);
    block_worker(&blocker);
    add_lettered(&jobs[0], 'o', 1, 0.02);
    sleep_milliseconds(200);
    add_lettered(&jobs[1], 'n', 1, 0.001);
    sem_post(&gate);
    stop();
    ck_assert_str_eq(order.text, "on");
}
END_TEST

START_TEST(a_cost_that_is_no_number_does_not_starve) {
    struct counted jobs[2];
    start(1);
    counted_init(&jobs[0], 3, NAN, &over);
    counted_init(&jobs[1], 3, INFINITY, &over);
    attn_scheduler_submit(scheduler, &jobs[0].job);
    attn_scheduler_submit(scheduler, &jobs[1].job);
    sem_wait(&over);
    sem_wait(&over);
    stop();
    ck_assert_uint_eq(atomic_load(&jobs[0].steps_done), 3);
    ck_assert_uint_eq(atomic_load(&jobs[1].steps_done), 3);
}
END_TEST

static void add_last(struct counted *job, char letter, size_t steps, double cost) {
    counted_init(job, steps, cost, &over);
    job->order = &order;
    job->letter = letter;
    job->job.last = true;
    attn_scheduler_submit(scheduler, &job->job);
}

/* However cheap they are, and however long they have waited. */
START_TEST(last_jobs_go_behind_all_others) {
    struct counted blocker, jobs[4];
    start(1);
    block_worker(&blocker);
    add_last(&jobs[0], 'y', 2, 0.002);
    add_last(&jobs[1], 'x', 2, 0.001);
    sleep_milliseconds(100);
    add_lettered(&jobs[2], 'b', 2, 100);
    add_lettered(&jobs[3], 'a', 2, 10);
    sem_post(&gate);
    stop();
    ck_assert_str_eq(order.text, "aabbxxyy");
}
END_TEST

static Suite *scheduler_order_suite(void) {
    Suite *suite = suite_create("scheduler_order");
    TCase *choosing = tcase_create("choosing");
    tcase_add_test(choosing, stats_say_what_is_inside_and_return_to_zero);
    tcase_add_test(choosing, the_shortest_job_goes_first);
    tcase_add_test(choosing, what_counts_is_the_cost_that_remains);
    tcase_add_test(choosing, a_job_that_has_waited_goes_before_a_shorter_one);
    tcase_add_test(choosing, a_cost_that_is_no_number_does_not_starve);
    tcase_add_test(choosing, last_jobs_go_behind_all_others);
    suite_add_tcase(suite, choosing);
    return suite;
}

ATTN_TEST_MAIN(scheduler_order_suite)
