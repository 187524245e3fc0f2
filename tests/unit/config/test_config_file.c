/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration file: its lines, their ends, and the sentence for every line refused. */
#include "tests/support/test_main.h"
#include "tests/unit/config/config_fixture.h"

static enum config_action load_bytes(const char *bytes, size_t size) {
    char flag[256];
    snprintf(flag, sizeof flag, "--config=%s", fixture_write("a.conf", bytes, size));
    return fixture_load(ARGS(flag, NULL), NO_ENVIRONMENT);
}

static void assert_read(const char *text) {
    const enum config_action action = load_bytes(text, strlen(text));
    ck_assert_msg(action == CONFIG_RUN, "%s", fixture.error.text);
}

/* The error must be the file's path and then `rest`. */
static void assert_refused(const char *bytes, size_t size, const char *rest) {
    char expected[1024];
    ck_assert_int_eq(load_bytes(bytes, size), CONFIG_REJECTED);
    snprintf(expected, sizeof expected, "%s%s", fixture.path, rest);
    ck_assert_str_eq(fixture.error.text, expected);
}

START_TEST(every_form_of_line_is_read) {
    assert_read("# a comment\n\n  threads=4\n\tqueue_limit =  7   # why\nkernel = \"blas\"\n"
                "max_body = 64 MiB\n#io_threads = 9\nlisten=[::1]:9\nqueue_timeout = 2s");
    ck_assert_uint_eq(fixture.config.threads, 4);
    ck_assert_uint_eq(fixture.config.queue_limit, 7);
    ck_assert_str_eq(fixture.config.kernel, "blas");
    ck_assert_uint_eq(fixture.config.max_body, UINT64_C(64) << 20);
    ck_assert_uint_eq(fixture.config.io_threads, 2);
    ck_assert_str_eq(fixture.config.listen.items[0].host, "::1");
    ck_assert_uint_eq(fixture.config.queue_timeout_ms, 2000); /* the last line has no end */
    ck_assert_uint_eq(fixture.config.origin[CONFIG_ID_queue_timeout].line, 9);
    ck_assert_str_eq(fixture.config.file, fixture.path);
}
END_TEST

START_TEST(crlf_and_a_byte_order_mark_are_taken) {
    assert_read("\xEF\xBB\xBFthreads = 4\r\n\r\n# x\r\nkernel =\r\nlog = off\r\n");
    ck_assert_uint_eq(fixture.config.threads, 4);
    ck_assert_str_eq(fixture.config.kernel, "");
    ck_assert_uint_eq(fixture.config.log, CONFIG_LOG_OFF);
    ck_assert_uint_eq(fixture.config.origin[CONFIG_ID_log].line, 5);
}
END_TEST

START_TEST(a_hash_within_a_word_is_no_comment) {
    assert_read("kernel = a#b\n");
    ck_assert_str_eq(fixture.config.kernel, "a#b");
}
END_TEST

START_TEST(a_quote_alone_belongs_to_its_word) {
    assert_read("kernel = \"a\n");
    ck_assert_str_eq(fixture.config.kernel, "\"a");
}
END_TEST

START_TEST(an_empty_file_changes_nothing) {
    assert_read("");
    for (size_t i = 0; i < CONFIG_ID_COUNT; i++)
        ck_assert_int_eq(fixture.config.origin[i].source, CONFIG_DEFAULT);
}
END_TEST

#define BYTES(text) text, sizeof(text) - 1
static const struct refusal {
    const char *bytes;
    size_t size;
    const char *sentence;
} refusals[] = {
    {BYTES("threads = 4\nmax_bdy = 1GiB\n"), ":2: unknown option max_bdy; did you mean max_body?"},
    {BYTES("max-body = 1GiB\n"), ":1: unknown option max-body; did you mean max_body?"},
    {BYTES("config = x\n"), ":1: unknown option config; attentiond --help lists all of them."},
    {BYTES("\n= 4\n"), ":2: expected `name = value`, found \"= 4\"."},
    {BYTES("threads 4\n"), ":1: expected `name = value`, found \"threads 4\"."},
    {BYTES("[server]\n"), ":1: expected `name = value`, found \"[server]\"."},
    {BYTES("threads = 4\n\nthreads = 4\n"), ":3: threads is set a second time; line 1 set it "
                                            "first."},
    {BYTES("threads =\n"), ":1: \"\" is empty; threads takes a whole number from 0 to 1024 "
                           "threads."},
    {BYTES("\n\nthreads = 2 # x\nqueue_limit = many\n"),
     ":4: \"many\" is not a whole number; queue_limit takes a whole number from 0 to 1000000 "
     "calls."},
    {BYTES("threads = 4\0\n"), ":1: the line has a NUL byte; is this the right file?"},
    {BYTES("threads = 4\n\x7F\x45LF\x02\x01\n"),
     ":2: expected `name = value`, found \"\\x7FELF\\x02\\x01\"."},
};

START_TEST(a_refusal_names_file_and_line) {
    assert_refused(refusals[_i].bytes, refusals[_i].size, refusals[_i].sentence);
}
END_TEST

/* 4096 bytes are a line, 4097 are none. */
START_TEST(very_long_lines) {
    static char text[8192];
    memset(text, '#', 4097);
    text[4096] = '\n';
    ck_assert_int_eq(load_bytes(text, 4097), CONFIG_RUN);
    text[4096] = '#';
    text[4097] = '\n';
    assert_refused(text, 4098, ":1: the line is longer than 4096 bytes; is this the right file?");
}
END_TEST

START_TEST(a_file_without_end_is_left_early) {
    assert_rejected(ARGS("--config=/dev/zero", NULL), NO_ENVIRONMENT,
                    "/dev/zero:1: the line has a NUL byte; is this the right file?");
}
END_TEST

START_TEST(a_directory_is_no_file) {
    assert_rejected(ARGS("--config=/tmp", NULL), NO_ENVIRONMENT,
                    "/tmp: cannot be read: Is a directory.");
}
END_TEST

START_TEST(a_path_too_long_is_refused) {
    static char flag[6000];
    memset(flag, 'x', sizeof flag - 1);
    memcpy(flag, "--config=", 9);
    assert_rejected(ARGS(flag, NULL), NO_ENVIRONMENT,
                    "the name of the configuration file is longer than 4095 bytes.");
}
END_TEST

static Suite *config_file_suite(void) {
    const int refusal_count = (int)(sizeof refusals / sizeof refusals[0]);
    Suite *suite = suite_create("config_file");
    TCase *reading = tcase_create("reading");
    tcase_add_checked_fixture(reading, fixture_init, fixture_close);
    tcase_add_test(reading, every_form_of_line_is_read);
    tcase_add_test(reading, crlf_and_a_byte_order_mark_are_taken);
    tcase_add_test(reading, a_hash_within_a_word_is_no_comment);
    tcase_add_test(reading, a_quote_alone_belongs_to_its_word);
    tcase_add_test(reading, an_empty_file_changes_nothing);
    tcase_add_loop_test(reading, a_refusal_names_file_and_line, 0, refusal_count);
    tcase_add_test(reading, very_long_lines);
    tcase_add_test(reading, a_file_without_end_is_left_early);
    tcase_add_test(reading, a_directory_is_no_file);
    tcase_add_test(reading, a_path_too_long_is_refused);
    suite_add_tcase(suite, reading);
    return suite;
}

ATTN_TEST_MAIN(config_file_suite)
