/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests whose sizes and options the bytes spell: every one is planned or refused, however large,
 * and what is small is computed by the kernel that is chosen, in memory of exactly the size that
 * was planned, and has the reference's output.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/attention.h"
#include "core/checked.h"
#include "core/convert.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/mask_model.h"

enum { LISTS = 8, LIST = 4, SMALL = 40000, MODELLED = 80 };

struct draft {
    struct random random;
    struct attn_request request;
    struct mask_model model; /* its mask is the request's where the sizes are small */
    struct attn_mask_node nodes[2];
    int64_t integers[LISTS][LIST];
    double reals[LISTS][LIST];
    size_t integer_lists, real_lists;
    void *operands[6];
    size_t operand_count;
    bool lacks_elements; /* of some operand, which was too large */
};

static size_t draw(struct draft *draft, size_t bound) {
    return (size_t)random_below(&draft->random, bound);
}

static bool one_in(struct draft *draft, size_t times) {
    return draw(draft, times) == 0;
}

/* Mostly a few, or about as many as lie in a tile; else whatever eight bytes say. */
static size_t any_size(struct draft *draft) {
    static const size_t EDGES[] = {0, 63, 64, 65, 191, 257, 4096, (size_t)1 << 31, SIZE_MAX};
    const size_t way = draw(draft, 16);
    if (way < 12)
        return 1 + draw(draft, 12);
    return way < 15 ? EDGES[draw(draft, sizeof EDGES / sizeof *EDGES)]
                    : (size_t)random_next(&draft->random);
}

static int64_t any_integer(struct draft *draft) {
    return one_in(draft, 8) ? (int64_t)random_next(&draft->random) : (int64_t)draw(draft, 24) - 4;
}

static double any_real(struct draft *draft) {
    static const double EDGES[] = {0, 1, -1, 1e-300, 1e30, INFINITY, -INFINITY, NAN};
    return one_in(draft, 4) ? EDGES[draw(draft, sizeof EDGES / sizeof *EDGES)]
                            : (double)draw(draft, 256) / 64 - 1;
}

static struct attn_int_list any_integers(struct draft *draft, size_t count) {
    if (draft->integer_lists == LISTS || count > LIST)
        return (struct attn_int_list){NULL, 0};
    int64_t *const values = draft->integers[draft->integer_lists++];
    for (size_t n = 0; n < count; n++)
        values[n] = any_integer(draft);
    return (struct attn_int_list){values, count};
}

static struct attn_real_list any_reals(struct draft *draft, size_t count) {
    if (draft->real_lists == LISTS || count > LIST)
        return (struct attn_real_list){NULL, 0};
    double *const values = draft->reals[draft->real_lists++];
    for (size_t n = 0; n < count; n++)
        values[n] = any_real(draft);
    return (struct attn_real_list){values, count};
}

/* Elements in [-1,1) where they are few; else a tensor whose elements nobody may read. False when
   no memory could have as many. */
static bool any_tensor(struct draft *draft, enum attn_dtype dtype, int rank, const size_t *shape,
                       struct attn_tensor *tensor) {
    static const double nothing;
    size_t bytes;
    if (!attn_shape_bytes(dtype, rank, shape, &bytes))
        return false;
    *tensor = attn_tensor_view(&nothing, dtype, rank, shape);
    if (bytes > SMALL) {
        draft->lacks_elements = true;
        return true;
    }
    char *const data = malloc(bytes + 1);
    if (data == NULL)
        abort();
    for (size_t at = 0; at < bytes; at += attn_dtype_size(dtype)) {
        const double value = (double)draw(draft, 256) / 128 - 1;
        attn_store_double(dtype, data + at, 1, 1, &value);
    }
    tensor->data = draft->operands[draft->operand_count++] = data;
    return true;
}

struct sizes {
    size_t B, Hq, Hkv, Tq, Tk, D, Dv;
};

/* [B,H,T,D], tokens before heads, heads side by side, or without heads. */
static bool any_operand(struct draft *draft, enum attn_dtype dtype, size_t form, size_t H,
                        const size_t n[3], struct attn_tensor *tensor) {
    const size_t shapes[][4] = {
        {n[0], H, n[1], n[2]}, {n[0], n[1], H, n[2]}, {H, n[1], n[2]}, {n[1], n[2]}};
    static const int RANKS[] = {4, 4, 3, 2};
    return any_tensor(draft, dtype, RANKS[form], shapes[form], tensor);
}

