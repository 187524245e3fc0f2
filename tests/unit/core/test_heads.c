/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places of packed heads, without a kernel: which place a head gets, when it is packed anew, that a
 * place somebody holds is nobody else's, and which task a thread is given next.
 */
#include "core/heads.h"
#include "tests/support/test_main.h"

#include <pthread.h>
#include <string.h>

enum { THREADS = 2, PACKED = 128, EMPTY = 0, OPENED = 7 };

static const struct attn_call CALL = {.B = 1};

static void packed_open(const struct attn_call *call, const struct attn_grid *grid, void *packed) {
    ck_assert_ptr_eq(call, &CALL);
    ck_assert_uint_eq(grid->row_tile, 16);
    memset(packed, OPENED, PACKED);
}

static const struct attn_kernel KERNEL = {.packed_open = packed_open};
static const struct attn_plan PLAN = {.kernel = &KERNEL,
                                      .grid = {.row_tile = 16},
                                      .row_tiles = 1,
                                      .chunks = 1,
                                      .tasks = 100,
                                      .packed_bytes = PACKED};

static struct attn_heads *open_heads(const struct attn_plan *plan) {
    const size_t bytes = attn_heads_bytes(plan, THREADS);
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    ck_assert_ptr_nonnull(memory);
    memset(memory, EMPTY, bytes);
    return attn_heads_open(&CALL, plan, THREADS, memory);
}

static void close_heads(struct attn_heads *heads) {
    attn_heads_close(heads);
    free(heads);
}

/* Whether the head comes as `packed_open` leaves it; from then on it does not. */
static bool is_fresh(const void *packed) {
    return *(const char *)packed == OPENED;
}

static char *take(struct attn_heads *heads, size_t index) {
    char *packed = attn_heads_take(heads, index);
    ck_assert_ptr_nonnull(packed);
    return packed;
}

START_TEST(tasks_of_a_head_share_its_place) {
    struct attn_heads *heads = open_heads(&PLAN);
    char *first = take(heads, 0);
    ck_assert(is_fresh(first));
    first[0] = 1;
    ck_assert_ptr_eq(take(heads, 0), first);
    attn_heads_give(heads, 0);
    attn_heads_give(heads, 0);
    ck_assert_ptr_eq(take(heads, 0), first); /* nobody held it, and it is packed still */
    ck_assert_int_eq(first[0], 1);
    close_heads(heads);
}
END_TEST

START_TEST(heads_have_places_of_their_own) {
    struct attn_heads *heads = open_heads(&PLAN);
    char *first = take(heads, 0), *second = take(heads, 1);
    ck_assert_uint_ge((size_t)(first < second ? second - first : first - second), PACKED);
    close_heads(heads);
}
END_TEST

START_TEST(a_place_that_is_held_is_not_given_away) {
    struct attn_heads *heads = open_heads(&PLAN);
    char *first = take(heads, 0), *second = take(heads, 1);
    first[0] = second[0] = 1;
    ck_assert_ptr_eq(take(heads, 0), first);
    attn_heads_give(heads, 0);
    attn_heads_give(heads, 1);
    char *third = take(heads, 2); /* one task is still at head 0 */
    ck_assert_ptr_eq(third, second);
    ck_assert(is_fresh(third));
    ck_assert_int_eq(first[0], 1);
    close_heads(heads);
}
END_TEST

/* Tasks come head by head: the higher one's are not all done. */
START_TEST(the_lowest_head_makes_room) {
    struct attn_heads *heads = open_heads(&PLAN);
    char *low = take(heads, 4), *high = take(heads, 5);
    attn_heads_give(heads, 4);
    attn_heads_give(heads, 5);
    ck_assert_ptr_eq(take(heads, 6), low);
    ck_assert_ptr_eq(take(heads, 5), high);
    close_heads(heads);
}
END_TEST

START_TEST(a_reset_forgets_what_is_packed) {
    struct attn_heads *heads = open_heads(&PLAN);
    take(heads, 0)[0] = 1;
    attn_heads_give(heads, 0);
    attn_heads_reset(heads);
    ck_assert(is_fresh(take(heads, 0)));
    close_heads(heads);
}
END_TEST

START_TEST(a_kernel_that_packs_nothing_gets_nothing) {
    struct attn_plan plan = PLAN;
    void *packed;
    plan.packed_bytes = 0;
    struct attn_heads *heads = open_heads(&plan);
    ck_assert_ptr_null(attn_heads_take(heads, 0));
    attn_heads_give(heads, 0);
    ck_assert_uint_eq(attn_heads_next(heads, &packed), 0);
    ck_assert_uint_eq(attn_heads_next(heads, &packed), 1);
    ck_assert_ptr_null(packed);
    close_heads(heads);
}
END_TEST

