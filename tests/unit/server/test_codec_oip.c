/* SPDX-License-Identifier: Apache-2.0 */
/* The Open Inference Protocol's codec: hostile headers, bytes in place, names and types. */
#include "server/codecs/codec_oip.h"

#include "tests/support/test_main.h"
#include "tests/unit/server/codec_fixture.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))
#define INPUT(name, shape, rest) \
    "{\"name\":\"" name "\",\"datatype\":\"FP32\",\"shape\":[" shape "]," rest "}"
#define BYTES(size) "\"parameters\":{\"binary_data_size\":" size "}"
#define REQUEST(q) \
    "{\"inputs\":[" q "," INPUT("k", "1,1", "\"data\":[2]") "," INPUT("v", "1,1", BYTES("4")) "]}"

enum { BODY_ROOM = 4096 };

/* `length` is the header's text; NULL: how long the JSON is. */
static struct exchange_under_test decode_body(const char *json, const void *body, size_t size,
                                              const char *length) {
    struct exchange_under_test exchange = {.status = ATTN_OK};
    char header[32];
    snprintf(header, sizeof header, "%zu", strlen(json));
    const struct oip_head head = {oip_model_at(0), length == NULL ? header : length};
    const struct codec_input input = {
        .body = body, .length = size, .schema = head.model->schema, .oip = &head};
    exchange.status = CODEC_OIP.decode(&input, &exchange.request, &exchange.error);
    ck_assert_int_eq(exchange.status, exchange.error.status);
    return exchange;
}

/* The JSON and `bytes` bytes 0, 1, ... in front of an unreadable page. */
static struct exchange_under_test decode_guarded(const char *json, size_t bytes,
                                                 const char *length) {
    char body[BODY_ROOM];
    struct guard_page guard = guard_page_create(BODY_ROOM);
    const size_t size = strlen(json);
    memcpy(body, json, size);
    for (size_t i = 0; i < bytes; i++)
        body[size + i] = (char)i;
    struct exchange_under_test exchange =
        decode_body(json, guard_page_copy(&guard, body, size + bytes), size + bytes, length);
    if (exchange.status == ATTN_OK)
        codec_request_close(&exchange.request);
    guard_page_free(&guard);
    return exchange;
}

/* Bytes that are aligned stay where they are; others are copied. */
static void check_in_place(size_t residue) {
    static _Alignas(64) char body[BODY_ROOM];
    static const char json[] = REQUEST(INPUT("q", "1,1", BYTES("4")));
    char padded[BODY_ROOM];
    const float values[2] = {1, 3};
    const size_t size = sizeof json - 1, blanks = (64 + residue - size % 64) % 64;
    snprintf(padded, sizeof padded, "%s%*s", json, (int)blanks, "");
    memcpy(body, padded, size + blanks);
    memcpy(body + size + blanks, values, sizeof values);
    struct exchange_under_test exchange =
        decode_body(padded, body, size + blanks + sizeof values, NULL);
    ck_assert_msg(exchange.status == ATTN_OK, "%s", exchange.error.detail);
    const struct attn_request *const request = &exchange.request.attention;
    ck_assert(float_at(&request->q, 0) == 1 && float_at(&request->k, 0) == 2);
    ck_assert(float_at(&request->v, 0) == 3);
    ck_assert_int_eq((const char *)request->q.data == body + size + blanks, residue % 4 == 0);
    codec_request_close(&exchange.request);
}

START_TEST(bytes_in_place) {
    for (size_t residue = 0; residue < 8; residue++)
        check_in_place(residue);
}
END_TEST

static enum attn_status reserve(void *closure, size_t bytes, struct attn_error *error) {
    size_t *const charged = closure;
    *charged += bytes;
    return attn_fail(error, ATTN_OVERLOADED, "", "There is no room for this tensor now.");
}

