/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One session: its cache of keys and values, whose turn it is, and what is known of it meanwhile.
 *
 * The cache is touched by whoever has the session's turn and by nobody else. Turns are given in the
 * order in which they were asked for, and nobody blocks for one: who has to wait is called when it
 * comes. What others may see of a session - its lengths, its size - are facts that a holder of the
 * turn publishes; they change at once, so that a call is seen whole or not at all.
 */
#ifndef SERVER_SESSIONS_SESSION_H
#define SERVER_SESSIONS_SESSION_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/kv_cache.h"
#include "server/auth/account.h"

enum { SESSION_ID_LONGEST = 64, SESSION_ID_SIZE = SESSION_ID_LONGEST + 1 };

struct session_table;
struct session_turn;

/* What there is to know of a session without its turn. */
struct session_facts {
    size_t bytes, pages; /* of its pages, those that it shares with others too */
    double seconds_left; /* until it expires, unless it is used */
};

struct session {
    atomic_int references;
    struct session_table *table; /* borrowed; outlives every session */
    struct account *account;     /* owned reference, whose session it is; NULL without keys */
    char id[SESSION_ID_SIZE];
    bool has_own_id; /* chosen by the client */
    double ttl_seconds;
    struct attn_kv_cache *cache; /* owned */
    size_t layers;

    pthread_mutex_t lock;              /* for all below */
    bool busy;                         /* somebody has the turn */
    struct session_turn *first, *last; /* who wait for it */
    bool over;                         /* deleted or expired: nobody begins anything any more */
    size_t *lengths;                   /* [layers], owned */
    size_t bytes, pages;
    int64_t used_at; /* when a turn ended last, in nanoseconds of clock_now() */

    size_t charged;       /* bytes that its key has been charged; whoever has the turn */
    struct session *next; /* the table's */
    bool is_listed;       /* the table's */
};

/* A session that nobody knows yet, with one reference. Takes the cache; takes a reference of the
   account, or NULL. NULL when there is no memory. */
struct session *session_create(struct session_table *table, struct account *account,
                               struct attn_kv_cache *cache);
struct session *session_ref(struct session *session);
void session_unref(struct session *session);

/* ---- turns ---- */

enum session_turn_state { SESSION_TURN_NONE, SESSION_TURN_WAITING, SESSION_TURN_HELD };

/* Caller storage, zero-initialised; it stays where it is until its end. */
struct session_turn {
    struct session *session;       /* borrowed: outlives the turn */
    enum session_turn_state state; /* under the session's lock */
    /* The turn has come: called once, on any thread, without locks. Where nobody wants it any more
       it calls session_turn_refuse() and returns false, and the next is asked. */
    bool (*granted)(struct session_turn *turn);
    struct session_turn *next;
};

/* Takes the turn if it is free; then nobody waits for it either. */
bool session_turn_try(struct session_turn *turn, struct session *session);
/* The same, or waits: then turn->granted will be called. True when it was free. */
bool session_turn_ask(struct session_turn *turn, struct session *session);
/* Takes one that waits out of the line; false when it has been granted, or does not wait. */
bool session_turn_withdraw(struct session_turn *turn);
void session_turn_refuse(struct session_turn *turn);
/* Ends a turn that is held, and gives it to the next; for others it does nothing. Only for whoever
   holds it. */
void session_turn_end(struct session_turn *turn);

/* Whether the session may still be used; asked by whoever has just got the turn. */
bool session_is_over(struct session *session);

/* ---- facts ---- */

/* Publishes what the cache holds now. With the turn. */
void session_publish(struct session *session);
/* The length of a layer as published. */
size_t session_length(struct session *session, size_t layer);
/* `lengths`: room for one per layer. */
void session_read(struct session *session, struct session_facts *facts, size_t *lengths);

/* Charges its key for so many bytes in all; false when it may not keep as many, and then nothing
   has changed. `limits` NULL: it may. With the turn. */
bool session_charge(struct session *session, const struct account_limits *limits, size_t bytes);

#endif
