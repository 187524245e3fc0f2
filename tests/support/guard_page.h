/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A buffer between two unreadable pages: a parser that looks one byte too far dies there, and so
 * does one that looks before a text that fills it. Holds up to `capacity` bytes; empty copies are
 * allowed.
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
    size_t capacity; /* readable and writable bytes between the guards */
    size_t page;
};

static inline struct guard_page guard_page_create(size_t at_least) {
    struct guard_page guard = {NULL, 0, (size_t)sysconf(_SC_PAGESIZE)};
    guard.capacity = (at_least / guard.page + 1) * guard.page;
    char *const whole =
        mmap(NULL, guard.capacity + 2 * guard.page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (whole == MAP_FAILED)
        abort();
    guard.mapping = whole + guard.page;
    if (mprotect(guard.mapping, guard.capacity, PROT_READ | PROT_WRITE) != 0)
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
    munmap(guard->mapping - guard->page, guard->capacity + 2 * guard->page);
}

#endif
