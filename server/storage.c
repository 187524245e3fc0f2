/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request's memory: small pieces are cut from shared blocks, a large one gets a block of its own.
 * Every block comes from the buffer pool and begins with its own description.
 */
#include "server/storage.h"

#include <string.h>

#include "core/checked.h"
#include "server/buffer_pool.h"

enum { ALIGNMENT = 64, SHARED_BYTES = 16 * 1024, LARGE_BYTES = 4 * 1024 };

struct block {
    struct block *next;
    size_t bytes; /* as asked from the pool */
};

_Static_assert(sizeof(struct block) <= ALIGNMENT, "a block's head keeps the alignment");

struct storage {
    struct block *blocks; /* the last of them holds this struct itself */
    char *at;             /* free bytes of the newest shared block */
    size_t left;
};

/* A pool buffer with room for `bytes` behind its head; linked by the caller. */
static struct block *take_block(size_t bytes) {
    size_t whole;
    if (!attn_add_size(bytes, ALIGNMENT, &whole))
        return NULL;
    struct block *const block = buffer_take(whole);
    if (block != NULL)
        *block = (struct block){NULL, whole};
    return block;
}

static char *block_bytes(struct block *block) {
    return (char *)block + ALIGNMENT;
}

struct storage *storage_create(void) {
    struct block *const block = take_block(SHARED_BYTES);
    if (block == NULL)
        return NULL;
    struct storage *const storage = (struct storage *)(void *)block_bytes(block);
    *storage = (struct storage){block, block_bytes(block) + ALIGNMENT, SHARED_BYTES - ALIGNMENT};
    return storage;
}

void storage_free(struct storage *storage) {
    struct block *block = storage == NULL ? NULL : storage->blocks;
    while (block != NULL) {
        struct block *const next = block->next;
        buffer_give(block, block->bytes);
        block = next;
    }
}

static struct block *add_block(struct storage *storage, size_t bytes) {
    struct block *const block = take_block(bytes);
    if (block != NULL) {
        block->next = storage->blocks;
        storage->blocks = block;
    }
    return block;
}

void *storage_take(struct storage *storage, size_t bytes) {
    size_t rounded;
    if (!attn_round_up_size(bytes + (bytes == 0), ALIGNMENT, &rounded))
        return NULL;
    if (rounded > LARGE_BYTES) {
        struct block *const block = add_block(storage, rounded);
        return block == NULL ? NULL : block_bytes(block);
    }
    if (rounded > storage->left) {
        struct block *const block = add_block(storage, SHARED_BYTES);
        if (block == NULL)
            return NULL;
        storage->at = block_bytes(block);
        storage->left = SHARED_BYTES;
    }
    void *const piece = storage->at;
    storage->at += rounded;
    storage->left -= rounded;
    return piece;
}

void *storage_take_array(struct storage *storage, size_t count, size_t size) {
    size_t bytes;
    return attn_mul_size(count, size, &bytes) ? storage_take(storage, bytes) : NULL;
}

char *storage_take_text(struct storage *storage, const char *text, size_t length) {
    char *const copy = storage_take(storage, length + 1);
    if (copy == NULL)
        return NULL;
    memcpy(copy, text, length);
    copy[length] = 0;
    return copy;
}
