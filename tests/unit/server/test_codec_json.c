/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON decoder: tensors in their three forms, and hostile bodies. */
#include <math.h>
#include <stdlib.h>

#include "tests/support/random.h"
#include "tests/support/test_main.h"
#include "tests/unit/server/codec_fixture.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))
#define A16 "AAAAAAAAAAAAAAAA"
#define A256 A16 A16 A16 A16 A16 A16 A16 A16 A16 A16 A16 A16 A16 A16 A16 A16
#define KV "\"k\":[[1]],\"v\":[[1]]"

START_TEST(reads_nested_tensors) {
    struct codec_request request =
        decoded_json("{\"q\":[[1.5,-0.0],[\"NaN\",\"-Infinity\"]], \"k\":[[1e-3,2]],\"v\":[[7]]}");
    const struct attn_tensor *const q = &request.attention.q;
    ck_assert_int_eq(q->rank, 2);
    ck_assert_uint_eq(q->shape[0], 2);
    ck_assert_uint_eq(q->shape[1], 2);
    ck_assert(float_at(q, 0) == 1.5f && signbit(float_at(q, 1)) && isnan(float_at(q, 2)) &&
              float_at(q, 3) == -INFINITY);
    ck_assert(float_at(&request.attention.k, 0) == 1e-3f);
    ck_assert(float_at(&request.attention.v, 0) == 7);
    ck_assert_int_eq(request.encoding, CODEC_NESTED);
    codec_request_close(&request);
}
END_TEST

START_TEST(reads_flat_and_base64_tensors) {
    struct codec_request request =
        decoded_json("{\"q\":{\"shape\":[1,2],\"dtype\":\"float16\",\"data\":[1,65504]},"
                     "\"k\":{\"shape\":[2,1],\"dtype\":\"float64\",\"data\":[0.1,1e300]},"
                     "\"v\":{\"shape\":[1,1],\"base64\":\"AACAPw==\"}}");
    const uint16_t *const q = request.attention.q.data;
    const double *const k = request.attention.k.data;
    ck_assert_int_eq(request.attention.q.dtype, ATTN_FLOAT16);
    ck_assert(q[0] == 0x3c00 && q[1] == 0x7bff);
    ck_assert_int_eq(request.attention.k.dtype, ATTN_FLOAT64);
    ck_assert(k[0] == 0.1 && k[1] == 1e300);
    ck_assert(float_at(&request.attention.v, 0) == 1);
    ck_assert_int_eq(request.encoding, CODEC_FLAT);
    codec_request_close(&request);
}
END_TEST

/* 2^24 + 1 + 2^-30 rounds up to 2^24 + 2; by way of float64 it would be a tie, and round down. */
START_TEST(rounds_once) {
    struct codec_request request =
        decoded_json("{\"q\":[[16777217.000000000931322574615478515625]]," KV "}");
    ck_assert(float_at(&request.attention.q, 0) == 16777218.0f);
    codec_request_close(&request);
}
END_TEST

START_TEST(precision_decides_the_dtype) {
    struct codec_request request =
        decoded_json("{\"q\":[[0.1]]," KV ",\"bias\":[[0.1]],\"precision\":\"float64\"}");
    ck_assert_int_eq(request.attention.q.dtype, ATTN_FLOAT64);
    ck_assert_int_eq(request.attention.bias.dtype, ATTN_FLOAT64);
    ck_assert(*(const double *)request.attention.q.data == 0.1);
    codec_request_close(&request);
}
END_TEST

START_TEST(empty_axes_are_tensors) {
    struct codec_request request =
        decoded_json("{\"q\":[[],[]],\"k\":{\"shape\":[0,3],\"data\":[]},\"v\":[]}");
    ck_assert_int_eq(request.attention.q.rank, 2);
    ck_assert_uint_eq(request.attention.q.shape[0], 2);
    ck_assert_uint_eq(request.attention.q.shape[1], 0);
    ck_assert_uint_eq(request.attention.k.shape[1], 3);
    ck_assert_int_eq(request.attention.v.rank, 1);
    codec_request_close(&request);
}
END_TEST

