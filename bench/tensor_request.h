/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of calls: random float32 q, k and v of [1,H,n,D]. */
#ifndef BENCH_TENSOR_REQUEST_H
#define BENCH_TENSOR_REQUEST_H

#include <stddef.h>

/* As safetensors, owned; `tensors` point into it, a multiple of 64 bytes from its beginning. */
char *tensor_request(size_t H, size_t n, size_t D, size_t *length, float *tensors[3]);
/* As JSON, owned. */
char *tensor_request_json(size_t H, size_t n, size_t D, size_t *length);

#endif
