/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Validation of shapes: ranks, layouts, head counts, zero and huge sizes; what each accepted form
 * resolves to, and the sentence for each refused one.
 */
#include "tests/support/request_builder.h"

#include <stdint.h>

static void expect_sizes(const struct attn_call *call, const size_t sizes[7]) {
    const size_t got[7] = {call->B, call->Hq, call->Hkv, call->Tq, call->Tk, call->D, call->Dv};
    for (size_t n = 0; n < 7; n++)
        ck_assert_msg(got[n] == sizes[n], "size %zu is %zu, not %zu", n, got[n], sizes[n]);
}

static void expect_strides(const struct attn_operand *operand, ptrdiff_t sb, ptrdiff_t sh,
                           ptrdiff_t st) {
    ck_assert_int_eq(operand->sb, sb);
    ck_assert_int_eq(operand->sh, sh);
    ck_assert_int_eq(operand->st, st);
    ck_assert_int_eq(operand->sd, 1);
}

START_TEST(rank_2_is_one_head) {
    struct attn_request request = request_of(F32(5, 4), F32(7, 4), F32(7, 3));
    struct attn_call call = accept_request(&request);
    expect_sizes(&call, (const size_t[]){1, 1, 1, 5, 7, 4, 3});
    expect_strides(&call.q, 0, 0, 4);
    expect_strides(&call.v, 0, 0, 3);
    ck_assert_int_eq(call.q_rank, 2);
    attn_call_close(&call);
}
END_TEST

START_TEST(rank_3_is_heads_of_one_item) {
    struct attn_request request = request_of(F32(6, 5, 4), F32(2, 7, 4), F32(2, 7, 3));
    struct attn_call call = accept_request(&request);
    expect_sizes(&call, (const size_t[]){1, 6, 2, 5, 7, 4, 3});
    expect_strides(&call.q, 0, 20, 4);
    expect_strides(&call.k, 0, 28, 4);
    ck_assert_uint_eq(attn_call_group(&call), 3);
    ck_assert(!call.split_heads && !call.bthd);
    attn_call_close(&call);
}
END_TEST

START_TEST(rank_3_with_num_heads_is_split) {
    struct attn_request request = request_of(F32(2, 5, 24), F32(2, 7, 8), F32(2, 7, 6));
    request.num_heads = 6;
    request.num_kv_heads = 2;
    struct attn_call call = accept_request(&request);
    expect_sizes(&call, (const size_t[]){2, 6, 2, 5, 7, 4, 3});
    expect_strides(&call.q, 120, 4, 24);
    expect_strides(&call.k, 56, 4, 8);
    expect_strides(&call.v, 42, 3, 6);
    ck_assert(call.split_heads && !call.bthd);
    attn_call_close(&call);
}
END_TEST

START_TEST(num_kv_heads_defaults_to_num_heads) {
    struct attn_request request = request_of(F32(1, 5, 24), F32(1, 5, 24), F32(1, 5, 12));
    request.num_heads = 6;
    struct attn_call call = accept_request(&request);
    expect_sizes(&call, (const size_t[]){1, 6, 6, 5, 5, 4, 2});
    ck_assert(call.scale == 0.5); /* of a head's width, not of the model's */
    attn_call_close(&call);
}
END_TEST

START_TEST(rank_4_reads_both_layouts_in_place) {
    struct attn_request request = request_sized(2, 6, 2, 5, 7, 4, 3);
    struct attn_call call = accept_request(&request);
    expect_sizes(&call, (const size_t[]){2, 6, 2, 5, 7, 4, 3});
    expect_strides(&call.q, 120, 20, 4);
    attn_call_close(&call);
    request.layout = ATTN_LAYOUT_BHTD;
    call = accept_request(&request);
    expect_strides(&call.v, 42, 21, 3);
    ck_assert(!call.bthd);
    attn_call_close(&call);

    request = request_of(F32(2, 5, 6, 4), F32(2, 7, 2, 4), F32(2, 7, 2, 3));
    request.layout = ATTN_LAYOUT_BTHD;
    call = accept_request(&request);
    expect_sizes(&call, (const size_t[]){2, 6, 2, 5, 7, 4, 3});
    expect_strides(&call.q, 120, 4, 24);
    expect_strides(&call.k, 56, 4, 8);
    expect_strides(&call.v, 42, 3, 6);
    ck_assert(call.bthd);
    attn_call_close(&call);
}
END_TEST