/* Base64 longer than a text may be in the skeleton, with the escapes that some writers make. */
START_TEST(long_base64_with_escapes) {
    enum { FLOATS = 3000 };
    static char body[FLOATS * 8 * 6];
    int at = sprintf(body, "{\"q\":{\"shape\":[%d,1],\"base64\":\"", FLOATS);
    for (int i = 0; i < FLOATS; i += 3)
        at += sprintf(body + at, i % 2 == 0 ? "\\/\\u002f9/f///f3///z//" : "//9/f///f3///z//");
    sprintf(body + at, "\"}," KV "}");
    struct codec_request request = decoded_json(body);
    const uint32_t *const q = request.attention.q.data;
    for (int i = 0; i < FLOATS; i++)
        ck_assert_uint_eq(q[i], i % 3 == 2 ? 0xff3fffffu : 0x7f7fffffu);
    ck_assert_int_eq(request.encoding, CODEC_BASE64);
    codec_request_close(&request);
}
END_TEST

static const struct refusal MALFORMED_BODIES[] = {
    {"", ATTN_MALFORMED, "", "empty"},
    {" \n\t", ATTN_MALFORMED, "", "empty"},
    {"{", ATTN_MALFORMED, "", "ends too soon"},
    {"{\"q\":[[1,2]],\"k\":[[1", ATTN_MALFORMED, "", "(at byte 17)"},
    {"{\"q\":\"abc", ATTN_MALFORMED, "", "text that does not end"},
    {"{\"q\":[[1]]," KV "}x", ATTN_MALFORMED, "", "goes on after its end"},
    {"{\"q\":[[1]]," KV "}{}", ATTN_MALFORMED, "", "goes on after its end"},
    {"{\"q\":[[1]]," KV ",}", ATTN_MALFORMED, "", "not valid JSON"},
    {"{\"q\":[[1]]," KV ",\"scale\":1,\"scale\":2}", ATTN_MALFORMED, "", "twice"},
    {"{\"q\":[[1]]," KV ",\"kernel\":\"\xff\xfe\"}", ATTN_MALFORMED, "", "UTF-8"},
    {"{\"q\":[[1]]," KV ",\"kernel\":\"\\ud800\"}", ATTN_MALFORMED, "", "not valid JSON"},
    {"{\"q\":[[1]]," KV ",\"kernel\":\"a\\u0000\"}", ATTN_MALFORMED, "", "NUL"},
    {"{\"q\":[[1]]," KV ",\"scale\":NaN}", ATTN_MALFORMED, "", "not valid JSON"},
    {"{\"q\":[[1]]," KV ",\"scale\":01}", ATTN_MALFORMED, "", "not valid JSON"},
    {"{\"q\":[[1]]," KV ",\"scale\":+1}", ATTN_MALFORMED, "", "not valid JSON"},
    {"{\"q\":[[1]]," KV ",\"scale\":1e400}", ATTN_NUMBER_RANGE, "", "too large"},
    {"{\"q\":[[1]]," KV ",\"num_heads\":99999999999999999999}", ATTN_NUMBER_RANGE, "", "too large"},
    {"{'q':[[1]]}", ATTN_MALFORMED, "", "not valid JSON"},
    {"\xef\xbb\xbf{\"q\":[[1]]," KV "}", ATTN_MALFORMED, "", "not valid JSON"},
    {"{\"q\":[[1]]/* c */," KV "}", ATTN_MALFORMED, "", "not valid JSON"},
    {"{\"q\":[[NaN]]," KV "}", ATTN_MALFORMED, "/q", "'NaN'"},
    {"{\"q\":[[01]]," KV "}", ATTN_MALFORMED, "/q", "byte 8"},
    {"{\"q\":[[+1]]," KV "}", ATTN_MALFORMED, "/q", "not JSON"},
    {"{\"q\":[[1 2]]," KV "}", ATTN_MALFORMED, "/q", "not JSON"},
    {"{\"q\":[[" A16 A16 A16 "]]," KV "}", ATTN_MALFORMED, "/q", "AAAA...' (at byte"},
    {"{\"q\":[[1,]]," KV "}", ATTN_MALFORMED, "/q", "not JSON"},
    {"{\"q\":[[1]}]," KV "}", ATTN_MALFORMED, "/q", "not JSON"},
    {"{\"q\":[[1e999]]," KV "}", ATTN_NUMBER_RANGE, "/q", "1e999"},
    {"{\"q\":{\"shape\":[1,1],\"base64\":\"AA?AAA==\"}," KV "}", ATTN_MALFORMED, "/q",
     "character 2"},
};

