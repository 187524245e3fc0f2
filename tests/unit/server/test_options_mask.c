/* SPDX-License-Identifier: Apache-2.0 */
/* Mask expressions to postfix programs: order, members, pointers, and what is refused. */
#include <stdlib.h>

#include "tests/support/test_main.h"
#include "tests/unit/server/codec_fixture.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))
#define MASK(expression) "{\"q\":[[1]],\"k\":[[1]],\"v\":[[1]],\"mask\":" expression "}"

/* Programs as text: kinds with their operand counts and pointers, in postfix order. */
static const struct {
    const char *body, *program;
} PROGRAMS[] = {
    {MASK("\"causal\""), "causal@/mask"},
    {MASK("[]"), "all0@/mask"},
    {MASK("{\"any\":[]}"), "any0@/mask"},
    {MASK("[\"causal\",\"causal\"]"), "causal@/mask/0 causal@/mask/1 all2@/mask"},
    {MASK("{\"not\":\"causal\"}"), "causal@/mask/not not1@/mask"},
    {MASK("{\"not\":{\"any\":[\"causal\",[]]}}"),
     "causal@/mask/not/any/0 all0@/mask/not/any/1 any2@/mask/not not1@/mask"},
    {MASK("{\"all\":[{\"type\":\"prefix\",\"length\":1},{\"not\":\"causal\"}]}"),
     "prefix@/mask/all/0 causal@/mask/all/1/not not1@/mask/all/1 all2@/mask"},
};

START_TEST(programs_are_postfix) {
    struct codec_request request = decoded_json(PROGRAMS[_i].body);
    const struct attn_mask *const mask = &request.attention.mask;
    char program[512];
    size_t at = 0;
    for (size_t i = 0; i < mask->count; i++) {
        const struct attn_mask_node *const node = &mask->nodes[i];
        at += (size_t)sprintf(program + at, "%s%s", i == 0 ? "" : " ",
                              attn_mask_kind_name(node->kind));
        if (node->kind == ATTN_MASK_ALL || node->kind == ATTN_MASK_ANY ||
            node->kind == ATTN_MASK_NOT)
            at += (size_t)sprintf(program + at, "%zu", node->operands);
        at += (size_t)sprintf(program + at, "@%s", node->pointer);
    }
    ck_assert_str_eq(program, PROGRAMS[_i].program);
    codec_request_close(&request);
}
END_TEST

START_TEST(members_arrive) {
    struct codec_request request = decoded_json(
        MASK("[{\"type\":\"window\",\"left\":2,\"right\":-1},"
             "{\"type\":\"padding\",\"kv_lengths\":[3,1],\"q_lengths\":2},"
             "{\"type\":\"segments\",\"q\":[7,-1],\"kv\":[[7]]},"
             "{\"type\":\"allow\",\"tensor\":[[true,false]]},"
             "{\"type\":\"hide\",\"tensor\":{\"shape\":[2],\"dtype\":\"uint8\",\"data\":[1,0]}},"
             "{\"type\":\"causal\",\"align\":\"bottom_right\"},"
             "{\"align\":\"top_left\",\"type\":\"causal\"}]"));
    const struct attn_mask_node *const nodes = request.attention.mask.nodes;
    ck_assert(nodes[0].left == 2 && nodes[0].right == -1);
    ck_assert(nodes[1].kv_lengths.count == 2 && nodes[1].kv_lengths.values[0] == 3);
    ck_assert(nodes[1].q_lengths.count == 1 && nodes[1].q_lengths.values[0] == 2);
    ck_assert_int_eq(nodes[2].tensor.dtype, ATTN_INT64);
    ck_assert(attn_tensor_int_at(&nodes[2].tensor, 1) == -1 && nodes[2].kv.rank == 2);
    ck_assert_int_eq(nodes[3].tensor.dtype, ATTN_BOOL);
    ck_assert(attn_tensor_int_at(&nodes[3].tensor, 0) == 1);
    ck_assert(attn_tensor_int_at(&nodes[3].tensor, 1) == 0);
    ck_assert_int_eq(nodes[4].tensor.dtype, ATTN_UINT8);
    ck_assert(attn_tensor_int_at(&nodes[4].tensor, 0) == 1);
    ck_assert_int_eq(nodes[5].align, ATTN_ALIGN_BOTTOM_RIGHT);
    ck_assert_int_eq(nodes[6].align, ATTN_ALIGN_TOP_LEFT);
    ck_assert(attn_tensor_is_none(&nodes[0].tensor) && attn_tensor_is_none(&nodes[3].kv));
    codec_request_close(&request);
}
END_TEST

