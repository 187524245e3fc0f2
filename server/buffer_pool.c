/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Size-classed cache of page-aligned buffers. Classes are quarter steps between powers of two, so
 * at most a fifth of a buffer is unused; what was given back waits in its class, the most recently
 * used first, while there is room for it: beside what is in use it counts too. What nobody has
 * wanted for a while goes back to the system. Refuses nothing but sizes the system has no memory
 * for.
 */
#include "server/buffer_pool.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/checked.h"

enum {
    ALIGNMENT = 64,
    SMALL_BYTES = 64 * 1024, /* below this malloc recycles well enough */
    SMALL_SHIFT = 16,
    CLASS_COUNT = (63 - SMALL_SHIFT) * 4,
    TIGHT = 8 /* of the bound: from here on buffers are cut to what was asked */
};

/* Lies in the first bytes of a cached buffer. */
struct idle_buffer {
    struct idle_buffer *next;
};

/* A class, and the fewest buffers that were idle in it since buffer_pool_age() looked last. */
struct shelf {
    struct idle_buffer *first;
    size_t count, least;
};

struct pool {
    pthread_mutex_t lock;
    size_t limit;       /* of idle bytes */
    size_t bound;       /* of idle bytes and of those in use, together */
    size_t idle, taken; /* taken: as asked for, for what lies behind that is not touched */
    struct shelf shelves[CLASS_COUNT];
};

/* The one per process; its own state is all that the interface hides. */
static struct pool pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .bound = SIZE_MAX};

/* The smallest class that holds `bytes` (> SMALL_BYTES) and its size; false when there is none. */
static bool find_class(size_t bytes, size_t *index, size_t *size) {
    const unsigned power = 63 - (unsigned)__builtin_clzll((unsigned long long)(bytes - 1));
    if (power >= 62)
        return false;
    const size_t step = (size_t)1 << (power - 2);
    if (!attn_round_up_size(bytes, step, size))
        return false;
    const size_t quarter = *size / step - 5;
    *index = (power - SMALL_SHIFT) * 4 + quarter;
    return true;
}

/* Idle bytes that there may be; under the lock. */
static size_t idle_room(void) {
    const size_t beside = pool.bound > pool.taken ? pool.bound - pool.taken : 0;
    return attn_min_size(pool.limit, beside);
}

/* Under the lock; NULL when the class has none. */
static struct idle_buffer *pop(size_t index, size_t size) {
    struct shelf *const shelf = &pool.shelves[index];
    struct idle_buffer *const buffer = shelf->first;
    if (buffer == NULL)
        return NULL;
    shelf->first = buffer->next;
    shelf->least = attn_min_size(shelf->least, --shelf->count);
    pool.idle -= size;
    return buffer;
}

/* False when there is no room for it. */
static bool push(size_t index, size_t size, size_t bytes, struct idle_buffer *buffer) {
    struct shelf *const shelf = &pool.shelves[index];
    pthread_mutex_lock(&pool.lock);
    pool.taken -= bytes;
    const size_t room = idle_room();
    const bool fits = pool.idle <= room && size <= room - pool.idle;
    if (fits) {
        buffer->next = shelf->first;
        shelf->first = buffer;
        shelf->count++;
        pool.idle += size;
    }
    pthread_mutex_unlock(&pool.lock);
    return fits;
}

/* Takes a buffer out of its class. */
static struct idle_buffer *take_one(size_t index, size_t size) {
    pthread_mutex_lock(&pool.lock);
    struct idle_buffer *const buffer = pop(index, size);
    pthread_mutex_unlock(&pool.lock);
    return buffer;
}

static size_t size_of_class(size_t index) {
    const size_t step = (size_t)1 << (index / 4 + SMALL_SHIFT - 2);
    return step * (5 + index % 4);
}

