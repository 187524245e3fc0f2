/* SPDX-License-Identifier: Apache-2.0 */
/* What the planner's own files share. */
#ifndef ATTN_CORE_PLAN_INTERNAL_H
#define ATTN_CORE_PLAN_INTERNAL_H

#include "core/plan.h"

/* Fills in the plan's scores, flops and work; kernel, grid and row_tiles stand there already. */
void attn_plan_cost(const struct attn_call *call, struct attn_plan *plan);

/* Fills in the result's shapes and sizes, and their sum. Errors: RESULT_TOO_LARGE. */
enum attn_status attn_plan_size_result(const struct attn_call *call,
                                       const struct attn_limits *limits, struct attn_plan *plan,
                                       struct attn_result *result, struct attn_error *error);

#endif
