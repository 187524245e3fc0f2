/* SPDX-License-Identifier: Apache-2.0 */
/* See square.h. */
#include "bench/square.h"

#include <stdlib.h>

void square_open(struct square *square, struct square_shape shape, size_t threads) {
    const size_t sizes[] = {1, shape.heads, shape.n, shape.D};
    const size_t count = shape.heads * shape.n * shape.D;
    const double n = (double)shape.n;
    struct attn_request *request = &square->bare.request;
    attn_request_init(request);
    square->q = bare_random(count);
    square->k = bare_random(count);
    square->v = bare_random(count);
    request->q = attn_tensor_view(square->q, ATTN_FLOAT32, 4, sizes);
    request->k = attn_tensor_view(square->k, ATTN_FLOAT32, 4, sizes);
    request->v = attn_tensor_view(square->v, ATTN_FLOAT32, 4, sizes);
    request->kernel = shape.kernel;
    request->precision = shape.precision;
    square->node = (struct attn_mask_node){.kind = ATTN_MASK_CAUSAL};
    request->mask = (struct attn_mask){&square->node, shape.causal};
    square->flops =
        4.0 * (double)(shape.heads * shape.D) * (shape.causal ? n * (n + 1) / 2 : n * n);
    bare_call_open(&square->bare, threads);
}

void square_run(void *square) {
    bare_call_run(&((struct square *)square)->bare);
}

void square_close(struct square *square) {
    bare_call_close(&square->bare);
    free(square->q);
    free(square->k);
    free(square->v);
}