static const struct refusal WRONG_TENSORS[] = {
    {"7", ATTN_BAD_TYPE, "", "the number 7"},
    {"[1,2,3]", ATTN_BAD_TYPE, "", "the list [1,2,3]"},
    {"[{}]", ATTN_BAD_TYPE, "", "object"},
    {"{" KV "}", ATTN_MISSING_FIELD, "/q", "q"},
    {"{\"q\":7," KV "}", ATTN_BAD_TYPE, "/q", "the number 7"},
    {"{\"q\":null," KV "}", ATTN_BAD_TYPE, "/q", "null"},
    {"{\"q\":\"x\"," KV "}", ATTN_BAD_TYPE, "/q", "\"x\""},
    {"{\"q\":[[1,2],[3]]," KV "}", ATTN_BAD_SHAPE, "/q", "/1"},
    {"{\"q\":[[1,2],3]," KV "}", ATTN_BAD_SHAPE, "/q", "ragged"},
    {"{\"q\":[[[[[[1]]]]]]," KV "}", ATTN_BAD_SHAPE, "/q", "rank"},
    {"{\"q\":[[[[[[[[[1]]]]]]]]]," KV "}", ATTN_BAD_SHAPE, "/q", "rank"},
    {"{\"q\":[[null]]," KV "}", ATTN_BAD_TYPE, "/q", "'null'"},
    {"{\"q\":[[1,{\"a\":2}]]," KV "}", ATTN_BAD_TYPE, "/q", "/0/1"},
    {"{\"q\":[{\"a\":2}]," KV "}", ATTN_BAD_TYPE, "/q", "/0"},
    {"{\"q\":[[true]]," KV "}", ATTN_BAD_TYPE, "/q", "'true'"},
    {"{\"q\":[[\"inf\"]]," KV "}", ATTN_BAD_VALUE, "/q", "\"inf\""},
    {"{\"q\":[[1,\"inf\"]]," KV "}", ATTN_BAD_VALUE, "/q", "\"inf\""},
    {"{\"q\":[[1e39]]," KV "}", ATTN_BAD_VALUE, "/q", "float32"},
    {"{\"q\":{\"shape\":[1],\"dtype\":\"float16\",\"data\":[65520]}," KV "}", ATTN_BAD_VALUE, "/q",
     "float16"},
    {"{\"q\":{\"shape\":[1],\"dtype\":\"bfloat16\",\"data\":[1e39]}," KV "}", ATTN_BAD_VALUE, "/q",
     "Choose a wider dtype."},
    {"{\"q\":{\"shape\":[1],\"dtype\":\"uint64\",\"data\":[-1]}," KV "}", ATTN_BAD_VALUE, "/q",
     "uint64"},
    {"{\"q\":{\"shape\":[1],\"dtype\":\"int64\",\"data\":[123456789012345678901]}," KV "}",
     ATTN_BAD_VALUE, "/q", "beyond the whole numbers"},
    {"[11111111,22222222,33333333,44444444,55555555]", ATTN_BAD_TYPE, "",
     "the list [11111111,22222222,33333333,44444444,55..."},
    {"{\"q\":{\"shape\":[1,1],\"base64\":\"\\x" A256 A256 "\"}," KV "}", ATTN_MALFORMED, "/q",
     "an escape that JSON does not know"},
    {"{\"q\":{\"shape\":[1],\"dtype\":\"uint8\",\"data\":[256]}," KV "}", ATTN_BAD_VALUE, "/q",
     "uint8"},
    {"{\"q\":{\"shape\":[1],\"dtype\":\"int8\",\"data\":[-129]}," KV "}", ATTN_BAD_VALUE, "/q",
     "int8"},
    {"{\"q\":{\"dtype\":\"float32\",\"data\":[1]}," KV "}", ATTN_MISSING_FIELD, "/q", "shape"},
    {"{\"q\":{\"shape\":[1]}," KV "}", ATTN_MISSING_FIELD, "/q", "data"},
    {"{\"q\":{\"shape\":[1],\"data\":[1],\"base64\":\"AAAAAA==\"}," KV "}", ATTN_BAD_VALUE, "/q",
     "both"},
    {"{\"q\":{\"shape\":[1],\"data\":[1],\"strides\":[1]}," KV "}", ATTN_UNKNOWN_FIELD,
     "/q/strides", "strides"},
    {"{\"q\":{\"shape\":[2,2],\"data\":[1,2,3]}," KV "}", ATTN_BAD_SHAPE, "/q", "needs 4"},
    {"{\"q\":{\"shape\":[2],\"data\":[[1,2]]}," KV "}", ATTN_BAD_SHAPE, "/q", "flat"},
    {"{\"q\":{\"shape\":[2,2],\"base64\":\"AAAAAA==\"}," KV "}", ATTN_BAD_SHAPE, "/q",
     "needs 16 bytes"},
    {"{\"q\":{\"shape\":[1],\"base64\":7}," KV "}", ATTN_BAD_TYPE, "/q", "a text"},
    {"{\"q\":{\"shape\":[1],\"data\":\"1\"}," KV "}", ATTN_BAD_TYPE, "/q", "flat list"},
    {"{\"q\":{\"shape\":[1.5],\"data\":[1]}," KV "}", ATTN_BAD_TYPE, "/q", "1.5"},
    {"{\"q\":{\"shape\":[-1],\"data\":[1]}," KV "}", ATTN_BAD_SHAPE, "/q", "-1"},
    {"{\"q\":{\"shape\":\"1\",\"data\":[1]}," KV "}", ATTN_BAD_TYPE, "/q", "list"},
    {"{\"q\":{\"shape\":[1,1,1,1,1,1],\"data\":[1]}," KV "}", ATTN_BAD_SHAPE, "/q", "rank"},
    {"{\"q\":{\"shape\":[4294967296,4294967296],\"data\":[]}," KV "}", ATTN_BAD_SHAPE, "/q",
     "bytes"},
    {"{\"q\":{\"shape\":[4194305,211106198978564],\"base64\":\"\"}," KV "}", ATTN_BAD_SHAPE, "/q",
     "bytes"},
    {"{\"q\":{\"shape\":[1],\"dtype\":\"float8\",\"data\":[1]}," KV "}", ATTN_BAD_DTYPE, "/q",
     "float8"},
    {"{\"q\":{\"shape\":[1],\"dtype\":4,\"data\":[1]}," KV "}", ATTN_BAD_TYPE, "/q", "dtype"},
};

