/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The framing guard by itself. libmicrohttpd refuses some of these heads before the guard sees
 * them, and which ones depends on its version; here the headers come from a table instead.
 */
#include <microhttpd.h>
#include <stdint.h>
#include <string.h>

#include "server/http/http_internal.h"
#include "tests/support/test_main.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
enum { HEADERS = 4, FRAMING = PROBLEM_BAD_FRAMING };

struct header {
    const char *name, *value;
};

static const struct header *given;

/* Stands in for the library's: calls back with the headers of the row. */
int MHD_get_connection_values(struct MHD_Connection *connection, enum MHD_ValueKind kind,
                              MHD_KeyValueIterator see, void *context) {
    int count = 0;
    (void)connection;
    while (count < HEADERS && given[count].name != NULL) {
        ck_assert_int_eq(see(context, kind, given[count].name, given[count].value), MHD_YES);
        count++;
    }
    return count;
}

/* Looks into the library's own memory, so it is tested over HTTP: tests/e2e/test_framing.py. */
bool http_guard_bytes(const struct http_head *head, struct problem *problem) {
    (void)head;
    (void)problem;
    return true;
}

static bool guard(struct exchange *exchange, const char *version, const struct header *headers,
                  struct problem *problem) {
    const struct http_head head = {.version = version, .exchange = exchange};
    given = headers;
    return http_guard(&head, problem);
}

#define HOST \
    { "Host", "here:80" }

static const struct {
    const char *version;
    struct header headers[HEADERS];
    int code;
    const char *words;
} REFUSED[] = {
    {"HTTP/1.1", {HOST, {"", "5"}}, FRAMING, "no token has"},
    {"HTTP/1.1", {HOST, {"Content-Length ", "5"}}, FRAMING, "no token has"},
    {"HTTP/1.1", {HOST, {"a\tb", "5"}}, FRAMING, "no token has"},
    {"HTTP/1.1", {HOST, {"Content-Length37", "5"}}, FRAMING, "folded"},
    {"HTTP/1.1", {HOST, {"transfer-encoding-", "chunked"}}, FRAMING, "folded"},
    {"HTTP/1.1", {{"X", "y"}}, FRAMING, "exactly one Host"},
    {"HTTP/1.1", {HOST, HOST}, FRAMING, "exactly one Host"},
    {"HTTP/1.0", {HOST, HOST}, FRAMING, "exactly one Host"},
    {"HTTP/1.1",
     {HOST, {"content-length", "5"}, {"CONTENT-LENGTH", "5"}},
     FRAMING,
     "more than one Content-Length"},
    {"HTTP/1.1",
     {HOST, {"Content-Length", "5"}, {"Transfer-Encoding", "chunked"}},
     FRAMING,
     "exclude each other"},
    {"HTTP/1.1",
     {HOST, {"Transfer-Encoding", "chunked"}, {"Transfer-Encoding", "chunked"}},
     FRAMING,
     "exclude each other"},
    {"HTTP/1.1",
     {HOST, {"Authorization", "a"}, {"Authorization", "a"}},
     FRAMING,
     "more than one Authorization"},
    {"HTTP/1.1",
     {HOST, {"Content-Type", "application/json"}, {"content-type", "text/csv"}},
     FRAMING,
     "more than one Content-Type"},
    {"HTTP/1.1",
     {HOST, {"Inference-Header-Content-Length", "5"}, {"inference-header-content-length", "6"}},
     FRAMING,
     "more than one Inference-Header-Content-Length"},
    {"HTTP/1.0", {{"Transfer-Encoding", "chunked"}}, FRAMING, "HTTP/1.0"},
    {"HTTP/1.1",
     {HOST, {"Content-Encoding", "gzip"}, {"Content-Encoding", "gzip"}},
     PROBLEM_MEDIA_TYPE,
     "more than one Content-Encoding"},
    {"HTTP/1.1", {HOST, {"Transfer-Encoding", "gzip"}}, PROBLEM_TRANSFER_CODING, "chunked"},
    {"HTTP/1.1", {HOST, {"Transfer-Encoding", NULL}}, PROBLEM_TRANSFER_CODING, "chunked"},
    {"HTTP/1.1", {HOST, {"Content-Length", NULL}}, FRAMING, "whole number"},
    {"HTTP/1.1", {HOST, {"Content-Length", "+5"}}, FRAMING, "whole number"},
    {"HTTP/1.1", {HOST, {"Content-Length", "5, 5"}}, FRAMING, "whole number"},
    {"HTTP/1.1", {HOST, {"Content-Length", "18446744073709551616"}}, FRAMING, "whole number"},
    {"HTTP/1.1", {HOST, {"Expect", "teapot"}}, PROBLEM_EXPECTATION, "100-continue"},
};

START_TEST(heads_are_refused) {
    struct exchange exchange = {.method = HTTP_POST, .path = "/v1", .host = "here:80"};
    struct problem problem = {0};
    ck_assert(!guard(&exchange, REFUSED[_i].version, REFUSED[_i].headers, &problem));
    ck_assert_str_eq(problem_name(problem.code), problem_name(REFUSED[_i].code));
    ck_assert_msg(strstr(problem.detail, REFUSED[_i].words) != NULL, "%s", problem.detail);
}
END_TEST

