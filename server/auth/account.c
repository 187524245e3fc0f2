/* SPDX-License-Identifier: Apache-2.0 */
/* Token buckets and counts of one key; see account.h. */
#include "server/auth/account.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* A bucket is full when it is made. */
struct bucket {
    double level; /* what may be taken; below 0: a debt */
    int64_t at;   /* when that was; 0: never yet */
};

struct account {
    atomic_int references;
    atomic_bool closed;
    pthread_mutex_t lock;
    struct bucket requests, work;
    size_t calls, bytes;
    size_t sessions, session_bytes;
};

/* Work may be done ahead for this long. */
#define WORK_BURST_SECONDS 1.0

struct account *account_create(void) {
    struct account *account = calloc(1, sizeof *account);
    if (account == NULL)
        return NULL;
    atomic_init(&account->references, 1);
    pthread_mutex_init(&account->lock, NULL);
    return account;
}

struct account *account_ref(struct account *account) {
    atomic_fetch_add_explicit(&account->references, 1, memory_order_relaxed);
    return account;
}

void account_unref(struct account *account) {
    if (account == NULL ||
        atomic_fetch_sub_explicit(&account->references, 1, memory_order_acq_rel) != 1)
        return;
    assert(account->calls == 0 && account->bytes == 0);
    assert(account->sessions == 0 && account->session_bytes == 0);
    pthread_mutex_destroy(&account->lock);
    free(account);
}

void account_close(struct account *account) {
    atomic_store(&account->closed, true);
}

bool account_is_closed(const struct account *account) {
    return atomic_load(&account->closed);
}

static void refill(struct bucket *bucket, double rate, double most, int64_t now) {
    const double seconds = 1e-9 * (double)(now - bucket->at);
    if (bucket->at == 0 || bucket->level + rate * seconds > most)
        bucket->level = most;
    else
        bucket->level += rate * seconds;
    bucket->at = now;
}

static struct account_answer refuse(enum account_refusal refusal, double wait_seconds) {
    return (struct account_answer){refusal, wait_seconds};
}

static struct account_answer take_place(struct account *account,
                                        const struct account_limits *limits, int64_t now) {
    const double rate = limits->requests_per_second;
    if (limits->calls > 0 && (double)account->calls >= limits->calls)
        return refuse(ACCOUNT_CALLS, 0);
    if (rate > 0) {
        const double burst = limits->burst > 0 ? limits->burst : rate;
        refill(&account->requests, rate, burst < 1 ? 1 : burst, now);
        if (account->requests.level < 1)
            return refuse(ACCOUNT_RATE, (1 - account->requests.level) / rate);
        account->requests.level -= 1;
    }
    account->calls++;
    return refuse(ACCOUNT_FINE, 0);
}

struct account_answer account_enter(struct account *account, const struct account_limits *limits,
                                    int64_t now) {
    pthread_mutex_lock(&account->lock);
    const struct account_answer answer = take_place(account, limits, now);
    pthread_mutex_unlock(&account->lock);
    return answer;
}

void account_leave(struct account *account) {
    pthread_mutex_lock(&account->lock);
    assert(account->calls > 0);
    account->calls--;
    pthread_mutex_unlock(&account->lock);
}

/* Adds to one of the account's counts, which a limit of 0 lets grow. */
static bool keep(struct account *account, size_t *count, size_t more, double most) {
    pthread_mutex_lock(&account->lock);
    const bool granted = most <= 0 || (double)*count + (double)more <= most;
    if (granted)
        *count += more;
    pthread_mutex_unlock(&account->lock);
    return granted;
}

static void drop(struct account *account, size_t *count, size_t less) {
    pthread_mutex_lock(&account->lock);
    assert(less <= *count);
    *count -= less;
    pthread_mutex_unlock(&account->lock);
}

bool account_reserve(struct account *account, const struct account_limits *limits, size_t bytes) {
    return keep(account, &account->bytes, bytes, limits->memory);
}

void account_release(struct account *account, size_t bytes) {
    drop(account, &account->bytes, bytes);
}

bool account_keep_session(struct account *account, const struct account_limits *limits) {
    return keep(account, &account->sessions, 1, limits->sessions);
}

void account_drop_session(struct account *account) {
    drop(account, &account->sessions, 1);
}

bool account_keep_bytes(struct account *account, const struct account_limits *limits,
                        size_t bytes) {
    return keep(account, &account->session_bytes, bytes, limits->session_memory);
}

void account_drop_bytes(struct account *account, size_t bytes) {
    drop(account, &account->session_bytes, bytes);
}

struct account_answer account_charge(struct account *account, const struct account_limits *limits,
                                     double flops, int64_t now) {
    const double rate = limits->flops_per_second;
    struct account_answer answer = {ACCOUNT_FINE, 0};
    if (rate <= 0)
        return answer;
    pthread_mutex_lock(&account->lock);
    refill(&account->work, rate, rate * WORK_BURST_SECONDS, now);
    if (account->work.level <= 0)
        answer = refuse(ACCOUNT_WORK, -account->work.level / rate);
    else
        account->work.level -= flops;
    pthread_mutex_unlock(&account->lock);
    return answer;
}
