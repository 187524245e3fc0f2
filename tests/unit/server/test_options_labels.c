/* SPDX-License-Identifier: Apache-2.0 */
/* Labels of tokens: lists for all or each batch item, texts of any length, and what is refused. */
#include "tests/support/test_main.h"
#include "tests/unit/server/codec_fixture.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))
#define WITH(labels) "{\"q\":[[1]],\"k\":[[1]],\"v\":[[1]],\"labels\":" labels "}"

static void check_label(const struct codec_labels *labels, size_t batch, size_t token,
                        const char *text) {
    const struct codec_label *const label = codec_labels_at(labels, batch, token);
    ck_assert_ptr_nonnull(label);
    ck_assert_msg(label->length == strlen(text) && memcmp(label->text, text, label->length) == 0,
                  "%.*s instead of %s", label->length, label->text, text);
}

START_TEST(one_list_is_for_all_batch_items) {
    struct codec_request request =
        decoded_json(WITH("{\"q\":[\"a\",\"\\u00e9\"],\"k\":[\"NaN\",\"\",\"Infinity\"]}"));
    ck_assert_uint_eq(request.q_labels.lists, 1);
    ck_assert_uint_eq(request.q_labels.count, 2);
    check_label(&request.q_labels, 0, 0, "a");
    check_label(&request.q_labels, 5, 1, "\xC3\xA9");
    ck_assert_uint_eq(request.k_labels.count, 3);
    check_label(&request.k_labels, 0, 0, "NaN");
    check_label(&request.k_labels, 0, 1, "");
    check_label(&request.k_labels, 0, 2, "Infinity");
    codec_request_close(&request);
}
END_TEST

START_TEST(a_list_for_each_batch_item) {
    struct codec_request request =
        decoded_json(WITH("{\"k\":[[\"Infinity\",\"b\"],[\"c\",\"-Infinity\"]]}"));
    ck_assert_uint_eq(request.q_labels.lists, 0);
    ck_assert_ptr_null(codec_labels_at(&request.q_labels, 0, 0));
    ck_assert_uint_eq(request.k_labels.lists, 2);
    check_label(&request.k_labels, 0, 0, "Infinity");
    check_label(&request.k_labels, 1, 0, "c");
    check_label(&request.k_labels, 1, 1, "-Infinity");
    codec_request_close(&request);
}
END_TEST

START_TEST(no_tokens_have_no_labels) {
    struct codec_request request = decoded_json(WITH("{\"q\":[],\"k\":[[],[]]}"));
    ck_assert_uint_eq(request.q_labels.lists, 1);
    ck_assert_uint_eq(request.q_labels.count, 0);
    ck_assert_uint_eq(request.k_labels.lists, 2);
    ck_assert_uint_eq(request.k_labels.count, 0);
    codec_request_close(&request);
}
END_TEST

START_TEST(long_labels_are_cut_between_characters) {
    char body[4096], text[2048] = "";
    for (int i = 0; i < 600; i++)
        strcat(text, i % 2 ? "\xE2\x82\xAC" : "x");
    snprintf(body, sizeof body, WITH("{\"q\":[\"%s\",\"%.60s\"]}"), text, text);
    struct codec_request request = decoded_json(body);
    const struct codec_label *const label = codec_labels_at(&request.q_labels, 0, 0);
    /* 60 bytes are 15 pairs of one and three; the ellipsis takes the last three. */
    ck_assert_uint_eq(label->length, 63);
    ck_assert_mem_eq(label->text, text, 60);
    ck_assert_mem_eq(label->text + 60, "\xE2\x80\xA6", 3);
    char whole[61];
    snprintf(whole, sizeof whole, "%.60s", text);
    check_label(&request.q_labels, 0, 1, whole);
    const struct codec_label odd = codec_label_of(text + 1, 64);
    ck_assert_uint_eq(odd.length, 3 + 4 * 14 + 1 + 3);
    const struct codec_label broken = codec_label_of(
        "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80"
        "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80"
        "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80",
        66);
    ck_assert_uint_eq(broken.length, 3);
    codec_request_close(&request);
}
END_TEST

