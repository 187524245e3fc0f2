/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sessions that there are. A session belongs to the account of the key that made it, and
 * nobody else can learn that it exists; without keys all belong to everyone. Sessions end by
 * being deleted, when they were not used for their time to live, or when their key was taken away.
 * Those that have expired are remembered for a while, so that their users are told.
 */
#ifndef SERVER_SESSIONS_SESSION_TABLE_H
#define SERVER_SESSIONS_SESSION_TABLE_H

#include "server/sessions/session.h"

struct session_table;

struct session_limits {
    size_t bytes; /* of all pages */
    size_t count; /* sessions at once */
    double ttl_seconds, longest_ttl_seconds;
};

/* NULL when there is no memory. */
struct session_table *session_table_create(const struct session_limits *limits);
/* Nobody may have a reference to a session any more. */
void session_table_free(struct session_table *table);
const struct session_limits *session_table_limits(const struct session_table *table);
struct attn_kv_pool *session_table_pool(const struct session_table *table);

enum session_answer {
    SESSION_FINE,
    SESSION_UNKNOWN,      /* there is none, or it is another's */
    SESSION_EXPIRED,      /* there was one */
    SESSION_EXISTS,       /* there is one of this id already */
    SESSION_TOO_MANY,     /* in all */
    SESSION_TOO_MANY_OWN, /* of this key */
    SESSION_NO_ID         /* the system has no randomness */
};

/* Finds the session called id[0 .. length) of this account, with a reference. FINE, UNKNOWN or
   EXPIRED. */
enum session_answer session_table_find(struct session_table *table, const struct account *account,
                                       const char *id, size_t length, struct session **out);

/* Lets a session in; without an id of its own it gets a random one here. Takes a reference of its
   own. FINE, EXISTS, TOO_MANY, TOO_MANY_OWN, NO_ID. `limits`: of its key, or NULL. */
enum session_answer session_table_add(struct session_table *table, struct session *session,
                                      const struct account_limits *limits);
/* The session is over; false when it was already. */
bool session_table_remove(struct session_table *table, struct session *session);

/* The sessions of this account, by id, each with a reference, in an array for free(); NULL when
   there is no memory. */
struct session **session_table_list(struct session_table *table, const struct account *account,
                                    size_t *count);

/* Ends the sessions whose time is over, and those whose key was taken away. */
void session_table_sweep(struct session_table *table);

struct session_counts {
    size_t sessions, pages, bytes, budget;
    uint64_t created, deleted, expired, orphaned;
};
void session_table_read(struct session_table *table, struct session_counts *out);

#endif
