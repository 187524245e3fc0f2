/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is let in: a budget of bytes for all bodies, answers and workspaces in flight, and a limit
 * of calls that wait. Only a call's first reservation may wait for bytes; later ones are granted at
 * once or refused, so that two calls can never wait for each other.
 *
 * A little beyond both is kept for small calls that have to be answered when all else is taken:
 * those of the routes that say so (server/routes.h).
 */
#ifndef SERVER_ADMISSION_H
#define SERVER_ADMISSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct admission;

enum {
    ADMISSION_KEPT_PART = 64,      /* of the budget, ... */
    ADMISSION_KEPT_MOST = 8 << 20, /* ... in bytes, and ... */
    ADMISSION_KEPT_PLACES = 16     /* ... in the queue */
};

/* What a reservation may take. */
enum admission_right {
    ADMISSION_FIRST, /* a call's first: it does not overtake those who wait */
    ADMISSION_LATER, /* what is left of the budget */
    ADMISSION_KEPT   /* that, and what is kept */
};

/* One call's place in the line for bytes. Caller storage; it must stay until it was granted or
   admission_leave() has taken it out. */
struct admission_waiter {
    size_t bytes;
    enum admission_right right;                       /* FIRST or KEPT */
    void (*granted)(struct admission_waiter *waiter); /* called without the lock, on any thread */
    struct admission_waiter *next, *previous;
    bool waiting;
};

enum admission_answer {
    ADMISSION_GRANTED,
    ADMISSION_WAITING,   /* granted() will be called */
    ADMISSION_NO_ROOM,   /* too many calls wait, or the bytes cannot be had now */
    ADMISSION_TOO_LARGE, /* more than the whole budget: it can never be granted */
};

/* NULL when there is no memory. */
struct admission *admission_create(size_t budget_bytes, size_t queue_limit);
void admission_free(struct admission *admission);

/* Reserves waiter->bytes, or puts the waiter in line behind those already there. */
enum admission_answer admission_ask(struct admission *admission, struct admission_waiter *waiter);
/* Takes a waiter out of the line; false when it had been granted. */
bool admission_leave(struct admission *admission, struct admission_waiter *waiter);

/* Reserves at once: ADMISSION_GRANTED, ADMISSION_NO_ROOM or ADMISSION_TOO_LARGE. */
enum admission_answer admission_reserve(struct admission *admission, size_t bytes,
                                        enum admission_right right);
/* Gives bytes back, and grants those who wait what now fits, first come first served. */
void admission_release(struct admission *admission, size_t bytes);

/* Counts a call that waits for a worker; false when as many wait as may. */
bool admission_enter_queue(struct admission *admission, enum admission_right right);
void admission_leave_queue(struct admission *admission);

size_t admission_bytes(struct admission *admission);
size_t admission_budget(const struct admission *admission);
/* Calls waiting for bytes or a worker. */
size_t admission_queue_depth(struct admission *admission);

#endif