static bool any_operands(struct draft *draft, struct sizes *sizes) {
    static const enum attn_dtype DTYPES[] = {ATTN_FLOAT32, ATTN_FLOAT64, ATTN_FLOAT16,
                                             ATTN_BFLOAT16};
    const enum attn_dtype dtype = DTYPES[draw(draft, 4)];
    const size_t form = draw(draft, 4);
    struct attn_request *const request = &draft->request;
    *sizes = (struct sizes){.B = any_size(draft), .Hkv = any_size(draft), .Tq = any_size(draft)};
    sizes->Tk = one_in(draft, 2) ? sizes->Tq : any_size(draft);
    sizes->D = any_size(draft);
    sizes->Dv = one_in(draft, 2) ? sizes->D : any_size(draft);
    sizes->Hq = one_in(draft, 8) ? any_size(draft) : sizes->Hkv * (1 + draw(draft, 3));
    sizes->B = form >= 2 ? 1 : sizes->B;
    if (form == 3)
        sizes->Hq = sizes->Hkv = 1;
    request->layout = form == 1 ? ATTN_LAYOUT_BTHD : ATTN_LAYOUT_UNSET;
    return any_operand(draft, dtype, form, sizes->Hq, (size_t[]){sizes->B, sizes->Tq, sizes->D},
                       &request->q) &&
           any_operand(draft, dtype, form, sizes->Hkv, (size_t[]){sizes->B, sizes->Tk, sizes->D},
                       &request->k) &&
           any_operand(draft, dtype, form, sizes->Hkv, (size_t[]){sizes->B, sizes->Tk, sizes->Dv},
                       &request->v);
}

/* An expression of any depth where its sizes are a model's, else leaves with whatever numbers. */
static void any_mask(struct draft *draft, const struct sizes *sizes) {
    static const enum attn_mask_kind KINDS[] = {ATTN_MASK_CAUSAL, ATTN_MASK_WINDOW,
                                                ATTN_MASK_DILATED, ATTN_MASK_BLOCK_CAUSAL,
                                                ATTN_MASK_PREFIX};
    if (sizes->Tk > 0 && sizes->Tk <= MODELLED && sizes->Tq > 0 && sizes->Tq <= MODELLED &&
        sizes->B < 4 && sizes->Hq < 4 && sizes->B * sizes->Hq > 0) {
        model_open(&draft->model, draft->random, sizes->Tk);
        draft->model.space.B = sizes->B;
        draft->model.space.Hq = sizes->Hq;
        draft->model.space.Tq = sizes->Tq;
        model_add_expression(&draft->model, random_below(&draft->model.random, LISTS));
        draft->random = draft->model.random;
        draft->request.mask = draft->model.mask;
        return;
    }
    for (size_t n = 0; n < sizeof draft->nodes / sizeof *draft->nodes; n++)
        draft->nodes[n] = (struct attn_mask_node){.kind = KINDS[draw(draft, 5)],
                                                  .align = (enum attn_align)draw(draft, 3),
                                                  .left = any_integer(draft),
                                                  .right = any_integer(draft),
                                                  .width = any_integer(draft),
                                                  .stride = any_integer(draft),
                                                  .block = any_integer(draft),
                                                  .lengths = any_integers(draft, 1),
                                                  .tensor = attn_tensor_none(),
                                                  .kv = attn_tensor_none()};
    draft->request.mask = (struct attn_mask){draft->nodes, 1};
}

static void any_selection(struct draft *draft, struct attn_map_selection *map) {
    map->stage = (enum attn_stage)draw(draft, ATTN_STAGE_WEIGHTS + 1);
    map->over_heads = (enum attn_map_heads)draw(draft, 3);
    map->heads = any_integers(draft, draw(draft, 3));
    map->rows_given = one_in(draft, 4);
    map->cols_given = one_in(draft, 4);
    map->pool_given = one_in(draft, 4);
    map->top_k_given = one_in(draft, 4);
    map->pool = (enum attn_pool)draw(draft, 2);
    for (int end = 0; end < 2; end++) {
        map->rows[end] = map->rows_given ? any_integer(draft) : 0;
        map->cols[end] = map->cols_given ? any_integer(draft) : 0;
    }
    map->pool_rows = any_integer(draft);
    map->pool_cols = any_integer(draft);
    map->top_k = any_integer(draft);
}

static void any_rope(struct draft *draft, struct attn_rope_request *rope) {
    rope->given = true;
    rope->interleaved = one_in(draft, 2);
    rope->theta_given = one_in(draft, 2);
    rope->theta = any_real(draft);
    rope->dims_given = one_in(draft, 2);
    rope->dims = any_integer(draft);
    rope->k_offset = any_integer(draft);
    rope->q_offset = any_integers(draft, draw(draft, 3));
}

static void any_options(struct draft *draft, const struct sizes *sizes) {
    struct attn_request *const request = &draft->request;
    request->q_offset = any_integers(draft, draw(draft, 3));
    request->scale_given = one_in(draft, 3);
    request->scale = any_real(draft);
    request->softcap_given = one_in(draft, 4);
    request->softcap = any_real(draft);
    request->alibi = one_in(draft, 6);
    if (one_in(draft, 6))
        request->sink = any_reals(draft, attn_min_size(sizes->Hq, LIST));
    if (one_in(draft, 6))
        request->alibi_slopes = any_reals(draft, attn_min_size(sizes->Hq, LIST));
    if (one_in(draft, 4))
        any_rope(draft, &request->rope);
    if (one_in(draft, 8) && sizes->D < MODELLED &&
        any_tensor(draft, ATTN_FLOAT32, 1, &sizes->D, &request->w))
        request->score = ATTN_SCORE_ADDITIVE;
    if (one_in(draft, 2))
        any_mask(draft, sizes);
    request->precision = (enum attn_precision)draw(draft, 3);
    request->returns = (unsigned)draw(draft, 64);
    if (request->returns & (ATTN_RETURN_WEIGHTS | ATTN_RETURN_SCORES))
        any_selection(draft, &request->map);
}

