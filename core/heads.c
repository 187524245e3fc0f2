/* SPDX-License-Identifier: Apache-2.0 */
/* Places for packed heads; see heads.h. */
#include "core/heads.h"

#include <pthread.h>

#include "core/checked.h"
#include "core/rope.h"

struct place {
    size_t head;    /* which one is packed here, ... */
    bool taken;     /* ... once one has been */
    size_t holders; /* tasks at it now */
};

struct attn_heads {
    pthread_mutex_t lock;
    const struct attn_call *call;
    const struct attn_plan *plan;
    size_t count, bytes; /* places, and of each one's packed storage */
    char *packed;
    struct attn_rotation rotation;
    struct attn_map_order *order; /* NULL: maps add up nothing */
    struct attn_chunks *chunks;   /* NULL: one chunk */
    struct place places[];
};

/* Bytes in front of the first packed head, of the order, the chunks and the turns, and of all. */
struct sizes {
    size_t count, first, order, chunks, turns, bytes;
};

static bool measure(const struct attn_plan *plan, size_t threads, struct sizes *sizes) {
    size_t all;
    sizes->count =
        plan->packed_bytes == 0 ? 0 : attn_max_size(attn_min_size(threads, plan->tasks), 1);
    return attn_mul_size(sizes->count, sizeof(struct place), &sizes->first) &&
           attn_add_size(sizes->first, sizeof(struct attn_heads), &sizes->first) &&
           attn_round_up_size(sizes->first, 64, &sizes->first) &&
           attn_mul_size(sizes->count, plan->packed_bytes, &all) &&
           attn_round_up_size(all, 64, &all) && attn_add_size(sizes->first, all, &sizes->order) &&
           attn_add_size(sizes->order, attn_map_order_bytes(plan, threads), &sizes->chunks) &&
           attn_round_up_size(sizes->chunks, 64, &sizes->chunks) &&
           attn_add_size(sizes->chunks, attn_chunks_bytes(plan), &sizes->turns) &&
           attn_round_up_size(sizes->turns, 64, &sizes->turns) &&
           attn_add_size(sizes->turns, plan->rotation_bytes, &sizes->bytes);
}

size_t attn_heads_bytes(const struct attn_plan *plan, size_t threads) {
    struct sizes sizes;
    return measure(plan, threads, &sizes) ? sizes.bytes : SIZE_MAX;
}

struct attn_heads *attn_heads_open(const struct attn_call *call, const struct attn_plan *plan,
                                   size_t threads, void *memory) {
    struct attn_heads *heads = memory;
    struct sizes sizes;
    if (!measure(plan, threads, &sizes))
        return NULL;
    heads->count = sizes.count;
    pthread_mutex_init(&heads->lock, NULL);
    heads->call = call;
    heads->plan = plan;
    heads->bytes = plan->packed_bytes;
    heads->packed = (char *)memory + sizes.first;
    heads->order = attn_map_order_open(plan, threads, (char *)memory + sizes.order);
    heads->chunks = attn_chunks_open(plan, (char *)memory + sizes.chunks);
    if (plan->rotation_bytes > 0)
        heads->rotation = attn_rotation_make(call, attn_kernel_real_size(plan->kernel, call),
                                             (char *)memory + sizes.turns);
    attn_heads_reset(heads);
    return heads;
}

void attn_heads_reset(struct attn_heads *heads) {
    for (size_t n = 0; n < heads->count; n++)
        heads->places[n] = (struct place){0};
    if (heads->order != NULL)
        attn_map_order_reset(heads->order);
    if (heads->chunks != NULL)
        attn_chunks_reset(heads->chunks);
}

struct attn_map_order *attn_heads_order(struct attn_heads *heads) {
    return heads->order;
}

struct attn_chunks *attn_heads_chunks(struct attn_heads *heads) {
    return heads->chunks;
}

void attn_heads_close(struct attn_heads *heads) {
    if (heads->order != NULL)
        attn_map_order_close(heads->order);
    pthread_mutex_destroy(&heads->lock);
}

const struct attn_rotation *attn_heads_rotation(const struct attn_heads *heads) {
    return heads->plan->rotation_bytes == 0 ? NULL : &heads->rotation;
}

/* The place of head `index`; count when it has none. */
static size_t find(const struct attn_heads *heads, size_t index) {
    size_t n = 0;
    while (n < heads->count && !(heads->places[n].taken && heads->places[n].head == index))
        n++;
    return n;
}

/* A place that no task holds, one that was never used or the lowest head's: that one is done. */
static size_t find_free(const struct attn_heads *heads) {
    size_t best = heads->count;
    for (size_t n = 0; n < heads->count; n++) {
        const struct place *place = &heads->places[n];
        if (place->holders > 0)
            continue;
        if (!place->taken)
            return n;
        if (best == heads->count || place->head < heads->places[best].head)
            best = n;
    }
    return best;
}

void *attn_heads_take(struct attn_heads *heads, size_t index) {
    if (heads->count == 0)
        return NULL;
    pthread_mutex_lock(&heads->lock);
    size_t n = find(heads, index);
    const bool fresh = n == heads->count;
    if (fresh) {
        n = find_free(heads);
        heads->places[n] = (struct place){index, true, 0};
    }
    heads->places[n].holders++;
    void *const packed = heads->packed + n * heads->bytes;
    if (fresh)
        heads->plan->kernel->packed_open(heads->call, &heads->plan->grid, packed);
    pthread_mutex_unlock(&heads->lock);
    return packed;
}

void attn_heads_give(struct attn_heads *heads, size_t index) {
    if (heads->count == 0)
        return;
    pthread_mutex_lock(&heads->lock);
    heads->places[find(heads, index)].holders--;
    pthread_mutex_unlock(&heads->lock);
}
