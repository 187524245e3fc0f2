/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is returned of the scores and weights behind an output: whole maps, pooled ones, the largest
 * of each row, statistics. One walk over a task's scores feeds all of them.
 *
 * What several tasks have in common - a bin of a pool over rows of two, the mean of heads, a sum
 * over rows - is added up in the order of the tasks' numbers, whoever comes first: each leaves its
 * part in a slot, and the parts are committed one after the other. Slots are few and used in turn,
 * so that memory does not depend on the number of tasks.
 */
#ifndef ATTN_CORE_MAP_H
#define ATTN_CORE_MAP_H

#include "core/plan.h"

/* A task as what reduces its scores sees it. */
struct attn_map_task {
    const struct attn_call *call;
    const struct attn_plan *plan;
    struct attn_result *result;
    const struct attn_task *task;
    size_t index; /* of its rows: that of the task's chunks over their number */
    bool wide;    /* reals are double */
    size_t group;
    /* For the walk: [M], as in struct attn_score_block; room for [M][key_tile] reals, and the
       kernel's. NULL where parts are committed. */
    const double *m, *l;
    const bool *wide_rows;
    void *tile, *kernel;
};

/* Fills in the plan's slot_bytes and carry_bytes; the grid stands there already. */
void attn_map_plan(const struct attn_call *call, struct attn_plan *plan);

/* Bytes that the order takes for `threads` threads; SIZE_MAX when they do not fit. */
size_t attn_map_order_bytes(const struct attn_plan *plan, size_t threads);

struct attn_map_order;
/* In memory of that size, aligned to 64. The caller's, and as long as it lives. */
struct attn_map_order *attn_map_order_open(const struct attn_plan *plan, size_t threads,
                                           void *memory);
void attn_map_order_reset(struct attn_map_order *order);
void attn_map_order_close(struct attn_map_order *order);

/* True when the task has a part in what comes back of the map. */
bool attn_map_touches(const struct attn_map_task *at);

/*
 * Reduces the task's scores. When the plan has slots, every task must come here, begun in the order
 * of their numbers: one waits for those that are a few numbers before it.
 */
void attn_map_run(const struct attn_map_task *at, struct attn_map_order *order);

#endif
