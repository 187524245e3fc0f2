/* SPDX-License-Identifier: Apache-2.0 */
/* The status table: every row is complete and distinct, and the first error of a call stays. */
#include "core/status.h"
#include "tests/support/test_main.h"

#include <ctype.h>
#include <string.h>

static enum attn_status status_at(int index) {
    return (enum attn_status)index;
}

START_TEST(a_name_is_kebab_case) {
    const char *name = attn_status_name(status_at(_i));
    ck_assert(islower((unsigned char)name[0]));
    for (const char *c = name; *c != '\0'; c++) {
        ck_assert_msg(islower((unsigned char)*c) || *c == '-', "%s", name);
        ck_assert_msg(*c != '-' || islower((unsigned char)c[1]), "%s", name);
    }
}
END_TEST

START_TEST(a_name_and_a_sentence_stand_once) {
    for (int other = 0; other < ATTN_STATUS_COUNT; other++) {
        if (other == _i)
            continue;
        ck_assert_str_ne(attn_status_name(status_at(_i)), attn_status_name(status_at(other)));
        ck_assert_str_ne(attn_status_sentence(status_at(_i)),
                         attn_status_sentence(status_at(other)));
    }
}
END_TEST

START_TEST(a_sentence_is_one) {
    const char *sentence = attn_status_sentence(status_at(_i));
    ck_assert(isupper((unsigned char)sentence[0]));
    ck_assert_ptr_nonnull(strchr(sentence, ' '));
    ck_assert_ptr_eq(strchr(sentence, '.'), sentence + strlen(sentence) - 1);
}
END_TEST

START_TEST(only_success_is_nobodys_fault) {
    const enum attn_fault fault = attn_status_fault(status_at(_i));
    ck_assert_int_eq(fault == ATTN_FAULT_NONE, _i == ATTN_OK);
    ck_assert_int_le(fault, ATTN_FAULT_DEADLINE);
}
END_TEST

/* A zeroed error says that nothing has failed. */
START_TEST(success_is_zero) {
    ck_assert_int_eq(ATTN_OK, 0);
    ck_assert_str_eq(attn_status_name(ATTN_OK), "ok");
}
END_TEST

START_TEST(faults_are_as_the_wire_needs_them) {
    ck_assert_int_eq(attn_status_fault(ATTN_MALFORMED), ATTN_FAULT_MALFORMED);
    ck_assert_int_eq(attn_status_fault(ATTN_BAD_SHAPE), ATTN_FAULT_INVALID);
    ck_assert_int_eq(attn_status_fault(ATTN_AMBIGUOUS), ATTN_FAULT_INVALID);
    ck_assert_int_eq(attn_status_fault(ATTN_TOO_MUCH_WORK), ATTN_FAULT_TOO_LARGE);
    ck_assert_int_eq(attn_status_fault(ATTN_NO_MEMORY), ATTN_FAULT_OVERLOAD);
    ck_assert_int_eq(attn_status_fault(ATTN_SESSION_FULL), ATTN_FAULT_CONFLICT);
    ck_assert_int_eq(attn_status_fault(ATTN_CANCELLED), ATTN_FAULT_CANCELLED);
    ck_assert_int_eq(attn_status_fault(ATTN_DEADLINE), ATTN_FAULT_DEADLINE);
}
END_TEST

START_TEST(a_failure_is_recorded) {
    struct attn_error error = {.status = ATTN_OK};
    ck_assert_int_eq(attn_fail(&error, ATTN_BAD_VALUE, "/scale", "got %d of %s.", 3, "four"),
                     ATTN_BAD_VALUE);
    ck_assert_int_eq(error.status, ATTN_BAD_VALUE);
    ck_assert_str_eq(error.pointer, "/scale");
    ck_assert_str_eq(error.detail, "got 3 of four.");
}
END_TEST

START_TEST(a_limit_is_recorded) {
    struct attn_error error = {.status = ATTN_OK};
    attn_fail_limit(&error, ATTN_BODY_TOO_LARGE, "", 12, "At most %d.", 12);
    ck_assert_int_eq(error.status, ATTN_BODY_TOO_LARGE);
    ck_assert_str_eq(error.detail, "At most 12.");
    ck_assert_double_eq(error.limit, 12);
}
END_TEST

START_TEST(the_first_failure_stays) {
    struct attn_error error = {.status = ATTN_OK};
    attn_fail(&error, ATTN_BAD_VALUE, "/scale", "first");
    ck_assert_int_eq(attn_fail(&error, ATTN_NO_MEMORY, "/q", "second"), ATTN_BAD_VALUE);
    ck_assert_int_eq(error.status, ATTN_BAD_VALUE);
    ck_assert_str_eq(error.pointer, "/scale");
    ck_assert_str_eq(error.detail, "first");
}
END_TEST

START_TEST(long_texts_are_cut_and_ended) {
    struct attn_error error = {.status = ATTN_OK};
    char text[2000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    attn_fail(&error, ATTN_BAD_VALUE, text, "%s", text);
    ck_assert_uint_eq(strlen(error.pointer), sizeof error.pointer - 1);
    ck_assert_uint_eq(strlen(error.detail), sizeof error.detail - 1);
}
END_TEST

static Suite *status_suite(void) {
    Suite *suite = suite_create("status");
    TCase *table = tcase_create("table");
    tcase_add_loop_test(table, a_name_is_kebab_case, 0, ATTN_STATUS_COUNT);
    tcase_add_loop_test(table, a_name_and_a_sentence_stand_once, 0, ATTN_STATUS_COUNT);
    tcase_add_loop_test(table, a_sentence_is_one, 0, ATTN_STATUS_COUNT);
    tcase_add_loop_test(table, only_success_is_nobodys_fault, 0, ATTN_STATUS_COUNT);
    tcase_add_test(table, success_is_zero);
    tcase_add_test(table, faults_are_as_the_wire_needs_them);
    suite_add_tcase(suite, table);
    TCase *failing = tcase_create("failing");
    tcase_add_test(failing, a_failure_is_recorded);
    tcase_add_test(failing, the_first_failure_stays);
    tcase_add_test(failing, a_limit_is_recorded);
    tcase_add_test(failing, long_texts_are_cut_and_ended);
    suite_add_tcase(suite, failing);
    return suite;
}

ATTN_TEST_MAIN(status_suite)
