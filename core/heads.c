/* SPDX-License-Identifier: Apache-2.0 */
/* Places for packed heads; see heads.h. */
#include "core/heads.h"

#include <assert.h>
#include <pthread.h>

#include "core/checked.h"
#include "core/rope.h"

struct place {
    size_t head;    /* which one is packed here, ... */
    bool taken;     /* ... once one has been */
    size_t holders; /* tasks at it now */
    size_t begun;   /* tasks of it, of those that attn_heads_next has given out */
    pthread_t last; /* who began the latest of them */
};

struct attn_heads {
    pthread_mutex_t lock;
    const struct attn_call *call;
    const struct attn_plan *plan;
    size_t count, bytes; /* places, and of each one's packed storage */
    size_t begun; /* heads that attn_heads_next has opened, or tasks where it keeps their order */
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
    heads->begun = 0;
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

static size_t tasks_per_head(const struct attn_heads *heads) {
    return heads->plan->row_tiles * heads->plan->chunks;
}

/* The place of head `head`; count when it has none. */
static size_t find(const struct attn_heads *heads, size_t head) {
    size_t n = 0;
    while (n < heads->count && !(heads->places[n].taken && heads->places[n].head == head))
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

static void *packed_at(const struct attn_heads *heads, size_t n) {
    return heads->packed + n * heads->bytes;
}

static void open_place(struct attn_heads *heads, size_t n, size_t head) {
    heads->places[n] = (struct place){.head = head, .taken = true};
    heads->plan->kernel->packed_open(heads->call, &heads->plan->grid, packed_at(heads, n));
}

void *attn_heads_take(struct attn_heads *heads, size_t index) {
    if (heads->count == 0)
        return NULL;
    const size_t head = index / tasks_per_head(heads);
    pthread_mutex_lock(&heads->lock);
    size_t n = find(heads, head);
    if (n == heads->count) {
        n = find_free(heads);
        assert(n < heads->count); /* no more threads than it was opened for */
        open_place(heads, n, head);
    }
    heads->places[n].holders++;
    pthread_mutex_unlock(&heads->lock);
    return packed_at(heads, n);
}

static bool has_task(const struct attn_heads *heads, const struct place *place) {
    return place->taken && place->begun < tasks_per_head(heads);
}

/* The place of the head that the calling thread was at last, while it has tasks. */
static size_t find_own(const struct attn_heads *heads) {
    size_t n = 0;
    while (n < heads->count && !(has_task(heads, &heads->places[n]) &&
                                 pthread_equal(heads->places[n].last, pthread_self())))
        n++;
    return n;
}

/* A place for a head that has not begun; count when there is no such head or place. */
static size_t find_done(const struct attn_heads *heads) {
    size_t n = 0;
    if (heads->begun * tasks_per_head(heads) >= heads->plan->tasks)
        return heads->count;
    while (n < heads->count && (heads->places[n].holders > 0 || has_task(heads, &heads->places[n])))
        n++;
    return n;
}

/* The place with the most tasks left for each that is at it. */
static size_t find_shared(const struct attn_heads *heads) {
    size_t best = heads->count, best_left = 0, best_holders = 1;
    for (size_t n = 0; n < heads->count; n++) {
        const struct place *place = &heads->places[n];
        const size_t left = has_task(heads, place) ? tasks_per_head(heads) - place->begun : 0;
        if (left * best_holders > best_left * (place->holders + 1)) {
            best = n;
            best_left = left;
            best_holders = place->holders + 1;
        }
    }
    return best;
}

/* The place of the calling thread's next task. Under the lock. */
static size_t choose_place(struct attn_heads *heads) {
    size_t n = find_own(heads);
    if (n < heads->count)
        return n;
    n = find_done(heads);
    if (n == heads->count)
        return find_shared(heads);
    open_place(heads, n, heads->begun++);
    return n;
}

size_t attn_heads_next(struct attn_heads *heads, void **packed) {
    size_t index;
    pthread_mutex_lock(&heads->lock);
    if (heads->count == 0 || heads->order != NULL) {
        index = heads->begun++;
        pthread_mutex_unlock(&heads->lock);
        *packed = attn_heads_take(heads, index);
        return index;
    }
    const size_t n = choose_place(heads);
    assert(n < heads->count); /* no more threads than it was opened for, nor tasks than it has */
    struct place *place = &heads->places[n];
    index = place->head * tasks_per_head(heads) + place->begun++;
    place->last = pthread_self();
    place->holders++;
    *packed = packed_at(heads, n);
    pthread_mutex_unlock(&heads->lock);
    return index;
}

void attn_heads_give(struct attn_heads *heads, size_t index) {
    if (heads->count == 0)
        return;
    pthread_mutex_lock(&heads->lock);
    heads->places[find(heads, index / tasks_per_head(heads))].holders--;
    pthread_mutex_unlock(&heads->lock);
}