/* Bytes that have to be copied are more than the body, and are paid for. */
START_TEST(copies_are_charged) {
    static const struct refusal expected = {"bytes", ATTN_OVERLOADED, "q", "no room"};
    static const char json[] = REQUEST(INPUT("q", "1,1", BYTES("4")));
    static _Alignas(float) char body[BODY_ROOM];
    char header[32];
    const size_t length = (sizeof json + 2) / sizeof(float) * sizeof(float) + 1;
    snprintf(body, sizeof body, "%-*s", (int)length, json);
    snprintf(header, sizeof header, "%zu", length);
    size_t charged = 0;
    const struct codec_budget budget = {BODY_ROOM, BODY_ROOM, reserve, &charged};
    const struct oip_head head = {oip_model_at(0), header};
    const struct codec_input input = {.body = body,
                                      .length = length + 2 * sizeof(float),
                                      .schema = head.model->schema,
                                      .oip = &head,
                                      .budget = &budget};
    struct exchange_under_test exchange = {.status = ATTN_OK};
    exchange.status = CODEC_OIP.decode(&input, &exchange.request, &exchange.error);
    check_refused(&exchange, &expected);
    ck_assert_uint_eq(charged, sizeof(float));
}
END_TEST

static const struct {
    struct refusal refusal;
    size_t bytes;
    const char *length; /* NULL: the truth */
} REFUSALS[] = {
    {{"{}", ATTN_MALFORMED, "", "is 0"}, 4, "0"},
    {{"{}", ATTN_MALFORMED, "", OIP_LENGTH_HEADER " should be"}, 4, ""},
    {{"{}", ATTN_MALFORMED, "", OIP_LENGTH_HEADER " should be"}, 4, "-1"},
    {{"{}", ATTN_MALFORMED, "", OIP_LENGTH_HEADER " should be"}, 4, "+2"},
    {{"{}", ATTN_MALFORMED, "", OIP_LENGTH_HEADER " should be"}, 4, "2.0"},
    {{"{}", ATTN_MALFORMED, "", OIP_LENGTH_HEADER " should be"}, 4, "0x2"},
    {{"{}", ATTN_MALFORMED, "", OIP_LENGTH_HEADER " should be"}, 4, "7"},
    {{"{}", ATTN_MALFORMED, "", OIP_LENGTH_HEADER " should be"}, 4, "18446744073709551615"},
    {{"{}", ATTN_MALFORMED, "", OIP_LENGTH_HEADER " should be"}, 4, "18446744073709551618"},
    {{"{}", ATTN_MALFORMED, "", "has 1 of the body's 6 bytes"}, 4, "1"},
    {{"{}", ATTN_MALFORMED, "", "4 are left over"}, 4, NULL},
    {{REQUEST(INPUT("q", "1,1", BYTES("4"))), ATTN_MALFORMED, "q", "only 0 are left"}, 0, NULL},
    {{REQUEST(INPUT("q", "1,1", BYTES("4"))), ATTN_MALFORMED, "v", "only 3 are left"}, 7, NULL},
    {{REQUEST(INPUT("q", "1,1", BYTES("4"))), ATTN_MALFORMED, "", "1 are left over"}, 9, NULL},
    {{REQUEST(INPUT("q", "1,1", BYTES("-4"))), ATTN_BAD_VALUE, "q", "at least 0"}, 8, NULL},
    {{REQUEST(INPUT("q", "1,1", BYTES("8"))), ATTN_MALFORMED, "q", "needs 4 bytes"}, 12, NULL},
    {{REQUEST(INPUT("q", "1,1", BYTES("1e30"))), ATTN_BAD_VALUE, "q", "but the number 1e30"},
     8,
     NULL},
    {{REQUEST(INPUT("q", "1,1", BYTES("4.5"))), ATTN_BAD_TYPE, "q", "whole number"}, 8, NULL},
    {{REQUEST(INPUT("q", "1,1", BYTES("-9223372036854775809"))), ATTN_BAD_VALUE, "q", "from 0"},
     8,
     NULL},
    {{REQUEST(INPUT("q", "1,1", BYTES("9223372036854775807"))), ATTN_MALFORMED, "q", "needs 4"},
     8,
     NULL},
    {{REQUEST(INPUT("q", "1,1", BYTES("99999999999999999999"))), ATTN_BAD_VALUE, "q", "1e20"},
     8,
     NULL},
    {{REQUEST(INPUT("q", "4611686018427387904,4", BYTES("0"))), ATTN_BAD_SHAPE, "q", "counted"},
     4,
     NULL},
    {{REQUEST(INPUT("q", "0,4611686018427387904,4", BYTES("0"))), ATTN_BAD_SHAPE, "q", "counted"},
     4,
     NULL},
    {{REQUEST(INPUT("q", "-1,-1", BYTES("4"))), ATTN_BAD_SHAPE, "q", "Axis 0"}, 8, NULL},
    {{REQUEST(INPUT("q", "1,1,1,1,1,1", BYTES("4"))), ATTN_BAD_SHAPE, "q", "6 axes"}, 8, NULL},
    {{REQUEST(INPUT("k", "1,1", BYTES("4"))), ATTN_MALFORMED, "k", "Two inputs"}, 8, NULL},
    {{REQUEST(INPUT("q\",\"name\":\"q", "1,1", BYTES("4"))), ATTN_MALFORMED, "", "twice"}, 8, NULL},
    {{REQUEST(INPUT("q", "1,1", "\"data\":[1],\"parameters\":{\"shared_memory_region\":\"r\"}")),
      ATTN_UNKNOWN_FIELD, "/inputs/0/parameters", "Shared memory"},
     4,
     NULL},
    {{REQUEST(INPUT("q", "1,1", "\"data\":null")), ATTN_MISSING_FIELD, "q", "lacks its elements"},
     4,
     NULL},
    {{REQUEST(INPUT("q", "1,1", "\"data\":\"x\"")), ATTN_BAD_TYPE, "q", "a list of numbers"},
     4,
     NULL},
    {{REQUEST(INPUT("q", "1,1", "\"data\":[1,2]")), ATTN_BAD_SHAPE, "q", "needs 1 number, but"},
     4,
     NULL},
    {{"[]", ATTN_BAD_TYPE, "", "Expected a JSON object with inputs"}, 0, NULL},
    {{"{\"inputs\":{}}", ATTN_BAD_TYPE, "/inputs", "Expected a list of objects"}, 0, NULL},
    {{"{\"output\":[]}", ATTN_UNKNOWN_FIELD, "/output", "no \"output\""}, 0, NULL},
    {{"{\"id\":7}", ATTN_BAD_TYPE, "/id", "Expected a text"}, 0, NULL},
    {{"{\"parameters\":[]}", ATTN_BAD_TYPE, "/parameters", "Expected an object"}, 0, NULL},
    {{"{\"parameters\":{\"binary_data_output\":1}}", ATTN_BAD_TYPE,
      "/parameters/binary_data_output", "Expected true or false"},
     0,
     NULL},
    {{"{\"outputs\":[\"lse\"]}", ATTN_BAD_TYPE, "/outputs/0", "an object with a name"}, 0, NULL},
    {{"{\"outputs\":[{}]}", ATTN_MISSING_FIELD, "/outputs/0", "needs a name"}, 0, NULL},
    {{"{\"outputs\":[{\"name\":7}]}", ATTN_BAD_TYPE, "/outputs/0", "needs a name"}, 0, NULL},
    {{"{\"outputs\":[{\"name\":\"output\",\"parameters\":7}]}", ATTN_BAD_TYPE,
      "/outputs/0/parameters", "Expected an object"},
     0,
     NULL},
    {{"{\"outputs\":[{\"name\":\"output\",\"parameters\":{\"binary_data\":1}}]}", ATTN_BAD_TYPE,
      "/outputs/0", "Expected true or false"},
     0,
     NULL},
    {{"{\"outputs\":[{\"name\":\"lse\"},{\"name\":\"output\"},{\"name\":\"lse\"}]}", ATTN_MALFORMED,
      "lse", "Two outputs"},
     0,
     NULL},
    {{"{\"inputs\":[{\"name\":\"q\"}]}", ATTN_MISSING_FIELD, "q", "needs a datatype"}, 0, NULL},
    {{"{\"inputs\":[{\"name\":\"q\",\"datatype\":7}]}", ATTN_BAD_TYPE, "q",
      "but the number 7 came"},
     0,
     NULL},
    {{"{\"inputs\":[{\"name\":\"q\",\"datatype\":\"FP8\"}]}", ATTN_BAD_DTYPE, "q", "FP8"}, 0, NULL},
    {{"{\"inputs\":[{\"name\":\"q\",\"datatype\":\"FP32\"}]}", ATTN_MISSING_FIELD, "q",
      "needs a shape"},
     0,
     NULL},
    {{"{\"inputs\":[{\"name\":\"q\",\"datatype\":\"FP32\",\"shape\":\"x\"}]}", ATTN_BAD_TYPE, "q",
      "list"},
     0,
     NULL},
    {{"{\"inputs\":[{\"name\":\"q\",\"datatype\":\"FP32\",\"shape\":[1],\"data\":[1],"
      "\"parameters\":{\"binary_data_size\":4}}]}",
      ATTN_BAD_VALUE, "q", "give one of them"},
     0,
     NULL},
};

