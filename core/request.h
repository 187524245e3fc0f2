/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An attention request as a codec hands it over: borrowed tensors and options exactly as the caller
 * gave them, "not given" included. attn_call_init (core/call.h) is the only gate behind it.
 */
#ifndef ATTN_CORE_REQUEST_H
#define ATTN_CORE_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/mask.h"
#include "core/tensor.h"

enum attn_layout { ATTN_LAYOUT_UNSET, ATTN_LAYOUT_BHTD, ATTN_LAYOUT_BTHD };

enum attn_precision { ATTN_PRECISION_UNSET, ATTN_PRECISION_FLOAT32, ATTN_PRECISION_FLOAT64 };

/* What the answer holds; bits of attn_request.returns. */
enum attn_return_bit {
    ATTN_RETURN_OUTPUT = 1 << 0,
    ATTN_RETURN_WEIGHTS = 1 << 1,
    ATTN_RETURN_SCORES = 1 << 2,
    ATTN_RETURN_LSE = 1 << 3,
    ATTN_RETURN_STATS = 1 << 4,
    ATTN_RETURN_COL_SUMS = 1 << 5
};

/* What a query and a key make of each other. */
enum attn_score {
    ATTN_SCORE_SCALED_DOT, /* q.k, scaled by 1/sqrt(D) unless asked otherwise */
    ATTN_SCORE_ADDITIVE    /* sum of w tanh(q + k), not scaled unless asked */
};

/* Where on its way from q.k to a weight a map is taken. */
enum attn_stage {
    ATTN_STAGE_RAW,    /* q.k, a product of its own; or what an additive score sums */
    ATTN_STAGE_SCALED, /* scale * raw */
    ATTN_STAGE_CAPPED, /* after softcap */
    ATTN_STAGE_MASKED, /* after bias, ALiBi and mask; hidden is -inf */
    ATTN_STAGE_WEIGHTS /* after softmax; hidden is exactly 0 */
};

/* A borrowed list of reals; count 0 with values NULL means "not given". */
struct attn_real_list {
    const double *values;
    size_t count;
};

/* What is done with the heads of a map. */
enum attn_map_heads { ATTN_HEADS_EACH, ATTN_HEADS_MEAN, ATTN_HEADS_MAX };

/* What a bin of a pooled map holds: its largest element, or what its keys have together in the mean
   of its rows. */
enum attn_pool { ATTN_POOL_MAX, ATTN_POOL_MASS };

/* Which part of the map comes back, and how. Half-open, zero-based; end 0 with begin 0 and given
 * false: all.
 */
struct attn_map_selection {
    enum attn_stage stage;          /* of `weights`; `scores` is always MASKED */
    struct attn_int_list heads;     /* query heads in the order wanted; not given: all */
    enum attn_map_heads over_heads; /* other than EACH: heads are all, and one comes back */
    bool rows_given, cols_given;
    int64_t rows[2], cols[2];
    bool pool_given;
    int64_t pool_rows, pool_cols; /* bins */
    enum attn_pool pool;
    bool top_k_given;
    int64_t top_k;
};

/* Rotary positions as asked for. */
struct attn_rope_request {
    bool given, theta_given, dims_given;
    double theta;
    struct attn_real_list inv_freq;
    bool interleaved;
    int64_t dims;
    struct attn_int_list q_offset; /* not given: the call's */
    int64_t k_offset;
};

struct attn_kv_view;

struct attn_request {
    struct attn_tensor q, k, v;
    /*
     * Or, instead of k and v, a cache's (core/kv_cache.h), borrowed; q has B = 1. Then positions
     * and rope are the view's, its window joins the mask, and so does a causal mask unless kv_all
     * is set: q_offset, align and rope are refused. q keeps its own dtype.
     */
    const struct attn_kv_view *kv;
    bool kv_all;
    enum attn_layout layout;
    int64_t num_heads, num_kv_heads; /* 0: not given */
    struct attn_int_list q_offset;   /* one value or one per batch item */
    enum attn_score score;
    struct attn_tensor w; /* of an additive score: [D], or [Hq,D] */
    bool scale_given;
    double scale;
    bool softcap_given;
    double softcap;
    struct attn_mask mask; /* count 0: none. Validation rewrites the nodes' tensors in place */
    struct attn_tensor bias;
    bool alibi; /* the paper's slopes; false with alibi_slopes given: those */
    struct attn_real_list alibi_slopes;
    struct attn_real_list sink;
    struct attn_rope_request rope;
    enum attn_precision precision;
    bool output_dtype_given;
    enum attn_dtype output_dtype;
    unsigned returns; /* attn_return_bit; 0: not given */
    struct attn_map_selection map;
    const char *kernel;           /* borrowed; NULL: chosen */
    const char *preferred_kernel; /* borrowed; chosen where it computes calls of this kind */
};

/* Everything "not given". */
void attn_request_init(struct attn_request *request);

#endif
