/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A buffer that ends where an unreadable page begins: a parser that looks one byte too far dies
 * there. Holds up to `capacity` bytes; empty copies are allowed.
 */
#ifndef TESTS_SUPPORT_GUARD_PAGE_H
#define TESTS_SUPPORT_GUARD_PAGE_H

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct guard_page {
    char *mapping;
    size_t capacity; /* readable and writable bytes before the guard */
    size_t page;
};

static inline struct guard_page guard_page_create(size_t at_least) {
    struct guard_page guard = {NULL, 0, (size_t)sysconf(_SC_PAGESIZE)};
    guard.capacity = (at_least / guard.page + 1) * guard.page;
    guard.mapping = mmap(NULL, guard.capacity + guard.page, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (guard.mapping == MAP_FAILED ||
        mprotect(guard.mapping + guard.capacity, guard.page, PROT_NONE) != 0)
        abort();
    return guard;
}

/* Copies length bytes so that the byte after them is unreadable. */
static inline char *guard_page_copy(struct guard_page *guard, const void *bytes, size_t length) {
    char *at = guard->mapping + guard->capacity - length;
    if (length > 0)
        memcpy(at, bytes, length);
    return at;
}

static inline void guard_page_free(struct guard_page *guard) {
    munmap(guard->mapping, guard->capacity + guard->page);
}

#endif
