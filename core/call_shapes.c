/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From tensors as they came to B Hq Hkv Tq Tk D Dv and strides over [B,H,T,D]. Layouts are rows of
 * a table; every accepted layout is read in place.
 */
#include <string.h>

#include "core/call_internal.h"
#include "core/checked.h"

/* Most query rows (B * Hq * Tq) and query heads of a call. They bound the tasks and the per-head
 * lists; an axis of size 0, whose tensor costs its sender nothing, does not excuse the others. */
#define MAX_ROWS ((size_t)1 << 28)
#define MAX_HEADS ((size_t)1 << 20)

/* An operand's axes: sizes and, for each, the stride in elements. */
struct axes {
    size_t B, H, T, W;
    ptrdiff_t sb, sh, st, sd;
};

/* Where each of B, H, T, W stands in a dense tensor of this form; -1: size 1, absent. */
struct form {
    int rank;
    int b, h, t, w;
    const char *text;
};

static const struct form FORM_TD = {2, -1, -1, 0, 1, "[T,D]"};
static const struct form FORM_HTD = {3, -1, 0, 1, 2, "[H,T,D]"};
static const struct form FORM_BHTD = {4, 0, 1, 2, 3, "[B,H,T,D]"};
static const struct form FORM_BTHD = {4, 0, 2, 1, 3, "[B,T,H,D]"};
static const struct form FORM_SPLIT = {3, 0, -1, 1, 2, "[B,T,H*D]"};

static size_t axis_size(const struct attn_tensor *tensor, int axis) {
    return axis < 0 ? 1 : tensor->shape[axis];
}

static ptrdiff_t axis_stride(const struct attn_tensor *tensor, int axis) {
    return axis < 0 ? 0 : tensor->stride[axis];
}

static struct axes axes_of(const struct attn_tensor *tensor, const struct form *form) {
    return (struct axes){.B = axis_size(tensor, form->b),
                         .H = axis_size(tensor, form->h),
                         .T = axis_size(tensor, form->t),
                         .W = axis_size(tensor, form->w),
                         .sb = axis_stride(tensor, form->b),
                         .sh = axis_stride(tensor, form->h),
                         .st = axis_stride(tensor, form->t),
                         .sd = axis_stride(tensor, form->w)};
}

/* Splits the last axis of [B,T,H*D] into heads. */
static enum attn_status split_heads(struct axes *axes, int64_t heads, const char *pointer,
                                    struct attn_error *error) {
    const size_t count = (size_t)heads;
    if (axes->W % count != 0)
        return attn_fail(error, ATTN_BAD_SHAPE, pointer,
                         "The last axis of %s is %zu wide, which %zu heads do not divide; send "
                         "[B,T,H*D] with a width that is a multiple of the number of heads.",
                         pointer + 1, axes->W, count);
    axes->H = count;
    axes->W /= count;
    axes->sh = (ptrdiff_t)axes->W * axes->sd;
    return ATTN_OK;
}

static enum attn_status check_operand(const struct attn_tensor *tensor, const struct attn_tensor *q,
                                      const char *pointer, struct attn_error *error) {
    char text[96];
    const char *name = pointer + 1;
    if (attn_tensor_is_none(tensor))
        return attn_fail(error, ATTN_MISSING_FIELD, pointer,
                         "The tensor %s is missing; a request needs q, k and v.", name);
    if (attn_dtype_class(tensor->dtype) != ATTN_CLASS_FLOAT)
        return attn_fail(error, ATTN_BAD_DTYPE, pointer,
                         "%s must be float32, float64, float16 or bfloat16, got %s; convert it.",
                         name, attn_dtype_name(tensor->dtype));
    if (tensor->rank < 2 || tensor->rank > 4)
        return attn_fail(error, ATTN_BAD_SHAPE, pointer,
                         "%s must have rank 2 [T,D], 3 [H,T,D] or 4 [B,H,T,D], got shape %s.", name,
                         attn_shape_text(tensor->rank, tensor->shape, text, sizeof text));
    if (tensor->dtype != q->dtype)
        return attn_fail(error, ATTN_BAD_DTYPE, pointer,
                         "q, k and v must share one dtype; q is %s and %s is %s.",
                         attn_dtype_name(q->dtype), name, attn_dtype_name(tensor->dtype));
    if (tensor->rank != q->rank)
        return attn_fail(error, ATTN_BAD_SHAPE, pointer,
                         "q, k and v must have equal rank; q has rank %d and %s has shape %s.",
                         q->rank, name,
                         attn_shape_text(tensor->rank, tensor->shape, text, sizeof text));
    return ATTN_OK;
}

static enum attn_status check_head_options(const struct attn_request *request, int rank,
                                           struct attn_error *error) {
    const bool given = request->num_heads != 0 || request->num_kv_heads != 0;
    const char *pointer = request->num_heads != 0 ? "/num_heads" : "/num_kv_heads";
    if (given && rank != 3)
        return attn_fail(error, ATTN_BAD_VALUE, pointer,
                         "%s splits rank-3 inputs [B,T,H*D]; these have rank %d, where the heads "
                         "are an axis already. Leave it out.",
                         pointer + 1, rank);
    if (request->num_kv_heads != 0 && request->num_heads == 0)
        return attn_fail(error, ATTN_BAD_VALUE, "/num_kv_heads",
                         "num_kv_heads needs num_heads beside it.");
    if (request->num_heads < 0 || request->num_kv_heads < 0) {
        pointer = request->num_heads < 0 ? "/num_heads" : "/num_kv_heads";
        return attn_fail(error, ATTN_BAD_VALUE, pointer, "%s must be at least 1.", pointer + 1);
    }
    if (request->layout != ATTN_LAYOUT_UNSET && rank != 4)
        return attn_fail(error, ATTN_BAD_VALUE, "/layout",
                         "layout says how rank-4 inputs are ordered; these have rank %d. Leave it "
                         "out.",
                         rank);
    return ATTN_OK;
}

