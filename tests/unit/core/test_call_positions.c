/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where query 0 stands: q_offset, the aligns of causal masks and where they may stand, lengths of a
 * padding mask beside them, and the refusal of every call whose positions would be a guess.
 */
#include "tests/support/request_builder.h"

#include <stdint.h>

/* A call of B items with these lengths and a mask. */
static struct attn_request masked(size_t B, size_t Tq, size_t Tk, struct attn_mask mask) {
    struct attn_request request = request_sized(B, 2, 1, Tq, Tk, 4, 4);
    request.mask = mask;
    return request;
}

static void expect_offsets(struct attn_request *request, const int64_t *offsets) {
    struct attn_call call = accept_request(request);
    for (size_t b = 0; b < call.B; b++)
        ck_assert_msg(attn_call_q_offset(&call, b) == offsets[b], "item %zu stands at %lld", b,
                      (long long)attn_call_q_offset(&call, b));
    attn_call_close(&call);
}

#define EXPECT_OFFSETS(request, ...) expect_offsets(request, (const int64_t[]){__VA_ARGS__})

START_TEST(equal_lengths_begin_at_key_0) {
    struct attn_request request = masked(2, 5, 5, PROGRAM(CAUSAL(NONE)));
    EXPECT_OFFSETS(&request, 0, 0);
    request = masked(1, 5, 5, PROGRAM(CAUSAL(BOTTOM_RIGHT)));
    EXPECT_OFFSETS(&request, 0);
}
END_TEST

START_TEST(top_left_begins_at_key_0) {
    struct attn_request request = masked(2, 3, 8, PROGRAM(CAUSAL(TOP_LEFT)));
    EXPECT_OFFSETS(&request, 0, 0);
}
END_TEST

START_TEST(bottom_right_ends_at_the_last_key) {
    struct attn_request request = masked(2, 3, 8, PROGRAM(CAUSAL(BOTTOM_RIGHT)));
    EXPECT_OFFSETS(&request, 5, 5);
    request = masked(1, 8, 3, PROGRAM(CAUSAL(BOTTOM_RIGHT)));
    EXPECT_OFFSETS(&request, -5);
    request = masked(1, 8, 0, PROGRAM(CAUSAL(BOTTOM_RIGHT)));
    EXPECT_OFFSETS(&request, -8);
}
END_TEST

START_TEST(bottom_right_counts_the_lengths_beside_it) {
    struct attn_mask_node padding = {
        .kind = ATTN_MASK_PADDING, .kv_lengths = INTS(8, 6, 0), .pointer = "/mask/p"};
    struct attn_request request =
        masked(3, 3, 8, PROGRAM(CAUSAL(BOTTOM_RIGHT), padding, JOIN(ALL, 2)));
    EXPECT_OFFSETS(&request, 5, 3, -3);
    padding.q_lengths = INTS(3, 2, 1);
    request = masked(3, 3, 8, PROGRAM(padding, CAUSAL(BOTTOM_RIGHT), JOIN(ALL, 2)));
    EXPECT_OFFSETS(&request, 5, 4, -1);
    padding.kv_lengths = INTS(7);
    request = masked(3, 3, 8, PROGRAM(padding, CAUSAL(BOTTOM_RIGHT), JOIN(ALL, 2)));
    EXPECT_OFFSETS(&request, 4, 5, 6);
    padding.q_lengths = INTS(1);
    request = masked(3, 3, 8, PROGRAM(padding, CAUSAL(BOTTOM_RIGHT), JOIN(ALL, 2)));
    EXPECT_OFFSETS(&request, 6, 6, 6);
}
END_TEST

START_TEST(bottom_right_counts_lengths_below_nested_all_only) {
    const struct attn_mask_node padding = {
        .kind = ATTN_MASK_PADDING, .kv_lengths = INTS(6), .pointer = "/mask/p"};
    struct attn_request request = masked(
        1, 3, 8, PROGRAM(padding, JOIN(ALL, 1), CAUSAL(BOTTOM_RIGHT), JOIN(ALL, 1), JOIN(ALL, 2)));
    EXPECT_OFFSETS(&request, 3);
    request = masked(1, 3, 8, PROGRAM(padding, JOIN(ANY, 1), CAUSAL(BOTTOM_RIGHT), JOIN(ALL, 2)));
    EXPECT_OFFSETS(&request, 5);
    request = masked(1, 3, 8, PROGRAM(CAUSAL(BOTTOM_RIGHT), padding, JOIN(NOT, 0), JOIN(ALL, 2)));
    EXPECT_OFFSETS(&request, 5);
}
END_TEST

