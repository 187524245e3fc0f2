/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocation for the JSON parser. Its allocator is the process's one and knows no context, so the
 * storage of a load in progress is found through its thread; outside of a load it is malloc's.
 */
#include "server/json/json_load.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdlib.h>

struct load {
    struct storage *storage;
    jmp_buf exhausted;
};

/* The load in progress on this thread, or NULL. */
static _Thread_local struct load *current;

static pthread_once_t installed = PTHREAD_ONCE_INIT;

static void *allocate(size_t bytes) {
    if (current == NULL)
        return malloc(bytes);
    void *const piece = storage_take(current->storage, bytes);
    if (piece == NULL)
        longjmp(current->exhausted, 1);
    return piece;
}

/* During a load everything the parser frees lies in the storage. */
static void release(void *piece) {
    if (current == NULL)
        free(piece);
}

static void install(void) {
    json_set_alloc_funcs(allocate, release);
}

json_t *json_load(struct storage *storage, const char *text, size_t length, json_error_t *cause,
                  bool *exhausted) {
    struct load load = {.storage = storage};
    pthread_once(&installed, install);
    *exhausted = setjmp(load.exhausted) != 0;
    if (*exhausted) {
        current = NULL;
        return NULL;
    }
    current = &load;
    json_t *const root = json_loadb(text, length, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, cause);
    current = NULL;
    return root;
}
