/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of captures: who may see what, who goes when there is no room, what their memory is
 * charged to. Calls are not looked at here.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/captures/captures.h"
#include "tests/support/test_main.h"

enum { BUDGET = 10000 };

static struct admission *admission;
static struct captures *captures;
static struct account *alice, *bob, *carol;

static void open_list(size_t bytes, uint64_t ttl_ms) {
    const struct captures_options options = {.on = true, .bytes = bytes, .ttl_ms = ttl_ms};
    admission = admission_create(BUDGET, 1);
    captures = captures_create(&options, admission);
    alice = account_create();
    bob = account_create();
    carol = account_create();
    ck_assert(admission != NULL && captures != NULL && carol != NULL);
}

/* Everything was given back. */
static void close_list(void) {
    captures_free(captures);
    ck_assert_uint_eq(admission_bytes(admission), 0);
    admission_free(admission);
    account_unref(alice);
    account_unref(bob);
    account_unref(carol);
}

/* Its id, or "" when there was no room. */
static const char *add(struct account *owner, size_t bytes, char id[REQUEST_ID_SIZE]) {
    const char *refusal = NULL;
    struct capture *capture = captures_begin(captures, owner, bytes, &refusal);
    id[0] = '\0';
    if (capture == NULL) {
        ck_assert_ptr_nonnull(refusal);
        return id;
    }
    strcpy(id, capture->id);
    captures_publish(capture);
    capture_unref(capture);
    return id;
}

static bool has(const struct account *owner, const char *id) {
    struct capture *capture = captures_find(captures, owner, id, strlen(id));
    if (capture != NULL)
        capture_unref(capture);
    return capture != NULL;
}

static void pin(const struct account *owner, const char *id, bool pinned) {
    struct capture *capture = captures_find(captures, owner, id, strlen(id));
    ck_assert(captures_pin(capture, pinned));
    ck_assert(capture_is_pinned(capture) == pinned);
    capture_unref(capture);
}

START_TEST(the_oldest_makes_room) {
    char id[5][REQUEST_ID_SIZE];
    open_list(3000, 0);
    for (size_t n = 0; n < 3; n++)
        ck_assert_uint_gt(strlen(add(NULL, 1000, id[n])), 0);
    ck_assert_uint_eq(admission_bytes(admission), 3000);
    pin(NULL, id[0], true);
    add(NULL, 1500, id[3]);
    ck_assert(has(NULL, id[0]) && !has(NULL, id[1]) && !has(NULL, id[2]) && has(NULL, id[3]));
    ck_assert_uint_eq(admission_bytes(admission), 2500);
    pin(NULL, id[3], true);
    ck_assert_str_eq(add(NULL, 1000, id[4]), "");
    pin(NULL, id[0], false);
    ck_assert_uint_gt(strlen(add(NULL, 1000, id[4])), 0);
    ck_assert_str_eq(add(NULL, 3001, id[1]), "");
    ck_assert(has(NULL, id[3]) && has(NULL, id[4]));
    const struct captures_counts counts = captures_count(captures);
    ck_assert_uint_eq(counts.evicted, 3);
    ck_assert_uint_eq(counts.refused, 2);
    ck_assert_uint_eq(counts.added, 5);
    ck_assert_uint_eq(counts.pinned, 1);
    close_list();
}
END_TEST

START_TEST(others_captures_do_not_exist) {
    char mine[REQUEST_ID_SIZE], theirs[REQUEST_ID_SIZE];
    size_t count;
    open_list(5000, 0);
    add(alice, 10, mine);
    add(bob, 10, theirs);
    ck_assert(has(alice, mine) && !has(alice, theirs) && !has(bob, mine) && !has(NULL, mine));
    ck_assert_ptr_null(captures_find(captures, alice, mine, strlen(mine) - 1));
    struct capture **list = captures_list(captures, alice, 0, &count);
    ck_assert_uint_eq(count, 1);
    ck_assert_str_eq(list[0]->id, mine);
    capture_unref(list[0]);
    free(list);
    captures_drop_all(captures, alice);
    ck_assert(!has(alice, mine) && has(bob, theirs));
    close_list();
}
END_TEST

