/* SPDX-License-Identifier: Apache-2.0 */
/* The byte budget, the line for it, and the queue limit. */
#include "server/admission.h"

#include <pthread.h>
#include <stdatomic.h>

#include "tests/support/test_main.h"

struct caller {
    struct admission_waiter waiter; /* first: a waiter is its caller */
    atomic_int granted;
};

static void granted(struct admission_waiter *waiter) {
    atomic_fetch_add(&((struct caller *)waiter)->granted, 1);
}

static struct caller caller_of(size_t bytes) {
    return (struct caller){.waiter = {.bytes = bytes, .granted = granted}};
}

START_TEST(reserve_and_release) {
    struct admission *admission = admission_create(100, 4);
    ck_assert_int_eq(admission_reserve(admission, 60, ADMISSION_LATER), ADMISSION_GRANTED);
    ck_assert_int_eq(admission_reserve(admission, 41, ADMISSION_LATER), ADMISSION_NO_ROOM);
    ck_assert_int_eq(admission_reserve(admission, 40, ADMISSION_LATER), ADMISSION_GRANTED);
    ck_assert_int_eq(admission_reserve(admission, 101, ADMISSION_LATER), ADMISSION_TOO_LARGE);
    ck_assert_uint_eq(admission_bytes(admission), 100);
    admission_release(admission, 100);
    ck_assert_uint_eq(admission_bytes(admission), 0);
    admission_free(admission);
}
END_TEST

/* First come, first served: a small call does not overtake a large one in the line. */
START_TEST(the_line_is_served_in_order) {
    struct admission *admission = admission_create(100, 4);
    struct caller large = caller_of(80), small = caller_of(10);
    ck_assert_int_eq(admission_reserve(admission, 50, ADMISSION_FIRST), ADMISSION_GRANTED);
    ck_assert_int_eq(admission_ask(admission, &large.waiter), ADMISSION_WAITING);
    ck_assert_int_eq(admission_ask(admission, &small.waiter), ADMISSION_WAITING);
    ck_assert_int_eq(admission_reserve(admission, 10, ADMISSION_FIRST), ADMISSION_NO_ROOM);
    ck_assert_int_eq(admission_reserve(admission, 10, ADMISSION_LATER), ADMISSION_GRANTED);
    ck_assert_uint_eq(admission_queue_depth(admission), 2);
    admission_release(admission, 20);
    ck_assert_int_eq(large.granted, 0);
    admission_release(admission, 40);
    ck_assert_int_eq(large.granted, 1);
    ck_assert_int_eq(small.granted, 1);
    ck_assert_uint_eq(admission_bytes(admission), 90);
    admission_release(admission, 90);
    admission_free(admission);
}
END_TEST

START_TEST(leaving_lets_the_next_in) {
    struct admission *admission = admission_create(100, 4);
    struct caller large = caller_of(80), small = caller_of(10);
    ck_assert_int_eq(admission_reserve(admission, 50, ADMISSION_FIRST), ADMISSION_GRANTED);
    ck_assert_int_eq(admission_ask(admission, &large.waiter), ADMISSION_WAITING);
    ck_assert_int_eq(admission_ask(admission, &small.waiter), ADMISSION_WAITING);
    ck_assert(admission_leave(admission, &large.waiter));
    ck_assert_int_eq(large.granted, 0);
    ck_assert_int_eq(small.granted, 1);
    ck_assert(!admission_leave(admission, &small.waiter)); /* granted: its bytes are its own */
    admission_release(admission, 60);
    admission_free(admission);
}
END_TEST

START_TEST(the_queue_is_bounded) {
    struct admission *admission = admission_create(100, 2);
    struct caller caller = caller_of(80), late = caller_of(80);
    ck_assert(admission_enter_queue(admission, ADMISSION_LATER));
    ck_assert_int_eq(admission_reserve(admission, 50, ADMISSION_FIRST), ADMISSION_GRANTED);
    ck_assert_int_eq(admission_ask(admission, &caller.waiter), ADMISSION_WAITING);
    ck_assert(!admission_enter_queue(admission, ADMISSION_LATER));
    ck_assert_int_eq(admission_ask(admission, &late.waiter), ADMISSION_NO_ROOM);
    admission_leave_queue(admission);
    ck_assert(admission_enter_queue(admission, ADMISSION_LATER));
    admission_leave_queue(admission);
    ck_assert(admission_leave(admission, &caller.waiter));
    admission_release(admission, 50);
    admission_free(admission);
}
END_TEST

START_TEST(nothing_ever_fits_beyond_the_budget) {
    struct admission *admission = admission_create(100, 2);
    struct caller caller = caller_of(101);
    ck_assert_int_eq(admission_ask(admission, &caller.waiter), ADMISSION_TOO_LARGE);
    admission_free(admission);
}
END_TEST

