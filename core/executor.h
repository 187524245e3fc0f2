/* SPDX-License-Identifier: Apache-2.0 */
/* Carries out one task of a plan with one worker's workspace: kernel, sink, normalisation, maps. */
#ifndef ATTN_CORE_EXECUTOR_H
#define ATTN_CORE_EXECUTOR_H

#include "core/heads.h"
#include "core/plan.h"

/*
 * Runs task `index` (< plan->tasks) and writes its rows of every wanted tensor of `result`; where
 * the plan has chunks of keys, the last of a row's tasks to end writes it. Each task is to run
 * once. `workspace`: plan->workspace_bytes bytes aligned to 64, not shared. `heads`: those of this
 * plan, shared by all tasks of the call. Different tasks write disjoint elements, so that any order
 * and any threads give the same bits; only where the plan has slots (core/map.h) must tasks be
 * begun in the order of their numbers, and one may wait for those before it. When `checkpoint` (or
 * NULL) stops the task ends early and its rows are undefined.
 */
void attn_execute_task(const struct attn_call *call, const struct attn_plan *plan,
                       struct attn_result *result, struct attn_heads *heads, size_t index,
                       void *workspace, const struct attn_checkpoint *checkpoint);

/*
 * Runs, in the same way, the task that suits the calling thread best of those that have not begun
 * (core/heads.h): as often as the plan has tasks, on any threads, all of the call's tasks run. The
 * way for several threads; not to be mixed with attn_execute_task on the same heads.
 */
void attn_execute_next(const struct attn_call *call, const struct attn_plan *plan,
                       struct attn_result *result, struct attn_heads *heads, void *workspace,
                       const struct attn_checkpoint *checkpoint);

#endif
