/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merging by log-sum-exp. With M the largest lse of a row's partials (and its sink) and
 * w_p = exp(lse_p - M):  output = sum w_p output_p / (sum w_p + exp(sink - M)),  lse = M + log of
 * that denominator. A sum that begins at M neither overflows nor loses a partial that matters.
 */
#include "core/merge.h"

#include <math.h>

#include "core/call_internal.h"
#include "core/checked.h"
#include "core/convert.h"

enum {
    BLOCK = 256,          /* elements of a row that are summed at once, on the stack */
    TASK_ELEMENTS = 65536 /* partial output elements that a task reads, about */
};
/* What one partial's weight costs beside its products, in floating-point operations. */
#define WEIGHT_WORK 32.0

static enum attn_status check_dtypes(const struct attn_merge_request *request,
                                     struct attn_error *error) {
    const struct {
        const struct attn_tensor *tensor;
        const char *pointer;
    } tensors[] = {{&request->outputs, "/outputs"}, {&request->lses, "/lses"}};
    for (size_t n = 0; n < sizeof tensors / sizeof *tensors; n++)
        if (attn_dtype_class(tensors[n].tensor->dtype) != ATTN_CLASS_FLOAT)
            return attn_fail(
                error, ATTN_BAD_DTYPE, tensors[n].pointer,
                "%s must be float32, float64, float16 or bfloat16, got %s; convert it.",
                tensors[n].pointer + 1, attn_dtype_name(tensors[n].tensor->dtype));
    if (request->output_dtype_given && attn_dtype_class(request->output_dtype) != ATTN_CLASS_FLOAT)
        return attn_fail(error, ATTN_BAD_DTYPE, "/output_dtype",
                         "output_dtype must be float32, float64, float16 or bfloat16, got %s.",
                         attn_dtype_name(request->output_dtype));
    return ATTN_OK;
}

static enum attn_status check_shapes(const struct attn_tensor *outputs,
                                     const struct attn_tensor *lses, struct attn_error *error) {
    char shape[96], wanted[96], came[96];
    attn_shape_text(outputs->rank, outputs->shape, shape, sizeof shape);
    if (outputs->rank < 3 || outputs->rank > 5)
        return attn_fail(error, ATTN_BAD_SHAPE, "/outputs",
                         "outputs must be [P,B,H,T,Dv], [P,H,T,Dv] or [P,T,Dv], with P partial "
                         "results; its shape is %s.",
                         shape);
    if (outputs->shape[0] == 0)
        return attn_fail(error, ATTN_BAD_SHAPE, "/outputs",
                         "outputs has shape %s and so no partial result; send at least one.",
                         shape);
    const int rank = outputs->rank - 1;
    bool same = lses->rank == rank;
    for (int axis = 0; same && axis < rank; axis++)
        same = lses->shape[axis] == outputs->shape[axis];
    if (!same)
        return attn_fail(error, ATTN_BAD_SHAPE, "/lses",
                         "lses must have the axes of outputs but the last: outputs has shape %s, "
                         "so lses has %s; it came with %s.",
                         shape, attn_shape_text(rank, outputs->shape, wanted, sizeof wanted),
                         attn_shape_text(lses->rank, lses->shape, came, sizeof came));
    return ATTN_OK;
}

/* Inserts axes of size 1 behind the first until there are `rank`. */
static struct attn_tensor widened(const struct attn_tensor *tensor, int rank) {
    struct attn_tensor wide = *tensor;
    const int missing = rank - tensor->rank;
    wide.rank = rank;
    for (int axis = 1; axis < rank; axis++) {
        const bool inserted = axis <= missing;
        wide.shape[axis] = inserted ? 1 : tensor->shape[axis - missing];
        wide.stride[axis] = inserted ? 0 : tensor->stride[axis - missing];
    }
    return wide;
}

static enum attn_precision precision_of(const struct attn_merge_request *request) {
    if (request->precision != ATTN_PRECISION_UNSET)
        return request->precision;
    return request->outputs.dtype == ATTN_FLOAT64 || request->lses.dtype == ATTN_FLOAT64
               ? ATTN_PRECISION_FLOAT64
               : ATTN_PRECISION_FLOAT32;
}

/* A tensor's own axes without the first. */
static void shape_tensor(const struct attn_tensor *tensor, enum attn_dtype dtype,
                         struct attn_result_tensor *out) {
    out->wanted = true;
    out->dtype = dtype;
    out->rank = tensor->rank - 1;
    for (int axis = 0; axis < out->rank; axis++)
        out->shape[axis] = tensor->shape[axis + 1];
}

