/* SPDX-License-Identifier: Apache-2.0 */
/* A bare call (bench/bare_call.h) of as many queries as keys, over random float32. */
#ifndef BENCH_SQUARE_H
#define BENCH_SQUARE_H

#include "bench/bare_call.h"

struct square {
    struct bare_call bare;
    struct attn_mask_node node;
    float *q, *k, *v; /* owned, [1][heads][n][D] */
    double flops;     /* useful ones: 4 D per visible score */
};

struct square_shape {
    size_t heads, n, D;
    bool causal;
    enum attn_precision precision;
    const char *kernel; /* NULL: the default */
};

/* `square` stays where it is until it is closed. Ends the program when there is no memory. */
void square_open(struct square *square, struct square_shape shape, size_t threads);
void square_run(void *square); /* struct square *; one whole call */
void square_close(struct square *square);

#endif
