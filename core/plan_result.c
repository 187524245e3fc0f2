/* SPDX-License-Identifier: Apache-2.0 */
/* Which tensors an answer has, and their shapes and sizes. */
#include "core/checked.h"
#include "core/plan_internal.h"

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
static void shape_leading(const struct attn_call *call, size_t batches, size_t heads,
                          struct attn_result_tensor *tensor) {
    tensor->dtype = call->precision == ATTN_PRECISION_FLOAT64 ? ATTN_FLOAT64 : ATTN_FLOAT32;
    if (call->q_rank == 4 || call->split_heads)
        push(tensor, batches);
    if (call->q_rank >= 3)
        push(tensor, heads);
}

static bool is_wanted(const struct attn_call *call, enum attn_result_name name) {
    const unsigned weights = call->returns & ATTN_RETURN_WEIGHTS;
    const unsigned scores = call->returns & ATTN_RETURN_SCORES;
    const bool whole = call->top_k == 0;
    const bool wanted[ATTN_RESULT_COUNT] = {
        [ATTN_RESULT_OUTPUT] = call->returns & ATTN_RETURN_OUTPUT,
        [ATTN_RESULT_WEIGHTS] = weights && whole,
        [ATTN_RESULT_SCORES] = scores && whole,
        [ATTN_RESULT_LSE] = call->returns & ATTN_RETURN_LSE,
        [ATTN_RESULT_TOP_K_WEIGHTS] = weights && !whole,
        [ATTN_RESULT_TOP_K_SCORES] = scores && !whole,
        [ATTN_RESULT_TOP_K_INDICES] = (weights || scores) && !whole,
        [ATTN_RESULT_COL_SUMS] = call->returns & ATTN_RETURN_COL_SUMS,
        [ATTN_RESULT_COL_MEANS] = call->returns & ATTN_RETURN_COL_SUMS,
        [ATTN_RESULT_STATS] = call->returns & ATTN_RETURN_STATS,
    };
    return wanted[name];
}

static void shape_result(const struct attn_call *call, struct attn_result *result) {
    struct attn_result_tensor *tensors = result->tensors;
    shape_output(call, &tensors[ATTN_RESULT_OUTPUT]);
    for (size_t map = ATTN_RESULT_WEIGHTS; map <= ATTN_RESULT_SCORES; map++) {
        shape_leading(call, call->map_batches, attn_call_map_planes(call), &tensors[map]);
        push(&tensors[map], call->pool_rows);
        push(&tensors[map], call->pool_cols);
    }
    for (size_t top = ATTN_RESULT_TOP_K_WEIGHTS; top <= ATTN_RESULT_TOP_K_INDICES; top++) {
        shape_leading(call, call->map_batches, call->map_head_count, &tensors[top]);
        push(&tensors[top], call->map_rows);
        push(&tensors[top], call->top_k);
    }
    tensors[ATTN_RESULT_TOP_K_INDICES].dtype = ATTN_INT32;
    for (size_t keys = ATTN_RESULT_COL_SUMS; keys <= ATTN_RESULT_COL_MEANS; keys++) {
        shape_leading(call, call->B, call->Hq, &tensors[keys]);
        push(&tensors[keys], call->Tk);
    }
    push(&tensors[ATTN_RESULT_STATS], ATTN_STATS);
    shape_leading(call, call->B, call->Hq, &tensors[ATTN_RESULT_STATS]);
    tensors[ATTN_RESULT_STATS].dtype = ATTN_FLOAT64;
    shape_leading(call, call->B, call->Hq, &tensors[ATTN_RESULT_LSE]);
    push(&tensors[ATTN_RESULT_LSE], call->Tq);
    for (size_t n = 0; n < ATTN_RESULT_COUNT; n++)
        tensors[n].wanted = is_wanted(call, (enum attn_result_name)n);
}

enum attn_status attn_plan_size_result(const struct attn_call *call,
                                       const struct attn_limits *limits, struct attn_plan *plan,
                                       struct attn_result *result, struct attn_error *error) {
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
                           "The answer would be larger than the %zu bytes allowed. Give weights "
                           "a pool or top_k, or rows, cols or heads for a part of the map.",
                           limits->result_bytes);
}
