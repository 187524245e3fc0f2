/* SPDX-License-Identifier: Apache-2.0 */
/* The safetensors codec: tensors in place, hostile headers, and answers that read back. */
#include <stdlib.h>

#include "tests/support/random.h"
#include "tests/support/test_main.h"
#include "tests/unit/server/codec_fixture.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))
#define ENTRY(name, dtype, shape, begin, end)                                               \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" #begin \
    "," #end "]}"
#define Q ENTRY("q", "F32", "1,2", 0, 8)
#define K ENTRY("k", "F32", "2,2", 8, 24)
#define V ENTRY("v", "F32", "2,1", 24, 32)
#define OPTIONS(text) "\"__metadata__\":{\"attention\":\"" text "\"}"

enum { BODY_ROOM = 4096 };

/* A body of this header and `data` bytes 0, 1, 2, ...; the buffer is aligned to 64. */
static size_t make_body(char body[BODY_ROOM], const char *header, size_t data) {
    const uint64_t length = strlen(header);
    memcpy(body, &length, sizeof length);
    memcpy(body + 8, header, length);
    for (size_t i = 0; i < data; i++)
        body[8 + length + i] = (char)i;
    return 8 + length + data;
}

static struct exchange_under_test decode_file(const char *header, size_t data) {
    static _Alignas(64) char body[BODY_ROOM];
    const size_t length = make_body(body, header, data);
    return decode_bytes("safetensors", body, length, NULL, 0);
}

/* The header is padded so that the data begins at `residue` past a multiple of 64. */
static void check_in_place(size_t residue, bool in_place) {
    static _Alignas(64) char body[BODY_ROOM];
    char header[512];
    const size_t size = (size_t)sprintf(header, "{%s,%s,%s}", Q, K, V);
    const size_t padding = (128 + 64 + residue - (8 + size) % 64) % 64 + 64;
    memset(header + size, ' ', padding);
    header[size + padding] = 0;
    const size_t length = make_body(body, header, 32);
    struct exchange_under_test exchange = decode_bytes("safetensors", body, length, NULL, 0);
    ck_assert_int_eq(exchange.status, ATTN_OK);
    const struct attn_tensor *const k = &exchange.request.attention.k;
    const char *const data = body + length - 32;
    ck_assert_uint_eq((uintptr_t)data % 64, residue);
    ck_assert(((const char *)k->data == data + 8) == in_place);
    ck_assert_uint_eq((uintptr_t)k->data % 4, 0);
    ck_assert_mem_eq(k->data, data + 8, 16);
    codec_request_close(&exchange.request);
}

START_TEST(aligned_tensors_stay_where_they_are) {
    check_in_place(0, true);
    check_in_place(4, true);
    check_in_place(1, false);
    check_in_place(62, false);
}
END_TEST

START_TEST(options_and_named_tensors) {
    struct exchange_under_test exchange = decode_file(
        "{" Q "," K "," V
        "," ENTRY("m", "BOOL", "1,2", 32, 34) "," ENTRY("bias", "F16", "1", 34, 36) "," OPTIONS(
            "{\\\"scale\\\":0.25,\\\"mask\\\":{\\\"type\\\":\\\"allow\\\","
            "\\\"tensor\\\":\\\"m\\\"},\\\"q_offset\\\":[0,1]}") "}",
        36);
    const struct attn_request *const a = &exchange.request.attention;
    ck_assert_msg(exchange.status == ATTN_OK, "%s", exchange.error.detail);
    ck_assert(a->scale == 0.25 && a->q_offset.count == 2);
    ck_assert_int_eq(a->mask.nodes[0].tensor.dtype, ATTN_BOOL);
    ck_assert_int_eq(a->bias.dtype, ATTN_FLOAT16);
    ck_assert_int_eq(a->q.dtype, ATTN_FLOAT32);
    ck_assert_int_eq(exchange.request.encoding, CODEC_NESTED);
    codec_request_close(&exchange.request);
}
END_TEST

/* More than a short text's room, and arrays of numbers inside the options. */
START_TEST(long_options) {
    char header[BODY_ROOM];
    int at = sprintf(header,
                     "{%s,%s,%s,\"__metadata__\":{\"other\":\"x\",\"attention\":\"{"
                     "\\\"sink\\\":[",
                     Q, K, V);
    for (int i = 0; i < 300; i++)
        at += sprintf(header + at, "%d,", i);
    sprintf(header + at, "1.5]}\"}}");
    struct exchange_under_test exchange = decode_file(header, 32);
    ck_assert_msg(exchange.status == ATTN_OK, "%s", exchange.error.detail);
    ck_assert_uint_eq(exchange.request.attention.sink.count, 301);
    ck_assert(exchange.request.attention.sink.values[300] == 1.5);
    codec_request_close(&exchange.request);
}
END_TEST