static enum attn_status size_result(const struct attn_merge *merge,
                                    const struct attn_merge_request *request,
                                    const struct attn_limits *limits, struct attn_result *result,
                                    struct attn_error *error) {
    struct attn_result_tensor *output = &result->tensors[ATTN_RESULT_OUTPUT];
    struct attn_result_tensor *lse = &result->tensors[ATTN_RESULT_LSE];
    const bool wide = merge->precision == ATTN_PRECISION_FLOAT64;
    enum attn_dtype dtype =
        request->precision == ATTN_PRECISION_FLOAT64 ? ATTN_FLOAT64 : request->outputs.dtype;
    size_t bytes;
    *result = (struct attn_result){0};
    if (request->output_dtype_given)
        dtype = request->output_dtype;
    shape_tensor(&request->outputs, dtype, output);
    shape_tensor(&request->lses, wide ? ATTN_FLOAT64 : ATTN_FLOAT32, lse);
    if (attn_shape_bytes(output->dtype, output->rank, output->shape, &output->bytes) &&
        attn_shape_bytes(lse->dtype, lse->rank, lse->shape, &lse->bytes) &&
        attn_add_size(output->bytes, lse->bytes, &bytes) && bytes <= limits->result_bytes)
        return ATTN_OK;
    return attn_fail_limit(
        error, ATTN_RESULT_TOO_LARGE, "/outputs", (double)limits->result_bytes,
        "The answer would be larger than the %zu bytes allowed. Merge fewer queries "
        "or heads per call.",
        limits->result_bytes);
}

/* The rows of a valid result are countable: its sizes were computed. */
static void plan(struct attn_merge *merge) {
    const size_t rows = merge->B * merge->H * merge->T;
    const double partials = (double)merge->P * (double)rows;
    const double row_elements = (double)merge->P * (double)attn_max_size(merge->Dv, 1);
    merge->rows_per_task =
        row_elements >= TASK_ELEMENTS ? 1 : (size_t)((double)TASK_ELEMENTS / row_elements);
    merge->tasks = rows / merge->rows_per_task + (rows % merge->rows_per_task != 0);
    merge->flops = 2 * partials * (double)merge->Dv;
    merge->work = merge->flops + WEIGHT_WORK * partials;
}

enum attn_status attn_merge_init(struct attn_merge *merge, const struct attn_merge_request *request,
                                 const struct attn_limits *limits, struct attn_result *result,
                                 struct attn_error *error) {
    *merge = (struct attn_merge){0};
    if (check_dtypes(request, error) != ATTN_OK ||
        check_shapes(&request->outputs, &request->lses, error) != ATTN_OK)
        return error->status;
    merge->outputs = widened(&request->outputs, 5);
    merge->lses = widened(&request->lses, 4);
    merge->P = merge->outputs.shape[0];
    merge->B = merge->outputs.shape[1];
    merge->H = merge->outputs.shape[2];
    merge->T = merge->outputs.shape[3];
    merge->Dv = merge->outputs.shape[4];
    merge->sink = request->sink;
    merge->precision = precision_of(request);
    if (request->sink.values != NULL &&
        attn_check_head_list(&request->sink, merge->H, "/sink", -INFINITY, error) != ATTN_OK)
        return error->status;
    if (size_result(merge, request, limits, result, error) != ATTN_OK)
        return error->status;
    plan(merge);
    if (merge->work > limits->flops)
        return attn_fail_limit(
            error, ATTN_TOO_MUCH_WORK, "", limits->flops,
            "The merge needs %.3g floating-point operations; %.3g are allowed. Merge "
            "fewer queries or heads per call.",
            merge->work, limits->flops);
    return ATTN_OK;
}

/* One row of every partial. */
struct row {
    const struct attn_merge *merge;
    ptrdiff_t lse, output; /* of partial 0, in elements */
    double most;           /* the largest of lses and sink; NaN when one is */
    double sum;            /* of exp(lse - most), and the sink's */
};

static const void *element(const struct attn_tensor *tensor, ptrdiff_t offset) {
    return (const char *)tensor->data + offset * (ptrdiff_t)attn_dtype_size(tensor->dtype);
}

