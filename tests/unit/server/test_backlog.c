/* SPDX-License-Identifier: Apache-2.0 */
/* What is let in beside what is there, shedding, and speeds. */
#include "server/backlog.h"

#include <math.h>
#include <pthread.h>

#include "server/clock.h"
#include "tests/support/test_main.h"

#define SECOND CLOCK_SECOND

enum { WORKERS = 2, MOST = 10 };

static struct backlog *backlog;

static void open_backlog(void) {
    backlog = backlog_create(WORKERS, MOST);
    ck_assert_ptr_nonnull(backlog);
}

static void close_backlog(void) {
    backlog_free(backlog);
}

/* Seconds of all workers. */
static struct backlog_work takes(double seconds) {
    return (struct backlog_work){.pace = BACKLOG_BODY, .seconds = seconds * WORKERS};
}

static double seconds_at(size_t pace, double amount) {
    return backlog_seconds(backlog, (struct backlog_work){.pace = pace, .amount = amount});
}

static bool enter(struct backlog_call *call, double seconds, int64_t now) {
    return backlog_enter(backlog, call, takes(seconds), now).is_let_in;
}

static void leave_all(struct backlog_call *calls, size_t count, int64_t now) {
    for (size_t i = 0; i < count; i++)
        backlog_leave(backlog, &calls[i], now);
}

static bool near(double a, double b) {
    return fabs(a - b) <= 1e-9 * fabs(b);
}

START_TEST(a_call_alone_is_let_in_whatever_it_is) {
    struct backlog_call call = {0};
    ck_assert(enter(&call, 1e6, SECOND));
    backlog_leave(backlog, &call, SECOND);
    backlog_leave(backlog, &call, SECOND); /* nothing: it is not in */
    ck_assert(near(1 + backlog_total(backlog, SECOND), 1));
}
END_TEST

START_TEST(work_ahead_is_bounded) {
    struct backlog_call calls[12] = {0};
    size_t in = 0;
    while (in < 12 && enter(&calls[in], 1, SECOND))
        in++;
    ck_assert_uint_eq(in, MOST + 1); /* the last one finds ten seconds ahead of it */
    ck_assert(near(backlog_total(backlog, SECOND), MOST + 1));
    const struct backlog_answer answer = backlog_ask(backlog, takes(1), SECOND);
    ck_assert(!answer.is_let_in && near(answer.ahead, MOST + 1));
    leave_all(calls, 12, SECOND);
}
END_TEST

START_TEST(what_is_cancelled_is_not_ahead) {
    atomic_bool cancelled = false;
    struct backlog_call long_one = {.cancelled = &cancelled}, other = {0};
    ck_assert(enter(&long_one, 100, SECOND));
    ck_assert(!enter(&other, 100, SECOND));
    atomic_store(&cancelled, true);
    ck_assert(near(1 + backlog_total(backlog, SECOND), 1));
    ck_assert(enter(&other, 100, 3 * SECOND));
    leave_all(&long_one, 1, 3 * SECOND);
    leave_all(&other, 1, 3 * SECOND);
}
END_TEST

/* Of the workers it gets at most what there is until its deadline. */
START_TEST(what_ends_soon_is_ahead_until_then) {
    atomic_int_least64_t deadline = 0;
    struct backlog_call long_one = {.deadline = &deadline}, other = {0};
    ck_assert(enter(&long_one, 100, SECOND));
    ck_assert(!enter(&other, 100, SECOND));
    atomic_store(&deadline, 5 * SECOND);
    ck_assert(near(backlog_total(backlog, SECOND), 4));
    ck_assert(near(1 + backlog_total(backlog, 6 * SECOND), 1));
    const struct backlog_answer answer = backlog_ask(backlog, takes(2), SECOND);
    ck_assert(near(answer.ahead, 2));
    ck_assert(enter(&other, 100, 3 * SECOND));
    leave_all(&long_one, 1, 3 * SECOND);
    leave_all(&other, 1, 3 * SECOND);
}
END_TEST

START_TEST(what_is_done_is_not_ahead) {
    struct backlog_call long_one = {0}, other = {0};
    ck_assert(enter(&long_one, 100, SECOND));
    ck_assert(!enter(&other, 100, SECOND));
    atomic_store(&long_one.tasks, 100);
    atomic_store(&long_one.tasks_done, 95);
    ck_assert(near(backlog_total(backlog, SECOND), 5));
    ck_assert(enter(&other, 100, 3 * SECOND));
    leave_all(&long_one, 1, 3 * SECOND);
    leave_all(&other, 1, 3 * SECOND);
}
END_TEST