/* `keep` says which keys are real, not how many are at the front. */
START_TEST(a_keep_tensor_gives_no_lengths) {
    const struct attn_mask_node padding = {
        .kind = ATTN_MASK_PADDING, .tensor = SHAPED(ATTN_BOOL, 2, 8), .pointer = "/mask/p"};
    struct attn_request request =
        masked(2, 3, 8, PROGRAM(CAUSAL(BOTTOM_RIGHT), padding, JOIN(ALL, 2)));
    EXPECT_OFFSETS(&request, 5, 5);
}
END_TEST

START_TEST(one_align_speaks_for_every_causal_mask) {
    struct attn_request request =
        masked(1, 3, 8, PROGRAM(CAUSAL(NONE), CAUSAL(BOTTOM_RIGHT), JOIN(ALL, 2)));
    EXPECT_OFFSETS(&request, 5);
    request = masked(1, 3, 8, PROGRAM(CAUSAL(BOTTOM_RIGHT), CAUSAL(BOTTOM_RIGHT), JOIN(ALL, 2)));
    EXPECT_OFFSETS(&request, 5);
    request = masked(1, 3, 8, PROGRAM(CAUSAL(TOP_LEFT), CAUSAL(NONE), JOIN(NOT, 0), JOIN(ALL, 2)));
    EXPECT_OFFSETS(&request, 0);
}
END_TEST

START_TEST(two_aligns_are_refused) {
    struct attn_request request =
        masked(1, 3, 8, PROGRAM(CAUSAL(TOP_LEFT), CAUSAL(BOTTOM_RIGHT), JOIN(ALL, 2)));
    refuse_request(&request, ATTN_BAD_MASK, "/mask/c", "different aligns");
    /* Even where both would mean the same. */
    request = masked(1, 8, 8, PROGRAM(CAUSAL(BOTTOM_RIGHT), CAUSAL(TOP_LEFT), JOIN(ALL, 2)));
    refuse_request(&request, ATTN_BAD_MASK, "/mask/c", "different aligns");
}
END_TEST

START_TEST(align_stands_at_the_top_or_under_all) {
    static const char *const words = "only in a causal mask at the top or under all";
    struct attn_request request =
        masked(1, 3, 8, PROGRAM(CAUSAL(TOP_LEFT), CAUSAL(NONE), JOIN(ANY, 2)));
    refuse_request(&request, ATTN_BAD_MASK, "/mask/c", words);
    request = masked(1, 3, 8, PROGRAM(CAUSAL(TOP_LEFT), JOIN(NOT, 0)));
    refuse_request(&request, ATTN_BAD_MASK, "/mask/c", words);
    request = masked(1, 3, 8, PROGRAM(CAUSAL(TOP_LEFT), JOIN(ALL, 1), JOIN(ANY, 1)));
    refuse_request(&request, ATTN_BAD_MASK, "/mask/c", words);
    request = masked(1, 3, 8,
                     PROGRAM(CAUSAL(NONE), JOIN(NOT, 0), CAUSAL(TOP_LEFT), JOIN(ANY, 1),
                             JOIN(ALL, 0), JOIN(ALL, 3)));
    refuse_request(&request, ATTN_BAD_MASK, "/mask/c", words);
    request = masked(1, 8, 8, PROGRAM(CAUSAL(TOP_LEFT), JOIN(ANY, 1)));
    refuse_request(&request, ATTN_BAD_MASK, "/mask/c", words);
}
END_TEST

/* The operands of one combinator are not mistaken for those of its neighbour. */
START_TEST(align_beside_any_and_not_is_found) {
    struct attn_request request =
        masked(1, 3, 8,
               PROGRAM(JOIN(ALL, 0), JOIN(NOT, 0), CAUSAL(NONE), JOIN(ANY, 2), CAUSAL(BOTTOM_RIGHT),
                       JOIN(ANY, 0), JOIN(ALL, 2), JOIN(ALL, 2)));
    EXPECT_OFFSETS(&request, 5);
}
END_TEST

