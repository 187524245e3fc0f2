/* SPDX-License-Identifier: Apache-2.0 */
/* The route table and how it is searched. */
#include "server/routes.h"

#include "tests/support/test_main.h"

START_TEST(methods) {
    ck_assert_int_eq(http_method_find("GET"), HTTP_GET);
    ck_assert_int_eq(http_method_find("TRACE"), HTTP_TRACE);
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
        ck_assert_ptr_eq(route_find(route->path, route->method, &known), route);
        ck_assert_uint_eq(route_index(route), i);
        ck_assert(route->handle != NULL);
    }
}
END_TEST

START_TEST(head_is_get) {
    bool known;
    const struct route *get = route_find("/healthz", HTTP_GET, &known);
    ck_assert_ptr_nonnull(get);
    ck_assert_ptr_eq(route_find("/healthz", HTTP_HEAD, &known), get);
    ck_assert_ptr_null(route_find("/v1/attention", HTTP_HEAD, &known));
    ck_assert(known);
}
END_TEST

START_TEST(what_is_not_there) {
    static const char *const paths[] = {"", "/", "/v1/", "/V1", "/v1/attention/x", "v1"};
    bool known;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        ck_assert_ptr_null(route_find(paths[i], HTTP_GET, &known));
        ck_assert(!known);
        ck_assert_ptr_null(route_of_path(paths[i]));
    }
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
    ck_assert_str_eq(route_nearest("/v1/attentoin"), "/v1/attention");
    ck_assert_str_eq(route_nearest("/health"), "/healthz");
    ck_assert_str_eq(route_nearest("/metric"), "/metrics");
    ck_assert_ptr_nonnull(route_nearest(""));
}
END_TEST

static Suite *routes_suite(void) {
    Suite *suite = suite_create("routes");
    TCase *tests = tcase_create("routes");
    tcase_add_test(tests, methods);
    tcase_add_test(tests, every_row_is_found);
    tcase_add_test(tests, head_is_get);
    tcase_add_test(tests, what_is_not_there);
    tcase_add_test(tests, allowed_methods);
    tcase_add_test(tests, hints);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(routes_suite)
