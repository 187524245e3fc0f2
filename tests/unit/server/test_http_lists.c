/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of one name are one list, where the header is a list. The lines come from a table. */
#include <microhttpd.h>
#include <stdlib.h>

#include "server/http/http_internal.h"
#include "tests/support/test_main.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
enum { LINES = 6 };

struct line {
    const char *name, *value;
};

static const struct line *given;

/* Stands in for the library's: calls back with the lines of the row. */
int MHD_get_connection_values(struct MHD_Connection *connection, enum MHD_ValueKind kind,
                              MHD_KeyValueIterator see, void *context) {
    int count = 0;
    (void)connection;
    while (count < LINES && given[count].name != NULL) {
        ck_assert_int_eq(see(context, kind, given[count].name, given[count].value), MHD_YES);
        count++;
    }
    return count;
}

/* Where "first" stands the exchange keeps what it has: the one line's own text. */
static const struct {
    struct line lines[LINES];
    const char *accept, *accept_encoding, *if_none_match;
} ROWS[] = {
    {{{"Host", "here"}}, "first", "first", "first"},
    {{{"Accept", "text/html"}, {"Accept-Encoding", "gzip"}}, "first", "first", "first"},
    {{{"Accept", "text/html"}, {"X", "y"}, {"ACCEPT", "a/b;q=0.5, c/d"}},
     "text/html,a/b;q=0.5, c/d",
     "first",
     "first"},
    {{{"accept", NULL}, {"accept", ""}, {"accept", "*/*"}}, ",,*/*", "first", "first"},
    {{{"accept", ""}, {"accept", NULL}}, ",", "first", "first"},
    {{{"If-None-Match", "\"a\""},
      {"Accept-Encoding", "gzip"},
      {"If-None-Match", "\"b\""},
      {"Accept-Encoding", "zstd"}},
     "first",
     "gzip,zstd",
     "\"a\",\"b\""},
    {{{"X-Accept", "a"}, {"X-Accept", "b"}, {"Accept", "c"}}, "first", "first", "first"},
};

START_TEST(lines_are_one_list) {
    struct exchange exchange = {
        .accept = "first", .accept_encoding = "first", .if_none_match = "first"};
    given = ROWS[_i].lines;
    ck_assert(http_join_lists(NULL, &exchange));
    ck_assert_str_eq(exchange.accept, ROWS[_i].accept);
    ck_assert_str_eq(exchange.accept_encoding, ROWS[_i].accept_encoding);
    ck_assert_str_eq(exchange.if_none_match, ROWS[_i].if_none_match);
    free(exchange.lists);
}
END_TEST

/* Where spans are sent nowhere, no trace has a state. */
START_TEST(the_state_of_a_trace_is_one_too) {
    static const struct line lines[LINES] = {{"tracestate", "a=1"}, {"Tracestate", "b=2"}};
    struct exchange exchange = {.tracestate = "a=1"}, untraced = {.accept = "a/b"};
    given = lines;
    ck_assert(http_join_lists(NULL, &exchange));
    ck_assert_str_eq(exchange.tracestate, "a=1,b=2");
    free(exchange.lists);
    ck_assert(http_join_lists(NULL, &untraced));
    ck_assert_ptr_null(untraced.tracestate);
    ck_assert_str_eq(untraced.accept, "a/b");
    free(untraced.lists);
}
END_TEST

static Suite *http_lists_suite(void) {
    Suite *const suite = suite_create("http_lists");
    TCase *const tests = tcase_create("lists");
    tcase_add_loop_test(tests, lines_are_one_list, 0, COUNT(ROWS));
    tcase_add_test(tests, the_state_of_a_trace_is_one_too);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(http_lists_suite)
