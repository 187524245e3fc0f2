/* SPDX-License-Identifier: Apache-2.0 */
/* Options from bodies and query strings: what arrives in the request, and what is refused. */
#include <stdlib.h>

#include "tests/support/test_main.h"
#include "tests/unit/server/codec_fixture.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))
#define QKV "\"q\":[[1]],\"k\":[[1]],\"v\":[[1]]"
#define WITH(options) "{" QKV "," options "}"

START_TEST(nothing_given_is_nothing_assumed) {
    struct codec_request request = decoded_json("{" QKV "}");
    const struct attn_request *const attention = &request.attention;
    ck_assert_int_eq(attention->layout, ATTN_LAYOUT_UNSET);
    ck_assert_int_eq(attention->precision, ATTN_PRECISION_UNSET);
    ck_assert(!attention->scale_given && !attention->softcap_given && !attention->alibi);
    ck_assert(!attention->output_dtype_given && attention->returns == 0);
    ck_assert_uint_eq(attention->mask.count, 0);
    ck_assert(attn_tensor_is_none(&attention->bias));
    ck_assert(attention->kernel == NULL && attention->q_offset.values == NULL);
    ck_assert_int_eq(request.timeout_ms, 0);
    codec_request_close(&request);
}
END_TEST

START_TEST(every_option_arrives) {
    struct codec_request request = decoded_json(
        WITH("\"num_heads\":4,\"num_kv_heads\":2,\"layout\":\"bthd\",\"q_offset\":[-1,7],"
             "\"scale\":-0.5,\"softcap\":30,\"bias\":[[\"-Infinity\"]],\"alibi\":[0.5,0.25],"
             "\"sink\":[1,-2.5],\"precision\":\"float32\",\"output_dtype\":\"bfloat16\","
             "\"return\":[\"lse\"],\"weights\":{\"stage\":\"raw\",\"heads\":[3,0],\"rows\":[1,2],"
             "\"cols\":[0,4]},\"timeout_ms\":250,\"encoding\":\"base64\",\"kernel\":\"blas\""));
    const struct attn_request *const a = &request.attention;
    ck_assert(a->num_heads == 4 && a->num_kv_heads == 2 && a->layout == ATTN_LAYOUT_BTHD);
    ck_assert(a->q_offset.count == 2 && a->q_offset.values[0] == -1 && a->q_offset.values[1] == 7);
    ck_assert(a->scale_given && a->scale == -0.5 && a->softcap_given && a->softcap == 30);
    ck_assert(float_at(&a->bias, 0) < -1e38f);
    ck_assert(!a->alibi && a->alibi_slopes.count == 2 && a->alibi_slopes.values[1] == 0.25);
    ck_assert(a->sink.count == 2 && a->sink.values[1] == -2.5);
    ck_assert(a->precision == ATTN_PRECISION_FLOAT32);
    ck_assert(a->output_dtype_given && a->output_dtype == ATTN_BFLOAT16);
    ck_assert_uint_eq(a->returns, ATTN_RETURN_LSE | ATTN_RETURN_WEIGHTS);
    ck_assert(a->map.stage == ATTN_STAGE_RAW && a->map.heads.count == 2);
    ck_assert(a->map.heads.values[0] == 3 && a->map.rows_given && a->map.cols_given);
    ck_assert(a->map.rows[0] == 1 && a->map.rows[1] == 2 && a->map.cols[1] == 4);
    ck_assert(request.timeout_ms == 250 && request.encoding == CODEC_BASE64);
    ck_assert_str_eq(a->kernel, "blas");
    codec_request_close(&request);
}
END_TEST

