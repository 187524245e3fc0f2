/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The only gate between a request and the arithmetic. Shapes first, then positions and masks,
 * then numbers; the first thing that is wrong is reported with its name and how to mend it.
 */
#include "core/call.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/call_internal.h"
#include "core/checked.h"

static enum attn_status resolve_scale(struct attn_call *call, const struct attn_request *request,
                                      struct attn_error *error) {
    if (request->scale_given && !isfinite(request->scale))
        return attn_fail(error, ATTN_BAD_VALUE, "/scale",
                         "scale must be a finite number, got %g; leave it out for %s.",
                         request->scale, request->score == ATTN_SCORE_ADDITIVE ? "1" : "1/sqrt(D)");
    if (request->softcap_given && !(isfinite(request->softcap) && request->softcap > 0))
        return attn_fail(error, ATTN_BAD_VALUE, "/softcap",
                         "softcap must be a finite number above 0, got %g; leave it out for none.",
                         request->softcap);
    const bool by_root = call->D > 0 && call->score == ATTN_SCORE_SCALED_DOT;
    const double root = by_root ? 1.0 / sqrt((double)call->D) : 1.0;
    call->scale = request->scale_given ? request->scale : root;
    call->softcap = request->softcap_given ? request->softcap : 0.0;
    return ATTN_OK;
}

static enum attn_status resolve_types(struct attn_call *call, const struct attn_request *request,
                                      struct attn_error *error) {
    if (request->output_dtype_given && attn_dtype_class(request->output_dtype) != ATTN_CLASS_FLOAT)
        return attn_fail(error, ATTN_BAD_DTYPE, "/output_dtype",
                         "output_dtype must be float32, float64, float16 or bfloat16, got %s.",
                         attn_dtype_name(request->output_dtype));
    const bool asked64 = request->precision == ATTN_PRECISION_FLOAT64;
    call->precision = request->precision;
    if (call->precision == ATTN_PRECISION_UNSET)
        call->precision =
            request->q.dtype == ATTN_FLOAT64 ? ATTN_PRECISION_FLOAT64 : ATTN_PRECISION_FLOAT32;
    call->output_dtype = asked64 ? ATTN_FLOAT64 : request->q.dtype;
    if (request->output_dtype_given)
        call->output_dtype = request->output_dtype;
    call->returns = request->returns != 0 ? request->returns : ATTN_RETURN_OUTPUT;
    call->kernel = request->kernel;
    call->preferred_kernel = request->preferred_kernel;
    return ATTN_OK;
}

enum attn_status attn_call_init(struct attn_call *call, struct attn_request *request,
                                struct attn_error *error) {
    memset(call, 0, sizeof *call);
    call->bias = attn_tensor_none();
    call->w = attn_tensor_none();
    typedef enum attn_status (*stage_function)(struct attn_call *, struct attn_request *,
                                               struct attn_error *);
    static const stage_function SHAPES_THEN_POSITIONS[] = {
        attn_call_resolve_shapes,     attn_call_resolve_positions, attn_call_resolve_rope,
        attn_call_resolve_head_lists, attn_call_resolve_bias,      attn_call_resolve_score};
    for (size_t n = 0; n < sizeof SHAPES_THEN_POSITIONS / sizeof *SHAPES_THEN_POSITIONS; n++)
        if (SHAPES_THEN_POSITIONS[n](call, request, error) != ATTN_OK)
            goto refused;
    if (resolve_scale(call, request, error) == ATTN_OK &&
        resolve_types(call, request, error) == ATTN_OK &&
        attn_call_resolve_map(call, request, error) == ATTN_OK)
        return ATTN_OK;
refused:
    attn_call_close(call);
    return error->status;
}

void attn_call_close(struct attn_call *call) {
    free(call->storage);
    memset(call, 0, sizeof *call);
}