START_TEST(refusals) {
    const size_t i = (size_t)_i;
    const struct exchange_under_test exchange =
        decode_guarded(REFUSALS[i].refusal.body, REFUSALS[i].bytes, REFUSALS[i].length);
    check_refused(&exchange, &REFUSALS[i].refusal);
}
END_TEST

/* Every prefix of a request is refused, and no byte behind it is read. */
START_TEST(truncated) {
    static const char json[] = REQUEST(INPUT("q", "1,1", BYTES("4")));
    struct guard_page guard = guard_page_create(BODY_ROOM);
    for (size_t size = 0; size < sizeof json - 1; size++) {
        struct exchange_under_test exchange =
            decode_body(json, guard_page_copy(&guard, json, size), size, NULL);
        ck_assert_int_eq(exchange.status, ATTN_MALFORMED);
    }
    guard_page_free(&guard);
}
END_TEST

/* Two outputs of one name, and more inputs than are read. */
START_TEST(lists) {
    static const struct refusal twice = {"", ATTN_MALFORMED, "lse", "Two outputs"};
    static const struct refusal many = {"", ATTN_BAD_VALUE, "/inputs", "64 are read"};
    char json[BODY_ROOM] = "{\"inputs\":[";
    struct exchange_under_test exchange = decode_guarded(
        "{\"inputs\":[],\"outputs\":[{\"name\":\"lse\"},{\"name\":\"lse\"}]}", 0, NULL);
    check_refused(&exchange, &twice);
    for (int i = 0; i < 65; i++)
        strcat(json, i == 0 ? "{}" : ",{}");
    strcat(json, "]}");
    exchange = decode_guarded(json, 0, NULL);
    check_refused(&exchange, &many);
}
END_TEST