static const struct refusal REFUSALS[] = {
    {WITH("[\"a\"]"), ATTN_BAD_TYPE, "/labels", "Expected an object such as"},
    {WITH("{\"v\":[\"a\"]}"), ATTN_UNKNOWN_FIELD, "/labels/v", "It has q and k"},
    {WITH("{\"q\":\"a\"}"), ATTN_BAD_TYPE, "/labels/q", "one for each token"},
    {WITH("{\"q\":[1,2]}"), ATTN_BAD_TYPE, "/labels/q/0", "Expected a text"},
    {WITH("{\"q\":[\"NaN\",null]}"), ATTN_BAD_TYPE, "/labels/q/1", "null came"},
    {WITH("{\"q\":[\"a\",7]}"), ATTN_BAD_TYPE, "/labels/q/1", "the number 7 came"},
    {WITH("{\"q\":[\"a\",[\"b\"]]}"), ATTN_BAD_TYPE, "/labels/q/1", "Expected a text"},
    {WITH("{\"k\":[[\"a\"],\"b\"]}"), ATTN_BAD_TYPE, "/labels/k/1", "Expected a list of texts"},
    {WITH("{\"k\":[[\"a\"],[\"b\",\"c\"]]}"), ATTN_BAD_SHAPE, "/labels/k/1", "1 label, and this"},
    {WITH("{\"k\":[[[\"a\"]]]}"), ATTN_BAD_TYPE, "/labels/k/0/0", "Expected a text"},
    {WITH("{\"k\":[\"NaN\" \"a\"]}"), ATTN_MALFORMED, "", "A list of labels"},
};

START_TEST(what_is_no_label_is_refused) {
    const struct exchange_under_test exchange = decode_json(REFUSALS[_i].body);
    check_refused(&exchange, &REFUSALS[_i]);
}
END_TEST

static const struct {
    const char *labels, *pointer, *part; /* part NULL: they fit B = 2, Tq = 1, Tk = 2 */
} FITS[] = {
    {"{\"q\":[\"a\"],\"k\":[[\"a\",\"b\"],[\"c\",\"d\"]]}", "", NULL},
    {"{\"q\":[]}", "/labels/q",
     "the Tq = 1 tokens, in one list or in a list for each batch item, but "
     "0 came"},
    {"{\"k\":[\"a\"]}", "/labels/k", "the Tk = 2 tokens"},
    {"{\"k\":[[\"a\",\"b\"],[\"c\",\"d\"],[\"e\",\"f\"]]}", "/labels/k",
     "B = 2 batch items, but 3"},
};

START_TEST(labels_are_as_many_as_tokens) {
    const struct attn_call call = {.B = 2, .Tq = 1, .Tk = 2};
    struct attn_error error = {.status = ATTN_OK};
    char body[256];
    snprintf(body, sizeof body, WITH("%s"), FITS[_i].labels);
    struct codec_request request = decoded_json(body);
    const enum attn_status status = codec_labels_check(&request, &call, &error);
    ck_assert_int_eq(status, FITS[_i].part == NULL ? ATTN_OK : ATTN_BAD_SHAPE);
    ck_assert_str_eq(error.pointer, FITS[_i].pointer);
    ck_assert(FITS[_i].part == NULL || strstr(error.detail, FITS[_i].part) != NULL);
    codec_request_close(&request);
}
END_TEST

static Suite *labels_suite(void) {
    Suite *const suite = suite_create("labels");
    TCase *const tests = tcase_create("labels");
    tcase_add_test(tests, one_list_is_for_all_batch_items);
    tcase_add_test(tests, a_list_for_each_batch_item);
    tcase_add_test(tests, no_tokens_have_no_labels);
    tcase_add_test(tests, long_labels_are_cut_between_characters);
    tcase_add_loop_test(tests, what_is_no_label_is_refused, 0, COUNT(REFUSALS));
    tcase_add_loop_test(tests, labels_are_as_many_as_tokens, 0, COUNT(FITS));
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(labels_suite)