static const struct {
    const char *body;
    unsigned returns;
} RETURNS[] = {
    {WITH("\"weights\":true"), ATTN_RETURN_OUTPUT | ATTN_RETURN_WEIGHTS},
    {WITH("\"weights\":false"), 0},
    {WITH("\"weights\":{}"), ATTN_RETURN_OUTPUT | ATTN_RETURN_WEIGHTS},
    {WITH("\"return\":\"lse\""), ATTN_RETURN_LSE},
    {WITH("\"return\":[\"stats\",\"col_sums\"]"), ATTN_RETURN_STATS | ATTN_RETURN_COL_SUMS},
    {WITH("\"weights\":{\"rows\":[0,1]},\"return\":[\"scores\"]"), ATTN_RETURN_SCORES},
    {WITH("\"weights\":true,\"return\":[\"scores\"]"), ATTN_RETURN_SCORES | ATTN_RETURN_WEIGHTS},
    {WITH("\"return\":[\"output\",\"weights\"]"), ATTN_RETURN_OUTPUT | ATTN_RETURN_WEIGHTS},
};

START_TEST(maps_are_returned_when_asked) {
    struct codec_request request = decoded_json(RETURNS[_i].body);
    ck_assert_uint_eq(request.attention.returns, RETURNS[_i].returns);
    codec_request_close(&request);
}
END_TEST

START_TEST(scale_none_is_one) {
    struct codec_request request = decoded_json(WITH("\"scale\":\"none\",\"alibi\":true"));
    ck_assert(request.attention.scale_given && request.attention.scale == 1);
    ck_assert(request.attention.alibi);
    codec_request_close(&request);
}
END_TEST

START_TEST(rope_is_read_whole) {
    struct codec_request request = decoded_json(
        WITH("\"f\":[0.5,2],\"rope\":{\"inv_freq\":\"f\",\"interleaved\":true,\"dims\":4,"
             "\"q_offset\":[3,-4],\"k_offset\":-9}"));
    const struct attn_rope_request *rope = &request.attention.rope;
    ck_assert(rope->given && rope->interleaved && rope->dims_given && rope->dims == 4);
    ck_assert(!rope->theta_given && rope->inv_freq.count == 2 && rope->inv_freq.values[1] == 2);
    ck_assert(rope->q_offset.count == 2 && rope->q_offset.values[1] == -4 && rope->k_offset == -9);
    codec_request_close(&request);
    request = decoded_json(WITH("\"rope\":{\"theta\":5e5}"));
    ck_assert(rope->given && rope->theta_given && rope->theta == 5e5 && !rope->dims_given);
    ck_assert(rope->inv_freq.values == NULL && rope->q_offset.values == NULL);
    codec_request_close(&request);
}
END_TEST

START_TEST(scores_are_read) {
    struct codec_request request =
        decoded_json(WITH("\"score\":{\"w\":[0.5,0.1],\"type\":\"additive\"}"));
    ck_assert_int_eq(request.attention.score, ATTN_SCORE_ADDITIVE);
    ck_assert_int_eq(request.attention.w.dtype, ATTN_FLOAT64);
    ck_assert(((const double *)request.attention.w.data)[1] == 0.1);
    codec_request_close(&request);
    request = decoded_json(WITH("\"n\":[[0.5]],\"score\":{\"type\":\"additive\",\"w\":\"n\"}"));
    ck_assert(request.attention.w.rank == 2 && float_at(&request.attention.w, 0) == 0.5f);
    codec_request_close(&request);
    static const char *const plain[] = {WITH("\"score\":\"scaled_dot\""),
                                        WITH("\"score\":{\"type\":\"scaled_dot\"}")};
    for (size_t n = 0; n < 2; n++) {
        request = decoded_json(plain[n]);
        ck_assert_int_eq(request.attention.score, ATTN_SCORE_SCALED_DOT);
        codec_request_close(&request);
    }
}
END_TEST

/* Lists may be named tensors, too; a tensor that is named is no unknown field. */
START_TEST(tensors_by_name) {
    struct codec_request request =
        decoded_json(WITH("\"bias\":\"b\",\"b\":[[0.5]],\"sink\":\"s\",\"s\":[2.5],"
                          "\"mask\":{\"type\":\"padding\",\"kv_lengths\":\"n\"},\"n\":[1]"));
    ck_assert(float_at(&request.attention.bias, 0) == 0.5f);
    ck_assert(request.attention.sink.count == 1 && request.attention.sink.values[0] == 2.5);
    ck_assert(request.attention.mask.nodes[0].kv_lengths.values[0] == 1);
    codec_request_close(&request);
}
END_TEST

