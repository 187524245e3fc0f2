/* SPDX-License-Identifier: Apache-2.0 */
/* What the planner's own files share. */
#ifndef ATTN_CORE_PLAN_INTERNAL_H
#define ATTN_CORE_PLAN_INTERNAL_H

#include "core/plan.h"

/* Fills in the plan's scores, flops and work; kernel, grid and row_tiles stand there already. */
void attn_plan_cost(const struct attn_call *call, struct attn_plan *plan);

#endif
