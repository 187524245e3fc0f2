/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of pages. It comes from the system in extents that hold pages of one size: 2 MiB where the
 * budget is large, so that the system can back them with large pages of its own, else a page each.
 * An extent none of whose pages is held goes back, but for one of each size; that one too when the
 * budget has no room otherwise, or when the last cache with pages of the size is gone.
 */
#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "core/checked.h"
#include "core/kv_internal.h"

enum { EXTENT = 2 << 20, SYSTEM_PAGE = 4096, EXTENTS_OF_LARGE_BUDGET = 64 };

/* Linked in its class while it has free pages. */
struct attn_kv_extent {
    struct attn_kv_class *class;
    struct attn_kv_extent *next, *previous;
    char *memory;
    size_t bytes, taken; /* taken: pages that are held */
    struct attn_kv_page *free;
    size_t count;
    struct attn_kv_page pages[];
};

struct attn_kv_class {
    struct attn_kv_pool *pool;
    struct attn_kv_class *next;
    size_t page_bytes, users;
    struct attn_kv_extent *extents; /* with free pages, those that are wholly free last */
    struct attn_kv_extent *spare;   /* the wholly free one, or NULL */
};

struct attn_kv_pool {
    pthread_mutex_t lock;
    size_t budget, used, pages;
    struct attn_kv_class *classes;
};

enum attn_status attn_kv_pool_create(size_t budget, struct attn_kv_pool **out,
                                     struct attn_error *error) {
    struct attn_kv_pool *pool = calloc(1, sizeof *pool);
    if (pool == NULL)
        return attn_fail(error, ATTN_NO_MEMORY, "", "There is no memory for a pool of pages.");
    pthread_mutex_init(&pool->lock, NULL);
    pool->budget = budget;
    *out = pool;
    return ATTN_OK;
}

void attn_kv_pool_free(struct attn_kv_pool **handle) {
    if (*handle == NULL)
        return;
    pthread_mutex_destroy(&(*handle)->lock);
    free(*handle);
    *handle = NULL;
}

struct attn_kv_pool_stats attn_kv_pool_read(struct attn_kv_pool *pool) {
    pthread_mutex_lock(&pool->lock);
    const struct attn_kv_pool_stats stats = {pool->budget, pool->used, pool->pages};
    pthread_mutex_unlock(&pool->lock);
    return stats;
}

/* ---- extents; all under the lock ---- */

static void link_extent(struct attn_kv_extent *extent) {
    struct attn_kv_class *class = extent->class;
    extent->previous = NULL;
    extent->next = class->extents;
    if (extent->next != NULL)
        extent->next->previous = extent;
    class->extents = extent;
}

static void unlink_extent(struct attn_kv_extent *extent) {
    if (extent->previous != NULL)
        extent->previous->next = extent->next;
    else
        extent->class->extents = extent->next;
    if (extent->next != NULL)
        extent->next->previous = extent->previous;
}

/* Neither linked nor spare. */
static void release(struct attn_kv_extent *extent) {
    munmap(extent->memory, extent->bytes);
    extent->class->pool->used -= extent->bytes;
    free(extent);
}

static void release_spare(struct attn_kv_class *class) {
    if (class->spare != NULL)
        release(class->spare);
    class->spare = NULL;
}

static size_t extent_bytes(const struct attn_kv_class *class) {
    const bool large = class->pool->budget / EXTENT >= EXTENTS_OF_LARGE_BUDGET;
    const size_t page = (class->page_bytes + SYSTEM_PAGE - 1) / SYSTEM_PAGE * SYSTEM_PAGE;
    return large ? attn_max_size(page, EXTENT) : page;
}

