/* SPDX-License-Identifier: Apache-2.0 */
/* The route table and how it is searched. */
#include "server/edit_distance.h"
#include "server/routes.h"
#include "tests/support/test_main.h"

#include <string.h>

START_TEST(methods) {
    ck_assert_int_eq(http_method_find("GET"), HTTP_GET);
    ck_assert_int_eq(http_method_find("TRACE"), HTTP_TRACE);
    ck_assert_int_eq(http_method_find("QUERY"), HTTP_QUERY);
    ck_assert_int_eq(http_method_find("get"), HTTP_OTHER);
    ck_assert_int_eq(http_method_find("other"), HTTP_OTHER);
    ck_assert_int_eq(http_method_find(""), HTTP_OTHER);
    ck_assert_str_eq(http_method_name(HTTP_DELETE), "DELETE");
    ck_assert_str_eq(http_method_name(HTTP_OTHER), "other");
}
END_TEST

START_TEST(every_row_is_found) {
    bool known;
    ck_assert_ptr_null(route_at(route_count()));
    for (size_t i = 0; i < route_count(); i++) {
        const struct route *route = route_at(i);
        struct route_captures captures;
        ck_assert_ptr_eq(route_find(route->path, route->method, &captures, &known), route);
        ck_assert_uint_eq(route_index(route), i);
        ck_assert(route->handle != NULL);
    }
}
END_TEST

START_TEST(head_is_get) {
    struct route_captures captures;
    bool known;
    const struct route *get = route_find("/healthz", HTTP_GET, &captures, &known);
    ck_assert_ptr_nonnull(get);
    ck_assert_ptr_eq(route_find("/healthz", HTTP_HEAD, &captures, &known), get);
    ck_assert_uint_eq(captures.count, 0);
    ck_assert_ptr_null(route_find("/v1/attention", HTTP_HEAD, &captures, &known));
    ck_assert(known);
}
END_TEST

START_TEST(what_is_not_there) {
    static const char *const paths[] = {"",
                                        "/v1/",
                                        "/V1",
                                        "/v1/attention/x",
                                        "v1",
                                        "/v2/models/",
                                        "/v2/models//ready",
                                        "/v2/models/a/",
                                        "/v2/models/a/versions",
                                        "/v2/models/a/versions/1/2/3"};
    struct route_captures captures;
    bool known;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        ck_assert_ptr_null(route_find(paths[i], HTTP_GET, &captures, &known));
        ck_assert(!known);
        ck_assert_ptr_null(route_of_path(paths[i]));
    }
}
END_TEST

START_TEST(captures_segments) {
    struct route_captures captures;
    bool known;
    const struct route *route =
        route_find("/v2/models/attention/versions/1/ready", HTTP_GET, &captures, &known);
    ck_assert_ptr_nonnull(route);
    ck_assert_str_eq(route->path, "/v2/models/{model}/versions/{version}/ready");
    ck_assert_uint_eq(captures.count, 2);
    ck_assert(route_capture_is(route_captured(&captures, "model"), "attention"));
    ck_assert(!route_capture_is(route_captured(&captures, "model"), "attentio"));
    ck_assert(!route_capture_is(route_captured(&captures, "model"), "attentions"));
    ck_assert(route_capture_is(route_captured(&captures, "version"), "1"));
    ck_assert_ptr_null(route_captured(&captures, "mode").text);
    ck_assert(!route_capture_is(route_captured(&captures, "mode"), ""));
    ck_assert_ptr_nonnull(route_find("/v2/models/{model}", HTTP_GET, &captures, &known));
    ck_assert(route_capture_is(route_captured(&captures, "model"), "{model}"));
}
END_TEST

/* What is captured has its place. */
START_TEST(no_row_captures_too_much) {
    for (size_t i = 0; i < route_count(); i++) {
        size_t braces = 0;
        for (const char *at = route_at(i)->path; *at != 0; at++)
            braces += *at == '{';
        ck_assert_uint_le(braces, ROUTE_CAPTURES_MAX);
    }
}
END_TEST

