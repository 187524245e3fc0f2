/* SPDX-License-Identifier: Apache-2.0 */
/* Giving back what is free; see heap.h. A trim holds the allocator's locks for milliseconds, so it
   waits for quiet and for something to give back: the process has grown since the last one, or what
   was in use then has been freed. */
#include "server/heap.h"

#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

#include "core/checked.h"

enum {
    QUIET_LOOKS = 2,
    GROWN = 4 << 20 /* bytes that are worth a trim */
};

/* Field `index` of /proc/self/statm, in bytes. */
static size_t statm(int index) {
    unsigned long long pages[2] = {0, 0};
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL)
        return 0;
    const int read = fscanf(file, "%llu %llu", &pages[0], &pages[1]);
    fclose(file);
    return read == 2 ? (size_t)pages[index] * (size_t)sysconf(_SC_PAGESIZE) : 0;
}

size_t heap_resident(void) {
    return statm(1);
}

size_t heap_virtual(void) {
    return statm(0);
}

static void trim(void) {
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

/* What the allocator has in free pieces, whether or not the system has it back. */
static size_t free_bytes(void) {
#ifdef __GLIBC__
    return mallinfo2().fordblks;
#else
    return 0;
#endif
}

void heap_age(struct heap *heap, bool is_quiet) {
    heap->quiet = is_quiet ? heap->quiet + 1 : 0;
    const size_t resident = heap_resident();
    heap->resident = attn_min_size(heap->resident, resident);
    if (heap->quiet < QUIET_LOOKS)
        return;
    const size_t free = free_bytes();
    heap->free = attn_min_size(heap->free, free);
    if (resident - heap->resident < GROWN && free - heap->free < GROWN)
        return;
    trim();
    heap->resident = heap_resident();
    heap->free = free_bytes();
}