START_TEST(q_offset_is_one_or_one_per_item) {
    struct attn_request request = masked(3, 3, 8, PROGRAM(CAUSAL(NONE)));
    request.q_offset = INTS(4);
    EXPECT_OFFSETS(&request, 4, 4, 4);
    request.q_offset = INTS(4, -2, INT64_MAX);
    EXPECT_OFFSETS(&request, 4, -2, INT64_MAX);
    request.q_offset = INTS(INT64_MIN);
    EXPECT_OFFSETS(&request, INT64_MIN, INT64_MIN, INT64_MIN);
    request.q_offset = INTS(4, 5);
    refuse_request(&request, ATTN_BAD_VALUE, "/q_offset", "one per batch item (3), got 2");
    request.q_offset = INTS(4, 5, 6, 7);
    refuse_request(&request, ATTN_BAD_VALUE, "/q_offset", "got 4");
}
END_TEST

START_TEST(q_offset_may_be_given_where_it_changes_nothing) {
    struct attn_request request = request_sized(1, 1, 1, 3, 3, 4, 4);
    request.q_offset = INTS(2);
    EXPECT_OFFSETS(&request, 2);
}
END_TEST

START_TEST(the_offsets_are_copied) {
    int64_t offset = 4;
    struct attn_request request = masked(1, 3, 8, PROGRAM(CAUSAL(NONE)));
    request.q_offset = (struct attn_int_list){&offset, 1};
    struct attn_call call = accept_request(&request);
    offset = 9;
    ck_assert_int_eq(attn_call_q_offset(&call, 0), 4);
    attn_call_close(&call);
}
END_TEST

START_TEST(q_offset_and_align_are_refused) {
    struct attn_request request = masked(1, 3, 8, PROGRAM(CAUSAL(BOTTOM_RIGHT)));
    request.q_offset = INTS(5);
    refuse_request(&request, ATTN_BAD_VALUE, "/q_offset", "/mask/c both place the queries");
}
END_TEST

#define WINDOW(l, r) \
    { .kind = ATTN_MASK_WINDOW, .left = (l), .right = (r), .pointer = "/mask/w" }

static const int64_t FIRST = 0;
static const struct attn_mask_node PLACED[] = {
    {.kind = ATTN_MASK_GLOBAL, .tokens = {&FIRST, 1}, .pointer = "/mask"},
    {.kind = ATTN_MASK_DILATED, .width = 4, .stride = 2, .pointer = "/mask"},
    {.kind = ATTN_MASK_BLOCK_CAUSAL, .block = 3, .pointer = "/mask"}};

START_TEST(unequal_lengths_without_a_place_are_refused) {
    struct attn_request request = masked(1, 3, 8, PROGRAM(CAUSAL(NONE)));
    refuse_request(&request, ATTN_AMBIGUOUS, "/mask", "With Tq = 3 and Tk = 8");
    refuse_request(&request, ATTN_AMBIGUOUS, "/mask", "\"top_left\"} (query 0 at key 0)");
    refuse_request(&request, ATTN_AMBIGUOUS, "/mask", "\"bottom_right\" (last query at last key)");
    refuse_request(&request, ATTN_AMBIGUOUS, "/mask", "q_offset");
    request = masked(1, 3, 8, PROGRAM(WINDOW(2, 0)));
    refuse_request(&request, ATTN_AMBIGUOUS, "/mask", "With Tq = 3 and Tk = 8");
    request = masked(1, 3, 8, PROGRAM(WINDOW(-1, 0), JOIN(NOT, 0)));
    refuse_request(&request, ATTN_AMBIGUOUS, "/mask", "With Tq = 3 and Tk = 8");
    for (size_t n = 0; n < COUNT_OF(PLACED); n++) {
        request = masked(1, 3, 8, PROGRAM(PLACED[n]));
        refuse_request(&request, ATTN_AMBIGUOUS, "/mask", "With Tq = 3 and Tk = 8");
        refuse_request(&request, ATTN_AMBIGUOUS, "/mask", "Give q_offset, its position");
        refuse_request(&request, ATTN_AMBIGUOUS, "/mask", "Tk - Tq = 5 when the last query");
        request.q_offset = INTS(5);
        EXPECT_OFFSETS(&request, 5);
    }
    request = request_sized(1, 2, 1, 8, 3, 4, 4);
    request.alibi = true;
    refuse_request(&request, ATTN_AMBIGUOUS, "/alibi", "With Tq = 8 and Tk = 3");
    refuse_request(&request, ATTN_AMBIGUOUS, "/alibi", "Tk - Tq = -5");
    request.alibi = false;
    request.alibi_slopes = REALS(0.5);
    refuse_request(&request, ATTN_AMBIGUOUS, "/alibi", "With Tq = 8 and Tk = 3");
}
END_TEST

