/* SPDX-License-Identifier: Apache-2.0 */
/* Turns are given in order and to whoever wants them; the table knows who owns what, and forgets.
 */
#include "server/sessions/session_table.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/test_main.h"

enum { SESSIONS_MOST = 4, THREADS = 8, ROUNDS = 2000 };

static struct session_table *table;

static void open_table(void) {
    const struct session_limits limits = {
        .bytes = 1 << 24, .count = SESSIONS_MOST, .ttl_seconds = 60, .longest_ttl_seconds = 60};
    table = session_table_create(&limits);
    ck_assert_ptr_nonnull(table);
}

static void close_table(void) {
    session_table_free(table);
}

static struct session *make(struct account *account, const char *id) {
    const struct attn_kv_spec spec = {
        .layers = 2, .Hkv = 1, .D = 4, .Dv = 4, .dtype = ATTN_FLOAT32, .capacity = 100};
    struct attn_kv_cache *cache;
    struct attn_error error = {.status = ATTN_OK};
    ck_assert_int_eq(attn_kv_cache_create(session_table_pool(table), &spec, &cache, &error),
                     ATTN_OK);
    struct session *session = session_create(table, account, cache);
    ck_assert_ptr_nonnull(session);
    session->ttl_seconds = 60;
    session->has_own_id = id != NULL;
    if (id != NULL)
        snprintf(session->id, sizeof session->id, "%s", id);
    return session;
}

static enum session_answer add(struct account *account, const char *id) {
    static const struct account_limits limits = {.sessions = 2};
    struct session *session = make(account, id);
    const enum session_answer answer = session_table_add(table, session, &limits);
    session_unref(session);
    return answer;
}

static enum session_answer find(const struct account *account, const char *id) {
    struct session *found = NULL;
    const enum session_answer answer = session_table_find(table, account, id, strlen(id), &found);
    ck_assert((found != NULL) == (answer == SESSION_FINE));
    session_unref(found);
    return answer;
}

/* ---- the table ---- */

START_TEST(a_session_is_its_accounts_alone) {
    struct account *mine = account_create(), *other = account_create();
    ck_assert_int_eq(add(mine, "one"), SESSION_FINE);
    ck_assert_int_eq(find(mine, "one"), SESSION_FINE);
    ck_assert_int_eq(find(other, "one"), SESSION_UNKNOWN);
    ck_assert_int_eq(find(NULL, "one"), SESSION_UNKNOWN);
    ck_assert_int_eq(find(mine, "on"), SESSION_UNKNOWN);
    ck_assert_int_eq(add(mine, "one"), SESSION_EXISTS);
    ck_assert_int_eq(add(other, "one"), SESSION_FINE);
    size_t count;
    struct session **list = session_table_list(table, other, &count);
    ck_assert_uint_eq(count, 1);
    ck_assert(list[0]->account == other);
    session_unref(list[0]);
    free(list);
    session_table_free(table);
    open_table(); /* for the teardown */
    account_unref(mine);
    account_unref(other);
}
END_TEST

START_TEST(there_are_as_many_as_may_be) {
    struct account *mine = account_create();
    ck_assert_int_eq(add(mine, NULL), SESSION_FINE);
    ck_assert_int_eq(add(mine, NULL), SESSION_FINE);
    ck_assert_int_eq(add(mine, NULL), SESSION_TOO_MANY_OWN);
    ck_assert_int_eq(add(NULL, NULL), SESSION_FINE);
    ck_assert_int_eq(add(NULL, "last"), SESSION_FINE);
    ck_assert_int_eq(add(NULL, NULL), SESSION_TOO_MANY);
    struct session *last = NULL;
    ck_assert_int_eq(session_table_find(table, NULL, "last", 4, &last), SESSION_FINE);
    ck_assert(session_table_remove(table, last));
    ck_assert(!session_table_remove(table, last));
    ck_assert(session_is_over(last));
    session_unref(last);
    ck_assert_int_eq(find(NULL, "last"), SESSION_UNKNOWN);
    ck_assert_int_eq(add(NULL, NULL), SESSION_FINE);
    struct session_counts counts;
    session_table_read(table, &counts);
    ck_assert_uint_eq(counts.sessions, 4);
    ck_assert_uint_eq(counts.created, 5);
    ck_assert_uint_eq(counts.deleted, 1);
    session_table_free(table);
    open_table();
    account_unref(mine);
}
END_TEST

START_TEST(what_has_expired_is_remembered_until_it_is_there_again) {
    struct session *session = make(NULL, "short");
    struct session_turn turn = {0};
    session->ttl_seconds = 0.02;
    ck_assert_int_eq(session_table_add(table, session, NULL), SESSION_FINE);
    ck_assert(session_turn_try(&turn, session));
    usleep(50000);
    ck_assert_int_eq(find(NULL, "short"), SESSION_FINE); /* somebody uses it */
    session_turn_end(&turn);
    ck_assert_int_eq(find(NULL, "short"), SESSION_FINE);
    usleep(50000);
    ck_assert_int_eq(find(NULL, "short"), SESSION_EXPIRED);
    ck_assert(session_is_over(session));
    ck_assert(!session_table_remove(table, session));
    session_unref(session);
    ck_assert_int_eq(find(NULL, "short"), SESSION_EXPIRED);
    ck_assert_int_eq(add(NULL, "short"), SESSION_FINE);
    ck_assert_int_eq(find(NULL, "short"), SESSION_FINE);
    struct session_counts counts;
    session_table_read(table, &counts);
    ck_assert_uint_eq(counts.expired, 1);
}
END_TEST