/* Takes whole classes out until `keep` bytes are left, unmapping outside the lock. */
static void shrink_to(size_t keep) {
    for (size_t index = CLASS_COUNT; index-- > 0;) {
        const size_t size = size_of_class(index);
        while (buffer_pool_idle() > keep) {
            struct idle_buffer *const buffer = take_one(index, size);
            if (buffer == NULL)
                break;
            munmap(buffer, size);
        }
    }
}

/* Where much of the memory is in use, what another call has touched behind `bytes` goes back. */
static void drop_tail(char *buffer, size_t bytes, size_t size) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t used = (bytes + page - 1) / page * page;
    if (used < size)
        madvise(buffer + used, size - used, MADV_DONTNEED);
}

/* A fresh buffer. Huge pages mean fewer faults and misses; a wish, not a need, and none for bytes
   that nobody asked for: they would have memory with the others. */
static void *map(size_t bytes, size_t size) {
    void *const fresh =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fresh == MAP_FAILED)
        return NULL;
    madvise(fresh, bytes, MADV_HUGEPAGE);
    return fresh;
}

void *buffer_take(size_t bytes) {
    size_t index, size;
    if (bytes <= SMALL_BYTES)
        return attn_round_up_size(bytes + (bytes == 0), ALIGNMENT, &size)
                   ? aligned_alloc(ALIGNMENT, size)
                   : NULL;
    if (!find_class(bytes, &index, &size))
        return NULL;
    pthread_mutex_lock(&pool.lock);
    void *buffer = pop(index, size);
    pool.taken += bytes;
    const size_t room = idle_room();
    const bool is_too_much = pool.idle > room;
    const bool is_tight = pool.taken + pool.idle > pool.bound / TIGHT;
    pthread_mutex_unlock(&pool.lock);
    if (is_too_much)
        shrink_to(room);
    if (buffer != NULL && is_tight)
        drop_tail(buffer, bytes, size);
    if (buffer == NULL && (buffer = map(bytes, size)) == NULL) {
        pthread_mutex_lock(&pool.lock);
        pool.taken -= bytes;
        pthread_mutex_unlock(&pool.lock);
    }
    return buffer;
}

void buffer_give(void *buffer, size_t bytes) {
    size_t index, size;
    if (buffer == NULL)
        return;
    if (bytes <= SMALL_BYTES) {
        free(buffer);
        return;
    }
    const bool known = find_class(bytes, &index, &size);
    assert(known);
    if (known && !push(index, size, bytes, buffer))
        munmap(buffer, size);
}

/* How many of a class nobody has wanted since the last time. */
static size_t unwanted(struct shelf *shelf) {
    pthread_mutex_lock(&pool.lock);
    const size_t count = shelf->least;
    shelf->least = shelf->count - count;
    pthread_mutex_unlock(&pool.lock);
    return count;
}

void buffer_pool_age(void) {
    for (size_t index = 0; index < CLASS_COUNT; index++) {
        const size_t size = size_of_class(index);
        for (size_t left = unwanted(&pool.shelves[index]); left > 0; left--) {
            struct idle_buffer *const buffer = take_one(index, size);
            if (buffer != NULL)
                munmap(buffer, size);
        }
    }
}

void buffer_pool_bound(size_t bytes) {
    pthread_mutex_lock(&pool.lock);
    pool.bound = bytes;
    const size_t room = idle_room();
    pthread_mutex_unlock(&pool.lock);
    shrink_to(room);
}

void buffer_pool_open(size_t idle_bytes) {
    pthread_mutex_lock(&pool.lock);
    pool.limit = idle_bytes;
    pthread_mutex_unlock(&pool.lock);
    shrink_to(idle_bytes);
}

void buffer_pool_close(void) {
    buffer_pool_open(0);
}

size_t buffer_pool_idle(void) {
    pthread_mutex_lock(&pool.lock);
    const size_t idle = pool.idle;
    pthread_mutex_unlock(&pool.lock);
    return idle;
}
