/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests for tests of validation and planning: tensors have shapes but all share one small block
 * of zeros, so none may be computed with. Lists and nodes are compound literals of the test's.
 */
#ifndef TESTS_SUPPORT_REQUEST_BUILDER_H
#define TESTS_SUPPORT_REQUEST_BUILDER_H

#include <stdio.h>
#include <string.h>

#include "core/call.h"
#include "tests/support/test_main.h"

static const double REQUEST_ZEROS[4096];

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))
/* SHAPED(ATTN_FLOAT32, 2, 3) is a tensor of shape [2,3] of zeros. */
#define SHAPED(dtype, ...)                                                                 \
    attn_tensor_view(REQUEST_ZEROS, dtype, (int)COUNT_OF(((const size_t[]){__VA_ARGS__})), \
                     (const size_t[]){__VA_ARGS__})
#define F32(...) SHAPED(ATTN_FLOAT32, __VA_ARGS__)
#define INTS(...)                                           \
    ((struct attn_int_list){(const int64_t[]){__VA_ARGS__}, \
                            COUNT_OF(((const int64_t[]){__VA_ARGS__}))})
#define REALS(...)                                          \
    ((struct attn_real_list){(const double[]){__VA_ARGS__}, \
                             COUNT_OF(((const double[]){__VA_ARGS__}))})
/* The program of a mask, operands before what joins them. */
#define PROGRAM(...)                                            \
    ((struct attn_mask){(struct attn_mask_node[]){__VA_ARGS__}, \
                        COUNT_OF(((struct attn_mask_node[]){__VA_ARGS__}))})
#define CAUSAL(side) \
    { .kind = ATTN_MASK_CAUSAL, .align = ATTN_ALIGN_##side, .pointer = "/mask/c" }
#define JOIN(how, n) \
    { .kind = ATTN_MASK_##how, .operands = (n), .pointer = "/mask" }

static inline struct attn_request request_of(struct attn_tensor q, struct attn_tensor k,
                                             struct attn_tensor v) {
    struct attn_request request;
    attn_request_init(&request);
    request.q = q;
    request.k = k;
    request.v = v;
    return request;
}

/* [B,Hq,Tq,D] against [B,Hkv,Tk,D] and [B,Hkv,Tk,Dv]. */
static inline struct attn_request request_sized(size_t B, size_t Hq, size_t Hkv, size_t Tq,
                                                size_t Tk, size_t D, size_t Dv) {
    return request_of(F32(B, Hq, Tq, D), F32(B, Hkv, Tk, D), F32(B, Hkv, Tk, Dv));
}

/* Validates what must be right; the caller closes the call. */
static inline struct attn_call accept_request(struct attn_request *request) {
    struct attn_call call;
    struct attn_error error = {.status = ATTN_OK};
    const enum attn_status status = attn_call_init(&call, request, &error);
    ck_assert_msg(status == ATTN_OK, "refused: %s (%s)", error.detail, error.pointer);
    return call;
}

/* Validates what must be wrong: this status, this place, and a sentence that holds `words`. */
static inline void refuse_request(struct attn_request *request, enum attn_status status,
                                  const char *pointer, const char *words) {
    struct attn_call call;
    struct attn_error error = {.status = ATTN_OK};
    ck_assert_str_eq(attn_status_name(attn_call_init(&call, request, &error)),
                     attn_status_name(status));
    ck_assert_int_eq(error.status, status);
    ck_assert_str_eq(error.pointer, pointer);
    ck_assert_msg(strstr(error.detail, words) != NULL, "\"%s\" lacks \"%s\"", error.detail, words);
    ck_assert_ptr_null(call.storage);
}

#endif
