/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call that computes attention once its request has been decoded: the steps that plain calls and
 * those of sessions share.
 */
#ifndef SERVER_CALLS_ATTENTION_CALL_H
#define SERVER_CALLS_ATTENTION_CALL_H

#include "core/attention.h"
#include "server/calls/tensor_call.h"
#include "server/captures/capture_call.h"

struct attention_call {
    struct tensor_call tensors;
    const struct codec_schema *schema;
    struct attn_call call;
    struct attn_plan plan;
    struct capture_call keeping;
    struct attn_heads *heads; /* in the work's shared memory; NULL until prepared */
};

/* Validates and plans what was decoded; then gives the answer, in which tensors of `result` may
   have been added, its places and reserves what the tasks need. */
enum attn_status attention_call_plan(struct attention_call *attention);
enum attn_status attention_call_lay_out(struct attention_call *attention);
/* Keeps it, where it asks for that, before anything is computed. */
enum attn_status attention_call_keep(struct attention_call *attention);

/* How fast the kernel's work goes, as the backlog counts it. */
size_t attention_call_pace(const struct attn_kernel *kernel);

/* Of a kind, as they stand in its row; the tail of its encode, and of its close. */
void attention_call_compute(struct call_work *work, size_t task, void *workspace,
                            const struct attn_checkpoint *checkpoint);
enum attn_status attention_call_encode(struct attention_call *attention,
                                       struct codec_report *report);
void attention_call_count(const struct call_work *work, struct exchange *exchange);
void attention_call_close(struct call_work *work);

#endif