START_TEST(a_little_is_kept) {
    enum { BUDGET = 640, KEPT = BUDGET / ADMISSION_KEPT_PART };
    struct admission *admission = admission_create(BUDGET, 1);
    struct caller waiting = caller_of(1), other = caller_of(1), kept = caller_of(1);
    other.waiter.right = kept.waiter.right = ADMISSION_KEPT;
    ck_assert_int_eq(admission_reserve(admission, BUDGET, ADMISSION_LATER), ADMISSION_GRANTED);
    ck_assert_int_eq(admission_ask(admission, &waiting.waiter), ADMISSION_WAITING);
    ck_assert_int_eq(admission_reserve(admission, 1, ADMISSION_LATER), ADMISSION_NO_ROOM);
    ck_assert_int_eq(admission_reserve(admission, KEPT, ADMISSION_KEPT), ADMISSION_GRANTED);
    ck_assert_int_eq(admission_reserve(admission, 1, ADMISSION_KEPT), ADMISSION_NO_ROOM);
    ck_assert_int_eq(admission_reserve(admission, 1, ADMISSION_LATER), ADMISSION_NO_ROOM);
    ck_assert(!admission_enter_queue(admission, ADMISSION_LATER));
    for (int i = 1; i < ADMISSION_KEPT_PLACES; i++)
        ck_assert(admission_enter_queue(admission, ADMISSION_KEPT));
    ck_assert_int_eq(admission_ask(admission, &kept.waiter), ADMISSION_WAITING);
    ck_assert_int_eq(admission_ask(admission, &other.waiter), ADMISSION_NO_ROOM);
    ck_assert(!admission_enter_queue(admission, ADMISSION_KEPT));
    admission_release(admission, KEPT);
    ck_assert_int_eq(waiting.granted + kept.granted,
                     0); /* in turn, and the first is none of them */
    admission_release(admission, 1);
    ck_assert_int_eq(waiting.granted, 1);
    ck_assert_int_eq(kept.granted, 1);
    for (int i = 1; i < ADMISSION_KEPT_PLACES; i++)
        admission_leave_queue(admission);
    admission_release(admission, BUDGET + 1);
    admission_free(admission);
}
END_TEST

START_TEST(what_is_kept_is_not_much) {
    struct admission *admission = admission_create((size_t)1 << 40, 1);
    const size_t budget = admission_budget(admission);
    ck_assert_uint_eq(budget, (size_t)1 << 40);
    ck_assert_int_eq(admission_reserve(admission, budget, ADMISSION_KEPT), ADMISSION_GRANTED);
    ck_assert_int_eq(admission_reserve(admission, ADMISSION_KEPT_MOST + 1, ADMISSION_KEPT),
                     ADMISSION_NO_ROOM);
    ck_assert_int_eq(admission_reserve(admission, ADMISSION_KEPT_MOST, ADMISSION_KEPT),
                     ADMISSION_GRANTED);
    admission_release(admission, budget + ADMISSION_KEPT_MOST);
    admission_free(admission);
}
END_TEST

enum { THREADS = 4, TURNS = 5000 };

static void *take_turns(void *context) {
    struct admission *admission = context;
    for (int i = 0; i < TURNS; i++) {
        struct caller caller = caller_of((size_t)(i % 60) + 1);
        const enum admission_answer answer = admission_ask(admission, &caller.waiter);
        const bool stays = i % 3 != 0;
        if (answer == ADMISSION_WAITING && !stays && admission_leave(admission, &caller.waiter))
            continue;
        while (answer == ADMISSION_WAITING && atomic_load(&caller.granted) == 0)
            ;
        if (answer == ADMISSION_GRANTED || answer == ADMISSION_WAITING)
            admission_release(admission, caller.waiter.bytes);
    }
    return NULL;
}

START_TEST(threads) {
    struct admission *admission = admission_create(100, 3);
    pthread_t running[THREADS];
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&running[i], NULL, take_turns, admission), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(running[i], NULL);
    ck_assert_uint_eq(admission_bytes(admission), 0);
    ck_assert_uint_eq(admission_queue_depth(admission), 0);
    admission_free(admission);
}
END_TEST

static Suite *admission_suite(void) {
    Suite *suite = suite_create("admission");
    TCase *tests = tcase_create("admission");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, reserve_and_release);
    tcase_add_test(tests, the_line_is_served_in_order);
    tcase_add_test(tests, leaving_lets_the_next_in);
    tcase_add_test(tests, the_queue_is_bounded);
    tcase_add_test(tests, nothing_ever_fits_beyond_the_budget);
    tcase_add_test(tests, a_little_is_kept);
    tcase_add_test(tests, what_is_kept_is_not_much);
    tcase_add_test(tests, threads);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(admission_suite)