static const struct refusal REFUSALS[] = {
    {MASK("3"), ATTN_BAD_MASK, "/mask", "the number 3"},
    {MASK("null"), ATTN_BAD_MASK, "/mask", "null"},
    {MASK("[[1,0]]"), ATTN_BAD_MASK, "/mask", "\"allow\""},
    {MASK("\"diagonal\""), ATTN_BAD_MASK, "/mask", "causal"},
    {MASK("\"casual\""), ATTN_BAD_MASK, "/mask", "Did you mean \"causal\"?"},
    {MASK("{\"type\":\"casual\"}"), ATTN_BAD_MASK, "/mask", "Did you mean \"causal\"?"},
    {MASK("{\"type\":\"all\"}"), ATTN_BAD_MASK, "/mask", "as {\"all\": ...}"},
    {MASK("\"not\""), ATTN_BAD_MASK, "/mask", "as {\"not\": ...}"},
    {MASK("\"dilated\""), ATTN_BAD_MASK, "/mask", "\"type\": \"dilated\" and more: width, stride"},
    {MASK("\"segments\""), ATTN_BAD_MASK, "/mask", "\"type\": \"segments\" and more: q, kv"},
    {MASK("{\"type\":\"globl\"}"), ATTN_BAD_MASK, "/mask", "Did you mean \"global\"?"},
    {MASK("{\"type\":\"dilation\"}"), ATTN_BAD_MASK, "/mask", "Did you mean \"dilated\"?"},
    {MASK("{\"type\":\"strided\"}"), ATTN_BAD_MASK, "/mask", "Did you mean \"dilated\"?"},
    {MASK("{\"type\":\"block-causal\"}"), ATTN_BAD_MASK, "/mask", "Did you mean \"block_causal\"?"},
    {MASK("\"sliding_window\""), ATTN_BAD_MASK, "/mask", "Did you mean \"window\"?"},
    {MASK("\"diagonal\""), ATTN_BAD_MASK, "/mask",
     "segments, global, dilated, block_causal, allow"},
    {MASK("{\"type\":\"global\"}"), ATTN_BAD_MASK, "/mask", "needs \"tokens\""},
    {MASK("{\"type\":\"global\",\"token\":[0]}"), ATTN_BAD_MASK, "/mask", "it has tokens"},
    {MASK("{\"type\":\"global\",\"tokens\":[0.5]}"), ATTN_BAD_TYPE, "/mask/tokens", "'0.5'"},
    {MASK("{\"type\":\"global\",\"tokens\":null}"), ATTN_BAD_TYPE, "/mask/tokens", "null"},
    {MASK("{\"type\":\"global\",\"tokens\":[[0]]}"), ATTN_BAD_SHAPE, "/mask/tokens", "flat"},
    {MASK("{\"type\":\"dilated\",\"width\":1}"), ATTN_BAD_MASK, "/mask", "needs \"stride\""},
    {MASK("{\"type\":\"dilated\",\"stride\":1}"), ATTN_BAD_MASK, "/mask", "needs \"width\""},
    {MASK("{\"type\":\"dilated\",\"width\":1,\"stride\":1e1}"), ATTN_BAD_TYPE, "/mask/stride",
     "without a point"},
    {MASK("{\"type\":\"block_causal\",\"block\":\"2\"}"), ATTN_BAD_TYPE, "/mask/block",
     "the text \"2\""},
    {MASK("{\"type\":7}"), ATTN_BAD_MASK, "/mask", "type"},
    {MASK("{\"left\":1}"), ATTN_BAD_MASK, "/mask", "type"},
    {MASK("{\"any\":\"causal\"}"), ATTN_BAD_MASK, "/mask/any", "list"},
    {MASK("{\"any\":[1]}"), ATTN_BAD_MASK, "/mask/any", "list"},
    {MASK("{\"not\":4}"), ATTN_BAD_MASK, "/mask/not", "the number 4"},
    {MASK("{\"all\":[],\"any\":[]}"), ATTN_BAD_MASK, "/mask", "alone"},
    {MASK("{\"all\":[],\"type\":\"causal\"}"), ATTN_BAD_MASK, "/mask", "alone"},
    {MASK("{\"type\":\"window\",\"left\":1}"), ATTN_BAD_MASK, "/mask", "\"right\""},
    {MASK("{\"type\":\"window\",\"left\":1,\"right\":1,\"size\":3}"), ATTN_BAD_MASK, "/mask",
     "\"size\""},
    {MASK("[{\"type\":\"window\",\"left\":1.5,\"right\":1}]"), ATTN_BAD_TYPE, "/mask/0/left",
     "1.5"},
    {MASK("{\"type\":\"causal\",\"align\":\"centre\"}"), ATTN_BAD_VALUE, "/mask/align",
     "\"top_left\" or \"bottom_right\""},
    {MASK("{\"type\":\"padding\"}"), ATTN_BAD_MASK, "/mask", "neither"},
    {MASK("{\"type\":\"padding\",\"kv_lengths\":[1],\"keep\":[[1]]}"), ATTN_BAD_MASK, "/mask",
     "both"},
    {MASK("{\"type\":\"padding\",\"kv_lengths\":[true]}"), ATTN_BAD_TYPE, "/mask/kv_lengths",
     "'true'"},
    {MASK("{\"all\":[\"causal\",{\"type\":\"segments\"}]}"), ATTN_BAD_MASK, "/mask/all/1", "\"q\""},
    {MASK("{\"type\":\"allow\",\"tensor\":[[1.5]]}"), ATTN_BAD_TYPE, "/mask/tensor", "1.5"},
    {MASK("{\"type\":\"allow\",\"tensor\":\"nowhere\"}"), ATTN_BAD_MASK, "/mask/tensor", "nowhere"},
};