/* Any axis may be 0; head sizes of 0 have scale 1. */
START_TEST(sizes_of_zero_are_valid) {
    for (unsigned zeros = 0; zeros < 1u << 6; zeros++) {
        size_t n[6]; /* B Hkv Tq Tk D Dv */
        for (size_t axis = 0; axis < 6; axis++)
            n[axis] = zeros >> axis & 1 ? 0 : 3;
        struct attn_request request = request_sized(n[0], n[1] * 2, n[1], n[2], n[3], n[4], n[5]);
        struct attn_call call = accept_request(&request);
        expect_sizes(&call, (const size_t[]){n[0], n[1] * 2, n[1], n[2], n[3], n[4], n[5]});
        ck_assert(n[4] != 0 || call.scale == 1.0);
        attn_call_close(&call);
    }
    struct attn_request request = request_sized(1, 0, 2, 3, 3, 4, 4);
    struct attn_call call = accept_request(&request);
    ck_assert_uint_eq(attn_call_group(&call), 0);
    attn_call_close(&call);
}
END_TEST

START_TEST(a_missing_tensor_is_named) {
    struct attn_request request = request_sized(1, 1, 1, 2, 2, 2, 2);
    request.q = attn_tensor_none();
    refuse_request(&request, ATTN_MISSING_FIELD, "/q", "tensor q is missing");
    request = request_sized(1, 1, 1, 2, 2, 2, 2);
    request.k = attn_tensor_none();
    refuse_request(&request, ATTN_MISSING_FIELD, "/k", "tensor k is missing");
    request = request_sized(1, 1, 1, 2, 2, 2, 2);
    request.v = attn_tensor_none();
    refuse_request(&request, ATTN_MISSING_FIELD, "/v", "tensor v is missing");
}
END_TEST

START_TEST(dtypes_are_equal_floats) {
    for (unsigned n = 0; n < ATTN_DTYPE_COUNT; n++) {
        const enum attn_dtype dtype = (enum attn_dtype)n;
        struct attn_request request =
            request_of(SHAPED(dtype, 2, 2), SHAPED(dtype, 2, 2), SHAPED(dtype, 2, 2));
        if (attn_dtype_class(dtype) != ATTN_CLASS_FLOAT) {
            refuse_request(&request, ATTN_BAD_DTYPE, "/q", attn_dtype_name(dtype));
            continue;
        }
        struct attn_call call = accept_request(&request);
        ck_assert_int_eq(call.k.dtype, dtype);
        attn_call_close(&call);
    }
    struct attn_request request = request_of(F32(2, 2), SHAPED(ATTN_FLOAT16, 2, 2), F32(2, 2));
    refuse_request(&request, ATTN_BAD_DTYPE, "/k", "q is float32 and k is float16");
    request = request_of(F32(2, 2), F32(2, 2), SHAPED(ATTN_FLOAT64, 2, 2));
    refuse_request(&request, ATTN_BAD_DTYPE, "/v", "q is float32 and v is float64");
    request = request_of(F32(2, 2), F32(2, 2), SHAPED(ATTN_BOOL, 2, 2));
    refuse_request(&request, ATTN_BAD_DTYPE, "/v", "v must be float32");
}
END_TEST

START_TEST(ranks_are_2_to_4_and_equal) {
    struct attn_request request = request_of(F32(4), F32(4), F32(4));
    refuse_request(&request, ATTN_BAD_SHAPE, "/q", "rank 2 [T,D], 3 [H,T,D] or 4 [B,H,T,D]");
    request.q = attn_tensor_view(REQUEST_ZEROS, ATTN_FLOAT32, 0, NULL);
    refuse_request(&request, ATTN_BAD_SHAPE, "/q", "got shape []");
    request.q = F32(1, 1, 1, 2, 3);
    refuse_request(&request, ATTN_BAD_SHAPE, "/q", "got shape [1, 1, 1, 2, 3]");
    request = request_of(F32(2, 3, 4), F32(3, 4), F32(2, 3, 4));
    refuse_request(&request, ATTN_BAD_SHAPE, "/k", "q has rank 3 and k has shape [3, 4]");
    request = request_of(F32(2, 3, 4), F32(2, 3, 4), F32(1, 2, 3, 4));
    refuse_request(&request, ATTN_BAD_SHAPE, "/v", "q has rank 3 and v has shape [1, 2, 3, 4]");
}
END_TEST

