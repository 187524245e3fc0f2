/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several planned calls as the steps of one job: one step of decoding for many sessions. Each call
 * keeps its own plan, heads and result, so its bits are those that it has alone; the job ends when
 * all are computed, or is cancelled for all.
 */
#ifndef ATTN_CORE_BATCH_H
#define ATTN_CORE_BATCH_H

#include "core/executor.h"

/* Borrows what it points to. */
struct attn_batch_item {
    const struct attn_call *call;
    const struct attn_plan *plan;
    struct attn_result *result;
    struct attn_heads *heads; /* for as many threads as the job has */
    size_t first;             /* the batch's: its first step */
};

struct attn_batch {
    struct attn_batch_item *items;
    size_t count;
    size_t steps;           /* all tasks of all calls, in their order */
    size_t workspace_bytes; /* of a step: the largest call's */
    double work;            /* of all plans */
};

/* Counts the steps of `count` items, which stay the caller's and whose heads may be set later. */
struct attn_batch attn_batch_of(struct attn_batch_item *items, size_t count);

/* Runs step `index`, which tells the call, as attn_execute_next runs a task: each step once, begun
   in their order. */
void attn_batch_step(const struct attn_batch *batch, size_t index, void *workspace,
                     const struct attn_checkpoint *checkpoint);

#endif
