/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes and tasks of a call: a pure value. What they cost is plan_cost.c's. */
#include "core/plan.h"

#include <assert.h>
#include <stdio.h>

#include "core/checked.h"
#include "core/executor_internal.h"
#include "core/plan_internal.h"
#include "core/rope.h"

/* A worker's workspace is kept below this by cutting tiles, for very wide heads. */
#define WORKSPACE_TARGET ((size_t)32 << 20)
/* What a worker may need at most: a row of each head that shares a key cannot be cut further. */
#define WORKSPACE_LIMIT ((size_t)512 << 20)

static enum attn_status choose_kernel(const struct attn_call *call, struct attn_plan *plan,
                                      struct attn_error *error) {
    if (call->kernel == NULL) {
        const struct attn_kernel *preferred =
            call->preferred_kernel == NULL ? NULL : attn_kernel_find(call->preferred_kernel);
        const bool fits =
            preferred != NULL && preferred->available() && attn_kernel_suits(preferred, call);
        plan->kernel = fits ? preferred : attn_kernel_choose(call);
        return ATTN_OK;
    }
    plan->kernel = attn_kernel_find(call->kernel);
    if (plan->kernel != NULL && plan->kernel->available() && attn_kernel_suits(plan->kernel, call))
        return ATTN_OK;
    if (plan->kernel != NULL && plan->kernel->available())
        return attn_fail(
            error, ATTN_BAD_VALUE, "/kernel",
            "The kernel \"%s\" computes in float32 alone, and this call is in float64. Leave the "
            "kernel out to have one chosen, or give precision float32.",
            plan->kernel->name);
    char names[ATTN_KERNEL_NAMES_SIZE];
    return attn_fail(error, ATTN_BAD_VALUE, "/kernel",
                     "There is no kernel \"%.40s\" on this machine; there are %s. Leave it out to "
                     "have one chosen.",
                     call->kernel, attn_kernel_names(names));
}

/* Shrinks tiles until a worker's workspace is moderate; a function of the call and kernel alone. */
static void fit_workspace(const struct attn_call *call, struct attn_plan *plan) {
    plan->grid = plan->kernel->grid(plan->kernel, call);
    assert(plan->grid.row_tile > 0 && plan->grid.key_tile > 0);
    for (;;) {
        plan->workspace_bytes = attn_task_workspace_bytes(call, plan->kernel, &plan->grid);
        size_t *larger =
            plan->grid.row_tile > plan->grid.key_tile ? &plan->grid.row_tile : &plan->grid.key_tile;
        if (plan->workspace_bytes <= WORKSPACE_TARGET || *larger == 1)
            return;
        *larger /= 2;
    }
}

/* Adds an axis to a shape. */
static void push(struct attn_result_tensor *tensor, size_t size) {
    tensor->shape[tensor->rank++] = size;
}

/* The output has q's own axes, Dv wide. */
static void shape_output(const struct attn_call *call, struct attn_result_tensor *tensor) {
    tensor->dtype = call->output_dtype;
    if (call->q_rank == 4 || call->split_heads)
        push(tensor, call->B);
    if (call->q_rank >= 3 && !call->bthd && !call->split_heads)
        push(tensor, call->Hq);
    push(tensor, call->Tq);
    if (call->bthd)
        push(tensor, call->Hq);
    push(tensor, call->split_heads ? call->Hq * call->Dv : call->Dv);
}

/* [B,heads,T...] without the leading axes that q's rank lacks. */
static void shape_leading(const struct attn_call *call, size_t heads,
                          struct attn_result_tensor *tensor) {
    tensor->dtype = call->precision == ATTN_PRECISION_FLOAT64 ? ATTN_FLOAT64 : ATTN_FLOAT32;
    if (call->q_rank == 4 || call->split_heads)
        push(tensor, call->B);
    if (call->q_rank >= 3)
        push(tensor, heads);
}

