/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots in turn. Task n has slot n modulo their number, once the task before it in that slot has
 * been committed. The lowest task that is not committed never waits, so that somebody always comes
 * on; the thread that completes a row of parts commits them, and no other meanwhile.
 */
#include "core/map_order.h"

#include <pthread.h>
#include <time.h>

#include "core/checked.h"

/* How often one who waits looks whether the call is off. */
#define LOOK_NANOSECONDS 5000000L

struct attn_map_order {
    pthread_mutex_t lock;
    pthread_cond_t committed_more;
    size_t committed; /* tasks below this are */
    bool committing;
    size_t slots, slot_bytes;
    char *carry, *first_slot;
    bool *ready; /* [slots] the part is complete */
};

struct sizes {
    size_t slots, head, carry, slot;
};

static bool measure(const struct attn_plan *plan, size_t threads, struct sizes *sizes,
                    size_t *bytes) {
    size_t all;
    /* A slot that waits for its turn, and one to go on with, per thread. */
    if (!attn_mul_size(attn_max_size(attn_min_size(threads, plan->tasks), 1), 2, &sizes->slots) ||
        !attn_add_size(sizes->slots, sizeof(struct attn_map_order), &sizes->head))
        return false;
    return attn_round_up_size(sizes->head, 64, &sizes->head) &&
           attn_round_up_size(plan->carry_bytes, 64, &sizes->carry) &&
           attn_round_up_size(plan->slot_bytes, 64, &sizes->slot) &&
           attn_mul_size(sizes->slot, sizes->slots, &all) &&
           attn_add_size(all, sizes->carry, &all) && attn_add_size(all, sizes->head, bytes);
}

size_t attn_map_order_bytes(const struct attn_plan *plan, size_t threads) {
    struct sizes sizes;
    size_t bytes;
    if (plan->slot_bytes == 0)
        return 0;
    return measure(plan, threads, &sizes, &bytes) ? bytes : SIZE_MAX;
}

struct attn_map_order *attn_map_order_open(const struct attn_plan *plan, size_t threads,
                                           void *memory) {
    struct attn_map_order *order = memory;
    struct sizes sizes;
    size_t bytes;
    if (plan->slot_bytes == 0 || !measure(plan, threads, &sizes, &bytes))
        return NULL;
    pthread_mutex_init(&order->lock, NULL);
    pthread_cond_init(&order->committed_more, NULL);
    order->slots = sizes.slots;
    order->slot_bytes = sizes.slot;
    order->ready = (bool *)(order + 1);
    order->carry = (char *)memory + sizes.head;
    order->first_slot = order->carry + sizes.carry;
    attn_map_order_reset(order);
    return order;
}

void attn_map_order_reset(struct attn_map_order *order) {
    order->committed = 0;
    order->committing = false;
    for (size_t n = 0; n < order->slots; n++)
        order->ready[n] = false;
}

void attn_map_order_close(struct attn_map_order *order) {
    pthread_cond_destroy(&order->committed_more);
    pthread_mutex_destroy(&order->lock);
}

void *attn_map_order_carry(struct attn_map_order *order) {
    return order->carry;
}

static void *slot_of(struct attn_map_order *order, size_t index) {
    return order->first_slot + index % order->slots * order->slot_bytes;
}

static void wait_a_little(struct attn_map_order *order) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += LOOK_NANOSECONDS;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_cond_timedwait(&order->committed_more, &order->lock, &until);
}

void *attn_map_order_enter(struct attn_map_order *order, size_t index,
                           const struct attn_checkpoint *checkpoint) {
    bool off = false;
    pthread_mutex_lock(&order->lock);
    while (index >= order->committed + order->slots && !off) {
        wait_a_little(order);
        off = attn_checkpoint_is_cancelled(checkpoint);
    }
    pthread_mutex_unlock(&order->lock);
    return off ? NULL : slot_of(order, index);
}

void attn_map_order_leave(struct attn_map_order *order, size_t index, attn_map_commit *commit,
                          const void *closure) {
    pthread_mutex_lock(&order->lock);
    order->ready[index % order->slots] = true;
    bool *next = &order->ready[order->committed % order->slots];
    const bool mine = !order->committing && *next;
    order->committing = order->committing || mine;
    while (mine && *next) {
        const size_t task = order->committed;
        *next = false;
        pthread_mutex_unlock(&order->lock);
        commit(closure, task, slot_of(order, task));
        pthread_mutex_lock(&order->lock);
        order->committed++;
        next = &order->ready[order->committed % order->slots];
        pthread_cond_broadcast(&order->committed_more);
    }
    if (mine)
        order->committing = false;
    pthread_mutex_unlock(&order->lock);
}