START_TEST(axes_must_agree) {
    struct attn_request request = request_of(F32(2, 1, 3, 4), F32(3, 1, 3, 4), F32(2, 1, 3, 4));
    refuse_request(&request, ATTN_BAD_SHAPE, "/k",
                   "Batch sizes must be equal: q has 2 and k has 3");
    request = request_of(F32(2, 1, 3, 4), F32(2, 1, 3, 4), F32(1, 1, 3, 4));
    refuse_request(&request, ATTN_BAD_SHAPE, "/v",
                   "Batch sizes must be equal: q has 2 and v has 1");
    request = request_of(F32(3, 4), F32(3, 5), F32(3, 4));
    refuse_request(&request, ATTN_BAD_SHAPE, "/k", "q has 4 and k has 5");
    request = request_of(F32(3, 4), F32(3, 4), F32(2, 4));
    refuse_request(&request, ATTN_BAD_SHAPE, "/v", "Lengths of k and v must be equal");
    request = request_of(F32(2, 3, 4), F32(2, 3, 4), F32(1, 3, 4));
    refuse_request(&request, ATTN_BAD_SHAPE, "/v", "Head counts of k and v must be equal");
}
END_TEST

START_TEST(query_heads_are_a_multiple) {
    struct attn_request request = request_sized(1, 6, 4, 3, 3, 4, 4);
    refuse_request(&request, ATTN_BAD_SHAPE, "/k", "q has 6 and k has 4");
    request = request_sized(1, 2, 4, 3, 3, 4, 4);
    refuse_request(&request, ATTN_BAD_SHAPE, "/k", "must be a multiple");
    request = request_sized(1, 2, 0, 3, 3, 4, 4);
    refuse_request(&request, ATTN_BAD_SHAPE, "/k", "q has 2 and k has 0");
    request = request_of(F32(1, 3, 12), F32(1, 3, 8), F32(1, 3, 8));
    request.num_heads = 3;
    request.num_kv_heads = 2;
    refuse_request(&request, ATTN_BAD_SHAPE, "/k", "q has 3 and k has 2");
}
END_TEST

START_TEST(head_options_are_for_rank_3) {
    struct attn_request request = request_of(F32(3, 4), F32(3, 4), F32(3, 4));
    request.num_heads = 2;
    refuse_request(&request, ATTN_BAD_VALUE, "/num_heads", "these have rank 2");
    request = request_sized(1, 2, 2, 3, 3, 4, 4);
    request.num_heads = 2;
    refuse_request(&request, ATTN_BAD_VALUE, "/num_heads", "these have rank 4");
    request.num_heads = 0;
    request.num_kv_heads = 2;
    refuse_request(&request, ATTN_BAD_VALUE, "/num_kv_heads", "these have rank 4");
}
END_TEST

START_TEST(head_options_are_positive_and_divide) {
    struct attn_request request = request_of(F32(1, 3, 12), F32(1, 3, 12), F32(1, 3, 12));
    request.num_kv_heads = 2;
    refuse_request(&request, ATTN_BAD_VALUE, "/num_kv_heads", "needs num_heads");
    request.num_heads = -1;
    refuse_request(&request, ATTN_BAD_VALUE, "/num_heads", "at least 1");
    request.num_heads = 2;
    request.num_kv_heads = -2;
    refuse_request(&request, ATTN_BAD_VALUE, "/num_kv_heads", "num_kv_heads must be at least 1");
    request.num_heads = 5;
    request.num_kv_heads = 0;
    refuse_request(&request, ATTN_BAD_SHAPE, "/q", "12 wide, which 5 heads do not divide");
    request.num_heads = 6;
    request.num_kv_heads = 5;
    refuse_request(&request, ATTN_BAD_SHAPE, "/k", "which 5 heads do not divide");
    request.num_kv_heads = 6;
    request.v = F32(1, 3, 7);
    refuse_request(&request, ATTN_BAD_SHAPE, "/v", "7 wide, which 6 heads do not divide");
    request.num_heads = INT64_MAX;
    request.num_kv_heads = 0;
    refuse_request(&request, ATTN_BAD_SHAPE, "/q", "do not divide");
}
END_TEST