/* A mask has 256 parts; the one behind them is refused, whatever it is. */
START_TEST(too_many_objects_are_refused) {
    static char body[16384];
    int at = sprintf(body, "{\"q\":[[1]],\"k\":[[1]],\"v\":[[1]],\"mask\":[");
    for (int n = 0; n < 257; n++)
        at += sprintf(body + at, "%s{\"type\":\"causal\"}", n == 0 ? "" : ",");
    strcpy(body + at, "]}");
    const struct exchange_under_test exchange = decode_json(body);
    ck_assert_str_eq(attn_status_name(exchange.status), attn_status_name(ATTN_BAD_MASK));
    ck_assert(exchange.error.limit == 256);
}
END_TEST

START_TEST(false_is_a_bool) {
    struct codec_request request =
        decoded_json("{\"q\":[[1]],\"k\":[[1]],\"v\":[[1]],"
                     "\"mask\":{\"type\":\"allow\",\"tensor\":[[false]]}}");
    ck_assert_int_eq(request.attention.mask.nodes[0].tensor.dtype, ATTN_BOOL);
    codec_request_close(&request);
}
END_TEST

/* However often a tensor is named, it is decoded once. */
START_TEST(a_name_is_one_tensor) {
    struct codec_request request =
        decoded_json("{\"q\":[[1]],\"k\":[[1]],\"v\":[[1]],\"n\":[2,1],\"t\":[[0,1]],\"mask\":["
                     "{\"type\":\"allow\",\"tensor\":\"t\"},{\"type\":\"hide\",\"tensor\":\"t\"},"
                     "{\"type\":\"prefix\",\"length\":\"n\"},{\"type\":\"padding\","
                     "\"kv_lengths\":\"n\",\"q_lengths\":\"n\"}]}");
    const struct attn_mask_node *const nodes = request.attention.mask.nodes;
    ck_assert(attn_tensor_int_at(&nodes[0].tensor, 1) == 1 && nodes[0].tensor.rank == 2);
    ck_assert_ptr_eq(nodes[0].tensor.data, nodes[1].tensor.data);
    ck_assert(nodes[2].lengths.count == 2 && nodes[2].lengths.values[0] == 2);
    ck_assert_ptr_eq(nodes[2].lengths.values, nodes[3].kv_lengths.values);
    ck_assert_ptr_eq(nodes[2].lengths.values, nodes[3].q_lengths.values);
    codec_request_close(&request);
}
END_TEST

/* Tokens are a set: they arrive rising and once each, from a list, one number or a name, and the
 * named list stays as it was for whoever else names it. */
