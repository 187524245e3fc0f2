/* SPDX-License-Identifier: Apache-2.0 */
/* Counting and its text: labels, buckets, both formats. */
#include "server/metrics.h"

#include <stdio.h>
#include <string.h>

#include "server/captures/captures.h"
#include "server/codings/coding.h"
#include "server/routes.h"
#include "server/service.h"
#include "tests/support/test_main.h"

static struct service service;
static struct access_log access_log;
static struct text text;

static void set_up(void) {
    struct attn_error error = {0};
    service.metrics = metrics_create();
    service.log = &access_log;
    service.admission = admission_create(1000, 1);
    service.backlog = backlog_create(1, 1);
    service.captures =
        captures_create(&(struct captures_options){.bytes = 1000}, service.admission);
    service.auth = auth_open("", error.detail, sizeof error.detail);
    ck_assert_int_eq(attn_scheduler_create(1, 0, &service.scheduler, &error), ATTN_OK);
    snprintf(service.machine.model, sizeof service.machine.model, "A \"CPU\"");
}

static void tear_down(void) {
    attn_scheduler_free(&service.scheduler);
    captures_free(service.captures);
    admission_free(service.admission);
    backlog_free(service.backlog);
    metrics_free(service.metrics);
    auth_free(service.auth);
    text_close(&text);
}

static void write_all(bool openmetrics) {
    text_clear(&text);
    metrics_write(&service, openmetrics, &text);
    text_add(&text, "", 1); /* the NUL for strstr */
    ck_assert(!text.failed);
}

/* Whether the last text has this whole line. */
static bool has_line(const char *line) {
    char whole[512];
    snprintf(whole, sizeof whole, "\n%s\n", line);
    return strstr(text.data, whole) != NULL;
}

static void count(size_t route, int code, uint64_t bytes, double seconds) {
    struct metrics_request request = {.route = route,
                                      .method = HTTP_POST,
                                      .code = code,
                                      .body_bytes = bytes,
                                      .nanoseconds = (int64_t)(1e9 * seconds)};
    for (int stage = 0; stage < STAGE_COUNT; stage++)
        request.stage[stage] = stage == STAGE_COMPUTE ? request.nanoseconds : -1;
    metrics_begin_request(service.metrics);
    metrics_end_request(service.metrics, &request);
}

START_TEST(requests) {
    count(0, 200, 10, 0.01);
    count(0, 200, 10, 0.01);
    count(route_count(), 404, 0, 0.01);
    count(0, 418, 0, 0.01); /* no row of the table of codes */
    write_all(false);
    ck_assert(has_line(
        "attention_http_requests_total{route=\"/v1/attention\",method=\"POST\",code=\"200\"} 2"));
    ck_assert(has_line(
        "attention_http_requests_total{route=\"unmatched\",method=\"POST\",code=\"404\"} 1"));
    ck_assert(has_line(
        "attention_http_requests_total{route=\"/v1/attention\",method=\"POST\",code=\"0\"} 1"));
    ck_assert(has_line("attention_http_requests_in_flight 0"));
}
END_TEST

/* A value on a bound belongs to that bucket; buckets are cumulative. */
START_TEST(buckets) {
#define STAGE "attention_stage_duration_seconds_bucket{stage=\"compute\",le="
    count(0, 200, 0, 0.0001);
    count(0, 200, 0, 0.00011);
    count(0, 200, 0, 60);
    count(0, 200, 0, 61);
    write_all(false);
    ck_assert(has_line(STAGE "\"0.0001\"} 1"));
    ck_assert(has_line(STAGE "\"0.0002\"} 2"));
    ck_assert(has_line(STAGE "\"50\"} 2"));
    ck_assert(has_line(STAGE "\"60\"} 3"));
    ck_assert(has_line(STAGE "\"+Inf\"} 4"));
    ck_assert(has_line("attention_stage_duration_seconds_count{stage=\"compute\"} 4"));
    ck_assert(has_line("attention_stage_duration_seconds_count{stage=\"read\"} 0"));
}
END_TEST

START_TEST(size_classes) {
#define DURATION "attention_http_request_duration_seconds_count{route=\"/v1/attention\",code_class="
    count(0, 200, 4096, 1);
    count(0, 200, 4097, 1);
    count(0, 400, 0, 1);
    count(0, 503, 1 << 30, 1);
    write_all(false);
    ck_assert(has_line(DURATION "\"2xx\",size=\"4KiB\"} 1"));
    ck_assert(has_line(DURATION "\"2xx\",size=\"256KiB\"} 1"));
    ck_assert(has_line(DURATION "\"4xx\",size=\"4KiB\"} 1"));
    ck_assert(has_line(DURATION "\"5xx\",size=\"more\"} 1"));
}
END_TEST

START_TEST(calls_and_rejections) {
    const struct metrics_call call = {"reference", 1000, 30, 70};
    metrics_count_call(service.metrics, &call);
    metrics_count_rejection(service.metrics, ATTN_BAD_MASK);
    metrics_count_packed(service.metrics, coding_index(coding_find("zstd", 4)), METRICS_OUT);
    write_all(false);
    ck_assert(has_line("attention_compute_flops_total 1000"));
    ck_assert(has_line("attention_score_elements_computed_total 30"));
    ck_assert(has_line("attention_score_elements_skipped_total 70"));
    ck_assert(has_line("attention_kernel_calls_total{kernel=\"reference\"} 1"));
    ck_assert(has_line("attention_rejections_total{reason=\"bad-mask\"} 1"));
    ck_assert(has_line("attention_compressed_bodies_total{coding=\"zstd\",direction=\"out\"} 1"));
    ck_assert(has_line("attention_compressed_bodies_total{coding=\"zstd\",direction=\"in\"} 0"));
}
END_TEST

START_TEST(openmetrics) {
    count(0, 200, 0, 1);
    write_all(false);
    ck_assert(has_line("# TYPE attention_http_requests_total counter"));
    ck_assert_ptr_null(strstr(text.data, "# EOF"));
    ck_assert_ptr_nonnull(strstr(text.data, "cpu=\"A \\\"CPU\\\"\""));
    write_all(true);
    ck_assert(has_line("# TYPE attention_http_requests counter"));
    ck_assert_ptr_nonnull(strstr(text.data, "\nattention_http_requests_total{"));
    ck_assert_str_eq(text.data + strlen(text.data) - 6, "# EOF\n");
}
END_TEST

START_TEST(negotiation) {
    static const struct {
        const char *accept;
        bool open;
    } rows[] = {{NULL, false},
                {"", false},
                {"*/*", false},
                {"text/plain", false},
                {"application/openmetrics-text", true},
                {"application/openmetrics-text;q=0", false},
                {"application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.9", false},
                {"text/plain;q=0.5, application/openmetrics-text; version=1.0.0; q=0.75", true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ck_assert_int_eq(metrics_wants_openmetrics(rows[i].accept), rows[i].open);
}
END_TEST

static Suite *metrics_suite(void) {
    Suite *suite = suite_create("metrics");
    TCase *tests = tcase_create("metrics");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, requests);
    tcase_add_test(tests, buckets);
    tcase_add_test(tests, size_classes);
    tcase_add_test(tests, calls_and_rejections);
    tcase_add_test(tests, openmetrics);
    tcase_add_test(tests, negotiation);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(metrics_suite)