START_TEST(datatypes) {
    enum attn_dtype found;
    for (int i = 0; i < ATTN_DTYPE_COUNT; i++) {
        ck_assert(oip_datatype_find(oip_datatype_name((enum attn_dtype)i), &found));
        ck_assert_int_eq(found, i);
    }
    ck_assert_str_eq(oip_datatype_name(ATTN_BFLOAT16), "BF16");
    ck_assert(!oip_datatype_find("BYTES", &found) && !oip_datatype_find("fp32", &found));
}
END_TEST

#define EMPTY(name, shape) INPUT(name, shape, "\"data\":[]")
#define MANY "1,1,4611686018427387904,0"

/* Keys without elements may be so many that the bytes of a row of their mask cannot be counted. */
START_TEST(onnx_mask_without_rows) {
    static const char json[] = "{\"inputs\":[" EMPTY("Q", "1,1,1,0") "," EMPTY("K", MANY) "," EMPTY(
        "V", MANY) "," EMPTY("attn_mask", "0,1") "]}";
    const struct oip_model *const model = oip_model_at(1);
    const struct oip_head head = {model, NULL};
    const struct codec_input input = {
        .body = json, .length = sizeof json - 1, .schema = model->schema, .oip = &head};
    struct exchange_under_test exchange = {.status = ATTN_OK};
    exchange.status = CODEC_OIP.decode(&input, &exchange.request, &exchange.error);
    ck_assert_msg(exchange.status == ATTN_OK, "%s", exchange.error.detail);
    ck_assert_uint_eq(exchange.request.attention.bias.shape[1], (size_t)1 << 62);
    codec_request_close(&exchange.request);
}
END_TEST

static Suite *codec_oip_suite(void) {
    Suite *suite = suite_create("codec_oip");
    TCase *tests = tcase_create("codec_oip");
    tcase_add_test(tests, bytes_in_place);
    tcase_add_test(tests, copies_are_charged);
    tcase_add_loop_test(tests, refusals, 0, COUNT(REFUSALS));
    tcase_add_test(tests, truncated);
    tcase_add_test(tests, lists);
    tcase_add_test(tests, datatypes);
    tcase_add_test(tests, onnx_mask_without_rows);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(codec_oip_suite)
