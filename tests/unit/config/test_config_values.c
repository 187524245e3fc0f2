/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The types of options.def: each bound and each unit, what is refused and why, and that a value
 * printed reads back as itself. The table's own rows are tried as well.
 */
#include "config/internal.h"
#include "tests/support/test_main.h"

#include <inttypes.h>
#include <string.h>

static const struct config_option rows[CONFIG_TYPE_COUNT] = {
    [CONFIG_TYPE_ADDRESSES] = {.name = "addresses", .type = CONFIG_TYPE_ADDRESSES, .def = "a:1"},
    [CONFIG_TYPE_STRING] = {.name = "string", .type = CONFIG_TYPE_STRING, .min = "1", .max = "5"},
    [CONFIG_TYPE_PATH] = {.name = "path", .type = CONFIG_TYPE_PATH, .min = "0", .max = "5"},
    [CONFIG_TYPE_CHOICE] = {.name = "choice", .type = CONFIG_TYPE_CHOICE, .unit = "a|bc|b"},
    [CONFIG_TYPE_INTEGER] = {.name = "integer",
                             .type = CONFIG_TYPE_INTEGER,
                             .unit = "things",
                             .min = "5",
                             .max = "18446744073709551615"},
    [CONFIG_TYPE_BYTES] = {.name = "bytes",
                           .type = CONFIG_TYPE_BYTES,
                           .min = "1KiB",
                           .max = "16383PiB"},
    [CONFIG_TYPE_DURATION] = {.name = "duration",
                              .type = CONFIG_TYPE_DURATION,
                              .min = "0",
                              .max = "24h"},
    [CONFIG_TYPE_BOOL] = {.name = "bool", .type = CONFIG_TYPE_BOOL},
};

static bool parse(enum config_type_id type, const char *text, void *field,
                  struct config_phrase *phrase) {
    return config_types[type].parse(&rows[type], text, field, phrase);
}

static const struct number {
    enum config_type_id type;
    const char *text;
    uint64_t value;
} numbers[] = {
    {CONFIG_TYPE_INTEGER, "5", 5},
    {CONFIG_TYPE_INTEGER, "007", 7},
    {CONFIG_TYPE_INTEGER, "1e15", UINT64_C(1000000000000000)},
    {CONFIG_TYPE_INTEGER, "25E3", 25000},
    {CONFIG_TYPE_INTEGER, "18446744073709551615", UINT64_MAX},
    {CONFIG_TYPE_BYTES, "1024", 1024},
    {CONFIG_TYPE_BYTES, "1024B", 1024},
    {CONFIG_TYPE_BYTES, "512k", 524288},
    {CONFIG_TYPE_BYTES, "512K", 524288},
    {CONFIG_TYPE_BYTES, "2kB", 2000},
    {CONFIG_TYPE_BYTES, "2KiB", 2048},
    {CONFIG_TYPE_BYTES, "2Ki", 2048},
    {CONFIG_TYPE_BYTES, "3M", UINT64_C(3) << 20},
    {CONFIG_TYPE_BYTES, "64MiB", UINT64_C(64) << 20},
    {CONFIG_TYPE_BYTES, "64 mib", UINT64_C(64) << 20},
    {CONFIG_TYPE_BYTES, "3MB", 3000000},
    {CONFIG_TYPE_BYTES, "1GiB", UINT64_C(1) << 30},
    {CONFIG_TYPE_BYTES, "1Gi", UINT64_C(1) << 30},
    {CONFIG_TYPE_BYTES, "1G", UINT64_C(1) << 30},
    {CONFIG_TYPE_BYTES, "1GB", 1000000000},
    {CONFIG_TYPE_BYTES, "2TiB", UINT64_C(2) << 40},
    {CONFIG_TYPE_BYTES, "2TB", UINT64_C(2000000000000)},
    {CONFIG_TYPE_BYTES, "16383PiB", UINT64_C(16383) << 50},
    {CONFIG_TYPE_BYTES, "1e9", 1000000000},
    {CONFIG_TYPE_DURATION, "0", 0},
    {CONFIG_TYPE_DURATION, "0s", 0},
    {CONFIG_TYPE_DURATION, "1ms", 1},
    {CONFIG_TYPE_DURATION, "30s", 30000},
    {CONFIG_TYPE_DURATION, "5m", 300000},
    {CONFIG_TYPE_DURATION, "5 min", 300000},
    {CONFIG_TYPE_DURATION, "24h", 86400000},
};

