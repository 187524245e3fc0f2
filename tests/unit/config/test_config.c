/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layers of the configuration: which one wins, how flags and variables are read, and the
 * sentence for everything that is refused.
 */
#include "config/internal.h"
#include "tests/support/test_main.h"
#include "tests/unit/config/config_fixture.h"

START_TEST(defaults_are_those_of_the_table) {
    assert_accepted(NO_ARGS, NO_ENVIRONMENT);
    ck_assert_str_eq(fixture.config.listen.items[0].host, "127.0.0.1");
    ck_assert_uint_eq(fixture.config.listen.items[0].port, 8080);
    ck_assert_uint_eq(fixture.config.threads, 0);
    ck_assert_uint_eq(fixture.config.max_body, UINT64_C(1) << 30);
    ck_assert_uint_eq(fixture.config.json_max_body, UINT64_C(256) << 20);
    ck_assert_uint_eq(fixture.config.max_flops, UINT64_C(1000000000000000));
    ck_assert_uint_eq(fixture.config.idle_timeout_ms, 120000);
    ck_assert_uint_eq(fixture.config.lame_duck_ms, 0);
    ck_assert_uint_eq(fixture.config.log, CONFIG_LOG_ALL);
    ck_assert(fixture.config.cancel_on_disconnect);
    ck_assert_str_eq(fixture.config.kernel, "");
    for (size_t i = 0; i < CONFIG_ID_COUNT; i++)
        ck_assert_int_eq(fixture.config.origin[i].source, CONFIG_DEFAULT);
}
END_TEST

/* Four options: each is set in one layer more than the one before it. */
START_TEST(a_stronger_layer_wins) {
    char *path = (char *)(uintptr_t)fixture_text(
        "a.conf", "io_threads = 3\nqueue_limit = 30\nthreads = 31\n");
    assert_accepted(ARGS("--config", path, "--threads", "33", NULL),
                    LIST("ATTENTIOND_QUEUE_LIMIT=20", "ATTENTIOND_THREADS=32", NULL));
    ck_assert_uint_eq(fixture.config.max_connections, 4096);
    ck_assert_uint_eq(fixture.config.io_threads, 3);
    ck_assert_uint_eq(fixture.config.queue_limit, 20);
    ck_assert_uint_eq(fixture.config.threads, 33);
    const struct config_origin *origin = fixture.config.origin;
    ck_assert_int_eq(origin[CONFIG_ID_max_connections].source, CONFIG_DEFAULT);
    ck_assert_int_eq(origin[CONFIG_ID_io_threads].source, CONFIG_FILE);
    ck_assert_uint_eq(origin[CONFIG_ID_io_threads].line, 1);
    ck_assert_int_eq(origin[CONFIG_ID_queue_limit].source, CONFIG_ENVIRONMENT);
    ck_assert_int_eq(origin[CONFIG_ID_threads].source, CONFIG_FLAG);
}
END_TEST

/* Each option alone, through its variable and through its flag: none is wired to another's row. */
START_TEST(every_option_has_a_variable_and_a_flag) {
    const struct config_option *option = &config_options[_i];
    char variable[2 * CONFIG_NAME_SIZE + CONFIG_VALUE_SIZE], flag[sizeof variable];
    char name[CONFIG_NAME_SIZE];
    const char *value = option->type == CONFIG_TYPE_CHOICE      ? option->def
                        : option->type == CONFIG_TYPE_BOOL      ? "off"
                        : option->type == CONFIG_TYPE_ADDRESSES ? "[::1]:1"
                        : option->type == CONFIG_TYPE_STRING    ? "blas"
                        : option->type == CONFIG_TYPE_PATH      ? "blas"
                                                                : option->max;
    config_spell(option->name, CONFIG_STYLE_ENVIRONMENT, name);
    snprintf(variable, sizeof variable, "%s=%s", name, value);
    config_spell(option->name, CONFIG_STYLE_FLAG, name);
    snprintf(flag, sizeof flag, "%s=%s", name, value);
    for (int layer = 0; layer < 2; layer++) {
        if (layer == 0)
            assert_accepted(NO_ARGS, LIST(variable, NULL));
        else
            assert_accepted(ARGS(flag, NULL), NO_ENVIRONMENT);
        for (int i = 0; i < CONFIG_ID_COUNT; i++)
            ck_assert_int_eq(fixture.config.origin[i].source, i != _i      ? CONFIG_DEFAULT
                                                              : layer == 0 ? CONFIG_ENVIRONMENT
                                                                           : CONFIG_FLAG);
    }
}
END_TEST