START_TEST(tokens_arrive_as_a_set) {
    static const int64_t set[] = {0, 3, 5, 7};
    struct codec_request request = decoded_json(
        "{\"q\":[[1]],\"k\":[[1]],\"v\":[[1]],\"n\":[5,0,7,5,3,0],\"mask\":["
        "{\"type\":\"global\",\"tokens\":[7,5,7,3,0,0,5]},{\"type\":\"global\",\"tokens\":\"n\"},"
        "{\"type\":\"global\",\"tokens\":\"n\"},{\"type\":\"prefix\",\"length\":\"n\"},"
        "{\"type\":\"global\",\"tokens\":4},{\"type\":\"global\",\"tokens\":[]},"
        "{\"type\":\"dilated\",\"width\":9223372036854775807,\"stride\":2},"
        "{\"type\":\"block_causal\",\"block\":9223372036854775807}]}");
    const struct attn_mask_node *const nodes = request.attention.mask.nodes;
    for (size_t n = 0; n < 3; n++) {
        ck_assert_uint_eq(nodes[n].tokens.count, COUNT(set));
        ck_assert_mem_eq(nodes[n].tokens.values, set, sizeof set);
    }
    ck_assert_ptr_eq(nodes[1].tokens.values, nodes[2].tokens.values);
    ck_assert(nodes[3].lengths.count == 6 && nodes[3].lengths.values[0] == 5);
    ck_assert(nodes[4].tokens.count == 1 && nodes[4].tokens.values[0] == 4);
    ck_assert_uint_eq(nodes[5].tokens.count, 0);
    ck_assert(nodes[6].width == INT64_MAX && nodes[6].stride == 2);
    ck_assert(nodes[7].block == INT64_MAX);
    codec_request_close(&request);
}
END_TEST

START_TEST(refuses_masks) {
    const struct exchange_under_test exchange = decode_json(REFUSALS[_i].body);
    check_refused(&exchange, &REFUSALS[_i]);
}
END_TEST

/* A body whose mask is `count` pieces between `before` and `after`. */
static struct exchange_under_test decode_repeated(const char *before, const char *piece,
                                                  size_t count, const char *after) {
    static char body[16384];
    size_t at = (size_t)sprintf(body, "{\"q\":[[1]],\"k\":[[1]],\"v\":[[1]],\"mask\":%s", before);
    for (size_t i = 0; i < count; i++)
        at += (size_t)sprintf(body + at, "%s", piece);
    sprintf(body + at, "%s}", after);
    return decode_json(body);
}

START_TEST(nodes_are_capped) {
    static const struct refusal many = {"", ATTN_BAD_MASK, "/mask", "256 parts"};
    struct exchange_under_test exchange = decode_repeated("[", "\"causal\",", 254, "\"causal\"]");
    ck_assert_int_eq(exchange.status, ATTN_OK);
    ck_assert_uint_eq(exchange.request.attention.mask.count, 256);
    codec_request_close(&exchange.request);
    exchange = decode_repeated("[", "\"causal\",", 255, "\"causal\"]");
    check_refused(&exchange, &many);
}
END_TEST

/* 31 levels of `not` fit the document's 32; their pointers are longer than their room. */
START_TEST(depth_is_capped) {
    static const struct refusal deep = {"", ATTN_MALFORMED, "", "deep"};
    struct exchange_under_test exchange =
        decode_repeated("", "{\"not\":", 31, "\"causal\"}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}");
    ck_assert_msg(exchange.status == ATTN_OK, "%s", exchange.error.detail);
    ck_assert_uint_eq(exchange.request.attention.mask.count, 32);
    ck_assert_uint_eq(strlen(exchange.request.attention.mask.nodes[0].pointer), 63);
    codec_request_close(&exchange.request);
    exchange = decode_repeated("", "{\"not\":", 32, "\"causal\"}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}");
    check_refused(&exchange, &deep);
}
END_TEST

static Suite *options_mask_suite(void) {
    Suite *const suite = suite_create("options_mask");
    TCase *const tests = tcase_create("mask");
    tcase_add_loop_test(tests, programs_are_postfix, 0, COUNT(PROGRAMS));
    tcase_add_test(tests, members_arrive);
    tcase_add_test(tests, too_many_objects_are_refused);
    tcase_add_test(tests, false_is_a_bool);
    tcase_add_test(tests, a_name_is_one_tensor);
    tcase_add_test(tests, tokens_arrive_as_a_set);
    tcase_add_loop_test(tests, refuses_masks, 0, COUNT(REFUSALS));
    tcase_add_test(tests, nodes_are_capped);
    tcase_add_test(tests, depth_is_capped);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(options_mask_suite)