/* Memory aligned to an extent's size where that is whole; NULL when the system has none. */
static char *map(size_t bytes) {
    const size_t more = bytes % EXTENT == 0 ? EXTENT : 0;
    char *memory =
        mmap(NULL, bytes + more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    if (more == 0)
        return memory;
    const size_t before = (EXTENT - (uintptr_t)memory % EXTENT) % EXTENT;
    if (before > 0)
        munmap(memory, before);
    if (before < more)
        munmap(memory + before + bytes, more - before);
    madvise(memory + before, bytes, MADV_HUGEPAGE);
    return memory + before;
}

static struct attn_kv_extent *extent_create(struct attn_kv_class *class) {
    const size_t bytes = extent_bytes(class), count = bytes / class->page_bytes;
    struct attn_kv_extent *extent = calloc(1, sizeof *extent + count * sizeof(struct attn_kv_page));
    if (extent == NULL)
        return NULL;
    extent->memory = map(bytes);
    if (extent->memory == NULL) {
        free(extent);
        return NULL;
    }
    extent->class = class;
    extent->bytes = bytes;
    extent->count = count;
    for (size_t n = count; n-- > 0;) {
        struct attn_kv_page *page = &extent->pages[n];
        *page = (struct attn_kv_page){
            .data = extent->memory + n * class->page_bytes, .extent = extent, .next = extent->free};
        extent->free = page;
    }
    class->pool->used += bytes;
    return extent;
}

/* Room for another extent of the class, spares of others given up for it. */
static bool make_room(struct attn_kv_class *class) {
    struct attn_kv_pool *pool = class->pool;
    const size_t bytes = extent_bytes(class);
    for (struct attn_kv_class *other = pool->classes;
         other != NULL && pool->budget - attn_min_size(pool->used, pool->budget) < bytes;
         other = other->next)
        release_spare(other);
    return pool->budget >= bytes && pool->used <= pool->budget - bytes;
}

/* One with a free page. */
static struct attn_kv_extent *find_extent(struct attn_kv_class *class, struct attn_error *error) {
    if (class->extents != NULL)
        return class->extents;
    struct attn_kv_extent *extent = class->spare;
    class->spare = NULL;
    if (extent == NULL && !make_room(class)) {
        attn_fail_limit(error, ATTN_NO_ROOM, "", (double)class->pool->budget,
                        "The %zu bytes that sessions may have together are taken. End sessions "
                        "that are done with, or try again later.",
                        class->pool->budget);
        return NULL;
    }
    if (extent == NULL)
        extent = extent_create(class);
    if (extent == NULL)
        attn_fail(error, ATTN_NO_MEMORY, "", "There is no memory for more session tokens.");
    else
        link_extent(extent);
    return extent;
}

struct attn_kv_page *attn_kv_page_take(struct attn_kv_class *class, struct attn_error *error) {
    struct attn_kv_page *page = NULL;
    pthread_mutex_lock(&class->pool->lock);
    struct attn_kv_extent *extent = find_extent(class, error);
    if (extent != NULL) {
        page = extent->free;
        assert(page != NULL);
        extent->free = page->next;
        extent->taken++;
        class->pool->pages++;
        if (extent->free == NULL)
            unlink_extent(extent);
    }
    pthread_mutex_unlock(&class->pool->lock);
    if (page != NULL)
        atomic_store_explicit(&page->holders, 1, memory_order_relaxed);
    return page;
}

static void give(struct attn_kv_page *page) {
    struct attn_kv_extent *extent = page->extent;
    struct attn_kv_class *class = extent->class;
    pthread_mutex_lock(&class->pool->lock);
    if (extent->free == NULL)
        link_extent(extent);
    page->used = true;
    page->next = extent->free;
    extent->free = page;
    class->pool->pages--;
    if (--extent->taken == 0) {
        unlink_extent(extent);
        if (class->spare == NULL)
            class->spare = extent;
        else
            release(extent);
    }
    pthread_mutex_unlock(&class->pool->lock);
}

void attn_kv_page_drop(struct attn_kv_page *page) {
    if (atomic_fetch_sub_explicit(&page->holders, 1, memory_order_acq_rel) == 1)
        give(page);
}

/* ---- classes ---- */

struct attn_kv_class *attn_kv_class_open(struct attn_kv_pool *pool, size_t bytes) {
    pthread_mutex_lock(&pool->lock);
    struct attn_kv_class *class = pool->classes;
    while (class != NULL && class->page_bytes != bytes)
        class = class->next;
    if (class == NULL) {
        class = calloc(1, sizeof *class);
        if (class != NULL) {
            class->pool = pool;
            class->page_bytes = bytes;
            class->next = pool->classes;
            pool->classes = class;
        }
    }
    if (class != NULL)
        class->users++;
    pthread_mutex_unlock(&pool->lock);
    return class;
}

void attn_kv_class_close(struct attn_kv_class *class) {
    struct attn_kv_pool *pool = class->pool;
    pthread_mutex_lock(&pool->lock);
    if (--class->users == 0) {
        release_spare(class);
        struct attn_kv_class **link = &pool->classes;
        while (*link != class)
            link = &(*link)->next;
        *link = class->next;
        free(class);
    }
    pthread_mutex_unlock(&pool->lock);
}