/* The shortest is served first, so long calls do not keep it out, shedding or not. */
START_TEST(short_calls_pass_long_ones) {
    struct backlog_call long_ones[2] = {0}, short_ones[100] = {0};
    ck_assert(enter(&long_ones[0], 1000, SECOND));
    ck_assert(!enter(&long_ones[1], 1000, SECOND));
    ck_assert(backlog_sheds(backlog, SECOND));
    for (size_t i = 0; i < 100; i++)
        ck_assert(enter(&short_ones[i], 1e-5, SECOND));
    leave_all(long_ones, 2, SECOND);
    leave_all(short_ones, 100, SECOND);
}
END_TEST

static size_t let_in(struct backlog_call *calls, size_t room, double seconds, int64_t now) {
    size_t count = 0;
    while (count < room && enter(&calls[count], seconds, now))
        count++;
    return count;
}

START_TEST(shedding_lets_few_in) {
    struct backlog_call calls[40] = {0};
    backlog_note_refusal(backlog, SECOND);
    ck_assert(backlog_sheds(backlog, SECOND));
    ck_assert_uint_eq(let_in(calls, 40, 0.1, SECOND), 9); /* eight are ahead of the last one */
    leave_all(calls, 40, SECOND);
    ck_assert_uint_eq(let_in(calls, 40, 0x1p-10, SECOND), 11); /* ten milliseconds are */
    leave_all(calls, 40, SECOND);
}
END_TEST

START_TEST(shedding_keeps_many_workers_busy) {
    enum { MANY = 64 };
    struct backlog *wide = backlog_create(MANY, MOST);
    const struct backlog_work work = {.pace = BACKLOG_BODY, .seconds = 0.01 * MANY};
    struct backlog_call calls[2 * MANY + 1] = {0};
    size_t count = 0;
    backlog_note_refusal(wide, SECOND);
    while (count < 2 * MANY + 1 && backlog_enter(wide, &calls[count], work, SECOND).is_let_in)
        count++;
    ck_assert_uint_eq(count, 2 * MANY);
    backlog_learn(wide, 0, 1e9, 1);
    const int64_t most = (int64_t)(2 * 0.01 * 2 * MANY * SECOND);
    ck_assert(!backlog_is_overdue(wide, &calls[0], most - 1000, SECOND));
    ck_assert(backlog_is_overdue(wide, &calls[0], most + 1000, SECOND));
    for (size_t i = 0; i < count; i++)
        backlog_leave(wide, &calls[i], SECOND);
    backlog_free(wide);
}
END_TEST

START_TEST(shedding_ends) {
    struct backlog_call calls[20] = {0};
    backlog_note_refusal(backlog, 2 * SECOND);
    ck_assert_uint_eq(let_in(calls, 5, 0.1, 2 * SECOND), 5);
    ck_assert(backlog_sheds(backlog, 3 * SECOND - 1)); /* neither long ago nor idle */
    ck_assert_uint_eq(let_in(calls + 5, 15, 0.1, 3 * SECOND), 15);
    ck_assert(!backlog_sheds(backlog, 3 * SECOND));
    backlog_note_refusal(backlog, 3 * SECOND);
    leave_all(calls, 20, 3 * SECOND);
    ck_assert(backlog_sheds(backlog, 3 * SECOND + SECOND / 20));
    ck_assert(!backlog_sheds(backlog, 3 * SECOND + SECOND / 10));
}
END_TEST

START_TEST(a_revised_call_may_have_to_leave) {
    struct backlog_call calls[10] = {0}, late = {0};
    ck_assert_uint_eq(let_in(calls, 10, 2, SECOND), 6);
    ck_assert(enter(&late, 1, SECOND)); /* six seconds of the others are ahead */
    ck_assert(backlog_revise(backlog, &late, takes(1.5), SECOND).is_let_in);
    ck_assert(!backlog_revise(backlog, &late, takes(1.9), SECOND).is_let_in);
    ck_assert(near(backlog_total(backlog, SECOND), 13.9));
    leave_all(calls, 10, SECOND);
    ck_assert(
        backlog_revise(backlog, &late, takes(1e6), SECOND).is_let_in); /* its own is not ahead */
    leave_all(&late, 1, SECOND);
}
END_TEST