static const struct refusal REFUSALS[] = {
    {WITH("\"scal\":1"), ATTN_UNKNOWN_FIELD, "/scal", "\"scale\""},
    {WITH("\"wieghts\":1"), ATTN_UNKNOWN_FIELD, "/wieghts", "\"weights\""},
    {WITH("\"zzzzzzzz\":1"), ATTN_UNKNOWN_FIELD, "/zzzzzzzz", "no \"zzzzzzzz\""},
    {WITH("\"a/b~c\":1"), ATTN_UNKNOWN_FIELD, "/a~1b~0c", "a/b~c"},
    {WITH("\"m\":[[1]]"), ATTN_UNKNOWN_FIELD, "/m", "no mask or bias names it"},
    {"{\"query\":[[1]]}", ATTN_UNKNOWN_FIELD, "/query", "called q"},
    {WITH("\"is_causal\":true"), ATTN_UNKNOWN_FIELD, "/is_causal", "\"mask\": \"causal\""},
    {WITH("\"softmax_scale\":1"), ATTN_UNKNOWN_FIELD, "/softmax_scale", "scale"},
    {WITH("\"dropout_p\":0"), ATTN_TRAINING_ONLY, "/dropout_p", "training"},
    {WITH("\"score\":\"bahdanau\""), ATTN_BAD_VALUE, "/score", "\"type\": \"additive\""},
    {WITH("\"score\":\"cosine\""), ATTN_BAD_VALUE, "/score", "to length 1"},
    {WITH("\"score\":\"scaled_dto\""), ATTN_BAD_VALUE, "/score", "Did you mean \"scaled_dot\""},
    {WITH("\"score\":1"), ATTN_BAD_TYPE, "/score", "the number 1"},
    {WITH("\"score\":{}"), ATTN_MISSING_FIELD, "/score/type", "needs a \"type\""},
    {WITH("\"score\":{\"type\":\"dot\"}"), ATTN_BAD_VALUE, "/score/type", "\"none\""},
    {WITH("\"score\":{\"type\":\"additive\",\"v\":[1]}"), ATTN_UNKNOWN_FIELD, "/score/v", "has w"},
    {WITH("\"score\":{\"type\":\"scaled_dot\",\"w\":[1]}"), ATTN_UNKNOWN_FIELD, "/score/w",
     "only its type"},
    {WITH("\"score\":{\"type\":\"additive\",\"w\":\"w\"}"), ATTN_BAD_VALUE, "/score/w",
     "no tensor called"},
    {WITH("\"score_mode\":\"dot\""), ATTN_UNKNOWN_FIELD, "/score_mode", "called score"},
    {WITH("\"rope\":true"), ATTN_BAD_TYPE, "/rope", "{\"theta\": 10000}"},
    {WITH("\"rope\":{\"thet\":1}"), ATTN_UNKNOWN_FIELD, "/rope/thet", "Did you mean \"theta\""},
    {WITH("\"rope\":{\"base\":1}"), ATTN_UNKNOWN_FIELD, "/rope/base", "It is called theta"},
    {WITH("\"rope\":{\"x\":1}"), ATTN_UNKNOWN_FIELD, "/rope/x", "It has theta, inv_freq"},
    {WITH("\"rope\":{\"theta\":\"a\"}"), ATTN_BAD_TYPE, "/rope/theta", "\"a\""},
    {WITH("\"rope\":{\"interleaved\":1}"), ATTN_BAD_TYPE, "/rope/interleaved", "2n+1"},
    {WITH("\"rope\":{\"dims\":1.5}"), ATTN_BAD_TYPE, "/rope/dims", "1.5"},
    {WITH("\"rope\":{\"inv_freq\":\"f\"}"), ATTN_BAD_VALUE, "/rope/inv_freq", "no tensor called"},
    {WITH("\"rope\":{\"q_offset\":[[1]]}"), ATTN_BAD_SHAPE, "/rope/q_offset", "flat"},
    {WITH("\"rope\":{\"k_offset\":[1]}"), ATTN_BAD_TYPE, "/rope/k_offset", "list"},
    {WITH("\"rotary_dim\":8"), ATTN_UNKNOWN_FIELD, "/rotary_dim", "{\"dims\": ...}"},
    {WITH("\"capture\":{}"), ATTN_MISSING_FIELD, "/capture", "name"},
    {WITH("\"capture\":true"), ATTN_BAD_TYPE, "/capture", "true came"},
    {WITH("\"capture\":{\"name\":1}"), ATTN_BAD_TYPE, "/capture/name", "200 bytes"},
    {WITH("\"capture\":{\"nam\":\"a\"}"), ATTN_UNKNOWN_FIELD, "/capture/nam", "q_grid"},
    {WITH("\"capture\":{\"name\":\"a\",\"q_grid\":[1]}"), ATTN_BAD_VALUE, "/capture/q_grid",
     "columns"},
    {WITH("\"capture\":{\"name\":\"a\",\"k_grid\":[0,4]}"), ATTN_BAD_VALUE, "/capture/k_grid",
     "from 1"},
    {WITH("\"capture\":{\"name\":\"a\",\"layer\":-1}"), ATTN_BAD_VALUE, "/capture/layer",
     "at least 0, but -1 came"},
    {WITH("\"capture\":{\"name\":\"a\",\"layer\":5000000000000}"), ATTN_BAD_VALUE, "/capture/layer",
     "at most"},
    {WITH("\"num_heads\":0"), ATTN_BAD_VALUE, "/num_heads", "0 came"},
    {WITH("\"num_heads\":-1"), ATTN_BAD_VALUE, "/num_heads", "-1 came"},
    {WITH("\"num_heads\":1.5"), ATTN_BAD_TYPE, "/num_heads", "1.5"},
    {WITH("\"num_heads\":true"), ATTN_BAD_TYPE, "/num_heads", "true"},
    {WITH("\"num_kv_heads\":\"8\""), ATTN_BAD_TYPE, "/num_kv_heads", "\"8\""},
    {WITH("\"layout\":\"bhdt\""), ATTN_BAD_VALUE, "/layout", "\"bhtd\" or \"bthd\""},
    {WITH("\"layout\":1"), ATTN_BAD_TYPE, "/layout", "the number 1"},
    {WITH("\"q_offset\":1.5"), ATTN_BAD_TYPE, "/q_offset", "1.5"},
    {WITH("\"q_offset\":[[1]]"), ATTN_BAD_SHAPE, "/q_offset", "flat"},
    {WITH("\"q_offset\":[9223372036854775808]"), ATTN_BAD_VALUE, "/q_offset",
     "'9223372036854775808'"},
    {WITH("\"q_offset\":null"), ATTN_BAD_TYPE, "/q_offset", "null"},
    {WITH("\"scale\":\"auto\""), ATTN_BAD_TYPE, "/scale", "none"},
    {WITH("\"scale\":\"NaN\""), ATTN_BAD_VALUE, "/scale", "finite"},
    {WITH("\"scale\":\"-Infinity\""), ATTN_BAD_VALUE, "/scale", "finite"},
    {WITH("\"scale\":null"), ATTN_BAD_TYPE, "/scale", "null"},
    {WITH("\"softcap\":[1]"), ATTN_BAD_TYPE, "/softcap", "the list [1]"},
    {WITH("\"alibi\":\"paper\""), ATTN_BAD_VALUE, "/alibi", "no tensor called"},
    {WITH("\"sink\":[1,null]"), ATTN_BAD_TYPE, "/sink", "'null'"},
    {WITH("\"sink\":true"), ATTN_BAD_TYPE, "/sink", "true"},
    {WITH("\"sink\":\"s\",\"s\":[[1]]"), ATTN_BAD_SHAPE, "/sink", "rank 1"},
    {WITH("\"bias\":\"b\",\"b\":[1,\"x\"]"), ATTN_BAD_VALUE, "/b", "\"x\""},
    {WITH("\"precision\":\"float16\""), ATTN_BAD_VALUE, "/precision", "\"float32\" or \"float64\""},
    {WITH("\"output_dtype\":\"int8\""), ATTN_BAD_VALUE, "/output_dtype", "float32"},
    {WITH("\"return\":[\"outputs\"]"), ATTN_BAD_VALUE, "/return", "\"output\""},
    {WITH("\"return\":[\"statistics\"]"), ATTN_BAD_VALUE, "/return", "\"stats\""},
    {WITH("\"return\":[]"), ATTN_BAD_VALUE, "/return", "empty"},
    {WITH("\"return\":[1]"), ATTN_BAD_TYPE, "/return", "the list [1]"},
    {WITH("\"return\":{\"output\":true}"), ATTN_BAD_TYPE, "/return", "list"},
    {WITH("\"weights\":1"), ATTN_BAD_TYPE, "/weights", "the number 1"},
    {WITH("\"weights\":{\"head\":[0]}"), ATTN_UNKNOWN_FIELD, "/weights/head", "heads"},
    {WITH("\"weights\":{\"heads\":[]}"), ATTN_BAD_VALUE, "/weights/heads", "empty"},
    {WITH("\"weights\":{\"rows\":[1]}"), ATTN_BAD_TYPE, "/weights/rows", "two whole numbers"},
    {WITH("\"weights\":{\"stage\":\"softmax\"}"), ATTN_BAD_VALUE, "/weights/stage", "\"masked\""},
    {WITH("\"weights\":{\"top_k\":0}"), ATTN_BAD_VALUE, "/weights/top_k", "at least 1"},
    {WITH("\"weights\":{\"pool\":3}"), ATTN_BAD_TYPE, "/weights/pool", "an object"},
    {WITH("\"weights\":{\"pool\":{\"rows\":3}}"), ATTN_MISSING_FIELD, "/weights/pool",
     "cols is not"},
    {WITH("\"weights\":{\"pool\":{\"cols\":3}}"), ATTN_MISSING_FIELD, "/weights/pool",
     "rows is not"},
    {WITH("\"weights\":{\"pool\":{\"row\":3}}"), ATTN_UNKNOWN_FIELD, "/weights/pool/row",
     "\"rows\"?"},
    {WITH("\"weights\":{\"pool\":{\"op\":\"sum\"}}"), ATTN_BAD_VALUE, "/weights/pool/op", "mass"},
    {WITH("\"weights\":{\"heads\":\"sum\"}"), ATTN_BAD_VALUE, "/weights/heads", "mean"},
    {WITH("\"timeout_ms\":0"), ATTN_BAD_VALUE, "/timeout_ms", "at least 1"},
    {WITH("\"encoding\":\"hex\""), ATTN_BAD_VALUE, "/encoding", "\"nested\", \"flat\" or"},
    {WITH("\"kernel\":7"), ATTN_BAD_TYPE, "/kernel", "kernel"},
};