START_TEST(refuses_malformed_bodies) {
    const struct exchange_under_test exchange = decode_json(MALFORMED_BODIES[_i].body);
    check_refused(&exchange, &MALFORMED_BODIES[_i]);
}
END_TEST

START_TEST(refuses_wrong_tensors) {
    const struct exchange_under_test exchange = decode_json(WRONG_TENSORS[_i].body);
    check_refused(&exchange, &WRONG_TENSORS[_i]);
}
END_TEST

/* 33 levels of what is no number, and 100,000. */
/* A name as long as a text that is kept aside is a name all the same. */
START_TEST(long_names_are_names) {
    struct exchange_under_test exchange =
        decode_json("{\"q\":[[1]]," KV ",\"" A256 A256 A256 "\":1}");
    ck_assert_str_eq(attn_status_name(exchange.status), attn_status_name(ATTN_UNKNOWN_FIELD));
    ck_assert_int_eq(strncmp(exchange.error.pointer, "/AAAA", 5), 0);
}
END_TEST

START_TEST(refuses_deep_nesting) {
    static const size_t depths[] = {33, 100000};
    for (size_t i = 0; i < COUNT(depths); i++) {
        char *const body = malloc(depths[i] + 1);
        memset(body, '[', depths[i]);
        body[depths[i]] = 0;
        const struct exchange_under_test exchange = decode_json(body);
        const struct refusal deep = {body, ATTN_MALFORMED, "", "deep"};
        check_refused(&exchange, &deep);
        free(body);
    }
}
END_TEST

/* A million names, and five thousand arrays: neither becomes nodes. */
START_TEST(refuses_floods) {
    static const struct {
        const char *piece;
        size_t count;
        const char *part;
    } floods[] = {
        {"\"abcdefgh\":0,", 1000000, "more than 32768 members"},
        {"\"one\":[{},{},{},{},{}],", 10000, "more than 32768 members"},
        {"\"a name of fifty bytes, more or less, to fill the text\":0,", 30000, "bytes besides"},
        {"\"abcdefgh\":[0],", 5000, "more than 4096"}};
    for (size_t i = 0; i < COUNT(floods); i++) {
        const size_t size = strlen(floods[i].piece);
        char *const body = malloc(floods[i].count * size + 2);
        body[0] = '{';
        for (size_t n = 0; n < floods[i].count; n++)
            memcpy(body + 1 + n * size, floods[i].piece, size + 1);
        const struct exchange_under_test exchange = decode_json(body);
        const struct refusal flood = {floods[i].piece, ATTN_MALFORMED, "", floods[i].part};
        check_refused(&exchange, &flood);
        free(body);
    }
}
END_TEST