/* A path without a row has the form of those that begin like it. */
START_TEST(error_forms) {
    for (size_t i = 0; i < route_count(); i++)
        ck_assert_int_eq(route_errors(route_at(i)->path), route_at(i)->errors);
    ck_assert_int_eq(route_errors("/v2"), PROBLEM_OIP);
    ck_assert_int_eq(route_errors("/v2?a=/v1"), PROBLEM_OIP);
    ck_assert_int_eq(route_errors("/v2/nothing/here"), PROBLEM_OIP);
    ck_assert_int_eq(route_errors("/v22"), PROBLEM_DETAILS);
    ck_assert_int_eq(route_errors("/v1/v2"), PROBLEM_DETAILS);
    ck_assert_int_eq(route_errors(""), PROBLEM_DETAILS);
    ck_assert_int_eq(route_errors("/"), PROBLEM_DETAILS);
    ck_assert_int_eq(route_errors("v2"), PROBLEM_DETAILS);
}
END_TEST

START_TEST(allowed_methods) {
    char text[64], small[3];
    ck_assert_str_eq(route_allow("/v1/attention", text, sizeof text), "POST");
    ck_assert_str_eq(route_allow("/metrics", text, sizeof text), "GET");
    ck_assert_str_eq(route_allow("/nowhere", text, sizeof text), "");
    ck_assert_str_eq(route_allow("/metrics", small, sizeof small), "GE");
}
END_TEST

START_TEST(hints) {
    static const char *const rows[][2] = {
        {"/v1/attentoin", "/v1/attention"},
        {"/health", "/healthz"},
        {"/metric", "/metrics"},
        {"/v2/models/mine/redy", "/v2/models/mine/ready"},
        {"/v2/model/mine/ready", "/v2/models/mine/ready"},
        {"/v2/models/", "/v2/models"},
        {"/v2/models/mine/version/7", "/v2/models/mine/versions/7"},
    };
    char hint[100], small[4];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ck_assert_str_eq(route_nearest(rows[i][0], hint, sizeof hint), rows[i][1]);
    ck_assert_ptr_eq(route_nearest("", hint, sizeof hint), hint);
    ck_assert_str_eq(route_nearest("/metric", small, sizeof small), "/me");
}
END_TEST

START_TEST(only_near_paths_are_named) {
    char text[100];
    ck_assert_str_eq(route_nearest("/v1/attentoin", text, sizeof text), "/v1/attention");
    ck_assert_str_eq(route_nearest("/doc", text, sizeof text), "/docs");
    ck_assert_ptr_null(route_nearest("/nosuch", text, sizeof text));
    ck_assert_ptr_null(route_nearest("/a/quite/different/path", text, sizeof text));
}
END_TEST

START_TEST(a_swap_is_one_edit) {
    ck_assert_uint_eq(edit_distance("", ""), 0);
    ck_assert_uint_eq(edit_distance("mask", "mask"), 0);
    ck_assert_uint_eq(edit_distance("maks", "mask"), 1);
    ck_assert_uint_eq(edit_distance("amks", "mask"), 2);
    ck_assert_uint_eq(edit_distance("ca", "abc"), 3); /* no place is mended twice */
    ck_assert_uint_eq(edit_distance("scale", ""), 5);
    ck_assert_uint_eq(edit_distance("kitten", "sitting"), 3);
    char long_word[3 * EDIT_LONGEST] = {0};
    memset(long_word, 'a', sizeof long_word - 1);
    ck_assert_uint_eq(edit_distance(long_word, "a"), EDIT_LONGEST - 1);
}
END_TEST

static Suite *routes_suite(void) {
    Suite *suite = suite_create("routes");
    TCase *tests = tcase_create("routes");
    tcase_add_test(tests, methods);
    tcase_add_test(tests, every_row_is_found);
    tcase_add_test(tests, head_is_get);
    tcase_add_test(tests, what_is_not_there);
    tcase_add_test(tests, captures_segments);
    tcase_add_test(tests, no_row_captures_too_much);
    tcase_add_test(tests, error_forms);
    tcase_add_test(tests, allowed_methods);
    tcase_add_test(tests, hints);
    tcase_add_test(tests, only_near_paths_are_named);
    tcase_add_test(tests, a_swap_is_one_edit);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(routes_suite)