START_TEST(the_query_string_counts_too) {
    static _Alignas(64) char body[BODY_ROOM];
    static const struct codec_query_option query = {"scale", "2"};
    static const struct refusal twice = {"", ATTN_OPTION_TWICE, "/scale", "scale"};
    size_t length = make_body(body, "{" Q "," K "," V "}", 32);
    struct exchange_under_test exchange = decode_bytes("safetensors", body, length, &query, 1);
    ck_assert_int_eq(exchange.status, ATTN_OK);
    ck_assert(exchange.request.attention.scale == 2);
    codec_request_close(&exchange.request);
    length = make_body(body, "{" Q "," K "," V "," OPTIONS("{\\\"scale\\\":1}") "}", 32);
    exchange = decode_bytes("safetensors", body, length, &query, 1);
    check_refused(&exchange, &twice);
}
END_TEST

static const struct {
    struct refusal refusal;
    size_t data;
} REFUSALS[] = {
    {{"", ATTN_MALFORMED, "", "has a length of 0"}, 32},
    {{"[]", ATTN_MALFORMED, "", "object"}, 0},
    {{"{\"q\":}", ATTN_MALFORMED, "", "not valid JSON"}, 32},
    {{"{" Q "," K "," V "," Q "}", ATTN_MALFORMED, "", "twice"}, 32},
    {{"{" Q "," K "}", ATTN_MISSING_FIELD, "v", "v"}, 24},
    {{"{" Q "," K "," V "}", ATTN_MALFORMED, "v", "ends at byte 32"}, 28},
    {{"{" Q "," K "," V "}", ATTN_MALFORMED, "", "40 bytes of data"}, 40},
    {{"{" Q "," ENTRY("k", "F32", "2,2", 12, 28) "," ENTRY("v", "F32", "2,1", 28, 36) "}",
      ATTN_MALFORMED, "k", "holes"},
     36},
    {{"{" Q "," ENTRY("k", "F32", "2,2", 4, 20) "," ENTRY("v", "F32", "2,1", 20, 28) "}",
      ATTN_MALFORMED, "k", "overlap"},
     28},
    {{"{" ENTRY("q", "F32", "1,3", 0, 8) "," K "," V "}", ATTN_MALFORMED, "q", "span 8"}, 32},
    {{"{" ENTRY("q", "F32", "1,2", 8, 0) "," K "," V "}", ATTN_MALFORMED, "q", "rising"}, 32},
    {{"{" ENTRY("q", "F32", "1,2", -8, 0) "," K "," V "}", ATTN_MALFORMED, "q", "rising"}, 32},
    {{"{" ENTRY("q", "F32", "-1,2", 0, 8) "," K "," V "}", ATTN_MALFORMED, "q", "negative"}, 32},
    {{"{" ENTRY("q", "F32", "1.5,2", 0, 8) "," K "," V "}", ATTN_MALFORMED, "q", "1.5"}, 32},
    {{"{" ENTRY("q", "F32", "1,1,1,1,1,2", 0, 8) "," K "," V "}", ATTN_BAD_SHAPE, "q", "rank"}, 32},
    {{"{" ENTRY("q", "F32", "4194305,211106198978564", 0, 8) "," K "," V "}", ATTN_MALFORMED, "q",
      "more bytes than can be counted"},
     32},
    {{"{" ENTRY("q", "F8_E4M3", "1,8", 0, 8) "," K "," V "}", ATTN_MALFORMED, "q", "F8_E4M3"}, 32},
    {{"{" ENTRY("q", "float32", "1,2", 0, 8) "," K "," V "}", ATTN_MALFORMED, "q", "float32"}, 32},
    {{"{\"q\":[1]}", ATTN_MALFORMED, "q", "exactly"}, 8},
    {{"{\"q\":{\"dtype\":7,\"shape\":[2],\"data_offsets\":[0,8]}}", ATTN_MALFORMED, "q",
      "but the number 7 came"},
     8},
    {{"{" ENTRY("m", "F32", "0", 0, 0) "," Q "," K "," V "}", ATTN_UNKNOWN_FIELD, "m", "tensor"},
     32},
    {{"{" Q "," K "," V "," ENTRY("m", "F32", "0", 0, 0) "}", ATTN_UNKNOWN_FIELD, "m", "tensor"},
     32},
    {{"{" Q "," ENTRY("m", "F32", "0", 8, 8) "," K "," V "," ENTRY("mm", "F32", "0", 8, 8) "}",
      ATTN_UNKNOWN_FIELD, "m", "tensor"},
     32},
    {{"{\"q\":{\"dtype\":\"F32\",\"shape\":[2],\"offsets\":[0,8]}}", ATTN_MALFORMED, "q",
      "data_offsets"},
     8},
    {{"{\"__metadata__\":7," Q "," K "," V "}", ATTN_MALFORMED, "__metadata__", "object"}, 32},
    {{"{\"__metadata__\":{\"attention\":{}}," Q "," K "," V "}", ATTN_BAD_TYPE, "__metadata__",
      "a text"},
     32},
    {{"{" Q "," K "," V "," OPTIONS("{scale:1}") "}", ATTN_MALFORMED, "", "The attention text"},
     32},
    {{"{" Q "," K "," V "," OPTIONS("[1]") "}", ATTN_BAD_TYPE, "__metadata__", "object"}, 32},
    {{"{" Q "," K "," V "," OPTIONS("{\\\"scal\\\":1}") "}", ATTN_UNKNOWN_FIELD, "scal", "scale"},
     32},
    {{"{" Q "," K "," V "," OPTIONS("{\\\"bias\\\":\\\"b\\\"}") "}", ATTN_BAD_VALUE, "b", "\"b\""},
     32},
    {{"{" Q "," K "," V "," OPTIONS("{\\\"mask\\\":{\\\"type\\\":\\\"allow\\\",\\\"tensor\\\":"
                                    "\\\"nowhere\\\"}}") "}",
      ATTN_BAD_MASK, "nowhere", "nowhere"},
     32},
    {{"{" Q "," K "," V "," ENTRY("w", "F32", "1", 32, 36) "}", ATTN_UNKNOWN_FIELD, "w", "tensor"},
     36},
    {{"{" Q "," K "," V "," ENTRY("scale", "F32", "1", 32, 36) "}", ATTN_UNKNOWN_FIELD, "scale",
      "is an option"},
     36},
};

