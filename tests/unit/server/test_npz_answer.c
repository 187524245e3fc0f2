/* SPDX-License-Identifier: Apache-2.0 */
/* Answers as npz and npy: where tensors lie, what the records say, and what numpy cannot hold. */
#include "server/codecs/npy_header.h"
#include "tests/support/test_main.h"
#include "tests/unit/server/npz_fixture.h"

static const struct codec_request REQUEST = {.encoding = CODEC_NESTED};

static uint64_t get(const char *at, size_t bytes) {
    uint64_t value = 0;
    memcpy(&value, at, bytes);
    return value;
}

static void want(struct attn_result *result, enum attn_result_name name, enum attn_dtype dtype,
                 size_t rows) {
    struct attn_result_tensor *const tensor = &result->tensors[name];
    *tensor =
        (struct attn_result_tensor){.wanted = true, .dtype = dtype, .rank = 1, .shape = {rows}};
    tensor->bytes = rows * attn_dtype_size(dtype);
}

/* A member as the directory has it: its name and its array, behind headers that agree. */
static const char *next_member(const char *archive, const char **entry, char name[40],
                               size_t *bytes) {
    const char *const found = *entry;
    ck_assert_uint_eq(get(found, 4), 0x02014b50);
    const size_t length = get(found + 28, 2);
    memcpy(name, found + 46, length);
    name[length] = 0;
    const char *const numbers = found + 46 + length + 4;
    ck_assert_uint_eq(get(numbers - 4, 4), 1 | 24 << 16);
    *bytes = get(numbers, 8);
    ck_assert_uint_eq(get(numbers + 8, 8), *bytes);
    const char *const local = archive + get(numbers + 16, 8);
    const size_t extra = get(local + 28, 2);
    ck_assert_uint_eq(get(local, 4), 0x04034b50);
    ck_assert_mem_eq(local + 30, name, length);
    ck_assert_uint_eq(get(local + 30 + length + 4, 8), *bytes);
    const char *const data = local + 30 + length + extra;
    ck_assert_uint_eq((size_t)(data - archive) % 64, 0);
    ck_assert_uint_eq(crc32(0, (const Bytef *)data, (uInt)*bytes), get(found + 16, 4));
    ck_assert_uint_eq(get(local + 14, 4), get(found + 16, 4));
    ck_assert_mem_eq(data, "\x93NUMPY\1\0", 8);
    ck_assert_uint_eq((10 + get(data + 8, 2)) % 64, 0);
    *entry = numbers + 24;
    return data;
}

/* The output of halves, lse of doubles, and statistics as a text. */
START_TEST(members_in_the_order_of_the_directory) {
    static const size_t shape[] = {3, 1};
    static const uint16_t halves[] = {0x3c00, 0x7c00, 0xfe01};
    static const char *const names[] = {"output.npy", "lse.npy", "stats.npy", "meta.npy"};
    static const char dict[] = "{'descr': '<f2', 'fortran_order': False, 'shape': (3, 1, ), }";
    static const double lse[] = {1.5, -0.0};
    static const struct {
        const void *bytes;
        size_t count;
    } beginnings[] = {{halves, sizeof halves},
                      {lse, sizeof lse},
                      {"{\0\0\0\"\0\0\0r\0\0\0o\0\0\0w\0\0\0s\0\0\0", 24},
                      {"{\0\0\0\"\0\0\0i\0\0\0d\0\0\0\"\0\0\0:\0\0\0", 24}};
    struct attn_result result;
    output_only(&result, ATTN_FLOAT16, 2, shape);
    want(&result, ATTN_RESULT_LSE, ATTN_FLOAT64, 2);
    result.tensors[ATTN_RESULT_STATS] = (struct attn_result_tensor){
        .wanted = true, .dtype = ATTN_FLOAT64, .rank = 2, .shape = {ATTN_STATS, 1}};
    result.tensors[ATTN_RESULT_STATS].bytes = ATTN_STATS * sizeof(double);
    const struct codec *const codec = codec_find("npz");
    struct codec_answer answer;
    struct attn_error error = {.status = ATTN_OK};
    const struct attn_call call = {.B = 1, .scale = 0.5};
    const struct codec_report report = {.id = "id", .call = &call, .kernel = "blas"};
    ck_assert_int_eq(codec->lay_out(&call, &REQUEST, &result, &answer, &error), ATTN_OK);
    memcpy(result.tensors[ATTN_RESULT_OUTPUT].data, halves, sizeof halves);
    memcpy(result.tensors[ATTN_RESULT_LSE].data, lse, sizeof lse);
    memset(result.tensors[ATTN_RESULT_STATS].data, 0, ATTN_STATS * sizeof(double));
    ck_assert_uint_eq((uintptr_t)result.tensors[ATTN_RESULT_LSE].data % 64, 0);
    ck_assert_int_eq(codec->finish(&report, &REQUEST, &result, &answer, &error), ATTN_OK);
    ck_assert_uint_le(answer.length, answer.capacity);

    const char *const archive = (const char *)answer.buffer + answer.offset;
    const char *const end = archive + answer.length - 22;
    ck_assert_uint_eq(get(end, 4), 0x06054b50);
    ck_assert_uint_eq(get(end - 20, 4), 0x07064b50);
    const char *const end64 = archive + get(end - 20 + 8, 8);
    ck_assert_ptr_eq(end64, end - 20 - 56);
    ck_assert_uint_eq(get(end64 + 32, 8), 4);
    const char *entry = archive + get(end64 + 48, 8);
    for (size_t i = 0; i < 4; i++) {
        char name[40];
        size_t bytes;
        const char *const data = next_member(archive, &entry, name, &bytes);
        ck_assert_str_eq(name, names[i]);
        const char *const array = data + 10 + get(data + 8, 2);
        ck_assert_mem_eq(array, beginnings[i].bytes, beginnings[i].count);
        if (i < 2)
            ck_assert_ptr_eq(array + beginnings[i].count, data + bytes);
        if (i == 0)
            ck_assert_mem_eq(data + 10, dict, sizeof dict - 1);
    }
    ck_assert_ptr_eq(entry, end64);
    codec_answer_close(&answer);
}
END_TEST

