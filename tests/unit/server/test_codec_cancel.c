/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A decoder whose call is cancelled ends soon: before its first number, and in the middle of a
 * long row, long text or long list of rows.
 */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "server/numbers/numbers.h"
#include "tests/support/test_main.h"
#include "tests/unit/server/codec_fixture.h"

/* Decoding this many takes 50 ms and more; the flag is set after 2. */
enum { ELEMENTS = 1 << 24, PATIENCE_NS = 2000000 };

static atomic_bool cancelled;

static void *cancel_soon(void *unused) {
    const struct timespec pause = {.tv_nsec = PATIENCE_NS};
    nanosleep(&pause, NULL);
    atomic_store(&cancelled, true);
    return unused;
}

/* "[1,1,...]", or "[[1],[1],...]" for lists of one. The caller frees it. */
static char *array_text(bool nested, size_t *length) {
    const char *const item = nested ? "[1]," : "1,";
    const size_t size = strlen(item);
    char *const text = malloc(2 + ELEMENTS * size);
    ck_assert_ptr_nonnull(text);
    text[0] = '[';
    for (size_t i = 0; i < ELEMENTS; i++)
        memcpy(text + 1 + i * size, item, size);
    text[ELEMENTS * size] = ']';
    *length = ELEMENTS * size + 1;
    return text;
}

START_TEST(an_array_is_left_in_its_middle) {
    struct number_array_shape shape;
    struct number_fault fault;
    pthread_t canceller;
    size_t length;
    char *const text = array_text(_i == 1, &length);
    float *const out = calloc(ELEMENTS, sizeof *out);
    ck_assert_ptr_nonnull(out);
    ck_assert_int_eq(pthread_create(&canceller, NULL, cancel_soon, NULL), 0);
    const enum number_result result = number_array_parse_until(&cancelled, NUMBER_F32, text, length,
                                                               out, ELEMENTS, &shape, &fault);
    pthread_join(canceller, NULL);
    ck_assert_int_eq(result, NUMBER_CANCELLED);
    ck_assert(out[ELEMENTS - 1] == 0);
    free(out);
    free(text);
}
END_TEST

enum { MANY = 50331648 };

/* {"q":{"shape":[n,1],"base64":"AAAA..."},...}: all zeros, a multiple of three. */
static char *base64_body(size_t floats, size_t *length) {
    static const char tail[] = "\"},\"k\":[[1]],\"v\":[[1]]}";
    char head[64];
    const size_t begin =
        (size_t)snprintf(head, sizeof head, "{\"q\":{\"shape\":[%zu,1],\"base64\":\"", floats);
    const size_t characters = floats / 3 * 16;
    char *const body = malloc(begin + characters + sizeof tail);
    ck_assert_ptr_nonnull(body);
    memcpy(body, head, begin);
    memset(body + begin, 'A', characters);
    memcpy(body + begin + characters, tail, sizeof tail);
    *length = begin + characters + sizeof tail - 1;
    return body;
}

static struct exchange_under_test decode_cancellable(const void *body, size_t length) {
    struct exchange_under_test exchange = {.status = ATTN_OK};
    const struct codec_input input = {
        .body = body, .length = length, .schema = &ATTENTION_SCHEMA, .cancelled = &cancelled};
    exchange.status = codec_find("json")->decode(&input, &exchange.request, &exchange.error);
    return exchange;
}

/* A decoder that has left a request closes it, and names no field: nothing is wrong with any. */
static void expect_cancelled(const struct exchange_under_test *exchange) {
    ck_assert_str_eq(attn_status_name(exchange->status), "cancelled");
    ck_assert_int_eq(exchange->error.status, ATTN_CANCELLED);
    ck_assert_ptr_null(exchange->request.storage);
}

START_TEST(a_long_text_is_left_in_its_middle) {
    size_t length;
    pthread_t canceller;
    char *const body = base64_body(MANY, &length);
    ck_assert_int_eq(pthread_create(&canceller, NULL, cancel_soon, NULL), 0);
    const struct exchange_under_test exchange = decode_cancellable(body, length);
    pthread_join(canceller, NULL);
    expect_cancelled(&exchange);
    free(body);
}
END_TEST

#define SCALAR "{\"shape\":[],\"base64\":\"AACAPw==\"}"

static const char *const BODIES[] = {
    "{\"q\":[[1]],\"k\":[[1]],\"v\":[[1]]}",
    "{\"q\":{\"shape\":[1,1],\"data\":[1]},\"k\":[[1]],\"v\":[[1]]}",
    "{\"q\":{\"shape\":[1,1],\"base64\":\"AACAPw==\"},\"k\":[[1]],\"v\":[[1]]}",
    /* Without a number, so that nothing else looks. */
    "{\"q\":" SCALAR ",\"k\":" SCALAR ",\"v\":" SCALAR "}",
};

/* Understood while the flag is down, so that its being up is what ends it. */
START_TEST(a_cancelled_body_is_not_begun) {
    const char *const body = BODIES[_i];
    struct exchange_under_test exchange = decode_cancellable(body, strlen(body));
    ck_assert_int_eq(exchange.status, ATTN_OK);
    codec_request_close(&exchange.request);
    atomic_store(&cancelled, true);
    exchange = decode_cancellable(body, strlen(body));
    expect_cancelled(&exchange);
}
END_TEST

START_TEST(pieces_are_one_text) {
    size_t length;
    char *const body = base64_body(3 << 19, &length);
    struct exchange_under_test exchange = decode_cancellable(body, length);
    ck_assert_msg(exchange.status == ATTN_OK, "%s", exchange.error.detail);
    codec_request_close(&exchange.request);
    free(body);
}
END_TEST

/* Padding ends a text; where pieces of it meet it is a fault as anywhere else. */
START_TEST(padding_between_pieces_is_refused) {
    size_t length;
    char *const body = base64_body(MANY, &length);
    char *const text = strstr(body, "AAAA");
    memcpy(text + (4 << 20) - 2, "==", 2);
    const struct exchange_under_test exchange = decode_cancellable(body, length);
    ck_assert_str_eq(attn_status_name(exchange.status), "malformed");
    ck_assert_msg(strstr(exchange.error.detail, "character 4194302:") != NULL, "%s",
                  exchange.error.detail);
    free(body);
}
END_TEST

static void not_cancelled(void) {
    atomic_store(&cancelled, false);
}

static Suite *codec_cancel_suite(void) {
    Suite *suite = suite_create("codec_cancel");
    TCase *cancel = tcase_create("cancel");
    tcase_set_timeout(cancel, 120);
    tcase_add_checked_fixture(cancel, not_cancelled, NULL);
    tcase_add_loop_test(cancel, an_array_is_left_in_its_middle, 0, 2);
    tcase_add_test(cancel, a_long_text_is_left_in_its_middle);
    tcase_add_loop_test(cancel, a_cancelled_body_is_not_begun, 0,
                        (int)(sizeof BODIES / sizeof *BODIES));
    tcase_add_test(cancel, pieces_are_one_text);
    tcase_add_test(cancel, padding_between_pieces_is_refused);
    suite_add_tcase(suite, cancel);
    return suite;
}

ATTN_TEST_MAIN(codec_cancel_suite)
