/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why scores are divided by the root of d_k: the experiment with random vectors. For each d_k a
 * query and some keys are drawn, then for each d_k pairs of a query and a key whose products'
 * sample variance shows that it grows like d_k. The softmax over the keys' scores, undivided,
 * divided by the root of d_k and by d_k, shows what that does to the weights.
 */
#ifndef ATTN_CORE_SCALING_H
#define ATTN_CORE_SCALING_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "core/plan.h"

enum { ATTN_SCALING_MAX_SIZES = 32, ATTN_SCALING_MAX_D_K = 65536, ATTN_SCALING_MAX_KEYS = 1024 };

struct attn_scaling_request {
    struct attn_int_list d_k; /* borrowed */
    int64_t samples, keys, seed;
};

/* By what the scores are divided: nothing, the root of d_k, d_k. */
enum attn_divisor { ATTN_DIVISOR_ONE, ATTN_DIVISOR_ROOT, ATTN_DIVISOR_D_K, ATTN_DIVISOR_COUNT };

struct attn_scaling_row {
    double divisor;
    const double *scores, *weights; /* one per key */
    double max;                     /* of the weights */
    double entropy;                 /* of the weights, in nats */
    double gradient_health;         /* 1 - sum of squared weights: the softmax Jacobian's trace */
};

struct attn_scaling_size {
    size_t d_k;
    double variance; /* of the sampled products, around their mean */
    struct attn_scaling_row rows[ATTN_DIVISOR_COUNT];
};

struct attn_scaling {
    size_t count, samples, keys;
    uint32_t seed;
    size_t d_k[ATTN_SCALING_MAX_SIZES];
    size_t largest; /* d_k */
    size_t bytes;   /* of memory that the run needs, results included */
    double work;    /* in floating-point operations, what drawing the numbers costs */
};

/* The published experiment: d_k 4, 64 and 512, 2000 samples, 3 keys, seed 3. */
void attn_scaling_request_init(struct attn_scaling_request *request);

/* Errors: BAD_VALUE, TOO_MUCH_WORK. */
enum attn_status attn_scaling_init(struct attn_scaling *scaling,
                                   const struct attn_scaling_request *request,
                                   const struct attn_limits *limits, struct attn_error *error);

/*
 * Runs the experiment in `memory` of `bytes` bytes aligned to 64. What is returned, `count` sizes
 * and their lists, lies in it. `checkpoint` (or NULL) may end it early with figures of no use.
 */
const struct attn_scaling_size *attn_scaling_run(const struct attn_scaling *scaling, void *memory,
                                                 const struct attn_checkpoint *checkpoint);

#endif