static const struct form *choose_form(const struct attn_request *request) {
    switch (request->q.rank) {
    case 2:
        return &FORM_TD;
    case 3:
        return request->num_heads != 0 ? &FORM_SPLIT : &FORM_HTD;
    default:
        return request->layout == ATTN_LAYOUT_BTHD ? &FORM_BTHD : &FORM_BHTD;
    }
}

/* A sentence about two sizes that must be equal. */
static enum attn_status same(size_t left, size_t right, const char *pointer, const char *what,
                             const char *left_name, const char *right_name,
                             struct attn_error *error) {
    if (left == right)
        return ATTN_OK;
    return attn_fail(error, ATTN_BAD_SHAPE, pointer, "%s must be equal: %s has %zu and %s has %zu.",
                     what, left_name, left, right_name, right);
}

static enum attn_status check_agreement(const struct axes *q, const struct axes *k,
                                        const struct axes *v, struct attn_error *error) {
    if (same(q->B, k->B, "/k", "Batch sizes", "q", "k", error) != ATTN_OK ||
        same(q->B, v->B, "/v", "Batch sizes", "q", "v", error) != ATTN_OK ||
        same(q->W, k->W, "/k", "Head sizes (last axis) of q and k", "q", "k", error) != ATTN_OK ||
        same(k->T, v->T, "/v", "Lengths of k and v", "k", "v", error) != ATTN_OK ||
        same(k->H, v->H, "/v", "Head counts of k and v", "k", "v", error) != ATTN_OK)
        return error->status;
    if (k->H == 0 ? q->H != 0 : q->H % k->H != 0)
        return attn_fail(error, ATTN_BAD_SHAPE, "/k",
                         "The query heads must be a multiple of the key/value heads: q has %zu and "
                         "k has %zu.",
                         q->H, k->H);
    return ATTN_OK;
}

enum attn_status attn_call_check_rows(const struct attn_call *call, struct attn_error *error) {
    size_t rows;
    if (call->Hq > MAX_HEADS)
        return attn_fail_limit(error, ATTN_TOO_MUCH_WORK, "/q", (double)MAX_HEADS,
                               "q has %zu heads; a call may have %zu. Send fewer.", call->Hq,
                               MAX_HEADS);
    if (!attn_mul_size(attn_max_size(call->B, 1), attn_max_size(call->Hq, 1), &rows) ||
        !attn_mul_size(rows, attn_max_size(call->Tq, 1), &rows) || rows > MAX_ROWS)
        return attn_fail_limit(error, ATTN_TOO_MUCH_WORK, "/q", (double)MAX_ROWS,
                               "q has B x Hq x Tq = %zu x %zu x %zu rows; a call may have %zu. "
                               "Send fewer.",
                               call->B, call->Hq, call->Tq, MAX_ROWS);
    return ATTN_OK;
}

static struct attn_operand operand(const struct attn_tensor *tensor, const struct axes *axes) {
    return (struct attn_operand){.data = tensor->data,
                                 .dtype = tensor->dtype,
                                 .sb = axes->sb,
                                 .sh = axes->sh,
                                 .st = axes->st,
                                 .sd = axes->sd};
}

enum attn_status attn_call_check_queries(const struct attn_tensor *q, struct attn_error *error) {
    return check_operand(q, q, "/q", error);
}

enum attn_status attn_call_resolve_shapes(struct attn_call *call, struct attn_request *request,
                                          struct attn_error *error) {
    if (request->kv != NULL)
        return attn_call_resolve_view_shapes(call, request, error);
    if (check_operand(&request->q, &request->q, "/q", error) != ATTN_OK ||
        check_operand(&request->k, &request->q, "/k", error) != ATTN_OK ||
        check_operand(&request->v, &request->q, "/v", error) != ATTN_OK ||
        check_head_options(request, request->q.rank, error) != ATTN_OK)
        return error->status;
    const struct form *form = choose_form(request);
    struct axes q = axes_of(&request->q, form);
    struct axes k = axes_of(&request->k, form);
    struct axes v = axes_of(&request->v, form);
    call->split_heads = form == &FORM_SPLIT;
    if (call->split_heads) {
        const int64_t kv_heads =
            request->num_kv_heads != 0 ? request->num_kv_heads : request->num_heads;
        if (split_heads(&q, request->num_heads, "/q", error) != ATTN_OK ||
            split_heads(&k, kv_heads, "/k", error) != ATTN_OK ||
            split_heads(&v, kv_heads, "/v", error) != ATTN_OK)
            return error->status;
    }
    if (check_agreement(&q, &k, &v, error) != ATTN_OK)
        return error->status;
    call->B = q.B;
    call->Hq = q.H;
    call->Hkv = k.H;
    call->Tq = q.T;
    call->Tk = k.T;
    call->D = q.W;
    call->Dv = v.W;
    call->q = operand(&request->q, &q);
    call->k = operand(&request->k, &k);
    call->v = operand(&request->v, &v);
    call->q_rank = request->q.rank;
    call->bthd = form == &FORM_BTHD;
    return attn_call_check_rows(call, error);
}
