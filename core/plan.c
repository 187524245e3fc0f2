/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes and tasks of a call: a pure value. What they cost is plan_cost.c's. */
#include "core/plan.h"

#include <assert.h>
#include <stdio.h>

#include "core/checked.h"
#include "core/chunks.h"
#include "core/executor_internal.h"
#include "core/kv_page.h"
#include "core/map.h"
#include "core/plan_internal.h"
#include "core/rope.h"

/* A worker's workspace is kept below this by cutting tiles, for very wide heads. */
#define WORKSPACE_TARGET ((size_t)32 << 20)
/* What a worker may need at most: a row of each head that shares a key cannot be cut further. */
#define WORKSPACE_LIMIT ((size_t)512 << 20)

/* Rows of a tile of which a sampled map wants one, where a kernel cannot leave the others out, or
   attends first. */
enum { SAMPLED_ROWS = 4 };

static enum attn_status refuse_unsuited(const struct attn_kernel *kernel,
                                        const struct attn_call *call, struct attn_error *error) {
    /* A kernel that computes products alone is one of float32 too, and the other way round. */
    assert(kernel->products_only && kernel->float32_only);
    if (call->score != ATTN_SCORE_SCALED_DOT)
        return attn_fail(
            error, ATTN_BAD_VALUE, "/kernel",
            "The kernel \"%s\" computes products of q and k alone, and this call's score is "
            "additive. Leave the kernel out to have one chosen.",
            kernel->name);
    return attn_fail(
        error, ATTN_BAD_VALUE, "/kernel",
        "The kernel \"%s\" computes in float32 alone, and this call is in float64. Leave the "
        "kernel out to have one chosen, or give precision float32.",
        kernel->name);
}

static enum attn_status choose_kernel(const struct attn_call *call, struct attn_plan *plan,
                                      struct attn_error *error) {
    if (call->kernel == NULL) {
        const struct attn_kernel *preferred =
            call->preferred_kernel == NULL ? NULL : attn_kernel_find(call->preferred_kernel);
        const bool fits = preferred != NULL && attn_kernel_suits(preferred, call);
        plan->kernel = fits ? preferred : attn_kernel_choose(call);
        return ATTN_OK;
    }
    plan->kernel = attn_kernel_find(call->kernel);
    if (plan->kernel != NULL && attn_kernel_suits(plan->kernel, call))
        return ATTN_OK;
    if (plan->kernel != NULL)
        return refuse_unsuited(plan->kernel, call, error);
    char names[ATTN_KERNEL_NAMES_SIZE];
    return attn_fail(error, ATTN_BAD_VALUE, "/kernel",
                     "There is no kernel \"%.40s\" on this machine; there are %s. Leave it out to "
                     "have one chosen.",
                     call->kernel, attn_kernel_names(names));
}

/* Shrinks tiles until a worker's workspace is moderate; a function of the call and kernel alone. */
static void fit_workspace(const struct attn_call *call, struct attn_plan *plan) {
    plan->grid = call->rows != NULL ? (struct attn_grid){call->rows->row_tile, call->rows->key_tile}
                                    : plan->kernel->grid(plan->kernel, call);
    if (call->sampled && (plan->kernel->walk == NULL || call->rows == NULL))
        plan->grid.row_tile = attn_min_size(plan->grid.row_tile, SAMPLED_ROWS);
    assert(plan->grid.row_tile > 0 && plan->grid.key_tile > 0);
    assert(call->rows != NULL || ATTN_KV_GAP_ALIGN % plan->grid.key_tile == 0);
    for (;;) {
        plan->workspace_bytes = attn_task_workspace_bytes(call, plan->kernel, &plan->grid);
        size_t *larger =
            plan->grid.row_tile > plan->grid.key_tile ? &plan->grid.row_tile : &plan->grid.key_tile;
        if (plan->workspace_bytes <= WORKSPACE_TARGET || *larger == 1 || call->rows != NULL)
            return;
        *larger /= 2;
    }
}

enum attn_status attn_plan_make(const struct attn_call *call, const struct attn_limits *limits,
                                struct attn_plan *plan, struct attn_result *result,
                                struct attn_error *error) {
    *plan = (struct attn_plan){0};
    *result = (struct attn_result){0};
    if (choose_kernel(call, plan, error) != ATTN_OK ||
        attn_plan_size_result(call, limits, plan, result, error) != ATTN_OK)
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
    if (attn_call_has_stats(call)) /* no rows have statistics too */
        plan->row_tiles = attn_max_size(plan->row_tiles, 1);
    plan->tasks = call->Hq == 0 ? 0 : call->B * call->Hkv * plan->row_tiles;
    if (call->rope.dims > 0 && plan->tasks > 0)
        plan->rotation_bytes = attn_rotation_bytes(call, attn_kernel_real_size(plan->kernel, call));
    attn_map_plan(call, plan);
    attn_chunks_plan(call, plan);
    attn_plan_cost(call, plan);
    if (plan->work > limits->flops)
        return attn_fail_limit(
            error, ATTN_TOO_MUCH_WORK, "", limits->flops,
            "The call needs %.3g floating-point operations; %.3g are allowed. Send "
            "fewer queries or keys per call, or a mask that hides whole tiles.",
            plan->work, limits->flops);
    return ATTN_OK;
}

void attn_plan_locate(const struct attn_plan *plan, const struct attn_call *call, size_t index,
                      struct attn_task *task) {
    const size_t rows = index / plan->chunks;
    const size_t row_tile = plan->row_tiles - 1 - rows % plan->row_tiles;
    const size_t head = rows / plan->row_tiles;
    task->b = head / call->Hkv;
    task->hkv = head % call->Hkv;
    task->row = row_tile * plan->grid.row_tile;
    task->rows = attn_min_size(plan->grid.row_tile, call->Tq - task->row);
    task->key = index % plan->chunks * plan->chunk_keys;
    task->keys = attn_min_size(plan->chunk_keys, call->Tk - task->key);
}

const char *attn_plan_text(const struct attn_plan *plan, char *text, size_t size) {
    snprintf(text, size, "%s %zux%zu, %zu tasks, %.3g GFLOP, %.1f MiB workspace, %.1f MiB result",
             plan->kernel->name, plan->grid.row_tile, plan->grid.key_tile, plan->tasks,
             plan->flops / 1e9, (double)plan->workspace_bytes / 1048576.0,
             (double)plan->result_bytes / 1048576.0);
    return text;
}