static double lse_of(const struct row *row, size_t p) {
    const struct attn_tensor *lses = &row->merge->lses;
    double value;
    attn_load_double(lses->dtype, element(lses, row->lse + (ptrdiff_t)p * lses->stride[0]), 1, 1,
                     &value);
    return value;
}

/* 0 for a partial that saw no key, and for one that is nothing beside the largest. */
static double weight_of(const struct row *row, size_t p) {
    const double lse = lse_of(row, p);
    return lse == -INFINITY ? 0.0 : exp(lse - row->most);
}

/* The larger, or NaN when either is. */
static double larger(double a, double b) {
    return isnan(a) || a > b ? a : b;
}

/* Returns whether no partial saw a key. */
static bool weigh(struct row *row, double sink) {
    row->most = -INFINITY;
    for (size_t p = 0; p < row->merge->P; p++)
        row->most = larger(row->most, lse_of(row, p));
    const bool empty = row->most == -INFINITY;
    row->most = larger(row->most, sink);
    row->sum = sink == -INFINITY ? 0.0 : exp(sink - row->most);
    for (size_t p = 0; p < row->merge->P; p++)
        row->sum += weight_of(row, p);
    return empty;
}

/* Elements [from, from + n) of the merged row. */
static void sum_block(const struct row *row, size_t from, size_t n, double *total) {
    const struct attn_tensor *outputs = &row->merge->outputs;
    double part[BLOCK];
    for (size_t d = 0; d < n; d++)
        total[d] = 0.0;
    for (size_t p = 0; p < row->merge->P; p++) {
        const double weight = weight_of(row, p);
        if (weight == 0.0)
            continue;
        const ptrdiff_t offset =
            row->output + (ptrdiff_t)p * outputs->stride[0] + (ptrdiff_t)from * outputs->stride[4];
        attn_load_double(outputs->dtype, element(outputs, offset), outputs->stride[4], n, part);
        for (size_t d = 0; d < n; d++)
            total[d] += weight * part[d];
    }
    for (size_t d = 0; d < n; d++)
        total[d] = row->sum == 0.0 ? 0.0 : total[d] / row->sum;
}

/* False when some element is not finite as the answer has it. */
static bool write_row(const struct row *row, const struct attn_result *result, size_t index) {
    const struct attn_result_tensor *output = &result->tensors[ATTN_RESULT_OUTPUT];
    const struct attn_result_tensor *lse = &result->tensors[ATTN_RESULT_LSE];
    const size_t Dv = row->merge->Dv;
    const double limit = attn_overflow_threshold(output->dtype);
    const double logarithm = row->most + log(row->sum); /* -inf for an empty row */
    bool finite = true;
    for (size_t from = 0; from < Dv; from += BLOCK) {
        const size_t n = attn_min_size(BLOCK, Dv - from);
        double total[BLOCK];
        sum_block(row, from, n, total);
        for (size_t d = 0; d < n; d++)
            finite &= fabs(total[d]) < limit;
        char *to = (char *)output->data + (index * Dv + from) * attn_dtype_size(output->dtype);
        attn_store_double(output->dtype, to, 1, n, total);
    }
    attn_store_double(lse->dtype, (char *)lse->data + index * attn_dtype_size(lse->dtype), 1, 1,
                      &logarithm);
    return finite;
}

void attn_merge_task(const struct attn_merge *merge, struct attn_result *result, size_t task,
                     const struct attn_checkpoint *checkpoint) {
    const size_t rows = merge->B * merge->H * merge->T;
    const size_t first = task * merge->rows_per_task;
    const size_t end = first + attn_min_size(merge->rows_per_task, rows - first);
    uint64_t empty = 0;
    bool finite = true;
    for (size_t index = first; index < end; index++) {
        const size_t t = index % merge->T, bh = index / merge->T;
        const size_t h = bh % merge->H, b = bh / merge->H;
        const double sink = merge->sink.values == NULL
                                ? -INFINITY
                                : merge->sink.values[merge->sink.count == 1 ? 0 : h];
        struct row row = {.merge = merge,
                          .lse = attn_tensor_offset(&merge->lses, 0, b, h, t),
                          .output = attn_tensor_offset(&merge->outputs, 0, b, h, t)};
        if (attn_checkpoint_stops(checkpoint))
            return;
        empty += weigh(&row, sink);
        finite &= write_row(&row, result, index);
    }
    if (!finite)
        atomic_store_explicit(&result->non_finite, true, memory_order_relaxed);
    atomic_fetch_add_explicit(&result->empty_rows, empty, memory_order_relaxed);
}