START_TEST(a_number_is_read_with_its_unit) {
    const struct number *number = &numbers[_i];
    struct config_phrase phrase = {""};
    uint64_t value = 0;
    ck_assert_msg(parse(number->type, number->text, &value, &phrase), "%s %s", number->text,
                  phrase.text);
    ck_assert_uint_eq(value, number->value);
}
END_TEST

START_TEST(a_number_printed_reads_back) {
    const struct number *number = &numbers[_i];
    struct config_phrase phrase;
    char text[CONFIG_VALUE_SIZE];
    uint64_t value = 1;
    config_types[number->type].format(&rows[number->type], &number->value, text, sizeof text);
    ck_assert(parse(number->type, text, &value, &phrase));
    ck_assert_uint_eq(value, number->value);
}
END_TEST

static const struct printed {
    enum config_type_id type;
    uint64_t value;
    const char *text;
} printed[] = {
    {CONFIG_TYPE_BYTES, UINT64_C(1) << 30, "1GiB"},
    {CONFIG_TYPE_BYTES, UINT64_C(1536) << 20, "1536MiB"},
    {CONFIG_TYPE_BYTES, 1025, "1025"},
    {CONFIG_TYPE_BYTES, 0, "0"},
    {CONFIG_TYPE_DURATION, 90000, "90s"},
    {CONFIG_TYPE_DURATION, 3600000, "1h"},
    {CONFIG_TYPE_DURATION, 1500, "1500ms"},
    {CONFIG_TYPE_INTEGER, 1000, "1000"},
};

START_TEST(a_number_is_printed_in_its_largest_exact_unit) {
    char text[CONFIG_VALUE_SIZE];
    config_types[printed[_i].type].format(&rows[printed[_i].type], &printed[_i].value, text,
                                          sizeof text);
    ck_assert_str_eq(text, printed[_i].text);
}
END_TEST

