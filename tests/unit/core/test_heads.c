/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places of packed heads, without a kernel: which place a head gets, when it is packed anew, and
 * that a place somebody holds is nobody else's.
 */
#include "core/heads.h"
#include "tests/support/test_main.h"

#include <string.h>

enum { THREADS = 2, PACKED = 128, EMPTY = 0, OPENED = 7 };

static const struct attn_call CALL = {.B = 1};

static void packed_open(const struct attn_call *call, const struct attn_grid *grid, void *packed) {
    ck_assert_ptr_eq(call, &CALL);
    ck_assert_uint_eq(grid->row_tile, 16);
    memset(packed, OPENED, PACKED);
}

static const struct attn_kernel KERNEL = {.packed_open = packed_open};
static const struct attn_plan PLAN = {
    .kernel = &KERNEL, .grid = {.row_tile = 16}, .tasks = 100, .packed_bytes = PACKED};

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
    plan.packed_bytes = 0;
    struct attn_heads *heads = open_heads(&plan);
    ck_assert_ptr_null(attn_heads_take(heads, 0));
    attn_heads_give(heads, 0);
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
    return suite;
}

ATTN_TEST_MAIN(heads_suite)