/* As many bytes as are read besides the numbers, but for the place of one array. */
START_TEST(refuses_an_array_too_many) {
    static const struct refusal flood = {"blanks", ATTN_MALFORMED, "", "bytes besides"};
    enum { MOST = 1 << 20, ROOM = MOST + 16 };
    for (int n = 1; n <= 3; n++) { /* bytes left for "[0]", the place of an array */
        char *const body = malloc(ROOM);
        ck_assert_ptr_nonnull(body);
        snprintf(body, ROOM, "{\"q\":%*s[1,2]", MOST - (int)strlen("{\"q\":") - n, "");
        struct exchange_under_test exchange = decode_json(body);
        if (n < 3)
            check_refused(&exchange, &flood);
        else
            ck_assert_ptr_nonnull(strstr(exchange.error.detail, "ends too soon"));
        free(body);
    }
}
END_TEST

static const char WHOLE[] =
    "{ \"q\":[[1.5,\"NaN\"]],\"k\":{\"shape\":[1,2],\"dtype\":\"float32\",\"data\":[1,2]},"
    "\"v\":{\"shape\":[1,1],\"dtype\":\"float32\",\"base64\":\"AACAPw==\"},\"m\":[[1]],"
    "\"mask\":{\"any\":[[],\"causal\",{\"type\":\"padding\",\"keep\":\"m\"}]},"
    "\"return\":[\"output\",\"lse\"],\"weights\":{\"rows\":[0,1],\"heads\":[0]},\"scale\":-1e-3}";

/* Every beginning of a good body, its end against a page that cannot be read. */
START_TEST(every_truncation_is_refused) {
    struct guard_page guard = guard_page_create(sizeof WHOLE);
    struct codec_request whole = decoded_json(WHOLE);
    codec_request_close(&whole);
    for (size_t length = 0; length < sizeof WHOLE - 1; length++) {
        const char *const body = guard_page_copy(&guard, WHOLE, length);
        const struct exchange_under_test exchange = decode_bytes("json", body, length, NULL, 0);
        ck_assert_int_eq(exchange.status, ATTN_MALFORMED);
        ck_assert_uint_gt(strlen(exchange.error.detail), 20);
    }
    guard_page_free(&guard);
}
END_TEST

/* Bytes replaced, dropped and doubled at random: any status will do, but never a crash. */
START_TEST(mutations_are_survived) {
    static const char alphabet[] = "[]{}\",:0123456789.eE+-tfnNI\\u \x01\xff";
    struct guard_page guard = guard_page_create(2 * sizeof WHOLE);
    struct random random = random_seeded(7);
    char body[2 * sizeof WHOLE];
    int understood = 0;
    for (int round = 0; round < 20000; round++) {
        size_t length = sizeof WHOLE - 1;
        memcpy(body, WHOLE, sizeof WHOLE);
        for (uint64_t edits = 1 + random_below(&random, 4); edits > 0; edits--) {
            const size_t at = random_below(&random, length);
            const uint64_t kind = random_below(&random, 3);
            if (kind == 0) {
                body[at] = alphabet[random_below(&random, sizeof alphabet - 1)];
            } else if (kind == 1) {
                memmove(body + at, body + at + 1, length - at - 1);
                length--;
            } else {
                memmove(body + at + 1, body + at, length - at);
                length++;
            }
        }
        const char *const copy = guard_page_copy(&guard, body, length);
        struct exchange_under_test exchange = decode_bytes("json", copy, length, NULL, 0);
        understood += exchange.status == ATTN_OK;
        if (exchange.status == ATTN_OK)
            codec_request_close(&exchange.request);
    }
    ck_assert_int_gt(understood, 0);
    guard_page_free(&guard);
}
END_TEST

static Suite *codec_json_suite(void) {
    Suite *const suite = suite_create("codec_json");
    TCase *const tests = tcase_create("json");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, reads_nested_tensors);
    tcase_add_test(tests, reads_flat_and_base64_tensors);
    tcase_add_test(tests, rounds_once);
    tcase_add_test(tests, precision_decides_the_dtype);
    tcase_add_test(tests, empty_axes_are_tensors);
    tcase_add_test(tests, long_base64_with_escapes);
    tcase_add_loop_test(tests, refuses_malformed_bodies, 0, COUNT(MALFORMED_BODIES));
    tcase_add_loop_test(tests, refuses_wrong_tensors, 0, COUNT(WRONG_TENSORS));
    tcase_add_test(tests, long_names_are_names);
    tcase_add_test(tests, refuses_deep_nesting);
    tcase_add_test(tests, refuses_floods);
    tcase_add_test(tests, refuses_an_array_too_many);
    tcase_add_test(tests, every_truncation_is_refused);
    tcase_add_test(tests, mutations_are_survived);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(codec_json_suite)