START_TEST(random_ids_differ) {
    struct session *session[2] = {make(NULL, NULL), make(NULL, NULL)};
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(session_table_add(table, session[i], NULL), SESSION_FINE);
        ck_assert_uint_eq(strlen(session[i]->id), 32);
    }
    ck_assert_str_ne(session[0]->id, session[1]->id);
    for (int i = 0; i < 2; i++)
        session_unref(session[i]);
}
END_TEST

/* ---- turns ---- */

struct client {
    struct session_turn turn;
    bool wants; /* the turn when it comes */
    int granted;
};

static int grants;

static bool granted(struct session_turn *turn) {
    struct client *client = (struct client *)turn;
    client->granted = ++grants;
    if (!client->wants)
        session_turn_refuse(turn);
    return client->wants;
}

START_TEST(turns_come_in_the_order_of_asking) {
    struct session *session = make(NULL, NULL);
    struct client clients[5];
    grants = 0;
    for (int i = 0; i < 5; i++) {
        clients[i] = (struct client){.turn = {.granted = granted}, .wants = i != 2};
        ck_assert_int_eq(session_turn_ask(&clients[i].turn, session), i == 0);
    }
    struct session_turn late = {.granted = granted};
    ck_assert(!session_turn_try(&late, session));
    ck_assert(session_turn_withdraw(&clients[3].turn));
    ck_assert(!session_turn_withdraw(&clients[3].turn));
    ck_assert(!session_turn_withdraw(&clients[0].turn));
    session_turn_end(&clients[3].turn); /* it has none */
    ck_assert_int_eq(grants, 0);
    session_turn_end(&clients[0].turn);
    ck_assert_int_eq(clients[1].granted, 1);
    session_turn_end(&clients[0].turn); /* again */
    ck_assert_int_eq(grants, 1);
    session_turn_end(&clients[1].turn); /* 2 does not want it, 3 has left */
    ck_assert_int_eq(clients[2].granted, 2);
    ck_assert_int_eq(clients[3].granted, 0);
    ck_assert_int_eq(clients[4].granted, 3);
    ck_assert(!session_turn_try(&late, session));
    session_turn_end(&clients[4].turn);
    ck_assert(session_turn_try(&late, session));
    session_turn_end(&late);
    session_unref(session);
}
END_TEST

struct hand {
    struct session_turn turn;
    struct session *session;
    pthread_mutex_t lock;
    pthread_cond_t came;
    bool has_come;
    size_t *counter; /* guarded by the turn */
};

static bool wake(struct session_turn *turn) {
    struct hand *hand = (struct hand *)turn;
    pthread_mutex_lock(&hand->lock);
    hand->has_come = true;
    pthread_cond_signal(&hand->came);
    pthread_mutex_unlock(&hand->lock);
    return true;
}

static void *use_turns(void *argument) {
    struct hand *hand = argument;
    for (int round = 0; round < ROUNDS; round++) {
        hand->has_come = false;
        hand->turn = (struct session_turn){.granted = wake};
        if (!session_turn_ask(&hand->turn, hand->session)) {
            pthread_mutex_lock(&hand->lock);
            while (!hand->has_come)
                pthread_cond_wait(&hand->came, &hand->lock);
            pthread_mutex_unlock(&hand->lock);
        }
        ++*hand->counter;
        session_turn_end(&hand->turn);
    }
    return NULL;
}

START_TEST(one_at_a_time_has_the_turn) {
    struct session *session = make(NULL, NULL);
    struct hand hands[THREADS];
    pthread_t threads[THREADS];
    size_t counter = 0;
    for (int i = 0; i < THREADS; i++) {
        hands[i] = (struct hand){.session = session, .counter = &counter};
        pthread_mutex_init(&hands[i].lock, NULL);
        pthread_cond_init(&hands[i].came, NULL);
        ck_assert_int_eq(pthread_create(&threads[i], NULL, use_turns, &hands[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(counter, (size_t)THREADS * ROUNDS);
    session_unref(session);
}
END_TEST

START_TEST(bytes_are_charged_as_they_change) {
    const struct account_limits limits = {.session_memory = 100};
    struct account *mine = account_create();
    struct session *session = make(mine, NULL), *other = make(mine, NULL);
    ck_assert(session_charge(session, &limits, 60));
    ck_assert(!session_charge(other, &limits, 41));
    ck_assert(session_charge(other, &limits, 40));
    ck_assert(!session_charge(session, &limits, 61));
    ck_assert(session_charge(session, &limits, 10));
    ck_assert(session_charge(other, &limits, 90));
    session_unref(other);
    ck_assert(session_charge(session, &limits, 100));
    session_unref(session);
    account_unref(mine); /* asserts that nothing is charged any more */
}
END_TEST

static Suite *sessions_suite(void) {
    Suite *suite = suite_create("sessions");
    TCase *tcase = tcase_create("table and turns");
    tcase_add_checked_fixture(tcase, open_table, close_table);
    tcase_add_test(tcase, a_session_is_its_accounts_alone);
    tcase_add_test(tcase, there_are_as_many_as_may_be);
    tcase_add_test(tcase, what_has_expired_is_remembered_until_it_is_there_again);
    tcase_add_test(tcase, random_ids_differ);
    tcase_add_test(tcase, turns_come_in_the_order_of_asking);
    tcase_add_test(tcase, one_at_a_time_has_the_turn);
    tcase_add_test(tcase, bytes_are_charged_as_they_change);
    suite_add_tcase(suite, tcase);
    return suite;
}

ATTN_TEST_MAIN(sessions_suite)
