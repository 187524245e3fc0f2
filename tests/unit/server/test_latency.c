/* SPDX-License-Identifier: Apache-2.0 */
/* The history of latency: quantiles near the truth, steps that are forgotten, the slowest calls. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "server/latency.h"
#include "tests/support/test_main.h"

#define START 1800000000.0

static struct latency *latency;

static void note(const char *id, int status, double milliseconds, double seconds) {
    struct latency_call call = {.id = id,
                                .capture = id[0] == 'k' ? "abc" : "",
                                .status = status,
                                .shape = latency_shape_of(5, 500),
                                .nanoseconds = (int64_t)(1e6 * milliseconds)};
    for (size_t n = 0; n < STAGE_COUNT; n++)
        call.stage[n] = n == STAGE_COMPUTE ? call.nanoseconds / 2 : -1;
    latency_note(latency, &call, seconds);
}

static json_t *document(double seconds) {
    struct text text = {0};
    latency_write(latency, 7, seconds, &text);
    ck_assert(!text.failed);
    json_t *root = json_loadb(text.data, text.length, 0, NULL);
    ck_assert_ptr_nonnull(root);
    text_close(&text);
    return root;
}

static double number(json_t *object, const char *name) {
    json_t *value = json_object_get(object, name);
    ck_assert_msg(json_is_number(value), "%s", name);
    return json_number_value(value);
}

static void set_up(void) {
    latency = latency_create();
    ck_assert_ptr_nonnull(latency);
}

static void tear_down(void) {
    latency_free(latency);
}

START_TEST(quantiles_are_near) {
    for (int n = 1; n <= 1000; n++)
        note("a", n == 500 ? 503 : 200, 0.37 * n, START);
    json_t *root = document(START + 1);
    json_t *step = json_array_get(json_object_get(root, "buckets"), 0);
    json_t *total = json_object_get(step, "total_ms");
    const double error = number(root, "quantile_error");
    ck_assert(error < 0.06 && number(root, "queue_limit") == 7);
    ck_assert(fabs(number(total, "p50") / (0.37 * 500) - 1) <= error + 0.01);
    ck_assert(fabs(number(total, "p95") / (0.37 * 950) - 1) <= error + 0.01);
    ck_assert(fabs(number(total, "p99") / (0.37 * 990) - 1) <= error + 0.01);
    ck_assert(fabs(number(json_object_get(step, "stages_ms"), "compute") / (0.37 * 250) - 1) <
              0.01);
    ck_assert(number(json_object_get(step, "stages_ms"), "decode") == 0);
    ck_assert(number(json_object_get(step, "statuses"), "200") == 999);
    ck_assert(number(json_object_get(step, "statuses"), "503") == 1);
    ck_assert(number(step, "rejections") == 1 && number(step, "time") == START);
    ck_assert(number(json_object_get(step, "shapes"), "to 1,024 keys") == number(total, "p95"));
    json_decref(root);
}
END_TEST

START_TEST(a_step_without_calls_is_a_gap) {
    const struct latency_gauges gauges = {3, 2, 100, 50}, fewer = {1, 1, 90, 60};
    note("a", 200, 1, START);
    latency_gauge(latency, &gauges, START + 20);
    latency_gauge(latency, &fewer, START + 25);
    json_t *root = document(START + 25);
    json_t *steps = json_object_get(root, "buckets");
    ck_assert_uint_eq(json_array_size(steps), 2);
    json_t *last = json_array_get(steps, 1);
    ck_assert(json_is_null(json_object_get(last, "total_ms")));
    ck_assert(json_is_null(json_object_get(last, "stages_ms")));
    ck_assert(number(last, "queue_depth") == 3 && number(last, "in_flight") == 2);
    ck_assert(number(last, "kv_cache_bytes") == 90 && number(last, "capture_bytes") == 60);
    json_decref(root);
}
END_TEST

START_TEST(what_is_old_is_forgotten) {
    note("old", 200, 50, START);
    note("new", 200, 5, START + 900);
    json_t *root = document(START + 900);
    ck_assert_uint_eq(json_array_size(json_object_get(root, "buckets")), 1);
    json_decref(root);
    note("newer", 200, 4, START + 901);
    root = document(START + 901);
    json_t *slowest = json_object_get(root, "slowest");
    ck_assert_uint_eq(json_array_size(slowest), 2);
    ck_assert_str_eq(json_string_value(json_object_get(json_array_get(slowest, 0), "id")), "new");
    json_decref(root);
}
END_TEST

START_TEST(the_slowest_stay) {
    char id[16];
    for (int n = 0; n < 100; n++) {
        snprintf(id, sizeof id, "%c%d", n % 2 ? 'k' : 'n', n);
        note(id, 200, 1 + n * 37 % 100, START + n);
    }
    json_t *root = document(START + 100);
    json_t *slowest = json_object_get(root, "slowest");
    ck_assert_uint_eq(json_array_size(slowest), 20);
    for (size_t n = 0; n < 20; n++) {
        json_t *slow = json_array_get(slowest, n);
        ck_assert(number(slow, "total_ms") == (double)(100 - n));
        const bool kept = json_string_value(json_object_get(slow, "id"))[0] == 'k';
        ck_assert(json_is_string(json_object_get(slow, "capture")) == kept);
    }
    json_decref(root);
}
END_TEST

START_TEST(any_time_has_a_place) {
    note("a", 200, 0, START);
    note("a", 499, 1e9, START);
    json_t *root = document(START);
    json_t *step = json_array_get(json_object_get(root, "buckets"), 0);
    ck_assert(number(json_object_get(step, "total_ms"), "p50") < 0.011);
    json_decref(root);
}
END_TEST

static Suite *latency_suite(void) {
    Suite *suite = suite_create("latency");
    TCase *history = tcase_create("history");
    tcase_add_checked_fixture(history, set_up, tear_down);
    tcase_add_test(history, quantiles_are_near);
    tcase_add_test(history, a_step_without_calls_is_a_gap);
    tcase_add_test(history, what_is_old_is_forgotten);
    tcase_add_test(history, the_slowest_stay);
    tcase_add_test(history, any_time_has_a_place);
    suite_add_tcase(suite, history);
    return suite;
}

ATTN_TEST_MAIN(latency_suite)