START_TEST(refuses_files) {
    const struct exchange_under_test exchange =
        decode_file(REFUSALS[_i].refusal.body, REFUSALS[_i].data);
    check_refused(&exchange, &REFUSALS[_i].refusal);
}
END_TEST

/* What the first eight bytes say is believed only within the body. */
START_TEST(refuses_header_lengths) {
    static const uint64_t lengths[] = {0, 33, 1000, UINT64_C(1) << 40, UINT64_MAX, UINT64_MAX - 7};
    char body[40] = {0};
    for (size_t i = 0; i < COUNT(lengths); i++) {
        static const struct refusal wrong = {"", ATTN_MALFORMED, "", "32 bytes follow"};
        memcpy(body, &lengths[i], sizeof *lengths);
        body[8] = '{';
        const struct exchange_under_test exchange =
            decode_bytes("safetensors", body, sizeof body, NULL, 0);
        check_refused(&exchange, &wrong);
    }
}
END_TEST

START_TEST(refuses_a_hundred_thousand_entries) {
    enum { ENTRIES = 100000, ENTRY_SIZE = 64 };
    static const struct refusal many = {"", ATTN_MALFORMED, "", "The safetensors header has more"};
    char *const body = malloc(8 + (size_t)ENTRIES * ENTRY_SIZE);
    size_t at = 8;
    for (int i = 0; i < ENTRIES; i++)
        at += (size_t)sprintf(body + at,
                              "%c\"%d\":{\"dtype\":\"U8\",\"shape\":[0],"
                              "\"data_offsets\":[0,0]}",
                              i == 0 ? '{' : ',', i);
    body[at++] = '}';
    const uint64_t length = at - 8;
    memcpy(body, &length, sizeof length);
    const struct exchange_under_test exchange = decode_bytes("safetensors", body, at, NULL, 0);
    check_refused(&exchange, &many);
    free(body);
}
END_TEST

static const char WHOLE[] = "{" Q "," K "," V "," ENTRY("m", "BOOL", "2", 32, 34) "," OPTIONS(
    "{\\\"mask\\\":{\\\"type\\\":\\\"hide\\\",\\\"tensor\\\":\\\"m\\\"}}") "}";

START_TEST(every_truncation_is_refused) {
    static _Alignas(64) char body[BODY_ROOM];
    const size_t whole = make_body(body, WHOLE, 34);
    struct guard_page guard = guard_page_create(BODY_ROOM);
    for (size_t length = 0; length < whole; length++) {
        const struct exchange_under_test exchange =
            decode_bytes("safetensors", guard_page_copy(&guard, body, length), length, NULL, 0);
        ck_assert_int_eq(exchange.status, ATTN_MALFORMED);
    }
    guard_page_free(&guard);
}
END_TEST