START_TEST(a_window_or_alibi_takes_the_align_beside_it) {
    struct attn_request request =
        masked(1, 3, 8, PROGRAM(WINDOW(2, -1), CAUSAL(BOTTOM_RIGHT), JOIN(ALL, 2)));
    request.alibi = true;
    EXPECT_OFFSETS(&request, 5);
}
END_TEST

START_TEST(masks_without_positions_need_no_place) {
    const struct attn_mask_node prefix = {
        .kind = ATTN_MASK_PREFIX, .lengths = INTS(2), .pointer = "/mask"};
    struct attn_request request = masked(1, 3, 8, PROGRAM(prefix));
    EXPECT_OFFSETS(&request, 0);
    request = masked(1, 3, 8, PROGRAM(WINDOW(-1, -1)));
    EXPECT_OFFSETS(&request, 0);
    request = masked(1, 3, 8, PROGRAM({.kind = ATTN_MASK_GLOBAL, .pointer = "/mask"}));
    EXPECT_OFFSETS(&request, 0);
    request = request_sized(1, 1, 1, 3, 8, 4, 4);
    EXPECT_OFFSETS(&request, 0);
}
END_TEST

START_TEST(the_masks_own_refusals_come_through) {
    const struct attn_mask_node padding = {
        .kind = ATTN_MASK_PADDING, .kv_lengths = INTS(9), .pointer = "/mask"};
    struct attn_request request = masked(1, 3, 8, PROGRAM(padding));
    refuse_request(&request, ATTN_BAD_MASK, "/mask/kv_lengths", "9");
}
END_TEST

/* A batch without items has no offsets to read. */
START_TEST(an_empty_batch_is_placed_too) {
    struct attn_request request = masked(0, 3, 8, PROGRAM(CAUSAL(BOTTOM_RIGHT)));
    struct attn_call call = accept_request(&request);
    attn_call_close(&call);
    request.q_offset = INTS(1);
    request.mask = PROGRAM(CAUSAL(NONE));
    call = accept_request(&request);
    attn_call_close(&call);
}
END_TEST

static Suite *call_positions_suite(void) {
    Suite *suite = suite_create("call_positions");
    TCase *align = tcase_create("align");
    tcase_add_test(align, equal_lengths_begin_at_key_0);
    tcase_add_test(align, top_left_begins_at_key_0);
    tcase_add_test(align, bottom_right_ends_at_the_last_key);
    tcase_add_test(align, bottom_right_counts_the_lengths_beside_it);
    tcase_add_test(align, bottom_right_counts_lengths_below_nested_all_only);
    tcase_add_test(align, a_keep_tensor_gives_no_lengths);
    tcase_add_test(align, one_align_speaks_for_every_causal_mask);
    tcase_add_test(align, two_aligns_are_refused);
    tcase_add_test(align, align_stands_at_the_top_or_under_all);
    tcase_add_test(align, align_beside_any_and_not_is_found);
    suite_add_tcase(suite, align);
    TCase *offset = tcase_create("q_offset");
    tcase_add_test(offset, q_offset_is_one_or_one_per_item);
    tcase_add_test(offset, q_offset_may_be_given_where_it_changes_nothing);
    tcase_add_test(offset, the_offsets_are_copied);
    tcase_add_test(offset, q_offset_and_align_are_refused);
    tcase_add_test(offset, an_empty_batch_is_placed_too);
    suite_add_tcase(suite, offset);
    TCase *need = tcase_create("need");
    tcase_add_test(need, unequal_lengths_without_a_place_are_refused);
    tcase_add_test(need, a_window_or_alibi_takes_the_align_beside_it);
    tcase_add_test(need, masks_without_positions_need_no_place);
    tcase_add_test(need, the_masks_own_refusals_come_through);
    suite_add_tcase(suite, need);
    return suite;
}

ATTN_TEST_MAIN(call_positions_suite)
