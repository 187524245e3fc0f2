/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that lives as long as one decoded request: taken piece by piece, given back at once.
 * Pieces come from the buffer pool, aligned to 64 bytes and not zeroed. Not thread-safe.
 */
#ifndef SERVER_STORAGE_H
#define SERVER_STORAGE_H

#include <stddef.h>

struct storage;

/* NULL when there is no memory. */
struct storage *storage_create(void);
/* Frees everything taken from it; NULL is ignored. */
void storage_free(struct storage *storage);

/* `bytes` bytes aligned to 64 (never NULL for 0), owned by `storage`; NULL: no memory. */
void *storage_take(struct storage *storage, size_t bytes);
/* count * size bytes; NULL also when the product does not fit. */
void *storage_take_array(struct storage *storage, size_t count, size_t size);
/* A NUL-terminated copy of text[0 .. length). */
char *storage_take_text(struct storage *storage, const char *text, size_t length);

#endif
