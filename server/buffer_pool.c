/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Size-classed cache of page-aligned buffers. Classes are quarter steps between powers of two, so
 * at most a fifth of a buffer is unused; what was given back waits in its class, the most recently
 * used first, until the idle budget is spent. Refuses nothing but sizes the system has no memory
 * for.
 */
#include "server/buffer_pool.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "core/checked.h"

enum {
    ALIGNMENT = 64,
    SMALL_BYTES = 64 * 1024, /* below this malloc recycles well enough */
    SMALL_SHIFT = 16,
    CLASS_COUNT = (63 - SMALL_SHIFT) * 4
};

/* Lies in the first bytes of a cached buffer. */
struct idle_buffer {
    struct idle_buffer *next;
};

struct pool {
    pthread_mutex_t lock;
    size_t limit, idle;
    struct idle_buffer *classes[CLASS_COUNT];
};

/* The one per process; its own state is all that the interface hides. */
static struct pool pool = {.lock = PTHREAD_MUTEX_INITIALIZER};

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

static struct idle_buffer *pop(size_t index, size_t size) {
    pthread_mutex_lock(&pool.lock);
    struct idle_buffer *const buffer = pool.classes[index];
    if (buffer != NULL) {
        pool.classes[index] = buffer->next;
        pool.idle -= size;
    }
    pthread_mutex_unlock(&pool.lock);
    return buffer;
}

static bool push(size_t index, size_t size, struct idle_buffer *buffer) {
    pthread_mutex_lock(&pool.lock);
    const bool fits = pool.idle <= pool.limit && size <= pool.limit - pool.idle;
    if (fits) {
        buffer->next = pool.classes[index];
        pool.classes[index] = buffer;
        pool.idle += size;
    }
    pthread_mutex_unlock(&pool.lock);
    return fits;
}

void *buffer_take(size_t bytes) {
    size_t index, size;
    if (bytes <= SMALL_BYTES)
        return attn_round_up_size(bytes + (bytes == 0), ALIGNMENT, &size)
                   ? aligned_alloc(ALIGNMENT, size)
                   : NULL;
    if (!find_class(bytes, &index, &size))
        return NULL;
    void *const cached = pop(index, size);
    if (cached != NULL)
        return cached;
    void *const fresh =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fresh == MAP_FAILED)
        return NULL;
    madvise(fresh, size, MADV_HUGEPAGE); /* fewer faults and misses; a wish, not a need */
    return fresh;
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
    if (known && !push(index, size, buffer))
        munmap(buffer, size);
}

/* Takes whole classes out until `keep` bytes are left; the caller unmaps them outside the lock. */
static void shrink_to(size_t keep) {
    for (size_t index = CLASS_COUNT; index-- > 0;) {
        const size_t step = (size_t)1 << (index / 4 + SMALL_SHIFT - 2);
        const size_t size = step * (5 + index % 4);
        while (buffer_pool_idle() > keep) {
            struct idle_buffer *const buffer = pop(index, size);
            if (buffer == NULL)
                break;
            munmap(buffer, size);
        }
    }
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
