/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Codecs when memory runs out: every block that they take from the system fails once. The call ends
 * with NO_MEMORY, leaks nothing (the sanitizers see to that) and the next call succeeds.
 */
#include <stdlib.h>

#include "server/codecs/codec_oip.h"
#include "tests/support/test_main.h"
#include "tests/unit/server/npz_fixture.h"

static size_t taken, failing;

/* Stands in for the C library's: small pool buffers, and so all storage, come from here. */
void *aligned_alloc(size_t alignment, size_t size) {
    void *memory;
    if (++taken == failing)
        return NULL;
    return posix_memalign(&memory, alignment, size) == 0 ? memory : NULL;
}

/* A hundred operands, so that the parser itself needs more than its first block. */
#define TEN "[],[],[],[],[],[],[],[],[],[],"

static const char JSON_BODY[] =
    "{\"q\":{\"shape\":[1,1],\"base64\":\"AACAPw==\"},\"k\":[[1]],\"v\":[[1]],"
    "\"mask\":[{\"any\":[" TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN
    "\"causal\"]},{\"type\":\"padding\",\"keep\":\"m\"}],\"m\":[[1]],"
    "\"sink\":[1],\"kernel\":\"blas\",\"weights\":{\"rows\":[0,1]}}";

static const struct codec_query_option QUERY[] = {{"scale", "2"}, {"return", "lse,output"}};

/* One exchange up to the finished answer; the status of whatever failed first. */
static enum attn_status run(const char *codec, const char *body, size_t length) {
    static const size_t shape[] = {1};
    struct exchange_under_test exchange = decode_bytes(codec, body, length, QUERY, 2);
    if (exchange.status != ATTN_OK) {
        ck_assert_ptr_null(exchange.request.storage);
        return exchange.status;
    }
    struct attn_result result;
    struct codec_answer answer;
    const struct attn_call call = {.B = 1};
    output_only(&result, ATTN_FLOAT32, 1, shape);
    const enum attn_status status =
        codec_find(codec)->lay_out(&call, &exchange.request, &result, &answer, &exchange.error);
    if (status != ATTN_OK)
        ck_assert_ptr_null(answer.buffer);
    codec_answer_close(&answer);
    codec_request_close(&exchange.request);
    return status;
}

static void fail_everywhere(const char *codec, const char *body, size_t length) {
    size_t failures = 0;
    for (failing = 1;; failing++, failures++) {
        taken = 0;
        const enum attn_status status = run(codec, body, length);
        if (taken < failing) {
            ck_assert_int_eq(status, ATTN_OK);
            break;
        }
        ck_assert_int_eq(status, ATTN_NO_MEMORY);
    }
    failing = 0;
    ck_assert_uint_ge(failures, 4);
}

START_TEST(json_without_memory) {
    fail_everywhere("json", JSON_BODY, sizeof JSON_BODY - 1);
}
END_TEST

START_TEST(safetensors_without_memory) {
    static const char header[] =
        "{\"q\":{\"dtype\":\"F32\",\"shape\":[1,1],\"data_offsets\":[0,4]},"
        "\"k\":{\"dtype\":\"F32\",\"shape\":[1,1],\"data_offsets\":[4,8]},"
        "\"v\":{\"dtype\":\"F32\",\"shape\":[1,1],\"data_offsets\":[8,12]},"
        "\"__metadata__\":{\"attention\":\"{\\\"mask\\\":\\\"causal\\\",\\\"sink\\\":[1]}\"}}";
    char body[512] = {0};
    const uint64_t length = sizeof header - 1;
    memcpy(body, &length, sizeof length);
    memcpy(body + 8, header, length);
    fail_everywhere("safetensors", body, 8 + length + 12);
}
END_TEST

START_TEST(npz_without_memory) {
    static const char options[] = "{\"mask\":\"causal\",\"sink\":[1]}";
    static struct archive archive;
    archive_operands(&archive, PACK_DEFLATED);
    archive_array(&archive, "options.npy", DICT("|S28", ""), options, sizeof options - 1,
                  PACK_STORED);
    archive_finish(&archive, false);
    fail_everywhere("npz", archive.bytes, archive.length);
}
END_TEST

/* Up to the request: its answer takes a block of its own, as those of the others. */
START_TEST(oip_without_memory) {
    static const char body[] =
        "{\"inputs\":[{\"name\":\"q\",\"datatype\":\"FP32\",\"shape\":[1,1],\"data\":[1]},"
        "{\"name\":\"k\",\"datatype\":\"FP32\",\"shape\":[1,1],\"data\":[1]},"
        "{\"name\":\"v\",\"datatype\":\"FP32\",\"shape\":[1,1],\"data\":[1]}]}";
    const struct oip_head head = {.model = oip_model_at(0)};
    const struct codec_input input = {
        .body = body, .length = sizeof body - 1, .schema = head.model->schema, .oip = &head};
    size_t failures = 0;
    for (failing = 1;; failing++, failures++) {
        struct exchange_under_test exchange = {.status = ATTN_OK};
        taken = 0;
        exchange.status = CODEC_OIP.decode(&input, &exchange.request, &exchange.error);
        ck_assert_int_eq(exchange.status, exchange.error.status);
        if (taken < failing) {
            ck_assert_int_eq(exchange.status, ATTN_OK);
            codec_request_close(&exchange.request);
            break;
        }
        ck_assert_int_eq(exchange.status, ATTN_NO_MEMORY);
        ck_assert_ptr_null(strstr(exchange.error.detail, OIP_LENGTH_HEADER));
    }
    failing = 0;
    ck_assert_uint_ge(failures, 2);
}
END_TEST

static Suite *codec_memory_suite(void) {
    Suite *const suite = suite_create("codec_memory");
    TCase *const tests = tcase_create("memory");
    tcase_add_test(tests, json_without_memory);
    tcase_add_test(tests, safetensors_without_memory);
    tcase_add_test(tests, npz_without_memory);
    tcase_add_test(tests, oip_without_memory);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(codec_memory_suite)