static const struct refusal {
    enum config_type_id type;
    const char *text;
    const char *phrase;
} refusals[] = {
    {CONFIG_TYPE_INTEGER, "", "is empty"},
    {CONFIG_TYPE_INTEGER, "4", "is below the smallest value"},
    {CONFIG_TYPE_INTEGER, "0", "is below the smallest value"},
    {CONFIG_TYPE_INTEGER, "-5", "is negative"},
    {CONFIG_TYPE_INTEGER, "+5", "is not a whole number"},
    {CONFIG_TYPE_INTEGER, "five", "is not a whole number"},
    {CONFIG_TYPE_INTEGER, "0x10", "ends in \"x10\": expected a plain number"},
    {CONFIG_TYPE_INTEGER, "8k", "ends in \"k\": expected a plain number"},
    {CONFIG_TYPE_INTEGER, "8,000", "ends in \",000\": expected a plain number"},
    {CONFIG_TYPE_INTEGER, "5.5", "is not a whole number: use a smaller unit"},
    {CONFIG_TYPE_INTEGER, "5e", "ends in \"e\": expected a plain number"},
    {CONFIG_TYPE_INTEGER, "5e-1", "ends in \"e-1\": expected a plain number"},
    {CONFIG_TYPE_INTEGER, "18446744073709551616", "is too large"},
    {CONFIG_TYPE_INTEGER, "1e20", "is too large"},
    {CONFIG_TYPE_INTEGER, "1e99999999999999999999999", "is too large"},
    {CONFIG_TYPE_BYTES, "", "is empty"},
    {CONFIG_TYPE_BYTES, "1023", "is below the smallest value"},
    {CONFIG_TYPE_BYTES, "16383.5PiB", "is not a whole number: use a smaller unit"},
    {CONFIG_TYPE_BYTES, "16384PiB", "is too large"},
    {CONFIG_TYPE_BYTES, "99999999999GiB", "is too large"},
    {CONFIG_TYPE_BYTES, "18446744073709551615", "is above the largest value"},
    {CONFIG_TYPE_BYTES, "12XB",
     "ends in \"XB\": expected B, KiB, MiB, GiB, TiB, or kB, MB, GB, TB"},
    {CONFIG_TYPE_BYTES, "GiB", "is not a whole number"},
    {CONFIG_TYPE_BYTES, "1.5GiB", "is not a whole number: use a smaller unit"},
    {CONFIG_TYPE_BYTES, "1GiB2",
     "ends in \"GiB2\": expected B, KiB, MiB, GiB, TiB, or kB, MB, GB, TB"},
    {CONFIG_TYPE_BYTES, "1GiBxxxxxxxxxxxxxxxxxxxxxxxxxxx",
     "ends in \"GiBxxxxxxxxxxxxxx...\": expected B, KiB, MiB, GiB, TiB, or kB, MB, GB, TB"},
    {CONFIG_TYPE_DURATION, "", "is empty"},
    {CONFIG_TYPE_DURATION, "30", "has no unit: add ms, s, m or h"},
    {CONFIG_TYPE_DURATION, "3d", "ends in \"d\": expected ms, s, m or h"},
    {CONFIG_TYPE_DURATION, "25h", "is above the largest value"},
    {CONFIG_TYPE_DURATION, "-1s", "is negative"},
    {CONFIG_TYPE_DURATION, "9999999999999999h", "is too large"},
    {CONFIG_TYPE_CHOICE, "", "is empty"},
    {CONFIG_TYPE_CHOICE, "B", "is none of the words"},
    {CONFIG_TYPE_CHOICE, "a|bc", "is none of the words"},
    {CONFIG_TYPE_BOOL, "", "is empty"},
    {CONFIG_TYPE_BOOL, "2", "is neither on nor off"},
    {CONFIG_TYPE_PATH, "abcdef", "is too long: 6 characters"},
    {CONFIG_TYPE_STRING, "", "is too short"},
    {CONFIG_TYPE_STRING, "abcdef", "is too long: 6 characters"},
    {CONFIG_TYPE_STRING, "ab\x01", "has an unprintable character at place 3"},
    {CONFIG_TYPE_STRING, "\xC3\xA4", "has an unprintable character at place 1"},
    {CONFIG_TYPE_ADDRESSES, "", "is empty"},
    {CONFIG_TYPE_ADDRESSES, "localhost", "has no port"},
    {CONFIG_TYPE_ADDRESSES, "8080", "has no port"},
    {CONFIG_TYPE_ADDRESSES, "127.0.0.1:", "has no port"},
    {CONFIG_TYPE_ADDRESSES, "[::1]", "has no port"},
    {CONFIG_TYPE_ADDRESSES, ":8080",
     "has no host: 0.0.0.0 is every IPv4 address, [::] every IPv6 one"},
    {CONFIG_TYPE_ADDRESSES, "a:65536", "has a port above 65535"},
    {CONFIG_TYPE_ADDRESSES, "a:99999999999999999999999", "has a port above 65535"},
    {CONFIG_TYPE_ADDRESSES, "a:http", "has a port that is not a number"},
    {CONFIG_TYPE_ADDRESSES, "a:-1", "has a port that is not a number"},
    {CONFIG_TYPE_ADDRESSES, "a:80 ", "has a port that is not a number"},
    {CONFIG_TYPE_ADDRESSES, "::1:8080",
     "has more than one colon: an IPv6 address stands in brackets, as in [::1]:8080"},
    {CONFIG_TYPE_ADDRESSES, "[::g]:8080", "has no IPv6 address in its brackets"},
    {CONFIG_TYPE_ADDRESSES, "[127.0.0.1]:8080", "has no IPv6 address in its brackets"},
    {CONFIG_TYPE_ADDRESSES, "256.0.0.1:80", "has a host that is not an IPv4 address"},
    {CONFIG_TYPE_ADDRESSES, "127.1:80", "has a host that is not an IPv4 address"},
    {CONFIG_TYPE_ADDRESSES, "http//a:80", "has \"/\" in its host, which no host name has"},
    {CONFIG_TYPE_ADDRESSES, "a\x01:80", "has \"?\" in its host, which no host name has"},
    {CONFIG_TYPE_ADDRESSES, "a:1, ", "has a comma without an address beside it"},
    {CONFIG_TYPE_ADDRESSES, "unix:", "has a path that does not begin with /"},
    {CONFIG_TYPE_ADDRESSES, "unix:run/a.sock", "has a path that does not begin with /"},
    {CONFIG_TYPE_ADDRESSES, "unix:@abstract", "has a path that does not begin with /"},
    {CONFIG_TYPE_ADDRESSES, "[::1:8080",
     "has more than one colon: an IPv6 address stands in "
     "brackets, as in [::1]:8080"},
    {CONFIG_TYPE_ADDRESSES, "[::1]a:8080",
     "has more than one colon: an IPv6 address stands in "
     "brackets, as in [::1]:8080"},
    {CONFIG_TYPE_INTEGER, "0e3", "is below the smallest value"},
    {CONFIG_TYPE_ADDRESSES, "a:1,", "has a comma without an address beside it"},
    {CONFIG_TYPE_ADDRESSES, ",a:1", "has a comma without an address beside it"},
    {CONFIG_TYPE_ADDRESSES, "a:1,b", "has no port"},
    {CONFIG_TYPE_ADDRESSES, "a:1,a:2,a:3,a:4,a:5", "has more than 4 addresses"},
};

