/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The place in a long computation where it looks up: is it still wanted, and does something cheaper
 * wait? It is passed every 150 us or so, costs two loads when nothing is there to do, and otherwise
 * lets the scheduler run the cheaper work on this thread, on the caller's stack, before it returns.
 * So no lock that others may wait for is held at one, and nothing is claimed that they may need.
 */
#ifndef ATTN_CORE_CHECKPOINT_H
#define ATTN_CORE_CHECKPOINT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct attn_checkpoint {
    const atomic_bool *cancelled; /* or NULL: never */
    /* The cost of the cheapest work that waits, and this work's own, in nanoseconds; NULL: nothing
       runs here. Those who pass only read them. */
    const atomic_int_least64_t *waiting;
    int_least64_t cost;
    void (*give_way)(void *context); /* may change `cost` */
    void *context;
};

/* A look at that alone, for one who holds a lock. */
static inline bool attn_checkpoint_is_cancelled(const struct attn_checkpoint *at) {
    return at != NULL && at->cancelled != NULL &&
           atomic_load_explicit(at->cancelled, memory_order_relaxed);
}

/* True when the rest is not wanted any more. `at` may be NULL: then it always is. */
static inline bool attn_checkpoint_stops(const struct attn_checkpoint *at) {
    if (at != NULL && at->waiting != NULL &&
        atomic_load_explicit(at->waiting, memory_order_relaxed) < at->cost)
        at->give_way(at->context);
    return attn_checkpoint_is_cancelled(at);
}

#endif