static const struct {
    enum http_method method;
    struct header headers[HEADERS];
    uint64_t length;
    bool has_length, has_body, stray_body, lacks_length, expects_continue;
} BODIES[] = {
    {HTTP_POST,
     {HOST, {"Content-Length", "5"}, {"Expect", "100-Continue"}},
     5,
     true,
     true,
     false,
     false,
     true},
    {HTTP_POST,
     {HOST, {"Content-Length", "18446744073709551615"}},
     UINT64_MAX,
     true,
     true,
     false,
     false,
     false},
    {HTTP_PUT, {HOST, {"transfer-encoding", "CHUNKED"}}, 0, false, true, false, false, false},
    {HTTP_PUT, {HOST}, 0, false, false, false, true, false},
    {HTTP_PATCH, {HOST}, 0, false, false, false, true, false},
    {HTTP_POST, {HOST, {"Content-Length", "0"}}, 0, true, false, false, false, false},
    {HTTP_DELETE, {HOST, {"Content-Length", "5"}}, 5, true, true, false, false, false},
    {HTTP_DELETE,
     {HOST, {"Content-Encoding", "gzip"}, {"Authorization", "a"}},
     0,
     false,
     false,
     false,
     false,
     false},
    {HTTP_GET, {HOST}, 0, false, false, false, false, false},
    {HTTP_GET, {HOST, {"Content-Length", "5"}}, 5, true, true, true, false, false},
    {HTTP_HEAD, {HOST, {"Content-Length", "5"}}, 5, true, true, true, false, false},
    {HTTP_OPTIONS, {HOST, {"Transfer-Encoding", "chunked"}}, 0, false, true, true, false, false},
};

START_TEST(framing_says_what_body_there_is) {
    struct exchange exchange = {.method = BODIES[_i].method, .path = "/v1", .host = "here:80"};
    struct problem problem = {0};
    ck_assert_msg(guard(&exchange, "HTTP/1.1", BODIES[_i].headers, &problem), "%s", problem.detail);
    ck_assert_uint_eq(exchange.content_length, BODIES[_i].length);
    ck_assert_int_eq(exchange.has_length, BODIES[_i].has_length);
    ck_assert_int_eq(exchange.has_body, BODIES[_i].has_body);
    ck_assert_int_eq(exchange.stray_body, BODIES[_i].stray_body);
    ck_assert_int_eq(exchange.lacks_length, BODIES[_i].lacks_length);
    ck_assert_int_eq(exchange.expects_continue, BODIES[_i].expects_continue);
}
END_TEST

static const struct {
    const char *target, *host, *path; /* NULL: refused */
} TARGETS[] = {
    {"/v1", "here:80", "/v1"},
    {"http://here:80/v1", "here:80", "/v1"},
    {"HTTPS://HERE:80/v1", "here:80", "/v1"},
    {"http://here:80", "here:80", "/"},
    {"http://here:80/v1", NULL, NULL},
    {"http://here:8/v1", "here:80", NULL},
    {"https://gone:80/v1", "here:80", NULL},
    {"http://here:80.evil/v1", "here:80", NULL},
};

START_TEST(a_target_names_the_host_of_its_header) {
    static const struct header headers[HEADERS] = {HOST};
    struct exchange exchange = {
        .method = HTTP_GET, .path = TARGETS[_i].target, .host = TARGETS[_i].host};
    struct problem problem = {0};
    ck_assert_int_eq(guard(&exchange, "HTTP/1.1", headers, &problem), TARGETS[_i].path != NULL);
    if (TARGETS[_i].path != NULL)
        ck_assert_str_eq(exchange.path, TARGETS[_i].path);
    else
        ck_assert_msg(strstr(problem.detail, "another host") != NULL, "%s", problem.detail);
}
END_TEST

START_TEST(http_1_0_needs_no_host) {
    static const struct header headers[HEADERS] = {{"X-Any", "y"}};
    struct exchange exchange = {.method = HTTP_GET, .path = "/v1"};
    struct problem problem = {0};
    ck_assert(guard(&exchange, "HTTP/1.0", headers, &problem));
}
END_TEST

START_TEST(an_unknown_method_is_refused) {
    static const struct header headers[HEADERS] = {HOST};
    struct exchange exchange = {.method = HTTP_OTHER, .path = "/v1", .host = "here:80"};
    struct problem problem = {0};
    ck_assert(!guard(&exchange, "HTTP/1.1", headers, &problem));
    ck_assert_str_eq(problem_name(problem.code), problem_name(PROBLEM_METHOD_UNKNOWN));
}
END_TEST

static Suite *http_guard_suite(void) {
    Suite *const suite = suite_create("http_guard");
    TCase *const tests = tcase_create("guard");
    tcase_add_loop_test(tests, heads_are_refused, 0, (int)COUNT(REFUSED));
    tcase_add_loop_test(tests, framing_says_what_body_there_is, 0, (int)COUNT(BODIES));
    tcase_add_loop_test(tests, a_target_names_the_host_of_its_header, 0, (int)COUNT(TARGETS));
    tcase_add_test(tests, http_1_0_needs_no_host);
    tcase_add_test(tests, an_unknown_method_is_refused);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(http_guard_suite)
