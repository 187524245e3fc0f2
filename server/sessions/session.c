/* SPDX-License-Identifier: Apache-2.0 */
/* Turns and facts of one session; see session.h. */
#include "server/sessions/session.h"

#include <stdlib.h>
#include <string.h>

#include "server/clock.h"

struct session *session_ref(struct session *session) {
    atomic_fetch_add_explicit(&session->references, 1, memory_order_relaxed);
    return session;
}

void session_unref(struct session *session) {
    if (session == NULL ||
        atomic_fetch_sub_explicit(&session->references, 1, memory_order_acq_rel) != 1)
        return;
    attn_kv_cache_free(&session->cache);
    if (session->account != NULL)
        account_drop_bytes(session->account, session->charged);
    account_unref(session->account);
    pthread_mutex_destroy(&session->lock);
    free(session->lengths);
    free(session);
}

/* ---- turns ---- */

/* Under the lock. */
static bool take_free(struct session_turn *turn, struct session *session) {
    turn->session = session;
    if (session->busy)
        return false;
    session->busy = true;
    turn->state = SESSION_TURN_HELD;
    return true;
}

bool session_turn_try(struct session_turn *turn, struct session *session) {
    pthread_mutex_lock(&session->lock);
    const bool is_free = take_free(turn, session);
    pthread_mutex_unlock(&session->lock);
    return is_free;
}

bool session_turn_ask(struct session_turn *turn, struct session *session) {
    pthread_mutex_lock(&session->lock);
    const bool is_free = take_free(turn, session);
    if (!is_free) {
        turn->state = SESSION_TURN_WAITING;
        turn->next = NULL;
        *(session->last == NULL ? &session->first : &session->last->next) = turn;
        session->last = turn;
    }
    pthread_mutex_unlock(&session->lock);
    return is_free;
}

/* Under the lock. */
static void take_out(struct session *session, struct session_turn *turn) {
    struct session_turn *before = NULL;
    for (struct session_turn *at = session->first; at != turn; at = at->next)
        before = at;
    *(before == NULL ? &session->first : &before->next) = turn->next;
    if (session->last == turn)
        session->last = before;
}

bool session_turn_withdraw(struct session_turn *turn) {
    struct session *session = turn->session;
    if (session == NULL)
        return false;
    pthread_mutex_lock(&session->lock);
    const bool waits = turn->state == SESSION_TURN_WAITING;
    if (waits) {
        take_out(session, turn);
        turn->state = SESSION_TURN_NONE;
    }
    pthread_mutex_unlock(&session->lock);
    return waits;
}

/* The next in line, who holds the turn from here on; NULL where nobody waits. */
static struct session_turn *next_turn(struct session *session) {
    struct session_turn *turn = session->first;
    if (turn != NULL) {
        take_out(session, turn);
        turn->state = SESSION_TURN_HELD;
    } else {
        session->busy = false;
        session->used_at = clock_now();
    }
    return turn;
}

void session_turn_refuse(struct session_turn *turn) {
    pthread_mutex_lock(&turn->session->lock);
    turn->state = SESSION_TURN_NONE;
    pthread_mutex_unlock(&turn->session->lock);
}

/* Whoever is granted may end at once, and free its turn with it. */
void session_turn_end(struct session_turn *turn) {
    struct session *session = turn->session;
    if (session == NULL)
        return;
    pthread_mutex_lock(&session->lock);
    struct session_turn *next = NULL;
    if (turn->state == SESSION_TURN_HELD) {
        turn->state = SESSION_TURN_NONE;
        next = next_turn(session);
        session_ref(session);
    } else {
        session = NULL;
    }
    pthread_mutex_unlock(&turn->session->lock);
    while (next != NULL && !next->granted(next)) {
        pthread_mutex_lock(&session->lock);
        next = next_turn(session);
        pthread_mutex_unlock(&session->lock);
    }
    session_unref(session);
}

bool session_is_over(struct session *session) {
    pthread_mutex_lock(&session->lock);
    const bool over = session->over;
    pthread_mutex_unlock(&session->lock);
    return over;
}

/* ---- facts ---- */

void session_publish(struct session *session) {
    pthread_mutex_lock(&session->lock);
    for (size_t layer = 0; layer < session->layers; layer++)
        session->lengths[layer] = attn_kv_length(session->cache, layer);
    session->bytes = attn_kv_cache_bytes(session->cache);
    session->pages = attn_kv_cache_pages(session->cache);
    pthread_mutex_unlock(&session->lock);
}

size_t session_length(struct session *session, size_t layer) {
    pthread_mutex_lock(&session->lock);
    const size_t length = session->lengths[layer];
    pthread_mutex_unlock(&session->lock);
    return length;
}

void session_read(struct session *session, struct session_facts *facts, size_t *lengths) {
    const int64_t now = clock_now();
    pthread_mutex_lock(&session->lock);
    const double idle = session->busy ? 0 : 1e-9 * (double)(now - session->used_at);
    *facts = (struct session_facts){
        .bytes = session->bytes,
        .pages = session->pages,
        .seconds_left = session->ttl_seconds > idle ? session->ttl_seconds - idle : 0,
    };
    memcpy(lengths, session->lengths, session->layers * sizeof *lengths);
    pthread_mutex_unlock(&session->lock);
}

/* ---- making one ---- */

struct session *session_create(struct session_table *table, struct account *account,
                               struct attn_kv_cache *cache) {
    struct session *session = calloc(1, sizeof *session);
    const size_t layers = (size_t)attn_kv_cache_spec(cache)->layers;
    size_t *lengths = calloc(layers, sizeof *lengths);
    if (session == NULL || lengths == NULL) {
        free(session);
        free(lengths);
        attn_kv_cache_free(&cache);
        return NULL;
    }
    atomic_init(&session->references, 1);
    pthread_mutex_init(&session->lock, NULL);
    session->table = table;
    session->account = account == NULL ? NULL : account_ref(account);
    session->cache = cache;
    session->layers = layers;
    session->lengths = lengths;
    session->used_at = clock_now();
    session_publish(session);
    return session;
}

bool session_charge(struct session *session, const struct account_limits *limits, size_t bytes) {
    static const struct account_limits none = {0};
    if (session->account == NULL)
        return true;
    if (bytes > session->charged &&
        !account_keep_bytes(session->account, limits == NULL ? &none : limits,
                            bytes - session->charged))
        return false;
    if (bytes < session->charged)
        account_drop_bytes(session->account, session->charged - bytes);
    session->charged = bytes;
    return true;
}
