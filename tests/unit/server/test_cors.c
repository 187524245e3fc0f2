/* SPDX-License-Identifier: Apache-2.0 */
/* Which origins are allowed, and how the option is read. */
#include "server/cors.h"

#include "tests/support/test_main.h"

#define COUNT(list) ((int)(sizeof(list) / sizeof *(list)))

static const struct allowed {
    const char *option;
    bool on_loopback;
    const char *origin;
    bool is_allowed;
} rows[] = {
    {"auto", true, "http://localhost", true},
    {"auto", true, "http://localhost:3000", true},
    {"auto", true, "https://127.0.0.1:8443", true},
    {"auto", true, "http://[::1]:1", true},
    {"auto", true, "http://localhost.example", false},
    {"auto", true, "http://localhost:3000.example", false},
    {"auto", true, "http://localhost:", false},
    {"auto", true, "http://localhost:123456", false},
    {"auto", true, "http://localhost:3000/", false},
    {"auto", true, "http://127.0.0.10", false},
    {"auto", true, "http://user@localhost", false},
    {"auto", true, "ftp://localhost", false},
    {"auto", true, "file://", false},
    {"auto", true, "null", false},
    {"auto", true, "", false},
    {"auto", true, "localhost", false},
    {"auto", false, "http://localhost:3000", false},
    {"none", true, "http://localhost:3000", false},
    {"*", false, "http://anything.example", true},
    {"*", false, "null", true},
    {"https://a.example", true, "https://a.example", true},
    {"https://a.example", true, "http://a.example", false},
    {"https://a.example", true, "https://a.example:443", false},
    {"https://a.example", true, "http://localhost:3000", false},
    {"https://a.example,http://b.example:81", false, "http://b.example:81", true},
    {"https://a.example,http://b.example:81", false, "http://b.example", false},
    {"https://a.example,http://b.example:81", false, "https://a.example,http://b.example:81",
     false},
};

START_TEST(an_origin) {
    struct cors cors;
    char error[256];
    ck_assert(cors_read(&cors, rows[_i].option, rows[_i].on_loopback, error, sizeof error));
    ck_assert_msg(cors_allows(&cors, rows[_i].origin) == rows[_i].is_allowed, "%s with %s",
                  rows[_i].origin, rows[_i].option);
}
END_TEST

static const char *const refused[] = {
    "",
    "a.example",
    "https://",
    "https://a.example/",
    "https://a.example/path",
    "https://A.example",
    "https://a.example:port",
    "https://a.example:123456",
    "https://a.example,",
    ",https://a.example",
    "https://a.example,,https://b.example",
    "https://a.example https://b.example",
    "https://[::1",
    "*,https://a.example",
    "null",
    "Auto",
};

START_TEST(no_list_of_origins) {
    struct cors cors;
    char error[512] = "";
    ck_assert_msg(!cors_read(&cors, refused[_i], true, error, sizeof error), "%s", refused[_i]);
    ck_assert_msg(strstr(error, "cors_origins: ") == error, "%s", error);
}
END_TEST

START_TEST(no_origin_is_never_allowed) {
    const struct cors any = {.kind = CORS_ANY};
    ck_assert(!cors_allows(&any, NULL));
    ck_assert(!cors_varies(&any));
    ck_assert(cors_varies(&(struct cors){.kind = CORS_LIST, .list = ""}));
}
END_TEST

START_TEST(an_origin_of_255_characters_is_the_longest) {
    const struct cors any = {.kind = CORS_ANY};
    char origin[CORS_ORIGIN_SIZE + 1];
    memset(origin, 'a', sizeof origin);
    origin[CORS_ORIGIN_SIZE] = '\0';
    ck_assert(!cors_allows(&any, origin));
    origin[CORS_ORIGIN_SIZE - 1] = '\0';
    ck_assert(cors_allows(&any, origin));
}
END_TEST

static Suite *cors_suite(void) {
    Suite *suite = suite_create("cors");
    TCase *tests = tcase_create("cors");
    tcase_add_loop_test(tests, an_origin, 0, COUNT(rows));
    tcase_add_loop_test(tests, no_list_of_origins, 0, COUNT(refused));
    tcase_add_test(tests, no_origin_is_never_allowed);
    tcase_add_test(tests, an_origin_of_255_characters_is_the_longest);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(cors_suite)