START_TEST(a_flag_takes_its_value_in_two_ways_and_the_last_one_holds) {
    assert_accepted(ARGS("--threads=4", "--queue-limit", "7", "--threads", "5", NULL),
                    NO_ENVIRONMENT);
    ck_assert_uint_eq(fixture.config.threads, 5);
    ck_assert_uint_eq(fixture.config.queue_limit, 7);
    assert_accepted(ARGS("--kernel=", NULL), NO_ENVIRONMENT);
    ck_assert_str_eq(fixture.config.kernel, "");
}
END_TEST

START_TEST(a_switch_has_a_negative) {
    assert_accepted(ARGS("--no-cancel-on-disconnect", NULL), NO_ENVIRONMENT);
    ck_assert(!fixture.config.cancel_on_disconnect);
    assert_accepted(ARGS("--no-cancel-on-disconnect", "--cancel-on-disconnect", NULL),
                    NO_ENVIRONMENT);
    ck_assert(fixture.config.cancel_on_disconnect);
    assert_accepted(ARGS("--cancel-on-disconnect=off", NULL), NO_ENVIRONMENT);
    ck_assert(!fixture.config.cancel_on_disconnect);
    assert_accepted(ARGS("--cancel-on-disconnect", NULL),
                    LIST("ATTENTIOND_CANCEL_ON_DISCONNECT=no", NULL));
    ck_assert(fixture.config.cancel_on_disconnect);
}
END_TEST

START_TEST(commands_are_reported) {
    ck_assert_int_eq(fixture_load(ARGS("--help", NULL), NO_ENVIRONMENT), CONFIG_HELP);
    ck_assert_int_eq(fixture_load(ARGS("-h", NULL), NO_ENVIRONMENT), CONFIG_HELP);
    ck_assert_int_eq(fixture_load(ARGS("--version", NULL), NO_ENVIRONMENT), CONFIG_VERSION);
    ck_assert_int_eq(fixture_load(ARGS("--check-config", NULL), NO_ENVIRONMENT), CONFIG_CHECK);
    ck_assert_int_eq(fixture_load(ARGS("--health", NULL), NO_ENVIRONMENT), CONFIG_HEALTH);
}
END_TEST

START_TEST(help_comes_whatever_else_is_wrong) {
    ck_assert_int_eq(fixture_load(ARGS("--bogus", "--threads=x", "--help", NULL),
                                  LIST("ATTENTIOND_BOGUS=1", NULL)),
                     CONFIG_HELP);
}
END_TEST

START_TEST(check_config_still_refuses) {
    assert_rejected(ARGS("--check-config", "--threads=x", NULL), NO_ENVIRONMENT,
                    "--threads: \"x\" is not a whole number; threads takes a whole number from 0 "
                    "to 1024 threads.");
}
END_TEST

