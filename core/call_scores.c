/* SPDX-License-Identifier: Apache-2.0 */
/* What makes a score, is added to it or joins its row: weights, bias, ALiBi slopes, sinks. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/call_internal.h"
#include "core/checked.h"
#include "core/convert.h"

/* A finite bias at or below this almost hides: people write it where they mean -inf. */
#define ALMOST_HIDDEN (-1e4)

/*
 * The geometric slopes of ALiBi (Press, Smith & Lewis 2022): for H = 2^n heads 2^(-8(h+1)/H); for
 * other counts those of the power of two below, then every second one of the power of two above.
 */
static void alibi_slopes(size_t heads, double *slopes) {
    size_t power = 1;
    while (power * 2 <= heads)
        power *= 2;
    for (size_t h = 0; h < heads; h++) {
        const double step = h < power ? (double)(h + 1) / (double)power
                                      : (double)(2 * (h - power) + 1) / (double)(2 * power);
        slopes[h] = exp2(-8.0 * step);
    }
}

enum attn_status attn_check_head_list(const struct attn_real_list *list, size_t heads,
                                      const char *pointer, double lowest,
                                      struct attn_error *error) {
    if (list->count != 1 && list->count != heads)
        return attn_fail(error, ATTN_BAD_VALUE, pointer,
                         "%s must have one value per query head (%zu) or one for all, got %zu.",
                         pointer + 1, heads, list->count);
    for (size_t n = 0; n < list->count; n++)
        if (!(list->values[n] >= lowest && list->values[n] < INFINITY))
            return attn_fail(error, ATTN_BAD_VALUE, pointer, "%s must be finite, got %g.",
                             pointer + 1, list->values[n]);
    return ATTN_OK;
}

static enum attn_status per_head(const struct attn_real_list *list, size_t heads,
                                 const char *pointer, double lowest, double *out,
                                 struct attn_error *error) {
    if (attn_check_head_list(list, heads, pointer, lowest, error) != ATTN_OK)
        return error->status;
    for (size_t h = 0; h < heads; h++)
        out[h] = list->values[list->count == 1 ? 0 : h];
    return ATTN_OK;
}

enum attn_status attn_call_resolve_head_lists(struct attn_call *call, struct attn_request *request,
                                              struct attn_error *error) {
    double *slopes = (double *)call->storage + call->B + 1;
    double *sinks = slopes + call->Hq;
    if (request->alibi_slopes.values != NULL) {
        if (per_head(&request->alibi_slopes, call->Hq, "/alibi", -1e300, slopes, error) != ATTN_OK)
            return error->status;
        call->alibi = slopes;
    } else if (request->alibi) {
        alibi_slopes(call->Hq, slopes);
        call->alibi = slopes;
    }
    if (request->sink.values != NULL) {
        if (per_head(&request->sink, call->Hq, "/sink", -INFINITY, sinks, error) != ATTN_OK)
            return error->status;
        call->sink = sinks;
    }
    return ATTN_OK;
}

/* Refuses +inf and notes finite values that almost hide; the tensor is dense as it came. */
static enum attn_status scan_bias(struct attn_call *call, const struct attn_tensor *bias,
                                  struct attn_error *error) {
    enum { CHUNK = 512 };
    double values[CHUNK];
    size_t elements = 0;
    if (!attn_shape_elements(bias->rank, bias->shape, &elements))
        elements = 0;
    for (size_t at = 0; at < elements; at += CHUNK) {
        const size_t n = attn_min_size(CHUNK, elements - at);
        const char *from = (const char *)bias->data + at * attn_dtype_size(bias->dtype);
        attn_load_double(bias->dtype, from, 1, n, values);
        for (size_t e = 0; e < n; e++) {
            if (values[e] == INFINITY)
                return attn_fail(error, ATTN_BAD_VALUE, "/bias",
                                 "bias must not be +infinity (element %zu, counted in C order); "
                                 "-infinity hides a position.",
                                 at + e);
            if (values[e] <= ALMOST_HIDDEN && values[e] > -INFINITY)
                call->note = "A finite bias of -1e4 or less almost hides a position but gives it "
                             "all the weight where nothing else is visible: use -Infinity or a "
                             "mask.";
        }
    }
    return ATTN_OK;
}

