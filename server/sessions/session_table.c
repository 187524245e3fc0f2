/* SPDX-License-Identifier: Apache-2.0 */
/* A table of buckets under one lock, and a ring of what has expired; see session_table.h. */
#include "server/sessions/session_table.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "server/clock.h"

enum {
    BUCKETS = 4096,
    REMEMBERED = 16384, /* expired ids; the oldest are forgotten first */
    RANDOM_BYTES = 16
};

struct memory_of_expired {
    struct account *account; /* owned reference */
    char id[SESSION_ID_SIZE];
};

struct session_table {
    struct session_limits limits;
    struct attn_kv_pool *pool;
    uint64_t seed; /* of hashes, so that nobody can choose ids of one bucket */
    pthread_mutex_t lock;
    struct session *buckets[BUCKETS];
    size_t count;
    uint64_t created, deleted, expired, orphaned;
    int64_t swept_at;
    struct memory_of_expired *remembered; /* a ring: entry n is at n % REMEMBERED */
};

struct session_table *session_table_create(const struct session_limits *limits) {
    struct session_table *table = calloc(1, sizeof *table);
    struct attn_error error = {0};
    if (table == NULL)
        return NULL;
    table->limits = *limits;
    pthread_mutex_init(&table->lock, NULL);
    table->remembered = calloc(REMEMBERED, sizeof *table->remembered);
    if (getrandom(&table->seed, sizeof table->seed, GRND_NONBLOCK) < 0)
        table->seed = (uint64_t)clock_now();
    if (table->remembered == NULL ||
        attn_kv_pool_create(limits->bytes, &table->pool, &error) != ATTN_OK) {
        session_table_free(table);
        return NULL;
    }
    return table;
}

void session_table_free(struct session_table *table) {
    if (table == NULL)
        return;
    for (size_t bucket = 0; bucket < BUCKETS; bucket++)
        while (table->buckets[bucket] != NULL)
            session_table_remove(table, table->buckets[bucket]);
    for (size_t i = 0; table->remembered != NULL && i < REMEMBERED; i++)
        account_unref(table->remembered[i].account);
    free(table->remembered);
    if (table->pool != NULL)
        attn_kv_pool_free(&table->pool);
    pthread_mutex_destroy(&table->lock);
    free(table);
}

const struct session_limits *session_table_limits(const struct session_table *table) {
    return &table->limits;
}

struct attn_kv_pool *session_table_pool(const struct session_table *table) {
    return table->pool;
}

/* ---- under the lock ---- */

