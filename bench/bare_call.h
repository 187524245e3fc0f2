/* SPDX-License-Identifier: Apache-2.0 */
/* One planned call on a scheduler of its own, run again and again: attention without HTTP. */
#ifndef BENCH_BARE_CALL_H
#define BENCH_BARE_CALL_H

#include "core/attention.h"

struct bare_call {
    struct attn_job job;
    struct attn_request request;
    struct attn_call call;
    struct attn_plan plan;
    struct attn_result result;
    struct attn_heads *heads;
    struct attn_scheduler *scheduler; /* NULL: one thread */
    void *workspace;                  /* the caller's, who computes too */
    atomic_bool done;
};

/*
 * Prepares `bare->request`, which the caller has filled after attn_request_init, on `threads`
 * threads, of which the one that runs the call is one. Borrows the request's tensors. Ends the
 * program with a sentence when it is refused.
 */
void bare_call_open(struct bare_call *bare, size_t threads);
void bare_call_run(void *bare_call); /* struct bare_call *; one whole call */
void bare_call_close(struct bare_call *bare);

/* Owned, 64-byte aligned, uniform on [-1, 1). Ends the program when there is no memory. */
float *bare_random(size_t count);

#endif
