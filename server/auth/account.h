/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one key uses, and what it may use. Rates are token buckets: a key that was quiet may use its
 * burst at once. Work is known only when a call has been planned, so a call may overdraw it, and
 * the next one waits until the debt is paid.
 */
#ifndef SERVER_AUTH_ACCOUNT_H
#define SERVER_AUTH_ACCOUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 0 in any of them sets no limit. */
struct account_limits {
    double requests_per_second, burst; /* burst: requests at once; 0: one second's */
    double calls;                      /* requests in flight */
    double memory;                     /* bytes of the budget in flight */
    double flops_per_second;           /* planned */
    double sessions, session_memory;   /* at once, and bytes of them together */
};

struct account;

/* One reference. NULL when there is no memory. */
struct account *account_create(void);
struct account *account_ref(struct account *account);
void account_unref(struct account *account);

/* The key was taken away, for good: what it keeps can go. Another of its name has another account.
 */
void account_close(struct account *account);
bool account_is_closed(const struct account *account);

/* Why a request was not let in. */
enum account_refusal { ACCOUNT_FINE, ACCOUNT_RATE, ACCOUNT_CALLS, ACCOUNT_MEMORY, ACCOUNT_WORK };

struct account_answer {
    enum account_refusal refusal;
    double wait_seconds; /* until it may be tried again */
};

/* A request begins, at `now` in nanoseconds of clock_now(). Unless it was refused, it ends with
   account_leave(). */
struct account_answer account_enter(struct account *account, const struct account_limits *limits,
                                    int64_t now);
void account_leave(struct account *account);

/* Memory that the request holds; what was granted is given back with account_release(). */
bool account_reserve(struct account *account, const struct account_limits *limits, size_t bytes);
void account_release(struct account *account, size_t bytes);

/* A session that the key keeps, and bytes that its sessions keep, shared ones once for each; what
   was granted is given back with account_drop_session() and account_drop_bytes(). */
bool account_keep_session(struct account *account, const struct account_limits *limits);
void account_drop_session(struct account *account);
bool account_keep_bytes(struct account *account, const struct account_limits *limits, size_t bytes);
void account_drop_bytes(struct account *account, size_t bytes);

/* Work that is about to be done. */
struct account_answer account_charge(struct account *account, const struct account_limits *limits,
                                     double flops, int64_t now);

#endif
