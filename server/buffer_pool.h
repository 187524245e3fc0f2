/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Big buffers for bodies, answers and scratch, reused so that their pages are already there: fresh
 * pages halve upload throughput. Power-of-two classes with quarter steps; small requests go to
 * malloc. Buffers are not zeroed. Thread-safe; one pool per process, reached through this
 * interface.
 */
#ifndef SERVER_BUFFER_POOL_H
#define SERVER_BUFFER_POOL_H

#include <stddef.h>

/* At most `idle_bytes` stay cached while unused; what exceeds them goes back to the system. */
void buffer_pool_open(size_t idle_bytes);
void buffer_pool_close(void);
/* What is cached makes way for what is in use: together they have at most `bytes`, as long as what
   is in use has. Without a call there is no such bound. */
void buffer_pool_bound(size_t bytes);
/* To be called now and then: gives back to the system what nobody has wanted since the last time.
 */
void buffer_pool_age(void);

/* At least `bytes` bytes aligned to 64; NULL when there is no memory. The caller owns it. */
void *buffer_take(size_t bytes);
/* Gives back what buffer_take(bytes) gave; NULL is ignored. `bytes` as it was asked for. */
void buffer_give(void *buffer, size_t bytes);

/* Bytes cached and unused now. */
size_t buffer_pool_idle(void);

#endif
