/* SPDX-License-Identifier: Apache-2.0 */
/* The names of an answer's tensors. */
#include "core/result.h"

static const char *const RESULT_NAMES[ATTN_RESULT_COUNT] = {
    [ATTN_RESULT_OUTPUT] = "output",
    [ATTN_RESULT_WEIGHTS] = "weights",
    [ATTN_RESULT_SCORES] = "scores",
    [ATTN_RESULT_LSE] = "lse",
    [ATTN_RESULT_TOP_K_WEIGHTS] = "top_k_weights",
    [ATTN_RESULT_TOP_K_SCORES] = "top_k_scores",
    [ATTN_RESULT_TOP_K_INDICES] = "top_k_indices",
};

const char *attn_result_tensor_name(enum attn_result_name name) {
    return RESULT_NAMES[name];
}