START_TEST(layout_is_for_rank_4) {
    struct attn_request request = request_of(F32(3, 4), F32(3, 4), F32(3, 4));
    request.layout = ATTN_LAYOUT_BHTD;
    refuse_request(&request, ATTN_BAD_VALUE, "/layout", "these have rank 2");
    request = request_of(F32(2, 3, 4), F32(2, 3, 4), F32(2, 3, 4));
    request.layout = ATTN_LAYOUT_BTHD;
    refuse_request(&request, ATTN_BAD_VALUE, "/layout", "these have rank 3");
}
END_TEST

/* Tensors without elements cost their sender nothing and must cost nothing here either. */
START_TEST(huge_sizes_are_refused_before_they_are_allocated) {
    const size_t huge = (size_t)1 << 40;
    struct attn_request request = request_sized(1, huge, huge, 1, 1, 0, 0);
    refuse_request(&request, ATTN_TOO_MUCH_WORK, "/q", "heads; a call may have");
    request = request_sized(0, huge, 1, 1, 1, 1, 1);
    refuse_request(&request, ATTN_TOO_MUCH_WORK, "/q", "heads; a call may have");
    request = request_sized(huge, 1, 1, 0, 0, 1, 1);
    refuse_request(&request, ATTN_TOO_MUCH_WORK, "/q", "rows; a call may have");
    request = request_sized((size_t)1 << 60, 1 << 10, 1, 0, 0, 1, 1);
    refuse_request(&request, ATTN_TOO_MUCH_WORK, "/q", "rows; a call may have");
    request = request_sized(1, 1, 1, huge, 1, 0, 0);
    refuse_request(&request, ATTN_TOO_MUCH_WORK, "/q", "rows; a call may have");
    request = request_sized(huge, (size_t)1 << 20, 1, huge, 1, 0, 0);
    refuse_request(&request, ATTN_TOO_MUCH_WORK, "/q", "rows; a call may have");
    request = request_of(F32(0, 1, 0), F32(0, 1, 0), F32(0, 1, 0));
    request.num_heads = INT64_MAX;
    refuse_request(&request, ATTN_TOO_MUCH_WORK, "/q", "heads; a call may have");
}
END_TEST

START_TEST(many_keys_are_not_too_much_by_themselves) {
    struct attn_request request = request_sized(1, 1, 1, 1, (size_t)1 << 40, 0, 0);
    struct attn_call call = accept_request(&request);
    ck_assert_uint_eq(call.Tk, (size_t)1 << 40);
    attn_call_close(&call);
}
END_TEST

START_TEST(the_first_error_wins) {
    struct attn_request request = request_of(F32(3, 4), F32(3, 5), F32(2, 4));
    request.scale_given = true;
    request.scale = 1.0 / 0.0;
    refuse_request(&request, ATTN_BAD_SHAPE, "/k", "q has 4 and k has 5");
}
END_TEST

static Suite *call_suite(void) {
    Suite *suite = suite_create("call");
    TCase *forms = tcase_create("forms");
    tcase_add_test(forms, rank_2_is_one_head);
    tcase_add_test(forms, rank_3_is_heads_of_one_item);
    tcase_add_test(forms, rank_3_with_num_heads_is_split);
    tcase_add_test(forms, num_kv_heads_defaults_to_num_heads);
    tcase_add_test(forms, rank_4_reads_both_layouts_in_place);
    tcase_add_test(forms, sizes_of_zero_are_valid);
    tcase_add_test(forms, many_keys_are_not_too_much_by_themselves);
    suite_add_tcase(suite, forms);
    TCase *refusals = tcase_create("refusals");
    tcase_add_test(refusals, a_missing_tensor_is_named);
    tcase_add_test(refusals, dtypes_are_equal_floats);
    tcase_add_test(refusals, ranks_are_2_to_4_and_equal);
    tcase_add_test(refusals, axes_must_agree);
    tcase_add_test(refusals, query_heads_are_a_multiple);
    tcase_add_test(refusals, head_options_are_for_rank_3);
    tcase_add_test(refusals, head_options_are_positive_and_divide);
    tcase_add_test(refusals, layout_is_for_rank_4);
    tcase_add_test(refusals, huge_sizes_are_refused_before_they_are_allocated);
    tcase_add_test(refusals, the_first_error_wins);
    suite_add_tcase(suite, refusals);
    return suite;
}

ATTN_TEST_MAIN(call_suite)