static struct session **bucket_of(struct session_table *table, const char *id, size_t length) {
    uint64_t hash = table->seed;
    for (size_t i = 0; i < length; i++) {
        hash = (hash ^ (unsigned char)id[i]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    return &table->buckets[hash % BUCKETS];
}

static bool is_called(const char *own, const char *id, size_t length) {
    return strlen(own) == length && memcmp(own, id, length) == 0;
}

static struct session *find(struct session_table *table, const struct account *account,
                            const char *id, size_t length) {
    struct session *session = *bucket_of(table, id, length);
    while (session != NULL && (session->account != account || !is_called(session->id, id, length)))
        session = session->next;
    return session;
}

/* Takes a session out of its bucket, whose reference becomes the caller's. */
static void unlist(struct session_table *table, struct session *session) {
    struct session **at = bucket_of(table, session->id, strlen(session->id));
    while (*at != session)
        at = &(*at)->next;
    *at = session->next;
    session->is_listed = false;
    table->count--;
    if (session->account != NULL)
        account_drop_session(session->account);
    pthread_mutex_lock(&session->lock);
    session->over = true;
    pthread_mutex_unlock(&session->lock);
}

static void remember(struct session_table *table, const struct session *session) {
    struct memory_of_expired *at = &table->remembered[table->expired++ % REMEMBERED];
    account_unref(at->account);
    at->account = session->account == NULL ? NULL : account_ref(session->account);
    memcpy(at->id, session->id, sizeof at->id);
}

static struct memory_of_expired *recall(struct session_table *table, const struct account *account,
                                        const char *id, size_t length) {
    const uint64_t count = table->expired < REMEMBERED ? table->expired : REMEMBERED;
    for (uint64_t i = 0; i < count; i++) {
        struct memory_of_expired *at = &table->remembered[i];
        if (at->account == account && is_called(at->id, id, length))
            return at;
    }
    return NULL;
}

/* Whether nobody used it for its time to live. */
static bool is_late(struct session *session, int64_t now) {
    pthread_mutex_lock(&session->lock);
    const double idle = 1e-9 * (double)(now - session->used_at);
    const bool late = !session->busy && idle >= session->ttl_seconds;
    pthread_mutex_unlock(&session->lock);
    return late;
}

static void expire(struct session_table *table, struct session *session) {
    unlist(table, session);
    remember(table, session);
}

/* The session, unless it is over since just now; *ended is to be unreferenced behind the lock. */
static struct session *find_alive(struct session_table *table, const struct account *account,
                                  const char *id, size_t length, struct session **ended) {
    struct session *session = find(table, account, id, length);
    *ended = NULL;
    if (session == NULL || !is_late(session, clock_now()))
        return session;
    expire(table, session);
    *ended = session;
    return NULL;
}

/* ---- the table ---- */

enum session_answer session_table_find(struct session_table *table, const struct account *account,
                                       const char *id, size_t length, struct session **out) {
    struct session *ended;
    pthread_mutex_lock(&table->lock);
    struct session *session = find_alive(table, account, id, length, &ended);
    enum session_answer answer = SESSION_FINE;
    if (session != NULL)
        *out = session_ref(session);
    else
        answer = recall(table, account, id, length) != NULL ? SESSION_EXPIRED : SESSION_UNKNOWN;
    pthread_mutex_unlock(&table->lock);
    session_unref(ended);
    return answer;
}

/* 128 random bits, as hexadecimal digits. */
static bool make_id(char id[SESSION_ID_SIZE]) {
    static const char digits[] = "0123456789abcdef";
    unsigned char bytes[RANDOM_BYTES];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return false;
    for (size_t i = 0; i < sizeof bytes; i++) {
        id[2 * i] = digits[bytes[i] >> 4];
        id[2 * i + 1] = digits[bytes[i] & 15];
    }
    id[2 * sizeof bytes] = '\0';
    return true;
}

/* The id is used again: it is expired no more. */
static void forget(struct session_table *table, const struct session *session) {
    struct memory_of_expired *at =
        recall(table, session->account, session->id, strlen(session->id));
    if (at != NULL)
        at->id[0] = '\0';
}

static enum session_answer let_in(struct session_table *table, struct session *session,
                                  const struct account_limits *limits) {
    if (table->count >= table->limits.count)
        return SESSION_TOO_MANY;
    if (session->account != NULL && !account_keep_session(session->account, limits))
        return SESSION_TOO_MANY_OWN;
    struct session **bucket = bucket_of(table, session->id, strlen(session->id));
    forget(table, session);
    session->next = *bucket;
    *bucket = session_ref(session);
    session->is_listed = true;
    session->used_at = clock_now();
    table->count++;
    table->created++;
    return SESSION_FINE;
}

enum session_answer session_table_add(struct session_table *table, struct session *session,
                                      const struct account_limits *limits) {
    struct session *ended;
    if (!session->has_own_id && !make_id(session->id))
        return SESSION_NO_ID;
    session_table_sweep(table);
    pthread_mutex_lock(&table->lock);
    const struct session *other =
        find_alive(table, session->account, session->id, strlen(session->id), &ended);
    const enum session_answer answer =
        other != NULL ? SESSION_EXISTS : let_in(table, session, limits);
    pthread_mutex_unlock(&table->lock);
    session_unref(ended);
    return answer;
}

bool session_table_remove(struct session_table *table, struct session *session) {
    pthread_mutex_lock(&table->lock);
    const bool was_listed = session->is_listed;
    if (was_listed) {
        unlist(table, session);
        table->deleted++;
    }
    pthread_mutex_unlock(&table->lock);
    if (was_listed)
        session_unref(session);
    return was_listed;
}

static int by_id(const void *left, const void *right) {
    const struct session *const *a = left, *const *b = right;
    return strcmp((*a)->id, (*b)->id);
}

struct session **session_table_list(struct session_table *table, const struct account *account,
                                    size_t *count) {
    *count = 0;
    session_table_sweep(table);
    pthread_mutex_lock(&table->lock);
    struct session **list = calloc(table->count + 1, sizeof *list);
    for (size_t bucket = 0; list != NULL && bucket < BUCKETS; bucket++)
        for (struct session *at = table->buckets[bucket]; at != NULL; at = at->next)
            if (at->account == account)
                list[(*count)++] = session_ref(at);
    pthread_mutex_unlock(&table->lock);
    if (list != NULL)
        qsort(list, *count, sizeof *list, by_id);
    return list;
}

static bool is_orphan(const struct session *session) {
    return session->account != NULL && account_is_closed(session->account);
}

/* Takes one that is late, or whose key is gone, out of the table, with its reference; NULL when
   there is none from this bucket on, which moves. */
static struct session *take_over(struct session_table *table, size_t *bucket, int64_t now) {
    struct session *over = NULL;
    pthread_mutex_lock(&table->lock);
    for (; over == NULL && *bucket < BUCKETS; *bucket += over == NULL)
        for (struct session *at = table->buckets[*bucket]; at != NULL && over == NULL;
             at = at->next)
            over = is_orphan(at) || is_late(at, now) ? at : NULL;
    if (over != NULL && is_orphan(over)) { /* nobody is left to be told */
        unlist(table, over);
        table->orphaned++;
    } else if (over != NULL) {
        expire(table, over);
    }
    pthread_mutex_unlock(&table->lock);
    return over;
}

/* Once a second; more often only helps who looks. */
static bool is_time_to_sweep(struct session_table *table, int64_t now) {
    pthread_mutex_lock(&table->lock);
    const bool is_time =
        now - table->swept_at >= CLOCK_SECOND || table->count >= table->limits.count;
    if (is_time)
        table->swept_at = now;
    pthread_mutex_unlock(&table->lock);
    return is_time;
}

void session_table_sweep(struct session_table *table) {
    const int64_t now = clock_now();
    if (!is_time_to_sweep(table, now))
        return;
    size_t bucket = 0;
    for (struct session *over; (over = take_over(table, &bucket, now)) != NULL;)
        session_unref(over);
}

void session_table_read(struct session_table *table, struct session_counts *out) {
    pthread_mutex_lock(&table->lock);
    *out = (struct session_counts){
        .sessions = table->count,
        .created = table->created,
        .deleted = table->deleted,
        .expired = table->expired,
        .orphaned = table->orphaned,
    };
    pthread_mutex_unlock(&table->lock);
    const struct attn_kv_pool_stats pool = attn_kv_pool_read(table->pool);
    out->budget = pool.budget;
    out->bytes = pool.used;
    out->pages = pool.pages;
}
