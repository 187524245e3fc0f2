/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of the process, and what the C library's allocator keeps of it after it was freed:
 * connections and documents come in small pieces, of which it gives back to the system only those
 * that lie at an end. That is asked for while nobody asks for anything else.
 */
#ifndef SERVER_HEAP_H
#define SERVER_HEAP_H

#include <stdbool.h>
#include <stddef.h>

/* Zeroed at first. */
struct heap {
    unsigned quiet;  /* looks in a row at which nothing was in flight */
    size_t resident; /* the least since the last trim, in bytes */
    size_t free;     /* the same of what the allocator has to spare */
};

/* To be called now and then. `is_quiet`: nothing is in flight. */
void heap_age(struct heap *heap, bool is_quiet);

/* Bytes of this process; 0 where the system does not say. */
size_t heap_resident(void);
size_t heap_virtual(void);

#endif