START_TEST(a_refusal_says_what_is_wrong_and_changes_nothing) {
    const struct refusal *refusal = &refusals[_i];
    struct config_phrase phrase = {""};
    unsigned char field[sizeof(struct config_addresses)], before[sizeof field];
    memset(field, 0xA5, sizeof field);
    memcpy(before, field, sizeof field);
    ck_assert_msg(!parse(refusal->type, refusal->text, field, &phrase), "%s was accepted",
                  refusal->text);
    ck_assert_str_eq(phrase.text, refusal->phrase);
    ck_assert_mem_eq(field, before, sizeof field);
}
END_TEST

static const struct address {
    const char *text, *host;
    unsigned port;
} addresses[] = {
    {"127.0.0.1:8080", "127.0.0.1", 8080},
    {"0.0.0.0:0", "0.0.0.0", 0},
    {"[::1]:65535", "::1", 65535},
    {"[::]:1", "::", 1},
    {"localhost:80", "localhost", 80},
    {"my_host:80", "my_host", 80},
    {"my-host.example.org:9", "my-host.example.org", 9},
    {"[::ffff:10.0.0.1]:9", "::ffff:10.0.0.1", 9},
    {"unix:/run/attentiond.sock", "/run/attentiond.sock", 0},
};

START_TEST(an_address_is_read_and_printed) {
    struct config_addresses read;
    struct config_phrase phrase = {""};
    char text[CONFIG_VALUE_SIZE];
    ck_assert(parse(CONFIG_TYPE_ADDRESSES, addresses[_i].text, &read, &phrase));
    ck_assert_uint_eq(read.count, 1);
    ck_assert_str_eq(read.items[0].host, addresses[_i].host);
    ck_assert_uint_eq(read.items[0].port, addresses[_i].port);
    ck_assert_int_eq(read.items[0].is_path, addresses[_i].host[0] == '/');
    config_format_addresses(NULL, &read, text, sizeof text);
    ck_assert_str_eq(text, addresses[_i].text);
}
END_TEST

START_TEST(several_addresses_are_read_and_printed) {
    static const char list[] = "127.0.0.1:80,unix:/run/a.sock,[::1]:8080,unix:/tmp/b";
    struct config_addresses read;
    struct config_phrase phrase = {""};
    char text[CONFIG_VALUE_SIZE];
    ck_assert(parse(CONFIG_TYPE_ADDRESSES, list, &read, &phrase));
    ck_assert_uint_eq(read.count, 4);
    ck_assert_str_eq(read.items[1].host, "/run/a.sock");
    ck_assert(read.items[1].is_path && !read.items[2].is_path && read.items[3].is_path);
    config_format_addresses(NULL, &read, text, sizeof text);
    ck_assert_str_eq(text, list);
}
END_TEST

/* Only where that is the default. */
START_TEST(no_address_is_read_and_printed) {
    const struct config_option option = {.type = CONFIG_TYPE_ADDRESSES, .def = ""};
    struct config_addresses read = {.count = 3};
    struct config_phrase phrase = {""};
    char text[CONFIG_VALUE_SIZE] = "x";
    ck_assert(config_parse_addresses(&option, "", &read, &phrase));
    ck_assert_uint_eq(read.count, 0);
    config_format_addresses(&option, &read, text, sizeof text);
    ck_assert_str_eq(text, "");
}
END_TEST

START_TEST(a_path_of_107_bytes_is_the_longest) {
    char text[160];
    struct config_addresses read;
    struct config_phrase phrase = {""};
    snprintf(text, sizeof text, "unix:/%0106d", 0);
    ck_assert(parse(CONFIG_TYPE_ADDRESSES, text, &read, &phrase));
    snprintf(text, sizeof text, "unix:/%0107d", 0);
    ck_assert(!parse(CONFIG_TYPE_ADDRESSES, text, &read, &phrase));
    ck_assert_str_eq(phrase.text, "has a path of 108 bytes, and a socket's has at most 107");
}
END_TEST