/* What is looked at stays in memory, and is charged, after it has left the list. */
START_TEST(what_is_held_stays) {
    char id[REQUEST_ID_SIZE], other[REQUEST_ID_SIZE];
    open_list(1000, 0);
    add(NULL, 600, id);
    struct capture *held = captures_find(captures, NULL, id, strlen(id));
    captures_drop(held);
    ck_assert_str_eq(add(NULL, 600, other), "");
    ck_assert(!has(NULL, id));
    ck_assert_uint_eq(admission_bytes(admission), 600);
    memset(held->memory, 1, 600);
    capture_unref(held);
    ck_assert_uint_eq(admission_bytes(admission), 0);
    close_list();
}
END_TEST

START_TEST(the_budget_is_everyones) {
    char id[3][REQUEST_ID_SIZE];
    open_list(BUDGET, 0);
    add(NULL, 4000, id[0]);
    ck_assert_int_eq(admission_reserve(admission, 5000, ADMISSION_LATER), ADMISSION_GRANTED);
    add(NULL, 4500, id[1]); /* the first one goes for it */
    ck_assert(!has(NULL, id[0]) && has(NULL, id[1]));
    ck_assert_int_eq(admission_reserve(admission, 400, ADMISSION_LATER), ADMISSION_GRANTED);
    ck_assert_str_eq(add(NULL, 4700, id[2]), ""); /* nothing goes in vain */
    ck_assert(has(NULL, id[1]));
    admission_release(admission, 5400);
    close_list();
}
END_TEST

START_TEST(time_is_over_for_what_is_not_pinned) {
    char id[2][REQUEST_ID_SIZE];
    const struct timespec pause = {0, 30000000};
    open_list(BUDGET, 20);
    add(NULL, 10, id[0]);
    add(NULL, 10, id[1]);
    pin(NULL, id[1], true);
    char tag[CAPTURES_TAG_SIZE];
    const uint64_t before = captures_sequence(captures, NULL, tag);
    nanosleep(&pause, NULL);
    captures_expire(captures);
    ck_assert_uint_eq(captures_count(captures).count, 1);
    ck_assert(!has(NULL, id[0]) && has(NULL, id[1]));
    ck_assert_uint_gt(captures_sequence(captures, NULL, tag), before);
    close_list();
}
END_TEST

/* One that is looked at frees nothing, so others do not go for it. */
START_TEST(a_refusal_costs_nothing) {
    char id[4][REQUEST_ID_SIZE], late[REQUEST_ID_SIZE];
    open_list(3000, 0);
    add(NULL, 2000, id[0]);
    for (size_t n = 1; n < 4; n++)
        add(NULL, 300, id[n]);
    struct capture *held = captures_find(captures, NULL, id[0], strlen(id[0]));
    ck_assert_str_eq(add(NULL, 1500, late), "");
    for (size_t n = 0; n < 4; n++)
        ck_assert(has(NULL, id[n]));
    ck_assert_uint_gt(strlen(add(NULL, 500, late)), 0); /* of those beside it as many as it takes */
    ck_assert(has(NULL, id[0]) && !has(NULL, id[1]) && !has(NULL, id[2]) && has(NULL, id[3]));
    capture_unref(held);
    ck_assert_uint_gt(strlen(add(NULL, 1500, late)), 0);
    ck_assert(!has(NULL, id[0]) && has(NULL, id[3]));
    ck_assert_uint_eq(captures_count(captures).evicted, 3);
    close_list();
}
END_TEST

static void granted(struct admission_waiter *waiter) {
    waiter->waiting = false;
}

/* What leaves for a capture is not for calls that wait for bytes. */
START_TEST(what_leaves_is_for_who_asked) {
    char id[2][REQUEST_ID_SIZE];
    struct admission_waiter waiter = {.bytes = 7000, .right = ADMISSION_FIRST, .granted = granted};
    open_list(BUDGET, 0);
    add(NULL, 4000, id[0]);
    ck_assert_int_eq(admission_reserve(admission, 5900, ADMISSION_LATER), ADMISSION_GRANTED);
    waiter.waiting = true;
    ck_assert_int_eq(admission_ask(admission, &waiter), ADMISSION_WAITING);
    add(NULL, 4050, id[1]);
    ck_assert(has(NULL, id[1]));
    ck_assert_uint_eq(admission_bytes(admission), 9950);
    add(NULL, 1000, id[0]); /* 3050 bytes of those that leave go back */
    ck_assert_uint_eq(admission_bytes(admission), 6900);
    ck_assert(admission_leave(admission, &waiter));
    admission_release(admission, 5900);
    close_list();
}
END_TEST

