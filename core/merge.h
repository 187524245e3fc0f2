/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One attention out of several over disjoint ranges of keys, each given as its output and the log
 * of its softmax's denominator (lse). Sums are in double. A partial whose lse is -inf saw no key:
 * it weighs nothing, whatever its output holds. One whose lse is NaN or +inf makes its row NaN.
 */
#ifndef ATTN_CORE_MERGE_H
#define ATTN_CORE_MERGE_H

#include "core/checkpoint.h"
#include "core/plan.h"
#include "core/request.h"

struct attn_merge_request {
    struct attn_tensor outputs; /* [P,B,H,T,Dv], [P,H,T,Dv] or [P,T,Dv] */
    struct attn_tensor lses;    /* the same without Dv */
    struct attn_real_list sink; /* joins the denominator once; one logit, or one per head */
    enum attn_precision precision;
    bool output_dtype_given;
    enum attn_dtype output_dtype;
};

/* A checked request. Borrows its tensors and its list. */
struct attn_merge {
    size_t P, B, H, T, Dv;
    struct attn_tensor outputs, lses; /* of rank 5 and 4: missing axes have size 1 */
    struct attn_real_list sink;
    enum attn_precision precision; /* of the lse that comes back */
    size_t rows_per_task, tasks;
    double flops; /* 2 * P * B * H * T * Dv */
    double work;  /* flops and what each partial's exponential costs */
};

/*
 * Checks a request and fills `result` with the shapes of `output` and `lse` (data NULL): those of
 * the tensors without P. The output has the dtype of outputs, or the one asked for; lse is float64
 * when that precision was asked for or some input has it, else float32. Errors: BAD_SHAPE,
 * BAD_DTYPE, BAD_VALUE, RESULT_TOO_LARGE, TOO_MUCH_WORK.
 */
enum attn_status attn_merge_init(struct attn_merge *merge, const struct attn_merge_request *request,
                                 const struct attn_limits *limits, struct attn_result *result,
                                 struct attn_error *error);

/*
 * Writes the rows of one task into the result's tensors, on any thread; `checkpoint` (or NULL) may
 * end it early. Counts empty rows (of no partial that saw a key) and notes elements that are not
 * finite. Needs no workspace.
 */
void attn_merge_task(const struct attn_merge *merge, struct attn_result *result, size_t task,
                     const struct attn_checkpoint *checkpoint);

#endif
