/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tasks of one call share while they run: the turns of its rotary positions, what maps add
 * up over tasks, the results of chunks of keys, and packed key/value heads. No more heads are in
 * flight than threads run tasks; each has one of as many places, and a place whose head is done is
 * the next one's. A thread stays with a head while it has tasks, and begins another before it joins
 * one that others are at: what a thread packed lies in its own caches, and to fetch it from those
 * of another processor takes several times as long as packing it.
 */
#ifndef ATTN_CORE_HEADS_H
#define ATTN_CORE_HEADS_H

#include "core/chunks.h"
#include "core/map.h"

struct attn_heads;

/* Bytes that heads for `threads` threads at once take: at least one, whatever the kernel wants;
 * SIZE_MAX when they do not fit. */
size_t attn_heads_bytes(const struct attn_plan *plan, size_t threads);

/*
 * Makes heads in `memory` of attn_heads_bytes(plan, threads) bytes, aligned to 64, which stays the
 * caller's. Borrows call and plan. At most `threads` tasks may hold a head at once.
 */
struct attn_heads *attn_heads_open(const struct attn_call *call, const struct attn_plan *plan,
                                   size_t threads, void *memory);
void attn_heads_close(struct attn_heads *heads);
/* Forgets what is packed, so that the call can be run again on other numbers. */
void attn_heads_reset(struct attn_heads *heads);

/* The turns of the call's rows; NULL where it has no rotary positions. */
const struct attn_rotation *attn_heads_rotation(const struct attn_heads *heads);

/* Where tasks add up what maps have in common; NULL when the plan has no slots. */
struct attn_map_order *attn_heads_order(struct attn_heads *heads);

/* Where chunks of keys leave their results; NULL when the plan has none. */
struct attn_chunks *attn_heads_chunks(struct attn_heads *heads);

/* The packed storage of the head of task `index` until attn_heads_give; NULL where the kernel wants
 * none. Tasks are best asked for in rising order. */
void *attn_heads_take(struct attn_heads *heads, size_t index);
/*
 * The same for the calling thread's next task, whose index is the value: of those that have not
 * begun the one that suits the thread best, or, where the plan has slots, the first. To be called
 * once per task of the plan, and attn_heads_take for none of them.
 */
size_t attn_heads_next(struct attn_heads *heads, void **packed);
/* Task `index` has what it wanted of its head. */
void attn_heads_give(struct attn_heads *heads, size_t index);

#endif
