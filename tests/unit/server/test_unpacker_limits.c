/* SPDX-License-Identifier: Apache-2.0 */
/* What unpacking may cost: limits, bombs, and the account of its memory. */
#include "tests/support/test_main.h"
#include "tests/unit/server/unpacker_fixture.h"

START_TEST(the_limit_is_exact) {
    const struct form *form = &FORMS[_i];
    struct bytes text = text_of(100000), packed = form->pack(text);
    struct run run = generous();
    run.limits.bytes = text.length;
    ck_assert_int_eq(run_on(&run, form->coding, packed, SIZE_MAX), ATTN_OK);
    buffer_give(run.text.at, run.capacity);
    run = generous();
    run.limits.bytes = text.length - 1;
    ck_assert_int_eq(run_on(&run, form->coding, packed, SIZE_MAX), ATTN_BODY_TOO_LARGE);
    ck_assert(run.error.limit == (double)(text.length - 1));
    ck_assert_ptr_nonnull(strstr(run.error.detail, "max_body"));
    ck_assert_uint_le(run.purse.most, 3 * text.length + 9 * MIB);
    free(packed.at);
    free(text.at);
}
END_TEST

/* 64 MiB of zeros: the first 8 are free, and what is charged at any time stays near them. */
START_TEST(a_bomb_ends_at_the_ratio) {
    const struct form *form = &FORMS[_i];
    struct bytes text = zeros(64 * MIB), packed = form->pack(text);
    struct run run = generous();
    const size_t most = attn_max_size(UNPACKER_FREE_BYTES, 100 * packed.length);
    ck_assert_uint_gt(text.length / packed.length, 900);
    ck_assert_int_eq(run_on(&run, form->coding, packed, MIB), ATTN_BODY_TOO_LARGE);
    ck_assert(run.error.limit == (double)most);
    ck_assert_ptr_nonnull(strstr(run.error.detail, "max_compression_ratio"));
    ck_assert_uint_le(run.purse.most, 3 * most / 2 + 9 * MIB);
    ck_assert_uint_ge(run.pieces, most / MIB); /* it looks up in between */
    run = generous();
    run.limits.ratio = 100000;
    ck_assert_int_eq(run_on(&run, form->coding, packed, MIB), ATTN_OK);
    ck_assert_uint_eq(run.text.length, text.length);
    buffer_give(run.text.at, run.capacity);
    free(packed.at);
    free(text.at);
}
END_TEST

/* What is all zeros and small is no bomb, whatever its ratio. */
START_TEST(the_first_bytes_are_free) {
    const struct form *form = &FORMS[_i];
    struct bytes text = zeros(UNPACKER_FREE_BYTES), packed = form->pack(text);
    struct run run = generous();
    run.limits.ratio = 1;
    ck_assert_int_eq(run_on(&run, form->coding, packed, SIZE_MAX), ATTN_OK);
    ck_assert_uint_eq(run.text.length, text.length);
    buffer_give(run.text.at, run.capacity);
    free(packed.at);
    free(text.at);
}
END_TEST

/* An account that has nothing, enough to begin, and enough. */
START_TEST(memory_is_asked_for_first) {
    const struct form *form = &FORMS[_i];
    const struct coding *coding = coding_find(form->coding, strlen(form->coding));
    const size_t limits[] = {1000, coding->decoder_bytes + MIB, 32 * MIB};
    struct bytes text = zeros(4 * MIB), packed = form->pack(text);
    for (size_t i = 0; i < COUNT(limits); i++) {
        struct run run = generous();
        run.purse.limit = limits[i];
        ck_assert_int_eq(run_on(&run, form->coding, packed, SIZE_MAX),
                         i == COUNT(limits) - 1 ? ATTN_OK : ATTN_OVERLOADED);
        buffer_give(run.text.at, run.capacity);
        ck_assert_uint_le(run.purse.most, run.purse.limit);
    }
    free(packed.at);
    free(text.at);
}
END_TEST

static Suite *unpacker_limits_suite(void) {
    Suite *suite = suite_create("unpacker_limits");
    TCase *tests = tcase_create("unpacker_limits");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, the_limit_is_exact, 0, COUNT(FORMS));
    tcase_add_loop_test(tests, a_bomb_ends_at_the_ratio, 0, COUNT(FORMS));
    tcase_add_loop_test(tests, the_first_bytes_are_free, 0, COUNT(FORMS));
    tcase_add_loop_test(tests, memory_is_asked_for_first, 0, COUNT(FORMS));
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(unpacker_limits_suite)