/* Who holds more than an equal share makes room for who does not, and nobody else does. */
START_TEST(each_key_makes_room_for_its_own) {
    char first[6][REQUEST_ID_SIZE], mine[4][REQUEST_ID_SIZE];
    open_list(6000, 0);
    for (size_t n = 0; n < 6; n++)
        add(alice, 1000, first[n]);
    for (size_t n = 0; n < 3; n++) /* up to half */
        ck_assert_uint_gt(strlen(add(bob, 1000, mine[n])), 0);
    ck_assert(!has(alice, first[0]) && !has(alice, first[2]) && has(alice, first[3]));
    add(bob, 1000, mine[3]);
    ck_assert(!has(bob, mine[0]) && has(bob, mine[1]) && has(alice, first[3]));
    add(alice, 1000, first[0]);
    ck_assert(!has(alice, first[3]) && has(alice, first[4]) && has(bob, mine[1]));
    ck_assert_str_eq(add(alice, 3001, first[1]), ""); /* more than its own could free */
    ck_assert(has(alice, first[0]) && has(alice, first[4]) && has(alice, first[5]));
    ck_assert_uint_gt(strlen(add(carol, 2000, first[1])), 0);
    ck_assert(!has(alice, first[4]) && has(alice, first[5]) && has(alice, first[0]));
    ck_assert(!has(bob, mine[1]) && has(bob, mine[2]) && has(bob, mine[3]));
    close_list();
}
END_TEST

/* A key that is new has room made for it by the largest, also if it has some already. */
START_TEST(the_largest_makes_room_first) {
    char id[5][REQUEST_ID_SIZE];
    open_list(9000, 0);
    add(carol, 500, id[0]);
    add(bob, 4000, id[1]);
    add(alice, 2000, id[2]);
    add(alice, 2500, id[3]);
    add(carol, 400, id[4]);
    ck_assert(has(carol, id[0]) && has(bob, id[1]) && !has(alice, id[2]) && has(alice, id[3]));
    close_list();
}
END_TEST

/* Without others above their share it is one's own. */
START_TEST(ones_own_make_room_too) {
    char id[3][REQUEST_ID_SIZE];
    open_list(4000, 0);
    add(alice, 900, id[0]);
    ck_assert_int_eq(admission_reserve(admission, BUDGET - 1000, ADMISSION_LATER),
                     ADMISSION_GRANTED);
    add(bob, 100, id[1]);
    add(bob, 90, id[2]);
    ck_assert(has(alice, id[0]) && !has(bob, id[1]) && has(bob, id[2]));
    admission_release(admission, BUDGET - 1000);
    close_list();
}
END_TEST

START_TEST(captures_follow_the_account) {
    char id[2][REQUEST_ID_SIZE];
    open_list(4000, 0);
    add(alice, 1000, id[0]);
    add(bob, 1000, id[1]);
    pin(alice, id[0], true);
    ck_assert(!has(carol, id[0]));
    struct capture *held = captures_find(captures, alice, id[0], strlen(id[0]));
    account_close(alice);
    captures_expire(captures);
    ck_assert(!has(alice, id[0]) && has(bob, id[1]));
    ck_assert_uint_eq(captures_count(captures).pinned, 0);
    ck_assert_uint_eq(admission_bytes(admission), 2000);
    memset(held->memory, 1, 1000);
    capture_unref(held);
    ck_assert_uint_eq(admission_bytes(admission), 1000);
    add(alice, 100, id[0]); /* of a call that was there still */
    ck_assert(!has(alice, id[0]));
    close_list();
}
END_TEST

static bool may_pin(struct account *owner, const char *id) {
    struct capture *capture = captures_find(captures, owner, id, strlen(id));
    const bool may = captures_pin(capture, true);
    ck_assert(capture_is_pinned(capture) == may);
    capture_unref(capture);
    return may;
}