START_TEST(refuses_options) {
    const struct exchange_under_test exchange = decode_json(REFUSALS[_i].body);
    check_refused(&exchange, &REFUSALS[_i]);
}
END_TEST

static struct exchange_under_test decode_query(const char *name, const char *value) {
    static const char body[] = "{" QKV "}";
    const struct codec_query_option query = {name, value};
    return decode_bytes("json", body, strlen(body), &query, 1);
}

START_TEST(query_options_are_read_as_written) {
    static const char body[] = "{" QKV "}";
    static const struct codec_query_option query[] = {
        {"scale", "-0.5"},        {"layout", "bthd"},       {"q_offset", "1,-2"},
        {"sink", "1.5"},          {"return", "lse,output"}, {"weights", "{\"rows\":[0,1]}"},
        {"mask", "causal"},       {"kernel", "a\"b\\c"},    {"timeout_ms", "9"},
        {"precision", "float64"}, {"alibi", "true"},
    };
    struct exchange_under_test exchange =
        decode_bytes("json", body, strlen(body), query, COUNT(query));
    const struct attn_request *const a = &exchange.request.attention;
    ck_assert_msg(exchange.status == ATTN_OK, "%s", exchange.error.detail);
    ck_assert(a->scale == -0.5 && a->layout == ATTN_LAYOUT_BTHD && a->alibi);
    ck_assert(a->q_offset.count == 2 && a->q_offset.values[1] == -2);
    ck_assert(a->sink.count == 1 && a->sink.values[0] == 1.5);
    ck_assert_uint_eq(a->returns, ATTN_RETURN_LSE | ATTN_RETURN_OUTPUT | ATTN_RETURN_WEIGHTS);
    ck_assert(a->map.rows_given && a->mask.count == 1 && a->mask.nodes[0].kind == ATTN_MASK_CAUSAL);
    ck_assert_str_eq(a->kernel, "a\"b\\c");
    ck_assert_int_eq(exchange.request.timeout_ms, 9);
    ck_assert_int_eq(a->q.dtype, ATTN_FLOAT64);
    codec_request_close(&exchange.request);
}
END_TEST