enum attn_status attn_call_resolve_bias(struct attn_call *call, struct attn_request *request,
                                        struct attn_error *error) {
    const struct attn_tensor *bias = &request->bias;
    char text[96];
    if (attn_tensor_is_none(bias))
        return ATTN_OK;
    if (attn_dtype_class(bias->dtype) != ATTN_CLASS_FLOAT)
        return attn_fail(error, ATTN_BAD_DTYPE, "/bias",
                         "bias is added to the scores and must be a float tensor, got %s. For a "
                         "mask of booleans use {\"type\":\"allow\"} or {\"type\":\"hide\"}.",
                         attn_dtype_name(bias->dtype));
    const size_t shape[ATTN_AXES] = {call->B, call->Hq, call->Tq, call->Tk};
    if (!attn_tensor_broadcast(bias, shape, &call->bias))
        return attn_fail(error, ATTN_BAD_SHAPE, "/bias",
                         "bias must broadcast, aligned at the right, to [B,Hq,Tq,Tk] = "
                         "[%zu,%zu,%zu,%zu]; its shape is %s.",
                         call->B, call->Hq, call->Tq, call->Tk,
                         attn_shape_text(bias->rank, bias->shape, text, sizeof text));
    return scan_bias(call, bias, error);
}

/* The first element that is NaN or infinite, of a dense tensor; `elements` when there is none. */
static size_t find_non_finite(const struct attn_tensor *tensor, size_t elements) {
    for (size_t at = 0; at < elements; at++) {
        double value;
        attn_load_double(tensor->dtype,
                         (const char *)tensor->data + at * attn_dtype_size(tensor->dtype), 1, 1,
                         &value);
        if (!isfinite(value))
            return at;
    }
    return elements;
}

static enum attn_status resolve_weights(struct attn_call *call, const struct attn_tensor *w,
                                        struct attn_error *error) {
    char text[96];
    size_t elements = 0;
    if (attn_tensor_is_none(w))
        return attn_fail(error, ATTN_MISSING_FIELD, "/score/w",
                         "An additive score needs w, the %zu weights of tanh(q + k): [D], or "
                         "[Hq,D] for each head its own.",
                         call->D);
    if (attn_dtype_class(w->dtype) != ATTN_CLASS_FLOAT)
        return attn_fail(error, ATTN_BAD_DTYPE, "/score/w", "w must be a float tensor, got %s.",
                         attn_dtype_name(w->dtype));
    const size_t shape[ATTN_AXES] = {1, 1, call->Hq, call->D};
    const bool one = w->rank == 1 && w->shape[0] == call->D;
    const bool each =
        w->rank == 2 && w->shape[1] == call->D && (w->shape[0] == call->Hq || w->shape[0] == 1);
    if (!one && !each)
        return attn_fail(error, ATTN_BAD_SHAPE, "/score/w",
                         "w must be [D] = [%zu] or [Hq,D] = [%zu,%zu]; its shape is %s.", call->D,
                         call->Hq, call->D, attn_shape_text(w->rank, w->shape, text, sizeof text));
    const bool fits = attn_tensor_broadcast(w, shape, &call->w);
    assert(fits);
    (void)fits;
    if (!attn_shape_elements(w->rank, w->shape, &elements))
        elements = 0;
    const size_t bad = find_non_finite(w, elements);
    if (bad < elements)
        return attn_fail(error, ATTN_BAD_VALUE, "/score/w",
                         "w must be finite; element %zu, counted in C order, is not.", bad);
    return ATTN_OK;
}

enum attn_status attn_call_resolve_score(struct attn_call *call, struct attn_request *request,
                                         struct attn_error *error) {
    call->score = request->score;
    return call->score == ATTN_SCORE_ADDITIVE ? resolve_weights(call, &request->w, error) : ATTN_OK;
}