START_TEST(a_host_of_253_characters_is_the_longest) {
    char text[300];
    struct config_addresses address;
    struct config_phrase phrase = {""};
    snprintf(text, sizeof text, "%0253d:80", 0);
    memset(text, 'a', 253);
    ck_assert(parse(CONFIG_TYPE_ADDRESSES, text, &address, &phrase));
    snprintf(text, sizeof text, "%0254d:80", 0);
    ck_assert(!parse(CONFIG_TYPE_ADDRESSES, text, &address, &phrase));
    ck_assert_str_eq(phrase.text, "has a host longer than 253 characters");
    snprintf(text, sizeof text, "%0290d:80", 0);
    ck_assert(!parse(CONFIG_TYPE_ADDRESSES, text, &address, &phrase));
    ck_assert_str_eq(phrase.text, "has a host longer than 253 characters");
}
END_TEST

START_TEST(words_and_switches) {
    struct config_phrase phrase;
    unsigned word = 9;
    bool on = false;
    ck_assert(parse(CONFIG_TYPE_CHOICE, "b", &word, &phrase));
    ck_assert_uint_eq(word, 2);
    ck_assert(parse(CONFIG_TYPE_CHOICE, "bc", &word, &phrase));
    ck_assert_uint_eq(word, 1);
    static const char *const yes[] = {"on", "true", "yes", "1", "ON", "True"};
    static const char *const no[] = {"off", "false", "no", "0", "OFF", "False"};
    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++) {
        ck_assert(parse(CONFIG_TYPE_BOOL, yes[i], &on, &phrase) && on);
        ck_assert(parse(CONFIG_TYPE_BOOL, no[i], &on, &phrase) && !on);
    }
}
END_TEST

START_TEST(the_words_of_log_are_its_enumeration) {
    static const char *const words[] = {
        [CONFIG_LOG_OFF] = "off", [CONFIG_LOG_ERRORS] = "errors", [CONFIG_LOG_ALL] = "all"};
    const struct config_option *log = &config_options[CONFIG_ID_log];
    struct config_phrase phrase;
    for (unsigned i = 0; i < sizeof words / sizeof words[0]; i++) {
        unsigned word = 99;
        ck_assert(config_types[log->type].parse(log, words[i], &word, &phrase));
        ck_assert_uint_eq(word, i);
    }
}
END_TEST

START_TEST(each_row_accepts_its_bounds_and_its_default) {
    const struct config_option *option = &config_options[_i];
    const bool number = option->type == CONFIG_TYPE_INTEGER || option->type == CONFIG_TYPE_BYTES ||
                        option->type == CONFIG_TYPE_DURATION;
    const char *texts[] = {option->def, number ? option->min : option->def,
                           number ? option->max : option->def};
    struct config_phrase phrase = {""};
    struct config_addresses field;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        ck_assert_msg(config_types[option->type].parse(option, texts[i], &field, &phrase),
                      "%s = %s %s", option->name, texts[i], phrase.text);
    ck_assert_ptr_null(strpbrk(option->sentence, "|\\"));
    ck_assert_int_ne(option->sentence[0], '.');
    ck_assert_int_eq(option->sentence[strlen(option->sentence) - 1], '.');
}
END_TEST

#define COUNT(list) ((int)(sizeof(list) / sizeof((list)[0])))

static Suite *config_values_suite(void) {
    Suite *suite = suite_create("config_values");
    TCase *values = tcase_create("values");
    tcase_add_loop_test(values, a_number_is_read_with_its_unit, 0, COUNT(numbers));
    tcase_add_loop_test(values, a_number_printed_reads_back, 0, COUNT(numbers));
    tcase_add_loop_test(values, a_number_is_printed_in_its_largest_exact_unit, 0, COUNT(printed));
    tcase_add_loop_test(values, a_refusal_says_what_is_wrong_and_changes_nothing, 0,
                        COUNT(refusals));
    tcase_add_loop_test(values, an_address_is_read_and_printed, 0, COUNT(addresses));
    tcase_add_test(values, several_addresses_are_read_and_printed);
    tcase_add_test(values, no_address_is_read_and_printed);
    tcase_add_test(values, a_path_of_107_bytes_is_the_longest);
    tcase_add_test(values, a_host_of_253_characters_is_the_longest);
    tcase_add_test(values, words_and_switches);
    tcase_add_test(values, the_words_of_log_are_its_enumeration);
    tcase_add_loop_test(values, each_row_accepts_its_bounds_and_its_default, 0, CONFIG_ID_COUNT);
    suite_add_tcase(suite, values);
    return suite;
}

ATTN_TEST_MAIN(config_values_suite)
