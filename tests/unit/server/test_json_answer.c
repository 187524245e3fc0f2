/* SPDX-License-Identifier: Apache-2.0 */
/* JSON answers: tensors that read back to the same bits, empty shapes, and meta. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "tests/support/random.h"
#include "tests/support/test_main.h"
#include "tests/unit/server/codec_fixture.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))
#define KV "\"k\":[[1]],\"v\":[[1]]"

static const struct {
    const char *encoding;
    enum attn_dtype dtype;
} ROUND_TRIPS[] = {
    {"nested", ATTN_FLOAT32}, {"flat", ATTN_FLOAT32},    {"base64", ATTN_FLOAT32},
    {"flat", ATTN_FLOAT64},   {"base64", ATTN_FLOAT64},  {"flat", ATTN_FLOAT16},
    {"flat", ATTN_BFLOAT16},  {"base64", ATTN_BFLOAT16},
};

/* Random bits out as an answer's output, and in again as a request's q: the same bits. */
START_TEST(tensors_survive_the_round_trip) {
    enum { ELEMENTS = 2 * 3 * 5 * 7 };
    static const size_t shape[] = {2, 3, 5, 7};
    struct random random = random_seeded(11);
    uint64_t raw[ELEMENTS];
    char body[128];
    const enum attn_dtype dtype = ROUND_TRIPS[_i].dtype;
    for (size_t i = 0; i < ELEMENTS; i++)
        raw[i] = random_next(&random);
    /* NaN has one text but many bits: out with the exponents that are all ones. */
    for (size_t i = 0; i < sizeof raw / 2; i++)
        ((uint16_t *)(void *)raw)[i] &= 0xbfff;
    sprintf(body, "{\"q\":[[1]]," KV ",\"encoding\":\"%s\"}", ROUND_TRIPS[_i].encoding);
    struct codec_request request = decoded_json(body);
    struct attn_result result;
    output_only(&result, dtype, 4, shape);
    struct codec_answer answer = answer_with(codec_find("json"), &request, &result, raw);

    json_t *const root = json_loadb((char *)answer.buffer + answer.offset, answer.length, 0, NULL);
    ck_assert_ptr_nonnull(root);
    json_t *const back =
        json_pack("{s:O,s:[[i]],s:[[i]]}", "q", json_object_get(root, "output"), "k", 1, "v", 1);
    ck_assert_ptr_nonnull(back);
    char *const text = json_dumps(back, JSON_REAL_PRECISION(17));
    struct codec_request again = decoded_json(text);
    ck_assert_int_eq(again.attention.q.dtype, dtype);
    ck_assert_int_eq(again.attention.q.rank, 4);
    ck_assert_mem_eq(again.attention.q.shape, shape, sizeof shape);
    ck_assert_mem_eq(again.attention.q.data, raw, ELEMENTS * attn_dtype_size(dtype));
    free(text);
    json_decref(back);
    json_decref(root);
    codec_request_close(&again);
    codec_request_close(&request);
    codec_answer_close(&answer);
}
END_TEST

static const struct {
    int rank;
    size_t shape[4];
    const char *text;
} EMPTY[] = {
    {2, {0, 3}, "{\"output\":[],"},         {2, {2, 0}, "{\"output\":[[],[]],"},
    {3, {2, 0, 3}, "{\"output\":[[],[]],"}, {4, {1, 2, 1, 0}, "{\"output\":[[[[]],[[]]]],"},
    {1, {2}, "{\"output\":[0,0],"},
};

START_TEST(empty_answers_keep_their_shape) {
    static const float zeros[2] = {0, 0};
    struct codec_request request = decoded_json("{\"q\":[[1]]," KV "}");
    struct attn_result result;
    output_only(&result, ATTN_FLOAT32, EMPTY[_i].rank, EMPTY[_i].shape);
    struct codec_answer answer = answer_with(codec_find("json"), &request, &result, zeros);
    ck_assert_uint_ge(answer.length, strlen(EMPTY[_i].text));
    ck_assert_mem_eq(answer.buffer, EMPTY[_i].text, strlen(EMPTY[_i].text));
    codec_request_close(&request);
    codec_answer_close(&answer);
}
END_TEST

START_TEST(meta_tells_what_was_done) {
    static const size_t shape[] = {1};
    static const float value = INFINITY;
    struct codec_request request = decoded_json("{\"q\":[[1]]," KV "}");
    struct attn_result result;
    output_only(&result, ATTN_FLOAT32, 1, shape);
    atomic_store(&result.non_finite, true);
    atomic_store(&result.empty_rows, 3);
    struct codec_answer answer = answer_with(codec_find("json"), &request, &result, &value);
    json_t *const root = json_loadb(answer.buffer, answer.length, 0, NULL);
    const char *id, *kernel, *mask, *word;
    int B, empty_rows, non_finite;
    double scale, compute, flops;
    ck_assert_int_eq(json_unpack(root, "{s:[s],s:{s:s,s:s,s:s,s:{s:i},s:F,s:i,s:b,s:{s:F},s:F}}",
                                 "output", &word, "meta", "id", &id, "kernel", &kernel, "mask",
                                 &mask, "shape", "B", &B, "scale", &scale, "empty_rows",
                                 &empty_rows, "non_finite", &non_finite, "timings_ms", "compute",
                                 &compute, "flops", &flops),
                     0);
    ck_assert_str_eq(word, "Infinity");
    ck_assert_str_eq(id, "id \"1\"");
    ck_assert_str_eq(kernel, "reference");
    ck_assert(B == 1 && empty_rows == 3 && non_finite == 1);
    ck_assert(scale == 0.5 && compute == 3.0 && flops == 1e9);
    json_decref(root);
    codec_request_close(&request);
    codec_answer_close(&answer);
}
END_TEST

static Suite *json_answer_suite(void) {
    Suite *const suite = suite_create("json_answer");
    TCase *const tests = tcase_create("answer");
    tcase_add_loop_test(tests, tensors_survive_the_round_trip, 0, COUNT(ROUND_TRIPS));
    tcase_add_loop_test(tests, empty_answers_keep_their_shape, 0, COUNT(EMPTY));
    tcase_add_test(tests, meta_tells_what_was_done);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(json_answer_suite)
