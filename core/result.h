/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tensors of an answer. The plan says which there are and how large; whoever lays out the
 * answer supplies the memory before any arithmetic; kernels write straight into it.
 */
#ifndef ATTN_CORE_RESULT_H
#define ATTN_CORE_RESULT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/tensor.h"

enum attn_result_name {
    ATTN_RESULT_OUTPUT,
    ATTN_RESULT_WEIGHTS,
    ATTN_RESULT_SCORES,
    ATTN_RESULT_LSE,
    ATTN_RESULT_TOP_K_WEIGHTS,
    ATTN_RESULT_TOP_K_SCORES,
    ATTN_RESULT_TOP_K_INDICES,
    ATTN_RESULT_COL_SUMS,
    ATTN_RESULT_COL_MEANS,
    ATTN_RESULT_K_POSITIONS, /* [Tk]: where a cache's keys stand, when some between have left it */
    ATTN_RESULT_STATS,       /* [ATTN_STATS,B,Hq] for the codecs: no tensor on the wire */
    ATTN_RESULT_COUNT
};

/* The numbers per head that `stats` holds, in the order of the wire. */
enum attn_stat {
    ATTN_STAT_ROWS,
    ATTN_STAT_EMPTY_ROWS,
    ATTN_STAT_ENTROPY,
    ATTN_STAT_NORMALIZED_ENTROPY,
    ATTN_STAT_CONFIDENCE,
    ATTN_STAT_SATURATED_SHARE,
    ATTN_STAT_GRADIENT_HEALTH,
    ATTN_STAT_JACOBIAN_NORM,
    ATTN_STAT_MEAN_DISTANCE,
    ATTN_STAT_UNASSIGNED_MASS,
    ATTN_STAT_FIRST_KEY_SHARE,
    ATTN_STAT_TOP_KEY,
    ATTN_STAT_TOP_KEY_SHARE,
    ATTN_STAT_LARGEST_SCORE,
    ATTN_STAT_MEAN_SCORE,
    ATTN_STAT_SCORE_VARIANCE,
    ATTN_STATS
};

/* One tensor of the answer, dense in the axes order of `shape` (q's own layout for the output). */
struct attn_result_tensor {
    bool wanted;
    enum attn_dtype dtype;
    int rank;
    size_t shape[ATTN_MAX_RANK];
    size_t bytes;
    void *data; /* supplied by the layer that lays out the answer; borrowed */
};

struct attn_rows;

struct attn_result {
    struct attn_result_tensor tensors[ATTN_RESULT_COUNT];
    struct attn_rows *rows; /* where each row's maximum and sum are left too; NULL: nowhere */
    /* What was met on the way; set by the tasks. */
    atomic_bool non_finite;           /* some output element is NaN or infinite */
    atomic_uint_least64_t empty_rows; /* query rows (per batch item and head) that see no key */
    atomic_uint_least64_t scores_computed; /* score elements of the tiles that were computed */
};

/* "output", "weights", "scores", "lse" and so on: the names on the wire. */
const char *attn_result_tensor_name(enum attn_result_name name);
const char *attn_stat_name(enum attn_stat stat);

#endif