/* Who waits longer than those who would be let in now is not kept, once it is known how long that
   is. */
START_TEST(who_waits_too_long_is_overdue) {
    struct backlog_call call = {0};
    ck_assert(enter(&call, 0.1, SECOND));
    ck_assert(!backlog_is_overdue(backlog, &call, 100 * SECOND, SECOND));
    backlog_note_refusal(backlog, SECOND);
    ck_assert(!backlog_is_overdue(backlog, &call, 100 * SECOND, SECOND));
    backlog_learn(backlog, 0, 1e9, 1);
    ck_assert(!backlog_is_overdue(backlog, &call, SECOND / 10 * 15, SECOND));
    ck_assert(backlog_is_overdue(backlog, &call, SECOND / 10 * 17, SECOND));
    ck_assert(!backlog_is_overdue(backlog, &call, SECOND / 10 * 17, 2 * SECOND));
    backlog_note_refusal(backlog, 2 * SECOND);
    ck_assert(!backlog_is_overdue(backlog, &(struct backlog_call){0}, SECOND, 2 * SECOND));
    leave_all(&call, 1, SECOND);
    ck_assert(enter(&call, 1e-4, 2 * SECOND)); /* a step may be longer than many short calls */
    ck_assert(!backlog_is_overdue(backlog, &call, SECOND / 100 * 9, 2 * SECOND));
    ck_assert(backlog_is_overdue(backlog, &call, SECOND / 100 * 11, 2 * SECOND));
    leave_all(&call, 1, 2 * SECOND);
}
END_TEST

START_TEST(no_limit_refuses_nobody) {
    struct backlog *open = backlog_create(WORKERS, 0);
    struct backlog_call calls[3] = {0};
    backlog_note_refusal(open, SECOND);
    ck_assert(!backlog_sheds(open, SECOND));
    for (size_t i = 0; i < 3; i++)
        ck_assert(backlog_enter(open, &calls[i], takes(1e9), SECOND).is_let_in);
    for (size_t i = 0; i < 3; i++)
        backlog_leave(open, &calls[i], SECOND);
    backlog_free(open);
}
END_TEST

START_TEST(kept_calls_are_not_asked) {
    struct backlog_call calls[2] = {0};
    ck_assert(enter(&calls[0], 100, SECOND));
    ck_assert(backlog_enter_anyway(backlog, &calls[1], takes(100)).is_let_in);
    ck_assert(near(backlog_total(backlog, SECOND), 200));
    ck_assert(!backlog_sheds(backlog, SECOND));
    leave_all(calls, 2, SECOND);
}
END_TEST

START_TEST(speeds_are_learnt) {
    struct backlog_call call = {0};
    ck_assert(near(seconds_at(0, 1e9), 1e9 / (WORKERS * 50e9)));
    ck_assert(backlog_enter(backlog, &call, (struct backlog_work){.pace = 3, .amount = 4e9}, 0)
                  .is_let_in);
    for (int i = 0; i < 20; i++)
        backlog_learn(backlog, 3, 1e9, 1);
    ck_assert(fabs(seconds_at(3, 4e9) - 4.0 / WORKERS) < 0.01);
    ck_assert(fabs(backlog_total(backlog, SECOND) - 4.0 / WORKERS) <
              0.01); /* of those that are in, too */
    ck_assert(near(seconds_at(0, 1e9), 1e9 / (WORKERS * 50e9)));
    for (int i = 0; i < 20; i++)
        backlog_learn(backlog, 3, 2e9, 1);
    ck_assert(fabs(seconds_at(3, 4e9) - 2.0 / WORKERS) < 0.01);
    backlog_learn(backlog, 3, 0, 5);
    backlog_learn(backlog, 3, 5, 0);
    ck_assert(fabs(seconds_at(3, 4e9) - 2.0 / WORKERS) < 0.01);
    leave_all(&call, 1, 0);
}
END_TEST

