/* SPDX-License-Identifier: Apache-2.0 */
/* Decoding and answering for the codec tests: one call per exchange, and tables of refusals. */
#ifndef TESTS_UNIT_SERVER_CODEC_FIXTURE_H
#define TESTS_UNIT_SERVER_CODEC_FIXTURE_H

#include <check.h>
#include <stdio.h>
#include <string.h>

#include "server/buffer_pool.h"
#include "server/codecs/codec.h"
#include "server/options/options_table.h"
#include "tests/support/backward_team.h"
#include "tests/support/guard_page.h"

struct exchange_under_test {
    struct codec_request request;
    struct attn_error error;
    enum attn_status status;
};

static inline struct exchange_under_test decode_bytes(const char *codec, const void *body,
                                                      size_t length,
                                                      const struct codec_query_option *query,
                                                      size_t query_count) {
    struct exchange_under_test exchange = {.status = ATTN_OK};
    size_t pieces = 0; /* so small that most arrays are cut, which must not be seen */
    const struct number_team team = {run_backwards, &pieces, 8, NULL};
    const struct codec_input input = {.body = body,
                                      .length = length,
                                      .query = query,
                                      .query_count = query_count,
                                      .schema = &ATTENTION_SCHEMA,
                                      .team = &team};
    exchange.status = codec_find(codec)->decode(&input, &exchange.request, &exchange.error);
    ck_assert_int_eq(exchange.status, exchange.error.status);
    return exchange;
}

static inline struct exchange_under_test decode_json(const char *body) {
    return decode_bytes("json", body, strlen(body), NULL, 0);
}

/* A body that must be understood. */
static inline struct codec_request decoded_json(const char *body) {
    struct exchange_under_test exchange = decode_json(body);
    ck_assert_msg(exchange.status == ATTN_OK, "%s\n-> %s: %s", body, exchange.error.pointer,
                  exchange.error.detail);
    return exchange.request;
}

struct refusal {
    const char *body;
    enum attn_status status;
    const char *pointer;
    const char *part; /* of the sentence */
};

static inline void check_refused(const struct exchange_under_test *exchange,
                                 const struct refusal *expected) {
    ck_assert_msg(exchange->status == expected->status &&
                      strcmp(exchange->error.pointer, expected->pointer) == 0 &&
                      strstr(exchange->error.detail, expected->part) != NULL,
                  "%.300s\n-> %s at '%s': %s", expected->body, attn_status_name(exchange->status),
                  exchange->error.pointer, exchange->error.detail);
    ck_assert_ptr_null(exchange->request.storage);
}

/* Element i of a float32 tensor. */
static inline float float_at(const struct attn_tensor *tensor, size_t i) {
    ck_assert_int_eq(tensor->dtype, ATTN_FLOAT32);
    return ((const float *)tensor->data)[i];
}

/* A result of one tensor, `output`, with this shape. */
static inline void output_only(struct attn_result *result, enum attn_dtype dtype, int rank,
                               const size_t *shape) {
    struct attn_result_tensor *const output = &result->tensors[ATTN_RESULT_OUTPUT];
    memset(result, 0, sizeof *result);
    output->wanted = true;
    output->dtype = dtype;
    output->rank = rank;
    memcpy(output->shape, shape, (size_t)rank * sizeof *shape);
    ck_assert(attn_shape_bytes(dtype, rank, shape, &output->bytes));
}

/* Lays out, fills the output with `bytes`, and finishes. The caller closes the answer. */
static inline struct codec_answer answer_with(const struct codec *codec,
                                              const struct codec_request *request,
                                              struct attn_result *result, const void *bytes) {
    struct codec_answer answer;
    struct attn_error error = {.status = ATTN_OK};
    struct attn_call call = {.B = 1, .scale = 0.5, .precision = ATTN_PRECISION_FLOAT32};
    size_t announced;
    ck_assert(codec->answer_bytes(&call, request, result, &announced));
    ck_assert_int_eq(codec->lay_out(&call, request, result, &answer, &error), ATTN_OK);
    ck_assert_uint_eq(announced, answer.capacity + answer.scratch_bytes);
    struct attn_result_tensor *const output = &result->tensors[ATTN_RESULT_OUTPUT];
    ck_assert_uint_eq((uintptr_t)output->data % 64, 0);
    if (output->bytes > 0)
        memcpy(output->data, bytes, output->bytes);
    const struct codec_report report = {.id = "id \"1\"",
                                        .call = &call,
                                        .kernel = "reference",
                                        .decode_ms = 1,
                                        .queue_ms = 2,
                                        .compute_ms = 3.00049,
                                        .flops = 1e9};
    ck_assert_int_eq(codec->finish(&report, request, result, &answer, &error), ATTN_OK);
    ck_assert_uint_le(answer.offset + answer.length, answer.capacity);
    return answer;
}

#endif
