/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for GMP, in which GnuTLS computes. It has no way to say that there is none: it ends the
 * process. So what it asks for when the system gives nothing comes out of a reserve, which the
 * numbers of a handshake, small and held for a moment, fit into.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/http/http_tls_internal.h"

enum { BLOCK = 4096, BLOCKS = 256 };

/* Of the process, as GMP's functions are. */
static _Alignas(64) char reserve[BLOCKS][BLOCK];
static atomic_flag taken[BLOCKS];

static bool is_reserve(const void *memory) {
    return (uintptr_t)memory >= (uintptr_t)reserve &&
           (uintptr_t)memory < (uintptr_t)reserve + sizeof reserve;
}

/* Never NULL, which GMP would write to. */
static void *take_reserve(size_t bytes) {
    for (size_t i = 0; bytes <= BLOCK && i < BLOCKS; i++)
        if (!atomic_flag_test_and_set(&taken[i]))
            return reserve[i];
    fputs("attentiond: there is no memory for TLS, and its reserve is used up\n", stderr);
    abort();
}

static void give_reserve(void *memory) {
    const size_t block = ((uintptr_t)memory - (uintptr_t)reserve) / BLOCK;
    explicit_bzero(memory, BLOCK); /* it may have held a key */
    atomic_flag_clear(&taken[block]);
}

static void *take(size_t bytes) {
    void *const memory = malloc(bytes);
    if (memory != NULL)
        return memory;
    return take_reserve(bytes);
}

static void give(void *memory, size_t bytes) {
    (void)bytes;
    if (is_reserve(memory))
        give_reserve(memory);
    else
        free(memory);
}

static void *retake(void *old, size_t old_bytes, size_t bytes) {
    void *const memory = is_reserve(old) ? NULL : realloc(old, bytes);
    if (memory != NULL)
        return memory;
    void *const other = take(bytes);
    memcpy(other, old, old_bytes < bytes ? old_bytes : bytes);
    give(old, old_bytes);
    return other;
}

void http_tls_reserve(void) {
    typedef void setter(void *(*)(size_t), void *(*)(void *, size_t, size_t),
                        void (*)(void *, size_t));
    void *const symbol = dlsym(RTLD_DEFAULT, "__gmp_set_memory_functions");
    setter *set;
    memcpy(&set, &symbol, sizeof set);
    if (set != NULL)
        set(take, retake, give);
}
