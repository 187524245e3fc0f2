/* SPDX-License-Identifier: Apache-2.0 */
/* Which codec reads a request and which writes the answer. */
#include "tests/support/test_main.h"
#include "tests/unit/server/codec_fixture.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

static const char *name_of(const struct codec *codec) {
    return codec == NULL ? "none" : codec->name;
}

START_TEST(the_table_ends) {
    size_t count = 0;
    while (codec_at(count) != NULL)
        count++;
    ck_assert_uint_eq(count, 5);
    ck_assert_ptr_eq(codec_find("json"), codec_at(0));
    ck_assert_ptr_null(codec_find("JSON"));
    ck_assert_ptr_null(codec_at(1000));
}
END_TEST

static const struct {
    const char *content_type, *body;
    size_t length;
    const char *codec;
} REQUESTS[] = {
    {"application/json", "x", 1, "json"},
    {"Application/JSON ; charset=utf-8", NULL, 0, "json"},
    {"application/vnd.safetensors", NULL, 0, "safetensors"},
    {"application/jsonx", "{}", 2, "none"},
    {"application/pdf", "{}", 2, "none"},
    {NULL, "{}", 2, "json"},
    {"", "{}", 2, "json"},
    {"text/plain;charset=UTF-8", " {}", 3, "json"},
    {"application/x-www-form-urlencoded", "\2\0\0\0\0\0\0\0{}", 10, "safetensors"},
    {"application/octet-stream", "\2\0\0\0\0\0\0\0{}", 10, "safetensors"},
    {"application/octet-stream", "\3\0\0\0\0\0\0\0{}", 10, "json"},
    {"application/octet-stream", "\2\0\0\0\0\0\0\0[]", 10, "json"},
    {"application/octet-stream", "\0\0\0\0\0\0\0\0", 8, "json"},
    {"application/octet-stream", "", 0, "json"},
    {"application/x-npz", NULL, 0, "npz"},
    {"application/x-npy", NULL, 0, "none"},
    {"application/octet-stream", "PK\3\4", 4, "npz"},
    {"text/plain", "PK\3\4", 4, "npz"},
    {"application/octet-stream", "PK\3", 3, "json"},
    {"application/octet-stream", "PK\3\4\0\0\0\0{", 9, "npz"},
    {"application/octet-stream", "PK\0\0\0\0\0\0{", 9, "json"},
    {"application/octet-stream", "\x93NUMPY", 6, "none"},
    {"application/octet-stream", "\x93NUM", 4, "json"},
};

START_TEST(requests_by_type_or_first_bytes) {
    struct guard_page guard = guard_page_create(64);
    const char *const body = REQUESTS[_i].body == NULL
                                 ? NULL
                                 : guard_page_copy(&guard, REQUESTS[_i].body, REQUESTS[_i].length);
    bool undecided = true;
    const struct codec *const codec =
        codec_for_request(REQUESTS[_i].content_type, body, REQUESTS[_i].length, &undecided);
    ck_assert_str_eq(name_of(codec), REQUESTS[_i].codec);
    ck_assert(!undecided);
    guard_page_free(&guard);
}
END_TEST

/* An array of numpy's alone is known for what it is, by its type or its bytes. */
START_TEST(advice_for_what_is_not_read) {
    ck_assert_ptr_nonnull(strstr(codec_advice("application/x-npy", NULL, 0), "numpy.savez"));
    ck_assert_ptr_nonnull(strstr(codec_advice(NULL, "\x93NUMPY", 6), "numpy.savez"));
    ck_assert_str_eq(codec_advice("text/html", "\x93NUMPY", 6), "");
    ck_assert_ptr_nonnull(strstr(codec_advice("Multipart/form-data", "-", 1), "--data-binary"));
    ck_assert_str_eq(codec_advice(NULL, NULL, 0), "");
    ck_assert_str_eq(codec_advice("application/json", "{}", 2), "");
}
END_TEST

START_TEST(unspecific_types_wait_for_the_body) {
    static const char *const types[] = {NULL, "text/plain", "application/octet-stream"};
    for (size_t i = 0; i < COUNT(types); i++) {
        bool undecided = false;
        ck_assert_ptr_null(codec_for_request(types[i], NULL, 0, &undecided));
        ck_assert(undecided);
    }
}
END_TEST

static const struct {
    const char *accept, *request, *answer;
} ANSWERS[] = {
    {NULL, "json", "json"},
    {"", "safetensors", "safetensors"},
    {"*/*", "safetensors", "safetensors"},
    {"*/*", "json", "json"},
    {"application/*", "safetensors", "safetensors"},
    {"application/json", "safetensors", "json"},
    {"APPLICATION/JSON", "safetensors", "json"},
    {"application/vnd.safetensors", "json", "safetensors"},
    {"application/x-npz", "json", "npz"},
    {"application/x-npy", "safetensors", "npy"},
    {"*/*", "npz", "npz"},
    {"application/json;q=0.5, application/*", "npz", "npz"},
    {"text/html", "json", "none"},
    {"text/html, */*;q=0.1", "json", "json"},
    {"application/json;q=0.5, application/vnd.safetensors;q=0.6", "json", "safetensors"},
    {"application/json; q=0.5,application/vnd.safetensors; q=0.5", "safetensors", "safetensors"},
    {"application/json;q=0", "json", "none"},
    {"application/json;q=0, */*", "json", "safetensors"},
    {"*/*, application/json;q=0", "json", "safetensors"},
    {"*/*;q=0", "json", "none"},
    {"application/json;version=1;q=0.2, application/vnd.safetensors;q=0.3", "json", "safetensors"},
    {"application/json;q=x", "json", "none"},
    {"application/json;q=7, application/vnd.safetensors", "safetensors", "safetensors"},
    {"application/json;q=0.0000000000001", "json", "none"},
    {",,;,/,*,a/b/c,application/json", "safetensors", "json"},
    {"application/", "json", "none"},
    {"application/jso", "json", "none"},
    {"image/png", "json", "png"},
    {"image/*", "safetensors", "png"},
    {"image/png, application/json;q=0.9", "json", "png"},
    {"text/html, image/webp, */*;q=0.8", "json", "json"},
};

START_TEST(answers_by_accept) {
    const struct codec *const request = codec_find(ANSWERS[_i].request);
    ck_assert_msg(strcmp(name_of(codec_for_answer(ANSWERS[_i].accept, request, true)),
                         ANSWERS[_i].answer) == 0,
                  "Accept: %s", ANSWERS[_i].accept);
}
END_TEST

START_TEST(only_maps_are_drawn) {
    const struct codec *const json = codec_find("json");
    ck_assert_str_eq(name_of(codec_for_answer("image/png", json, false)), "none");
    ck_assert_str_eq(name_of(codec_for_answer("image/*, */*;q=0.1", json, false)), "json");
}
END_TEST

static Suite *codec_suite(void) {
    Suite *const suite = suite_create("codec");
    TCase *const tests = tcase_create("codec");
    tcase_add_test(tests, the_table_ends);
    tcase_add_loop_test(tests, requests_by_type_or_first_bytes, 0, COUNT(REQUESTS));
    tcase_add_test(tests, advice_for_what_is_not_read);
    tcase_add_test(tests, unspecific_types_wait_for_the_body);
    tcase_add_loop_test(tests, answers_by_accept, 0, COUNT(ANSWERS));
    tcase_add_test(tests, only_maps_are_drawn);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(codec_suite)