static const struct {
    const char *name, *value;
    struct refusal refusal;
} QUERIES[] = {
    {"scal", "1", {"", ATTN_UNKNOWN_FIELD, "/scal", "scale"}},
    {"q", "[[1]]", {"", ATTN_UNKNOWN_FIELD, "/q", "body"}},
    {"dropout", "0", {"", ATTN_TRAINING_ONLY, "/dropout", "training"}},
    {"scale", "big", {"", ATTN_BAD_TYPE, "/scale", "\"big\""}},
    {"scale", "", {"", ATTN_BAD_TYPE, "/scale", "\"\""}},
    {"scale", "1e999", {"", ATTN_NUMBER_RANGE, "", "too large"}},
    {"mask", "{\"type", {"", ATTN_MALFORMED, "", "The query string's mask"}},
    {"return", "lse,,output", {"", ATTN_BAD_VALUE, "/return", "\"\""}},
    {"return", ",,,,,,,,,,,,", {"", ATTN_BAD_VALUE, "/return", "\"\""}},
    {"q_offset", "1,2,x", {"", ATTN_BAD_VALUE, "/q_offset", "\"x\""}},
    {"layout", "a\nb\"\\", {"", ATTN_BAD_VALUE, "/layout", "\"bhtd\""}},
};

START_TEST(refuses_query_options) {
    const struct exchange_under_test exchange = decode_query(QUERIES[_i].name, QUERIES[_i].value);
    check_refused(&exchange, &QUERIES[_i].refusal);
}
END_TEST