static const struct refusal {
    const char *argument;
    const char *variable;
    const char *sentence;
} refusals[] = {
    {"--port=8081", NULL, "unknown flag --port; did you mean --listen?"},
    {"--log-level=info", NULL, "unknown flag --log-level; did you mean --log?"},
    {"--max-bdy=1GiB", NULL, "unknown flag --max-bdy; did you mean --max-body?"},
    {"--max_body=1GiB", NULL, "unknown flag --max_body; did you mean --max-body?"},
    {"--THREADS=1", NULL, "unknown flag --THREADS; did you mean --threads?"},
    {"--thread=1", NULL, "unknown flag --thread; did you mean --threads?"},
    {"--confg=x", NULL, "unknown flag --confg; did you mean --config?"},
    {"--check-conf", NULL, "unknown flag --check-conf; did you mean --check-config?"},
    {"--helth", NULL, "unknown flag --helth; did you mean --health?"},
    {"--health=yes", NULL, "unknown flag --health; did you mean --health?"},
    {"--verzion", NULL, "unknown flag --verzion; did you mean --version?"},
    {"--frobnicate=1", NULL, "unknown flag --frobnicate; attentiond --help lists all of them."},
    {"--no-log", NULL, "unknown flag --no-log; did you mean --log?"},
    {"--threads", NULL, "--threads: needs a value, as in --threads=VALUE."},
    {"--config", NULL, "--config: needs a value, as in --config=VALUE."},
    {"--config=", NULL,
     "the name of the configuration file is empty; name a file or leave --config and "
     "ATTENTIOND_CONFIG out."},
    {"8080", NULL, "unexpected argument \"8080\"; flags look like --name=value."},
    {"--", NULL, "unexpected argument \"--\"; flags look like --name=value."},
    {"-t", NULL, "unexpected argument \"-t\"; flags look like --name=value."},
    {"a\tb", NULL, "unexpected argument \"a\\x09b\"; flags look like --name=value."},
    {"--cancel-on-disconnect=maybe", NULL,
     "--cancel-on-disconnect: \"maybe\" is neither on nor off; cancel_on_disconnect takes on or "
     "off."},
    {"--config=/nonexistent/a.conf", NULL,
     "/nonexistent/a.conf: cannot open the configuration file: No such file or directory."},
    {NULL, "ATTENTIOND_THREDS=2",
     "unknown variable ATTENTIOND_THREDS; did you mean ATTENTIOND_THREADS?"},
    {NULL, "ATTENTIOND_CONFG=a",
     "unknown variable ATTENTIOND_CONFG; did you mean ATTENTIOND_CONFIG?"},
    {NULL, "ATTENTIOND_HELP=1",
     "unknown variable ATTENTIOND_HELP; attentiond --help lists all of them."},
    {NULL, "ATTENTIOND_=1", "unknown variable ATTENTIOND_; attentiond --help lists all of them."},
    {NULL, "ATTENTIOND_UNHEARD_OF=8080",
     "unknown variable ATTENTIOND_UNHEARD_OF; attentiond --help lists all of them."},
    {NULL, "ATTENTIOND_max_body=1GiB",
     "unknown variable ATTENTIOND_max_body; did you mean ATTENTIOND_MAX_BODY?"},
    {NULL, "ATTENTIOND_MAX_BODY=",
     "ATTENTIOND_MAX_BODY: \"\" is empty; max_body takes a size from 1KiB to 1TiB, such as "
     "64KiB or 64MiB."},
    {NULL, "ATTENTIOND_LOG=al",
     "ATTENTIOND_LOG: \"al\" is none of the words; log takes one of off, errors, all."},
    {NULL, "ATTENTIOND_CONFIG=",
     "the name of the configuration file is empty; name a file or leave --config and "
     "ATTENTIOND_CONFIG out."},
};

START_TEST(a_refusal_names_source_value_and_what_is_allowed) {
    const struct refusal *refusal = &refusals[_i];
    assert_rejected(ARGS((char *)(uintptr_t)refusal->argument, NULL),
                    LIST((char *)(uintptr_t)refusal->variable, NULL), refusal->sentence);
}
END_TEST

START_TEST(a_flag_is_no_value_of_the_flag_before_it) {
    assert_rejected(ARGS("--kernel", "--check-config", NULL), NO_ENVIRONMENT,
                    "--kernel: needs a value, as in --kernel=VALUE.");
}
END_TEST

START_TEST(a_very_long_name_is_cut_in_the_message) {
    char flag[5000];
    memset(flag, 'x', sizeof flag - 1);
    memcpy(flag, "--", 2);
    flag[sizeof flag - 1] = '\0';
    ck_assert_int_eq(fixture_load(ARGS(flag, NULL), NO_ENVIRONMENT), CONFIG_REJECTED);
    ck_assert_ptr_nonnull(strstr(fixture.error.text, "xxx..."));
    ck_assert_uint_lt(strlen(fixture.error.text), 200);
    memcpy(flag, "--no-", 5);
    ck_assert_int_eq(fixture_load(ARGS(flag, NULL), NO_ENVIRONMENT), CONFIG_REJECTED);
}
END_TEST

START_TEST(a_very_long_value_is_cut_in_the_message) {
    char flag[100000];
    memset(flag, '9', sizeof flag - 1);
    memcpy(flag, "--threads=", 10);
    flag[sizeof flag - 1] = '\0';
    ck_assert_int_eq(fixture_load(ARGS(flag, NULL), NO_ENVIRONMENT), CONFIG_REJECTED);
    ck_assert_ptr_nonnull(strstr(fixture.error.text, "999...\" is too large; threads takes"));
    ck_assert_uint_lt(strlen(fixture.error.text), 250);
}
END_TEST