/* ---- computing ---- */

struct answer {
    struct attn_plan plan;
    struct attn_result result;
    bool is_there;
};

static void give_memory(struct attn_result *result) {
    for (size_t n = 0; n < ATTN_RESULT_COUNT; n++)
        if (result->tensors[n].wanted)
            result->tensors[n].data = fuzz_take(result->tensors[n].bytes);
}

static void close_answer(struct answer *answer) {
    for (size_t n = 0; n < ATTN_RESULT_COUNT; n++)
        free(answer->result.tensors[n].data);
}

/* Within the limits, or not there; computed when there is little to do. */
static void answer(struct attn_call *call, const char *kernel, bool computes,
                   struct answer *answer) {
    static const struct attn_limits limits = {1 << 20, 2e6};
    struct attn_error error = {.status = ATTN_OK};
    struct attn_task task;
    memset(answer, 0, sizeof *answer);
    call->kernel = kernel;
    if (attn_plan_make(call, &limits, &answer->plan, &answer->result, &error) != ATTN_OK) {
        if (error.status == ATTN_OK || error.detail[0] == '\0')
            abort();
        return;
    }
    if (answer->plan.result_bytes > limits.result_bytes || answer->plan.work > limits.flops)
        abort();
    for (size_t n = 0; n < answer->plan.tasks; n += 1 + answer->plan.tasks / 16)
        attn_plan_locate(&answer->plan, call, n, &task);
    if (!computes || answer->plan.tasks > 4096 || answer->plan.workspace_bytes > 8 << 20 ||
        attn_heads_bytes(&answer->plan, 1) > 8 << 20)
        return;
    give_memory(&answer->result);
    fuzz_compute(call, &answer->plan, &answer->result);
    answer->is_there = true;
}

/* Of numbers that rounding cannot have driven apart. */
static void compare(const struct attn_result_tensor *own,
                    const struct attn_result_tensor *reference, double tolerance) {
    const size_t size = attn_dtype_size(own->dtype);
    for (size_t at = 0; at < own->bytes; at += size) {
        double got, want;
        attn_load_double(own->dtype, (const char *)own->data + at, 1, 1, &got);
        attn_load_double(reference->dtype, (const char *)reference->data + at, 1, 1, &want);
        if (isfinite(got) && isfinite(want) && !(fabs(got - want) <= tolerance * (1 + fabs(want))))
            abort();
        if (isnan(got) != isnan(want))
            abort();
    }
}

/* Whether scores are of a size that float32 tells apart. */
static bool is_moderate(const struct attn_call *call) {
    bool is = fabs(call->scale) <= 4 && call->D <= 64 && call->bias.rank < 0;
    for (size_t h = 0; h < call->Hq; h++)
        is = is && (call->alibi == NULL || fabs(call->alibi[h]) <= 4) &&
             (call->sink == NULL || fabs(call->sink[h]) <= 4);
    for (size_t n = 0; call->alibi != NULL && n < call->space.q_offset_count; n++)
        is = is && fabs((double)call->space.q_offset[n]) <= 4096;
    return is && call->softcap >= 0 && (call->softcap == 0 || call->softcap > 0.01);
}

static void check(struct attn_call *call, bool computes) {
    static struct answer own, reference;
    answer(call, NULL, computes, &own);
    answer(call, "reference", computes, &reference);
    if (own.is_there && reference.is_there && is_moderate(call) &&
        own.result.tensors[ATTN_RESULT_OUTPUT].wanted)
        compare(&own.result.tensors[ATTN_RESULT_OUTPUT],
                &reference.result.tensors[ATTN_RESULT_OUTPUT],
                attn_dtype_size(call->output_dtype) == 2 ? 0.02 : 1e-4);
    close_answer(&own);
    close_answer(&reference);
}

void fuzz_plans(const uint8_t *data, size_t size) {
    static struct draft draft;
    struct attn_error error = {.status = ATTN_OK};
    struct attn_call call;
    struct sizes sizes;
    memset(&draft, 0, sizeof draft);
    draft.random = random_given(data, size);
    attn_request_init(&draft.request);
    if (any_operands(&draft, &sizes)) {
        any_options(&draft, &sizes);
        if (attn_call_init(&call, &draft.request, &error) == ATTN_OK) {
            check(&call, !draft.lacks_elements);
            attn_call_close(&call);
        } else if (error.status == ATTN_OK || error.detail[0] == '\0') {
            abort();
        }
    }
    model_close(&draft.model);
    for (size_t n = 0; n < draft.operand_count; n++)
        free(draft.operands[n]);
}