START_TEST(an_option_is_given_once) {
    static const char body[] = WITH("\"scale\":1");
    static const struct refusal twice = {body, ATTN_OPTION_TWICE, "/scale", "scale"};
    static const struct codec_query_option query[] = {{"scale", "1"}, {"scale", "1"}};
    struct exchange_under_test exchange = decode_bytes("json", body, strlen(body), query, 1);
    check_refused(&exchange, &twice);
    exchange = decode_bytes("json", "{" QKV "}", strlen("{" QKV "}"), query, 2);
    check_refused(&exchange, &twice);
}
END_TEST

static Suite *options_suite(void) {
    Suite *const suite = suite_create("options");
    TCase *const tests = tcase_create("options");
    tcase_add_test(tests, nothing_given_is_nothing_assumed);
    tcase_add_test(tests, every_option_arrives);
    tcase_add_loop_test(tests, maps_are_returned_when_asked, 0, COUNT(RETURNS));
    tcase_add_test(tests, scale_none_is_one);
    tcase_add_test(tests, tensors_by_name);
    tcase_add_test(tests, rope_is_read_whole);
    tcase_add_test(tests, scores_are_read);
    tcase_add_loop_test(tests, refuses_options, 0, COUNT(REFUSALS));
    tcase_add_test(tests, query_options_are_read_as_written);
    tcase_add_loop_test(tests, refuses_query_options, 0, COUNT(QUERIES));
    tcase_add_test(tests, an_option_is_given_once);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(options_suite)
