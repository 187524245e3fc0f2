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
    [ATTN_RESULT_COL_SUMS] = "col_sums",
    [ATTN_RESULT_COL_MEANS] = "col_means",
    [ATTN_RESULT_K_POSITIONS] = "k_positions",
    [ATTN_RESULT_STATS] = "stats",
};

const char *attn_result_tensor_name(enum attn_result_name name) {
    return RESULT_NAMES[name];
}

static const char *const STAT_NAMES[ATTN_STATS] = {
    [ATTN_STAT_ROWS] = "rows",
    [ATTN_STAT_EMPTY_ROWS] = "empty_rows",
    [ATTN_STAT_ENTROPY] = "entropy",
    [ATTN_STAT_NORMALIZED_ENTROPY] = "normalized_entropy",
    [ATTN_STAT_CONFIDENCE] = "confidence",
    [ATTN_STAT_SATURATED_SHARE] = "saturated_share",
    [ATTN_STAT_GRADIENT_HEALTH] = "gradient_health",
    [ATTN_STAT_JACOBIAN_NORM] = "jacobian_norm",
    [ATTN_STAT_MEAN_DISTANCE] = "mean_distance",
    [ATTN_STAT_UNASSIGNED_MASS] = "unassigned_mass",
    [ATTN_STAT_FIRST_KEY_SHARE] = "first_key_share",
    [ATTN_STAT_TOP_KEY] = "top_key",
    [ATTN_STAT_TOP_KEY_SHARE] = "top_key_share",
    [ATTN_STAT_LARGEST_SCORE] = "largest_score",
    [ATTN_STAT_MEAN_SCORE] = "mean_score",
    [ATTN_STAT_SCORE_VARIANCE] = "score_variance",
};

const char *attn_stat_name(enum attn_stat stat) {
    return STAT_NAMES[stat];
}