START_TEST(one_array_is_a_file) {
    static const size_t shape[] = {2, 1};
    static const float numbers[] = {1, 2};
    static const char dict[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1, ), }";
    struct attn_result result;
    output_only(&result, ATTN_FLOAT32, 2, shape);
    struct codec_answer answer = answer_with(codec_find("npy"), &REQUEST, &result, numbers);
    const char *const bytes = (const char *)answer.buffer + answer.offset;
    const size_t header = 10 + get(bytes + 8, 2);
    ck_assert_mem_eq(bytes, "\x93NUMPY\1\0", 8);
    ck_assert_mem_eq(bytes + 10, dict, sizeof dict - 1);
    ck_assert_int_eq(bytes[header - 1], '\n');
    ck_assert_uint_eq(answer.length, header + sizeof numbers);
    ck_assert_mem_eq(bytes + header, numbers, sizeof numbers);
    codec_answer_close(&answer);
}
END_TEST

/* The longest header that there can be. */
START_TEST(empty_arrays_of_any_shape) {
    static const size_t shape[] = {0, SIZE_MAX, SIZE_MAX, SIZE_MAX, SIZE_MAX};
    struct attn_result result = {.tensors[ATTN_RESULT_OUTPUT] = {.wanted = true, .rank = 5}};
    memcpy(result.tensors[ATTN_RESULT_OUTPUT].shape, shape, sizeof shape);
    struct codec_answer answer = answer_with(codec_find("npy"), &REQUEST, &result, "");
    ck_assert_ptr_nonnull(strstr((const char *)answer.buffer + 10,
                                 "(0, 18446744073709551615, 18446744073709551615, "
                                 "18446744073709551615, 18446744073709551615, ), }"));
    codec_answer_close(&answer);
}
END_TEST

static void check_lay_out(const char *name, struct attn_result *result,
                          const struct refusal *expected) {
    const struct attn_call call = {.B = 1};
    struct codec_answer answer;
    struct exchange_under_test exchange = {.status = ATTN_OK};
    exchange.status = codec_find(name)->lay_out(&call, &REQUEST, result, &answer, &exchange.error);
    check_refused(&exchange, expected);
    ck_assert_ptr_null(answer.buffer);
}

START_TEST(refuses_what_numpy_cannot_hold) {
    static const size_t shape[] = {3};
    static const struct refusal half = {"", ATTN_BAD_DTYPE, "/output_dtype",
                                        "application/vnd.safetensors"};
    static const struct refusal several = {"", ATTN_BAD_VALUE, "/return", "application/x-npz"};
    struct attn_result result;
    output_only(&result, ATTN_BFLOAT16, 1, shape);
    check_lay_out("npz", &result, &half);
    check_lay_out("npy", &result, &half);
    output_only(&result, ATTN_FLOAT32, 1, shape);
    want(&result, ATTN_RESULT_LSE, ATTN_FLOAT32, 3);
    check_lay_out("npy", &result, &several);
    result.tensors[ATTN_RESULT_LSE].wanted = false;
    result.tensors[ATTN_RESULT_STATS].wanted = true;
    check_lay_out("npy", &result, &several);
}
END_TEST

/* Sizes whose sum no memory has. */
START_TEST(refuses_more_than_can_be_addressed) {
    static const struct refusal large = {"", ATTN_RESULT_TOO_LARGE, "", "addressed"};
    static const size_t shape[] = {1};
    struct attn_result result;
    size_t bytes;
    output_only(&result, ATTN_FLOAT32, 1, shape);
    result.tensors[ATTN_RESULT_OUTPUT].bytes = SIZE_MAX - 100;
    ck_assert(!codec_find("npz")->answer_bytes(NULL, &REQUEST, &result, &bytes));
    ck_assert(!codec_find("npy")->answer_bytes(NULL, &REQUEST, &result, &bytes));
    check_lay_out("npz", &result, &large);
    check_lay_out("npy", &result, &large);
}
END_TEST

START_TEST(bytes_have_no_order) {
    char header[NPY_BYTES + 1] = "";
    npy_header_write(header, ATTN_UINT8, 2, (const size_t[]){3, 4});
    ck_assert_ptr_nonnull(strstr(header + 10, "'descr': '|u1'"));
    ck_assert_ptr_nonnull(strstr(header + 10, "(3, 4, )"));
    npy_header_write(header, ATTN_INT32, 1, (const size_t[]){5});
    ck_assert_ptr_nonnull(strstr(header + 10, "'descr': '<i4'"));
}
END_TEST

static Suite *npz_answer_suite(void) {
    Suite *const suite = suite_create("npz_answer");
    TCase *const tests = tcase_create("answers");
    tcase_add_test(tests, bytes_have_no_order);
    tcase_add_test(tests, members_in_the_order_of_the_directory);
    tcase_add_test(tests, one_array_is_a_file);
    tcase_add_test(tests, empty_arrays_of_any_shape);
    tcase_add_test(tests, refuses_what_numpy_cannot_hold);
    tcase_add_test(tests, refuses_more_than_can_be_addressed);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(npz_answer_suite)