START_TEST(variables_of_kubernetes_services_are_passed_over) {
    assert_accepted(
        NO_ARGS,
        LIST("ATTENTIOND_SERVICE_HOST=10.0.0.7", "ATTENTIOND_SERVICE_PORT=8080",
             "ATTENTIOND_SERVICE_PORT_HTTP=8080", "ATTENTIOND_PORT=tcp://10.0.0.7:8080",
             "ATTENTIOND_PORT_8080_TCP=tcp://10.0.0.7:8080", "ATTENTIOND_PORT_8080_TCP_PROTO=tcp",
             "ATTENTIOND_PORT_8080_TCP_ADDR=10.0.0.7", "ATTENTIOND_METRICS_SERVICE_HOST=10.0.0.8",
             "ATTENTIOND_METRICS_PORT=udp://10.0.0.8:1", "ATTENTION_OTHER=1", "PATH=/bin", NULL));
    for (size_t i = 0; i < CONFIG_ID_COUNT; i++)
        ck_assert_int_eq(fixture.config.origin[i].source, CONFIG_DEFAULT);
}
END_TEST

/* Others that only look like those are told, as a variable without a value is. */
START_TEST(variables_that_only_look_like_others_are_refused) {
    static char *const wrong[] = {"ATTENTIOND_CONFIGS=/a", "ATTENTIOND_URL=tcp://10.0.0.7:8080",
                                  "ATTENTIOND_NOTHING"};
    for (size_t n = 0; n < sizeof wrong / sizeof *wrong; n++) {
        ck_assert_int_eq(fixture_load(NO_ARGS, LIST(wrong[n], NULL)), CONFIG_REJECTED);
        ck_assert_msg(strncmp(fixture.error.text, "unknown variable ATTENTIOND_", 28) == 0, "%s",
                      fixture.error.text);
    }
}
END_TEST

START_TEST(the_flag_chooses_the_file_before_the_variable) {
    char variable[256];
    char flag[256];
    snprintf(variable, sizeof variable, "ATTENTIOND_CONFIG=%s",
             fixture_text("variable.conf", "threads = 11\nio_threads = 11\n"));
    assert_accepted(NO_ARGS, LIST(variable, NULL));
    ck_assert_uint_eq(fixture.config.threads, 11);
    snprintf(flag, sizeof flag, "--config=%s", fixture_text("flag.conf", "threads = 12\n"));
    assert_accepted(ARGS(flag, NULL), LIST(variable, NULL));
    ck_assert_uint_eq(fixture.config.threads, 12);
    ck_assert_uint_eq(fixture.config.io_threads, 2);
}
END_TEST

static Suite *config_suite(void) {
    const int refusal_count = (int)(sizeof refusals / sizeof refusals[0]);
    Suite *suite = suite_create("config");
    TCase *layers = tcase_create("layers");
    tcase_add_checked_fixture(layers, fixture_init, fixture_close);
    tcase_add_test(layers, defaults_are_those_of_the_table);
    tcase_add_test(layers, a_stronger_layer_wins);
    tcase_add_loop_test(layers, every_option_has_a_variable_and_a_flag, 0, CONFIG_ID_COUNT);
    tcase_add_test(layers, a_flag_takes_its_value_in_two_ways_and_the_last_one_holds);
    tcase_add_test(layers, a_switch_has_a_negative);
    tcase_add_test(layers, commands_are_reported);
    tcase_add_test(layers, help_comes_whatever_else_is_wrong);
    tcase_add_test(layers, check_config_still_refuses);
    tcase_add_test(layers, variables_of_kubernetes_services_are_passed_over);
    tcase_add_test(layers, variables_that_only_look_like_others_are_refused);
    tcase_add_test(layers, the_flag_chooses_the_file_before_the_variable);
    suite_add_tcase(suite, layers);
    TCase *refused = tcase_create("refused");
    tcase_add_checked_fixture(refused, fixture_init, fixture_close);
    tcase_add_loop_test(refused, a_refusal_names_source_value_and_what_is_allowed, 0,
                        refusal_count);
    tcase_add_test(refused, a_flag_is_no_value_of_the_flag_before_it);
    tcase_add_test(refused, a_very_long_name_is_cut_in_the_message);
    tcase_add_test(refused, a_very_long_value_is_cut_in_the_message);
    suite_add_tcase(suite, refused);
    return suite;
}

ATTN_TEST_MAIN(config_suite)