static void shape_result(const struct attn_call *call, struct attn_result *result) {
    struct attn_result_tensor *tensors = result->tensors;
    shape_output(call, &tensors[ATTN_RESULT_OUTPUT]);
    for (size_t map = ATTN_RESULT_WEIGHTS; map <= ATTN_RESULT_SCORES; map++) {
        shape_leading(call, call->map_head_count, &tensors[map]);
        push(&tensors[map], call->map_rows);
        push(&tensors[map], call->map_cols);
    }
    shape_leading(call, call->Hq, &tensors[ATTN_RESULT_LSE]);
    push(&tensors[ATTN_RESULT_LSE], call->Tq);
    for (size_t n = 0; n < ATTN_RESULT_COUNT; n++)
        tensors[n].wanted = (call->returns & (1u << n)) != 0;
}

static enum attn_status size_result(const struct attn_call *call, const struct attn_limits *limits,
                                    struct attn_plan *plan, struct attn_result *result,
                                    struct attn_error *error) {
    size_t split_width;
    bool fits = attn_mul_size(call->Hq, call->Dv, &split_width);
    shape_result(call, result);
    plan->result_bytes = 0;
    for (size_t n = 0; n < ATTN_RESULT_COUNT && fits; n++) {
        struct attn_result_tensor *tensor = &result->tensors[n];
        if (tensor->wanted)
            fits = attn_shape_bytes(tensor->dtype, tensor->rank, tensor->shape, &tensor->bytes) &&
                   attn_add_size(plan->result_bytes, tensor->bytes, &plan->result_bytes);
    }
    if (fits && plan->result_bytes <= limits->result_bytes)
        return ATTN_OK;
    return attn_fail_limit(error, ATTN_RESULT_TOO_LARGE, "/return", (double)limits->result_bytes,
                           "The answer would be larger than the %zu bytes allowed. For a part of "
                           "the map use weights with rows, cols or heads.",
                           limits->result_bytes);
}

enum attn_status attn_plan_make(const struct attn_call *call, const struct attn_limits *limits,
                                struct attn_plan *plan, struct attn_result *result,
                                struct attn_error *error) {
    *plan = (struct attn_plan){0};
    *result = (struct attn_result){0};
    if (choose_kernel(call, plan, error) != ATTN_OK ||
        size_result(call, limits, plan, result, error) != ATTN_OK)
        return error->status;
    fit_workspace(call, plan);
    plan->packed_bytes =
        plan->kernel->packed_bytes == NULL ? 0 : plan->kernel->packed_bytes(call, &plan->grid);
    if (plan->workspace_bytes > WORKSPACE_LIMIT)
        return attn_fail_limit(error, ATTN_TOO_MUCH_WORK, "/q", (double)WORKSPACE_LIMIT,
                               "One query row of all heads that share a key (Hq/Hkv = %zu) does "
                               "not fit into the %zu bytes of a worker's memory. Send fewer heads "
                               "per key/value head, or narrower ones.",
                               attn_call_group(call), WORKSPACE_LIMIT);
    plan->row_tiles = call->Tq / plan->grid.row_tile + (call->Tq % plan->grid.row_tile != 0);
    plan->tasks = call->Hq == 0 ? 0 : call->B * call->Hkv * plan->row_tiles;
    if (call->rope.dims > 0 && plan->tasks > 0)
        plan->rotation_bytes = attn_rotation_bytes(call, attn_kernel_real_size(plan->kernel, call));
    attn_plan_cost(call, plan);
    if (plan->work > limits->flops)
        return attn_fail_limit(
            error, ATTN_TOO_MUCH_WORK, "", limits->flops,
            "The call needs %.3g floating-point operations; %.3g are allowed. Send "
            "fewer queries or keys per call, or a mask that hides whole tiles.",
            plan->work, limits->flops);
    return ATTN_OK;
}

const char *attn_plan_text(const struct attn_plan *plan, char *text, size_t size) {
    snprintf(text, size, "%s %zux%zu, %zu tasks, %.3g GFLOP, %.1f MiB workspace, %.1f MiB result",
             plan->kernel->name, plan->grid.row_tile, plan->grid.key_tile, plan->tasks,
             plan->flops / 1e9, (double)plan->workspace_bytes / 1048576.0,
             (double)plan->result_bytes / 1048576.0);
    return text;
}