/* Four heads of three tasks. */
static struct attn_plan in_heads(void) {
    struct attn_plan plan = PLAN;
    plan.row_tiles = 3;
    plan.tasks = 12;
    return plan;
}

static size_t next(struct attn_heads *heads) {
    void *packed;
    const size_t index = attn_heads_next(heads, &packed);
    attn_heads_give(heads, index);
    return index;
}

/* Another thread, which takes `count` tasks, one after the other. */
struct other {
    struct attn_heads *heads;
    size_t count, tasks[12];
    const void *packed[12];
};

static void *take_others(void *argument) {
    struct other *other = argument;
    for (size_t n = 0; n < other->count; n++) {
        void *packed;
        other->tasks[n] = attn_heads_next(other->heads, &packed);
        other->packed[n] = packed;
        attn_heads_give(other->heads, other->tasks[n]);
    }
    return NULL;
}

static void run_other(struct other *other) {
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, take_others, other), 0);
    pthread_join(thread, NULL);
}

START_TEST(a_thread_stays_with_its_head_then_begins_another_then_joins) {
    const struct attn_plan plan = in_heads();
    struct attn_heads *heads = open_heads(&plan);
    void *mine;
    ck_assert_uint_eq(attn_heads_next(heads, &mine), 0);
    struct other other = {.heads = heads, .count = 11};
    run_other(&other);
    static const size_t EXPECTED[] = {3, 4, 5, 6, 7, 8, 9, 10, 11, 1, 2};
    for (size_t n = 0; n < 11; n++) {
        ck_assert_uint_eq(other.tasks[n], EXPECTED[n]);
        ck_assert((other.packed[n] == mine) == (n > 8));
    }
    attn_heads_give(heads, 0);
    close_heads(heads);
}
END_TEST

START_TEST(a_head_is_gone_back_to_by_who_was_there) {
    const struct attn_plan plan = in_heads();
    struct attn_heads *heads = open_heads(&plan);
    ck_assert_uint_eq(next(heads), 0);
    struct other other = {.heads = heads, .count = 1};
    run_other(&other); /* nobody is at the first head, and yet it is ours */
    ck_assert_uint_eq(other.tasks[0], 3);
    ck_assert_uint_eq(next(heads), 1);
    close_heads(heads);
}
END_TEST

START_TEST(tasks_that_commit_in_turn_are_given_out_in_turn) {
    struct attn_plan plan = in_heads();
    plan.slot_bytes = 8;
    struct attn_heads *heads = open_heads(&plan);
    void *packed;
    ck_assert_uint_eq(attn_heads_next(heads, &packed), 0);
    struct other other = {.heads = heads, .count = 10};
    run_other(&other);
    for (size_t n = 0; n < 10; n++)
        ck_assert_uint_eq(other.tasks[n], n + 1);
    ck_assert_uint_eq(next(heads), 11);
    attn_heads_give(heads, 0);
    close_heads(heads);
}
END_TEST

START_TEST(a_reset_gives_all_tasks_out_again) {
    const struct attn_plan plan = in_heads();
    struct attn_heads *heads = open_heads(&plan);
    for (size_t n = 0; n < 2 * plan.tasks; n++) {
        if (n == plan.tasks)
            attn_heads_reset(heads);
        ck_assert_uint_eq(next(heads), n % plan.tasks);
    }
    close_heads(heads);
}
END_TEST

static Suite *heads_suite(void) {
    Suite *suite = suite_create("heads");
    TCase *places = tcase_create("places");
    tcase_add_test(places, tasks_of_a_head_share_its_place);
    tcase_add_test(places, heads_have_places_of_their_own);
    tcase_add_test(places, a_place_that_is_held_is_not_given_away);
    tcase_add_test(places, the_lowest_head_makes_room);
    tcase_add_test(places, a_reset_forgets_what_is_packed);
    tcase_add_test(places, a_kernel_that_packs_nothing_gets_nothing);
    suite_add_tcase(suite, places);
    TCase *tasks = tcase_create("tasks");
    tcase_add_test(tasks, a_thread_stays_with_its_head_then_begins_another_then_joins);
    tcase_add_test(tasks, a_head_is_gone_back_to_by_who_was_there);
    tcase_add_test(tasks, tasks_that_commit_in_turn_are_given_out_in_turn);
    tcase_add_test(tasks, a_reset_gives_all_tasks_out_again);
    suite_add_tcase(suite, tasks);
    return suite;
}

ATTN_TEST_MAIN(heads_suite)
