/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks of keys. Where a call has fewer key/value heads and row tiles than would keep workers
 * busy, the keys of each are cut into chunks, and every chunk is a task: it leaves an output, a
 * maximum and a sum of its own. The task that comes to its end last joins them, in the order of the
 * chunks:
 *   m = max m_c,  l = sum of l_c exp(m_c - m),  o = sum of o_c exp(m_c - m)
 * (core/merge.h does the same with outputs that were divided already.) The borders depend on the
 * call and the kernel alone, so that bits do not depend on threads.
 */
#ifndef ATTN_CORE_CHUNKS_H
#define ATTN_CORE_CHUNKS_H

#include "core/plan.h"

struct attn_chunks;

enum { ATTN_CHUNKS_MOST = 32 };

/* Fills in the plan's chunks, chunk_keys and chunk_bytes, and multiplies its tasks; kernel, grid
 * and tasks stand there already. */
void attn_chunks_plan(const struct attn_call *call, struct attn_plan *plan);

/* The same with chunks of `keys` keys: a multiple of the grid's key tile, so that there are two and
 * at most ATTN_CHUNKS_MOST; for tests. The plan has one chunk. */
void attn_chunks_cut(const struct attn_call *call, struct attn_plan *plan, size_t keys);

/* Bytes for all chunks of all tasks; 0 when the plan has none, SIZE_MAX when they do not fit. */
size_t attn_chunks_bytes(const struct attn_plan *plan);
/* In memory of that size, aligned to 64, which stays the caller's; NULL when the plan has none. */
struct attn_chunks *attn_chunks_open(const struct attn_plan *plan, void *memory);
void attn_chunks_reset(struct attn_chunks *chunks);

/* Where task `index` leaves its result. */
struct attn_partial attn_chunks_slot(struct attn_chunks *chunks, const struct attn_call *call,
                                     size_t index);

/* Task `index` has left its result. True for the last one of its rows: it is to join them. */
bool attn_chunks_arrive(struct attn_chunks *chunks, size_t index);

/*
 * Joins the chunks of task `index`, all of which have arrived, into `whole`. `task`: the same rows
 * with all keys. What cannot be told from the chunks is computed again from all keys: rows with
 * scores beyond a float, and elements that a value which is not finite may have reached.
 */
void attn_chunks_join(struct attn_chunks *chunks, const struct attn_task *task, size_t index,
                      void *workspace, struct attn_partial *whole);

#endif
