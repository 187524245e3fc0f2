/* SPDX-License-Identifier: Apache-2.0 */
/* The byte budget and the queue limit; see admission.h. */
#include "server/admission.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#include "core/checked.h"

struct admission {
    pthread_mutex_t lock;
    size_t budget, kept, used;
    size_t queue_limit;
    size_t for_workers;                    /* calls waiting for a worker */
    size_t for_bytes;                      /* waiters in line */
    struct admission_waiter *first, *last; /* who waits for bytes, oldest first */
};

struct admission *admission_create(size_t budget_bytes, size_t queue_limit) {
    struct admission *admission = calloc(1, sizeof *admission);
    if (admission == NULL)
        return NULL;
    pthread_mutex_init(&admission->lock, NULL);
    admission->budget = budget_bytes;
    admission->kept = attn_min_size(budget_bytes / ADMISSION_KEPT_PART, ADMISSION_KEPT_MOST);
    admission->queue_limit = queue_limit;
    return admission;
}

void admission_free(struct admission *admission) {
    if (admission == NULL)
        return;
    assert(admission->used == 0 && admission->first == NULL);
    pthread_mutex_destroy(&admission->lock);
    free(admission);
}

/* Under the lock. */
static bool fits(const struct admission *admission, size_t bytes, enum admission_right right) {
    const size_t most = admission->budget + (right == ADMISSION_KEPT ? admission->kept : 0);
    return admission->used <= most && bytes <= most - admission->used;
}

static bool is_in_turn(const struct admission *admission, enum admission_right right) {
    return right != ADMISSION_FIRST || admission->first == NULL;
}

static bool queue_is_full(const struct admission *admission, enum admission_right right) {
    const size_t more = right == ADMISSION_KEPT ? ADMISSION_KEPT_PLACES : 0;
    return admission->for_workers + admission->for_bytes >= admission->queue_limit + more;
}

static void join_line(struct admission *admission, struct admission_waiter *waiter) {
    waiter->next = NULL;
    waiter->previous = admission->last;
    *(admission->last != NULL ? &admission->last->next : &admission->first) = waiter;
    admission->last = waiter;
    waiter->waiting = true;
    admission->for_bytes++;
}

static void leave_line(struct admission *admission, struct admission_waiter *waiter) {
    struct admission_waiter *next = waiter->next;
    struct admission_waiter *previous = waiter->previous;
    *(previous != NULL ? &previous->next : &admission->first) = next;
    *(next != NULL ? &next->previous : &admission->last) = previous;
    waiter->waiting = false;
    admission->for_bytes--;
}

enum admission_answer admission_ask(struct admission *admission, struct admission_waiter *waiter) {
    if (waiter->bytes > admission->budget)
        return ADMISSION_TOO_LARGE;
    enum admission_answer answer = ADMISSION_GRANTED;
    pthread_mutex_lock(&admission->lock);
    if (is_in_turn(admission, waiter->right) && fits(admission, waiter->bytes, waiter->right)) {
        admission->used += waiter->bytes;
    } else if (queue_is_full(admission, waiter->right)) {
        answer = ADMISSION_NO_ROOM;
    } else {
        join_line(admission, waiter);
        answer = ADMISSION_WAITING;
    }
    pthread_mutex_unlock(&admission->lock);
    return answer;
}

enum admission_answer admission_reserve(struct admission *admission, size_t bytes,
                                        enum admission_right right) {
    if (bytes > admission->budget)
        return ADMISSION_TOO_LARGE;
    pthread_mutex_lock(&admission->lock);
    const bool granted = is_in_turn(admission, right) && fits(admission, bytes, right);
    if (granted)
        admission->used += bytes;
    pthread_mutex_unlock(&admission->lock);
    return granted ? ADMISSION_GRANTED : ADMISSION_NO_ROOM;
}

/* The oldest waiter when its bytes fit, taken out of the line with its bytes; else NULL. */
static struct admission_waiter *grant_one(struct admission *admission) {
    pthread_mutex_lock(&admission->lock);
    struct admission_waiter *waiter = admission->first;
    if (waiter != NULL && fits(admission, waiter->bytes, waiter->right)) {
        leave_line(admission, waiter);
        admission->used += waiter->bytes;
    } else {
        waiter = NULL;
    }
    pthread_mutex_unlock(&admission->lock);
    return waiter;
}

static void grant_what_fits(struct admission *admission) {
    struct admission_waiter *waiter;
    while ((waiter = grant_one(admission)) != NULL)
        waiter->granted(waiter);
}

bool admission_leave(struct admission *admission, struct admission_waiter *waiter) {
    pthread_mutex_lock(&admission->lock);
    const bool waited = waiter->waiting;
    if (waited)
        leave_line(admission, waiter);
    pthread_mutex_unlock(&admission->lock);
    if (waited) /* a smaller call may stand behind it */
        grant_what_fits(admission);
    return waited;
}

void admission_release(struct admission *admission, size_t bytes) {
    pthread_mutex_lock(&admission->lock);
    assert(bytes <= admission->used);
    admission->used -= bytes;
    pthread_mutex_unlock(&admission->lock);
    grant_what_fits(admission);
}

bool admission_enter_queue(struct admission *admission, enum admission_right right) {
    pthread_mutex_lock(&admission->lock);
    const bool entered = !queue_is_full(admission, right);
    admission->for_workers += entered;
    pthread_mutex_unlock(&admission->lock);
    return entered;
}

void admission_leave_queue(struct admission *admission) {
    pthread_mutex_lock(&admission->lock);
    assert(admission->for_workers > 0);
    admission->for_workers--;
    pthread_mutex_unlock(&admission->lock);
}

size_t admission_bytes(struct admission *admission) {
    pthread_mutex_lock(&admission->lock);
    const size_t used = admission->used;
    pthread_mutex_unlock(&admission->lock);
    return used;
}

size_t admission_budget(const struct admission *admission) {
    return admission->budget;
}

size_t admission_queue_depth(struct admission *admission) {
    pthread_mutex_lock(&admission->lock);
    const size_t depth = admission->for_workers + admission->for_bytes;
    pthread_mutex_unlock(&admission->lock);
    return depth;
}
