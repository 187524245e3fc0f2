/* SPDX-License-Identifier: Apache-2.0 */
/* Under which names the service is asked, and whether a page is its own. */
#include "server/hosts.h"

#include "tests/support/test_main.h"

#define COUNT(list) ((int)(sizeof(list) / sizeof *(list)))
#define LIST "attention.example.com,*.internal.example"

static const struct allowed {
    const char *list, *host;
    bool is_allowed;
} rows[] = {
    {"", "localhost", true},
    {"", "LocalHost:8080", true},
    {"", "localhost.", true},
    {"", "127.0.0.1", true},
    {"", "10.1.2.3:65535", true},
    {"", "[::1]:8080", true},
    {"", "[fe80::1]", true},
    {"", "attention", true},
    {"", "attention:80", true},
    {"", "attention.default.svc", true},
    {"", "attention.default.svc.cluster.local:8080", true},
    {"", "demo.localhost:3000", true},
    {"", "localhost \t", true}, /* blanks behind a value are none of it */
    {"", "localhost:80 ", true},
    {"", "localhost evil.example", false},
    {"", "evil.example ", false},
    {"", "evil.example", false},
    {"", "evil.example:8080", false},
    {"", "localhost.evil.example", false},
    {"", "127.0.0.1.evil.example", false},
    {"", "svc.evil.example", false},
    {"", ".svc", false},
    {"", "xsvc.", true}, /* one label */
    {"", "a.xsvc", false},
    {"", "[::1", false},
    {"", "[evil.example]", false},
    {"", "[]", false},
    {"", "256.1.1.1", false},
    {"", "localhost:80x", false},
    {"", "localhost:123456", false},
    {"", "local host", false},
    {"", "user@localhost", false},
    {"", "", false},
    {"", ":80", false},
    {"", ".", false},
    {"", NULL, false},
    {LIST, "attention.example.com", true},
    {LIST, "Attention.Example.COM.:443", true},
    {LIST, "a.internal.example", true},
    {LIST, "a.b.internal.example", true},
    {LIST, "internal.example", false},
    {LIST, "xinternal.example", false},
    {LIST, "attention.example.com.evil.example", false},
    {LIST, "example.com", false},
    {LIST, "evil.example", false},
};

START_TEST(names) {
    const struct allowed *const row = &rows[_i];
    ck_assert_msg(hosts_allow(row->list, row->host) == row->is_allowed, "%s in \"%s\"",
                  row->host == NULL ? "no host" : row->host, row->list);
}
END_TEST

START_TEST(a_page_of_its_own) {
    ck_assert(hosts_is_same("http://localhost:8080", "localhost:8080"));
    ck_assert(hosts_is_same("https://A.example", "a.example"));
    ck_assert(!hosts_is_same("http://localhost:8080", "localhost"));
    ck_assert(!hosts_is_same("http://evil.example", "localhost"));
    ck_assert(!hosts_is_same("null", "null"));
    ck_assert(!hosts_is_same("http://localhost", NULL));
}
END_TEST

static const struct checked {
    const char *list;
    bool is_fine;
} lists[] = {
    {"", true},
    {"a.example", true},
    {LIST, true},
    {"a.example:80", false},
    {"*", false},
    {"*.", false},
    {"a.*.example", false},
    {"a.example,,b", false},
    {",a.example", false},
    {"http://a", false},
    {"a b", false},
    {"*..example", false},
};

START_TEST(the_option) {
    char error[256] = "";
    const bool is_fine = hosts_check(lists[_i].list, error, sizeof error);
    ck_assert_msg(is_fine == lists[_i].is_fine, "\"%s\": %s", lists[_i].list, error);
    ck_assert(is_fine == (error[0] == '\0'));
}
END_TEST

static Suite *hosts_suite(void) {
    Suite *suite = suite_create("hosts");
    TCase *tests = tcase_create("hosts");
    tcase_add_loop_test(tests, names, 0, COUNT(rows));
    tcase_add_test(tests, a_page_of_its_own);
    tcase_add_loop_test(tests, the_option, 0, COUNT(lists));
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(hosts_suite)
