/* SPDX-License-Identifier: Apache-2.0 */
/* Operands, memory and tasks of a test's call. The formula is in attention_formula.c. */
#include "tests/support/attention_run.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/convert.h"
#include "tests/support/random.h"

/* Where [b,h,t] of a dense tensor lies: tokens before heads in BTHD and SPLIT. */
static size_t row_of(enum run_form form, size_t H, size_t T, size_t b, size_t h, size_t t) {
    return form == RUN_BTHD || form == RUN_SPLIT ? (b * T + t) * H + h : (b * H + h) * T + t;
}

/* Where [b,h,t,d] lies. */
static size_t place_of(enum run_form form, const size_t n[4], size_t b, size_t h, size_t t,
                       size_t d) {
    if (form == RUN_TURNED)
        return ((b * n[1] + h) * n[3] + d) * n[2] + t;
    return row_of(form, n[1], n[2], b, h, t) * n[3] + d;
}

static struct attn_tensor view_turned(enum attn_dtype dtype, const void *data, const size_t n[4]) {
    struct attn_tensor tensor = attn_tensor_view(data, dtype, 4, n);
    tensor.stride[2] = 1;
    tensor.stride[3] = (ptrdiff_t)n[2];
    return tensor;
}

static struct attn_tensor view(enum attn_dtype dtype, enum run_form form, const void *data,
                               const size_t n[4]) {
    switch (form) {
    case RUN_BTHD:
        return attn_tensor_view(data, dtype, 4, (const size_t[]){n[0], n[2], n[1], n[3]});
    case RUN_SPLIT:
        return attn_tensor_view(data, dtype, 3, (const size_t[]){n[0], n[2], n[1] * n[3]});
    case RUN_HTD:
        return attn_tensor_view(data, dtype, 3, n + 1);
    case RUN_TD:
        return attn_tensor_view(data, dtype, 2, n + 2);
    case RUN_TURNED:
        return view_turned(dtype, data, n);
    default:
        return attn_tensor_view(data, dtype, 4, n);
    }
}

static struct attn_tensor fill(uint64_t seed, enum attn_dtype dtype, enum run_form form,
                               const size_t n[4], void **data) {
    const size_t element = attn_dtype_size(dtype);
    struct random random = random_seeded(seed);
    *data = malloc(n[0] * n[1] * n[2] * n[3] * element);
    ck_assert_ptr_nonnull(*data);
    for (size_t b = 0; b < n[0]; b++)
        for (size_t h = 0; h < n[1]; h++)
            for (size_t t = 0; t < n[2]; t++)
                for (size_t d = 0; d < n[3]; d++) {
                    const double value = 2 * random_unit(&random) - 1;
                    const size_t at = place_of(form, n, b, h, t, d);
                    attn_store_double(dtype, (char *)*data + at * element, 1, 1, &value);
                }
    return view(dtype, form, *data, n);
}

void run_open(struct run *run, enum attn_dtype dtype, enum run_form form, struct run_sizes sizes) {
    memset(run, 0, sizeof *run);
    run->sizes = sizes;
    attn_request_init(&run->request);
    const size_t q[4] = {sizes.B, sizes.Hq, sizes.Tq, sizes.D};
    const size_t k[4] = {sizes.B, sizes.Hkv, sizes.Tk, sizes.D};
    const size_t v[4] = {sizes.B, sizes.Hkv, sizes.Tk, sizes.Dv};
    run->request.q = fill(1, dtype, form, q, &run->operands[0]);
    run->request.k = fill(2, dtype, form, k, &run->operands[1]);
    run->request.v = fill(3, dtype, form, v, &run->operands[2]);
    if (form == RUN_BTHD)
        run->request.layout = ATTN_LAYOUT_BTHD;
    if (form == RUN_SPLIT) {
        run->request.num_heads = (int64_t)sizes.Hq;
        run->request.num_kv_heads = (int64_t)sizes.Hkv;
    }
}

void run_close(struct run *run) {
    run_reset(run);
    for (size_t n = 0; n < 3; n++)
        free(run->operands[n]);
}

static void cut_into_chunks(const struct run *run, struct attn_plan *plan) {
    const size_t tile = plan->grid.key_tile;
    const size_t keys = (run->chunk_keys + tile - 1) / tile * tile;
    if (keys > 0 && keys < run->call.Tk && plan->tasks > 0 && plan->chunks == 1 &&
        !plan->kernel->takes_all_keys)
        attn_chunks_cut(&run->call, plan, keys);
}