/* Half of what others leave: no key, and no two of them, have all. */
START_TEST(pins_leave_room) {
    char hers[3][REQUEST_ID_SIZE], his[2][REQUEST_ID_SIZE], all[REQUEST_ID_SIZE];
    open_list(8000, 0);
    for (size_t n = 0; n < 3; n++)
        add(alice, 2000, hers[n]);
    add(bob, 1500, his[0]);
    add(bob, 500, his[1]);
    ck_assert(may_pin(alice, hers[0]) && may_pin(alice, hers[1]) && may_pin(alice, hers[1]));
    ck_assert(!may_pin(alice, hers[2]));
    ck_assert(may_pin(bob, his[0]) && may_pin(bob, his[1]));
    pin(alice, hers[0], false);
    ck_assert(!may_pin(alice, hers[0])); /* 3000 are half of what is left */
    captures_drop_all(captures, bob);
    captures_drop_all(captures, alice);
    add(alice, 4000, hers[0]);
    ck_assert(may_pin(alice, hers[0]));
    captures_drop_all(captures, alice);
    add(NULL, 8000, all);
    ck_assert(may_pin(NULL, all));
    close_list();
}
END_TEST

/* What others do is not to be seen. */
START_TEST(each_list_has_its_own_numbers) {
    char id[REQUEST_ID_SIZE], mine[CAPTURES_TAG_SIZE], theirs[CAPTURES_TAG_SIZE];
    open_list(4000, 0);
    const uint64_t empty = captures_sequence(captures, alice, mine);
    add(bob, 100, id);
    ck_assert_uint_eq(captures_sequence(captures, alice, theirs), empty);
    ck_assert_str_eq(mine, theirs);
    ck_assert_uint_gt(captures_sequence(captures, bob, theirs), empty);
    ck_assert_str_ne(mine, theirs);
    add(alice, 100, id);
    const uint64_t one = captures_sequence(captures, alice, mine);
    ck_assert_uint_eq(one, empty + 1);
    ck_assert_str_ne(mine, theirs);
    captures_drop_all(captures, bob);
    ck_assert_uint_eq(captures_sequence(captures, alice, theirs), one);
    ck_assert_str_eq(mine, theirs);
    pin(alice, id, true);
    ck_assert_uint_eq(captures_sequence(captures, alice, mine), one + 1);
    close_list();
}
END_TEST

static struct capture_level level(int64_t head, size_t side) {
    return (struct capture_level){
        .head = head, .rows = side, .cols = side, .bins = calloc(side * side, 2)};
}

START_TEST(levels_go_before_captures) {
    char id[2][REQUEST_ID_SIZE];
    struct capture_level got, wanted = level(3, 20), second = level(4, 40);
    open_list(2000, 0);
    add(NULL, 800, id[0]);
    struct capture *capture = captures_find(captures, NULL, id[0], strlen(id[0]));
    capture_keep_level(capture, &wanted);
    capture_keep_level(capture, &second); /* 3200 bytes: no room, and nothing goes for it */
    ck_assert_uint_eq(admission_bytes(admission), 1600);
    ck_assert(!capture_begin_level(capture, 0, 4, &got));
    ck_assert(!capture_begin_level(capture, 1, 3, &got));
    ck_assert(capture_begin_level(capture, 0, 3, &got));
    ck_assert_uint_eq(got.rows, 20);
    capture_end_level(capture);
    add(NULL, 1000, id[1]);
    ck_assert(!capture_begin_level(capture, 0, 3, &got));
    ck_assert(has(NULL, id[0]) && has(NULL, id[1]));
    capture_unref(capture);
    close_list();
}
END_TEST

static Suite *captures_suite(void) {
    Suite *suite = suite_create("captures");
    TCase *list = tcase_create("list");
    tcase_add_test(list, the_oldest_makes_room);
    tcase_add_test(list, others_captures_do_not_exist);
    tcase_add_test(list, what_is_held_stays);
    tcase_add_test(list, the_budget_is_everyones);
    tcase_add_test(list, time_is_over_for_what_is_not_pinned);
    tcase_add_test(list, a_refusal_costs_nothing);
    tcase_add_test(list, what_leaves_is_for_who_asked);
    tcase_add_test(list, each_key_makes_room_for_its_own);
    tcase_add_test(list, the_largest_makes_room_first);
    tcase_add_test(list, ones_own_make_room_too);
    tcase_add_test(list, captures_follow_the_account);
    tcase_add_test(list, pins_leave_room);
    tcase_add_test(list, each_list_has_its_own_numbers);
    tcase_add_test(list, levels_go_before_captures);
    suite_add_tcase(suite, list);
    return suite;
}

ATTN_TEST_MAIN(captures_suite)
