/* SPDX-License-Identifier: Apache-2.0 */
/* Problem documents: the status follows from the fault class, and every member is there. */
#include "server/problem.h"

#include <jansson.h>
#include <string.h>

#include "tests/support/test_main.h"

START_TEST(statuses) {
    static const struct {
        int code, status;
    } rows[] = {
        {ATTN_MALFORMED, 400},        {ATTN_OPTION_TWICE, 400},     {ATTN_BAD_SHAPE, 422},
        {ATTN_RESULT_TOO_LARGE, 413}, {ATTN_OVERLOADED, 503},       {ATTN_DRAINING, 503},
        {ATTN_CANCELLED, 499},        {ATTN_DEADLINE, 504},         {PROBLEM_NOT_FOUND, 404},
        {PROBLEM_METHOD, 405},        {PROBLEM_BAD_FRAMING, 400},   {PROBLEM_LENGTH_REQUIRED, 411},
        {PROBLEM_MEDIA_TYPE, 415},    {PROBLEM_NOT_ACCEPTABLE, 406}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ck_assert_int_eq(problem_status(rows[i].code), rows[i].status);
}
END_TEST

/* Names go into URIs and metrics labels, so they are distinct and plain. */
START_TEST(names) {
    for (int a = ATTN_OK; a < PROBLEM_COUNT; a++) {
        const char *name = problem_name(a);
        ck_assert_uint_eq(strspn(name, "abcdefghijklmnopqrstuvwxyz-"), strlen(name));
        ck_assert_uint_gt(strlen(problem_sentence(a)), 10);
        for (int b = ATTN_OK; b < a; b++)
            ck_assert_str_ne(name, problem_name(b));
    }
}
END_TEST

static json_t *written(const struct problem *problem) {
    struct text text = {0};
    problem_write(problem, PROBLEM_DETAILS, "an-id", &text);
    ck_assert(!text.failed);
    json_t *document = json_loadb(text.data, text.length, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_ptr_nonnull(document);
    text_close(&text);
    return document;
}

static const char *member(const json_t *document, const char *name) {
    return json_string_value(json_object_get(document, name));
}

START_TEST(whole_document) {
    struct attn_error error = {0};
    struct problem problem;
    attn_fail(&error, ATTN_BAD_VALUE, "/scale", "Not \"%s\".", "big");
    problem_from_error(&problem, &error);
    json_t *document = written(&problem);
    ck_assert_str_eq(member(document, "type"), "/problems/bad-value");
    ck_assert_str_eq(member(document, "title"), problem_sentence(ATTN_BAD_VALUE));
    ck_assert_str_eq(member(document, "detail"), "Not \"big\".");
    ck_assert_str_eq(member(document, "instance"), "an-id");
    ck_assert_str_eq(member(document, "pointer"), "/scale");
    ck_assert_int_eq(json_integer_value(json_object_get(document, "status")), 422);
    json_decref(document);
}
END_TEST

START_TEST(no_place_no_pointer) {
    struct problem problem;
    problem_set(&problem, PROBLEM_NOT_FOUND, NULL, "There is no %d.", 17);
    json_t *document = written(&problem);
    ck_assert_ptr_null(json_object_get(document, "pointer"));
    ck_assert_ptr_null(json_object_get(document, "limit"));
    ck_assert_str_eq(member(document, "detail"), "There is no 17.");
    json_decref(document);
}
END_TEST

START_TEST(a_limit_is_a_number) {
    static const double limits[] = {1, 1073741824, 1e15, 9007199254740992};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct problem problem;
        problem_set(&problem, ATTN_BODY_TOO_LARGE, NULL, "Too large.");
        problem.limit = limits[i];
        json_t *document = written(&problem);
        ck_assert_double_eq(json_number_value(json_object_get(document, "limit")), limits[i]);
        json_decref(document);
    }
}
END_TEST

START_TEST(a_detail_is_never_empty) {
    const struct attn_error error = {.status = ATTN_NO_MEMORY};
    struct problem problem;
    problem_from_error(&problem, &error);
    ck_assert_str_eq(problem.detail, problem_sentence(ATTN_NO_MEMORY));
}
END_TEST

START_TEST(one_sentence_for_the_open_inference_protocol) {
    struct attn_error error = {0};
    struct problem problem;
    struct text text = {0};
    attn_fail_limit(&error, ATTN_BAD_SHAPE, "q", 5, "Not \"%s\".", "big");
    problem_from_error(&problem, &error);
    problem_write(&problem, PROBLEM_OIP, "an-id", &text);
    text_add(&text, "", 1);
    ck_assert_str_eq(text.data, "{\"error\":\"q: Not \\\"big\\\".\"}\n");
    text_clear(&text);
    problem_set(&problem, PROBLEM_NOT_FOUND, NULL, "There is no %d.", 17);
    problem_write(&problem, PROBLEM_OIP, "an-id", &text);
    text_add(&text, "", 1);
    ck_assert_str_eq(text.data, "{\"error\":\"There is no 17.\"}\n");
    text_close(&text);
    ck_assert_str_eq(problem_content_type(PROBLEM_OIP), "application/json");
    ck_assert_str_eq(problem_content_type(PROBLEM_DETAILS), "application/problem+json");
}
END_TEST

START_TEST(a_place_that_the_sentence_names_is_not_said_twice) {
    static const char *const sentences[][2] = {
        {"The request lacks v.", "{\"error\":\"The request lacks v.\"}\n"},
        {"v is no tensor.", "{\"error\":\"v is no tensor.\"}\n"},
        {"It has vectors v1 of v_2.", "{\"error\":\"v: It has vectors v1 of v_2.\"}\n"},
    };
    for (size_t i = 0; i < sizeof sentences / sizeof *sentences; i++) {
        struct problem problem;
        struct text text = {0};
        problem_set(&problem, PROBLEM_NOT_FOUND, "v", "%s", sentences[i][0]);
        problem_write(&problem, PROBLEM_OIP, "an-id", &text);
        text_add(&text, "", 1);
        ck_assert_str_eq(text.data, sentences[i][1]);
        text_close(&text);
    }
}
END_TEST

static Suite *problem_suite(void) {
    Suite *suite = suite_create("problem");
    TCase *tests = tcase_create("problem");
    tcase_add_test(tests, statuses);
    tcase_add_test(tests, names);
    tcase_add_test(tests, whole_document);
    tcase_add_test(tests, a_place_that_the_sentence_names_is_not_said_twice);
    tcase_add_test(tests, no_place_no_pointer);
    tcase_add_test(tests, a_limit_is_a_number);
    tcase_add_test(tests, a_detail_is_never_empty);
    tcase_add_test(tests, one_sentence_for_the_open_inference_protocol);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(problem_suite)