void run_plan(struct run *run) {
    static const struct attn_limits limits = {SIZE_MAX, INFINITY};
    struct attn_error error = {.status = ATTN_OK};
    if (attn_call_init(&run->call, &run->request, &error) == ATTN_OK)
        attn_plan_make(&run->call, &limits, &run->plan, &run->result, &error);
    ck_assert_msg(error.status == ATTN_OK, "refused: %s", error.detail);
    cut_into_chunks(run, &run->plan);
    for (size_t n = 0; n < ATTN_RESULT_COUNT; n++) {
        struct attn_result_tensor *tensor = &run->result.tensors[n];
        if (!tensor->wanted)
            continue;
        tensor->data = malloc(tensor->bytes);
        ck_assert(tensor->data != NULL || tensor->bytes == 0);
        if (tensor->bytes > 0)
            memset(tensor->data, RUN_UNTOUCHED, tensor->bytes);
    }
}

struct attn_heads *run_heads(const struct run *run, size_t threads) {
    void *memory = NULL;
    const size_t bytes = attn_heads_bytes(&run->plan, threads);
    ck_assert_int_eq(posix_memalign(&memory, 64, bytes), 0);
    memset(memory, 0xff, bytes);
    return attn_heads_open(&run->call, &run->plan, threads, memory);
}

void run_heads_close(struct attn_heads *heads) {
    attn_heads_close(heads);
    free(heads);
}

void run_task_with(struct run *run, struct attn_heads *heads, size_t index) {
    void *workspace = NULL;
    const size_t bytes = run->plan.workspace_bytes;
    ck_assert_int_eq(posix_memalign(&workspace, 64, bytes), 0);
    if (bytes > 0)
        memset(workspace, 0xff, bytes);
    attn_execute_task(&run->call, &run->plan, &run->result, heads, index, workspace, NULL);
    free(workspace);
}

void run_task(struct run *run, size_t index) {
    struct attn_heads *heads = run_heads(run, 1);
    run_task_with(run, heads, index);
    run_heads_close(heads);
}

void run_all(struct run *run) {
    run_plan(run);
    struct attn_heads *heads = run_heads(run, 1);
    for (size_t index = 0; index < run->plan.tasks; index++)
        run_task_with(run, heads, index);
    run_heads_close(heads);
}

void run_reset(struct run *run) {
    for (size_t n = 0; n < ATTN_RESULT_COUNT; n++) {
        free(run->result.tensors[n].data);
        run->result.tensors[n].data = NULL;
    }
    attn_call_close(&run->call);
}

size_t run_count(const struct run *run, enum attn_result_name name) {
    const struct attn_result_tensor *tensor = &run->result.tensors[name];
    return tensor->bytes / attn_dtype_size(tensor->dtype);
}

double run_at(const struct run *run, enum attn_result_name name, size_t index) {
    const struct attn_result_tensor *tensor = &run->result.tensors[name];
    double value;
    if (index >= run_count(run, name))
        ck_abort_msg("element %zu is beyond %s", index, attn_result_tensor_name(name));
    if (tensor->dtype == ATTN_INT32)
        return ((const int32_t *)tensor->data)[index];
    attn_load_double(tensor->dtype,
                     (const char *)tensor->data + index * attn_dtype_size(tensor->dtype), 1, 1,
                     &value);
    return value;
}

double run_output_at(const struct run *run, size_t b, size_t h, size_t t, size_t d) {
    const struct attn_call *call = &run->call;
    const enum run_form form = call->bthd || call->split_heads ? RUN_BTHD : RUN_BHTD;
    return run_at(run, ATTN_RESULT_OUTPUT,
                  row_of(form, call->Hq, call->Tq, b, h, t) * call->Dv + d);
}

void *run_copy(const struct run *run, enum attn_result_name name) {
    const struct attn_result_tensor *tensor = &run->result.tensors[name];
    void *copy = malloc(tensor->bytes);
    ck_assert(copy != NULL || tensor->bytes == 0);
    if (tensor->bytes > 0)
        memcpy(copy, tensor->data, tensor->bytes);
    return copy;
}

void run_expect_same_bits(const struct run *run, const struct run *other, size_t first) {
    for (size_t n = first; n < ATTN_RESULT_COUNT; n++) {
        const struct attn_result_tensor *tensor = &run->result.tensors[n];
        ck_assert_uint_eq(tensor->bytes, other->result.tensors[n].bytes);
        if (tensor->bytes > 0)
            ck_assert_mem_eq(tensor->data, other->result.tensors[n].data, tensor->bytes);
    }
}

bool run_is_close(double got, double want, double tolerance) {
    if (isnan(want) || isinf(want))
        return isnan(want) ? isnan(got) : got == want;
    return fabs(got - want) <= tolerance * (1 + fabs(want));
}