START_TEST(mutations_are_survived) {
    static _Alignas(64) char body[BODY_ROOM], changed[BODY_ROOM];
    const size_t whole = make_body(body, WHOLE, 34);
    struct guard_page guard = guard_page_create(BODY_ROOM);
    struct random random = random_seeded(3);
    int understood = 0;
    for (int round = 0; round < 20000; round++) {
        memcpy(changed, body, whole);
        for (uint64_t edits = 1 + random_below(&random, 3); edits > 0; edits--)
            changed[random_below(&random, whole)] =
                "0123456789[]{}\":,\\FIU\x00\xff"[random_below(&random, 24)];
        struct exchange_under_test exchange =
            decode_bytes("safetensors", guard_page_copy(&guard, changed, whole), whole, NULL, 0);
        understood += exchange.status == ATTN_OK;
        if (exchange.status == ATTN_OK)
            codec_request_close(&exchange.request);
    }
    ck_assert_int_gt(understood, 0);
    guard_page_free(&guard);
}
END_TEST

static void want(struct attn_result *result, enum attn_result_name name, enum attn_dtype dtype,
                 size_t rows) {
    struct attn_result_tensor *const tensor = &result->tensors[name];
    *tensor =
        (struct attn_result_tensor){.wanted = true, .dtype = dtype, .rank = 1, .shape = {rows}};
    tensor->bytes = rows * attn_dtype_size(dtype);
}

/* Output, weights and lse of three sizes, the largest elements first, every bit kept. */
START_TEST(answers_read_back) {
    static const size_t shape[] = {3};
    static const uint16_t halves[] = {0x3c00, 0x7c00, 0xfe01};
    static const double rows[] = {1.5, -0.0};
    const struct codec *const codec = codec_find("safetensors");
    struct exchange_under_test exchange = decode_file("{" Q "," K "," V "}", 32);
    struct attn_result result;
    output_only(&result, ATTN_FLOAT16, 1, shape);
    want(&result, ATTN_RESULT_WEIGHTS, ATTN_FLOAT32, 5);
    want(&result, ATTN_RESULT_LSE, ATTN_FLOAT64, 2);
    struct codec_answer answer;
    struct attn_error error = {.status = ATTN_OK};
    const struct attn_call call = {.B = 1, .scale = 0.5};
    const struct codec_report report = {.id = "id",
                                        .call = &call,
                                        .kernel = "blas",
                                        .decode_ms = 1,
                                        .queue_ms = 2,
                                        .compute_ms = 3,
                                        .flops = 4};
    ck_assert_int_eq(codec->lay_out(&call, &exchange.request, &result, &answer, &error), ATTN_OK);
    memcpy(result.tensors[ATTN_RESULT_OUTPUT].data, halves, sizeof halves);
    memcpy(result.tensors[ATTN_RESULT_LSE].data, rows, sizeof rows);
    memset(result.tensors[ATTN_RESULT_WEIGHTS].data, 0, 20);
    ck_assert_uint_eq((uintptr_t)result.tensors[ATTN_RESULT_LSE].data % 64, 0);
    ck_assert_int_eq(codec->finish(&report, &exchange.request, &result, &answer, &error), ATTN_OK);

    const char *const bytes = (const char *)answer.buffer + answer.offset;
    uint64_t header;
    memcpy(&header, bytes, sizeof header);
    ck_assert_uint_eq((8 + header) % 64, 0);
    ck_assert_uint_eq(answer.length, 8 + header + sizeof rows + 20 + sizeof halves);
    char text[4096] = {0};
    memcpy(text, bytes + 8, header);
    static const char *const parts[] = {
        "{\"__metadata__\":{\"meta\":\"{\\\"id\\\":\\\"id\\\",",
        "\"lse\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[0,16]}",
        "\"weights\":{\"dtype\":\"F32\",\"shape\":[5],\"data_offsets\":[16,36]}",
        "\"output\":{\"dtype\":\"F16\",\"shape\":[3],\"data_offsets\":[36,42]}"};
    for (size_t i = 0; i < COUNT(parts); i++)
        ck_assert_msg(strstr(text, parts[i]) != NULL, "%s lacks %s", text, parts[i]);
    ck_assert_mem_eq(bytes + 8 + header, rows, sizeof rows);
    ck_assert_mem_eq(bytes + 8 + header + 36, halves, sizeof halves);
    codec_answer_close(&answer);
    ck_assert_ptr_null(answer.buffer);
    codec_request_close(&exchange.request);
}
END_TEST

static Suite *codec_safetensors_suite(void) {
    Suite *const suite = suite_create("codec_safetensors");
    TCase *const tests = tcase_create("safetensors");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, aligned_tensors_stay_where_they_are);
    tcase_add_test(tests, options_and_named_tensors);
    tcase_add_test(tests, long_options);
    tcase_add_test(tests, the_query_string_counts_too);
    tcase_add_loop_test(tests, refuses_files, 0, COUNT(REFUSALS));
    tcase_add_test(tests, refuses_header_lengths);
    tcase_add_test(tests, refuses_a_hundred_thousand_entries);
    tcase_add_test(tests, every_truncation_is_refused);
    tcase_add_test(tests, mutations_are_survived);
    tcase_add_test(tests, answers_read_back);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(codec_safetensors_suite)