/* The first that is measured counts, however far from what was assumed. */
START_TEST(one_call_tells_much) {
    backlog_learn(backlog, 0, 1e8, 0.5);
    ck_assert(fabs(seconds_at(0, 1e9) / (5.0 / WORKERS) - 1) < 0.01);
    backlog_learn(backlog, 1, 100, 50e-6); /* but not one that was over at once */
    ck_assert(near(seconds_at(1, 1e9), 1e9 / (WORKERS * 50e9)));
    backlog_learn(backlog, BACKLOG_BODY, 1e6, 0.5);
    ck_assert(fabs(seconds_at(BACKLOG_BODY, 1e6) / (0.5 / WORKERS) - 1) < 0.01);
}
END_TEST

/* Two short bodies during which something else had the processor. */
START_TEST(a_worker_that_was_held_up_tells_little) {
    const double before = seconds_at(BACKLOG_BODY, 260e3);
    backlog_learn(backlog, BACKLOG_BODY, 57, 4e-3);
    backlog_learn(backlog, BACKLOG_BODY, 57, 9e-3);
    ck_assert(seconds_at(BACKLOG_BODY, 260e3) < 3 * before);
    backlog_learn(backlog, BACKLOG_BODY, 260e3, 0.5e-3); /* what is quicker counts, however short */
    ck_assert(seconds_at(BACKLOG_BODY, 260e3) < 1.1 * 0.5e-3 / WORKERS);
}
END_TEST

START_TEST(short_calls_that_are_slow_are_learnt) {
    for (int i = 0; i < 20; i++)
        backlog_learn(backlog, 0, 1e6, 5e-3);
    ck_assert(fabs(seconds_at(0, 1e6) / (5e-3 / WORKERS) - 1) < 0.1);
}
END_TEST

/* Few bytes that asked for long work do not make hours of the next long body. */
START_TEST(a_body_is_no_more_than_a_guess) {
    backlog_learn(backlog, BACKLOG_BODY, 300, 1);
    ck_assert(near(seconds_at(BACKLOG_BODY, 1e7), 1.0 / WORKERS));
}
END_TEST

enum { THREADS = 4, TURNS = 5000 };

static void *take_turns(void *context) {
    struct backlog *shared = context;
    for (int i = 0; i < TURNS; i++) {
        struct backlog_call call = {0};
        if (!backlog_enter(shared, &call, takes(4), i).is_let_in)
            continue;
        atomic_store(&call.tasks, 2);
        backlog_revise(shared, &call, takes(1 + i % 5), i);
        atomic_fetch_add(&call.tasks_done, 1);
        backlog_learn(shared, (size_t)i % BACKLOG_BODY, 1e6, 1e-5);
        backlog_is_overdue(shared, &call, i, i);
        backlog_leave(shared, &call, i);
    }
    return NULL;
}

START_TEST(threads) {
    pthread_t running[THREADS];
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&running[i], NULL, take_turns, backlog), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(running[i], NULL);
    ck_assert(near(1 + backlog_total(backlog, SECOND), 1));
}
END_TEST

static Suite *backlog_suite(void) {
    Suite *suite = suite_create("backlog");
    TCase *tests = tcase_create("backlog");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, open_backlog, close_backlog);
    tcase_add_test(tests, a_call_alone_is_let_in_whatever_it_is);
    tcase_add_test(tests, work_ahead_is_bounded);
    tcase_add_test(tests, what_is_cancelled_is_not_ahead);
    tcase_add_test(tests, what_ends_soon_is_ahead_until_then);
    tcase_add_test(tests, what_is_done_is_not_ahead);
    tcase_add_test(tests, short_calls_pass_long_ones);
    tcase_add_test(tests, shedding_lets_few_in);
    tcase_add_test(tests, shedding_keeps_many_workers_busy);
    tcase_add_test(tests, shedding_ends);
    tcase_add_test(tests, a_revised_call_may_have_to_leave);
    tcase_add_test(tests, who_waits_too_long_is_overdue);
    tcase_add_test(tests, kept_calls_are_not_asked);
    tcase_add_test(tests, no_limit_refuses_nobody);
    tcase_add_test(tests, speeds_are_learnt);
    tcase_add_test(tests, a_worker_that_was_held_up_tells_little);
    tcase_add_test(tests, short_calls_that_are_slow_are_learnt);
    tcase_add_test(tests, one_call_tells_much);
    tcase_add_test(tests, a_body_is_no_more_than_a_guess);
    tcase_add_test(tests, threads);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(backlog_suite)
