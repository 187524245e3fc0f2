/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Validation of everything that is a number, a list or a bias: defaults, what is
 * accepted at the edge, and the sentence for what is not.
 */
#include "tests/support/request_builder.h"

#include <math.h>
#include <stdint.h>

static struct attn_request plain(void) {
    return request_sized(2, 4, 2, 3, 3, 16, 5);
}

START_TEST(defaults_are_the_fields_own) {
    struct attn_request request = plain();
    struct attn_call call = accept_request(&request);
    ck_assert(call.scale == 0.25 && call.softcap == 0);
    ck_assert_int_eq(call.precision, ATTN_PRECISION_FLOAT32);
    ck_assert_int_eq(call.output_dtype, ATTN_FLOAT32);
    ck_assert_uint_eq(call.returns, ATTN_RETURN_OUTPUT);
    ck_assert_int_eq(call.stage, ATTN_STAGE_WEIGHTS);
    ck_assert_ptr_null(call.alibi);
    ck_assert_ptr_null(call.sink);
    ck_assert_ptr_null(call.kernel);
    ck_assert_ptr_null(call.note);
    ck_assert_ptr_null(call.map_heads);
    ck_assert_uint_eq(call.map_head_count, 4);
    ck_assert_uint_eq(call.map_row + call.map_col, 0);
    ck_assert_uint_eq(call.map_rows, 3);
    ck_assert_uint_eq(call.map_cols, 3);
    ck_assert(attn_tensor_is_none(&call.bias));
    ck_assert_uint_eq(call.mask.count, 0);
    attn_call_close(&call);
}
END_TEST

START_TEST(what_is_given_is_taken) {
    struct attn_request request = plain();
    request.scale_given = request.softcap_given = true;
    request.scale = -0.0;
    request.softcap = 30;
    request.returns = ATTN_RETURN_LSE | ATTN_RETURN_WEIGHTS;
    request.map.stage = ATTN_STAGE_CAPPED;
    request.kernel = "name";
    struct attn_call call = accept_request(&request);
    ck_assert(call.scale == 0 && call.softcap == 30);
    ck_assert_uint_eq(call.returns, ATTN_RETURN_LSE | ATTN_RETURN_WEIGHTS);
    ck_assert_int_eq(call.stage, ATTN_STAGE_CAPPED);
    ck_assert_str_eq(call.kernel, "name");
    attn_call_close(&call);
    request.scale = -2;
    call = accept_request(&request);
    ck_assert(call.scale == -2);
    attn_call_close(&call);
}
END_TEST

START_TEST(scale_is_finite) {
    static const double wrong[] = {NAN, INFINITY, -INFINITY};
    struct attn_request request = plain();
    request.scale_given = true;
    request.scale = wrong[_i];
    refuse_request(&request, ATTN_BAD_VALUE, "/scale", "finite number");
}
END_TEST

START_TEST(softcap_is_above_zero) {
    static const double wrong[] = {0, -0.0, -1, NAN, INFINITY};
    struct attn_request request = plain();
    request.softcap_given = true;
    request.softcap = wrong[_i];
    refuse_request(&request, ATTN_BAD_VALUE, "/softcap", "above 0");
}
END_TEST

/* Of q's dtype, the precision asked for, and the output dtype asked for (COUNT: none). */
START_TEST(types_follow_the_inputs_unless_asked) {
    static const struct {
        enum attn_dtype input;
        enum attn_precision asked;
        enum attn_dtype asked_output;
        enum attn_precision precision;
        enum attn_dtype output;
    } rows[] = {
        {ATTN_FLOAT32, 0, ATTN_DTYPE_COUNT, ATTN_PRECISION_FLOAT32, ATTN_FLOAT32},
        {ATTN_FLOAT16, 0, ATTN_DTYPE_COUNT, ATTN_PRECISION_FLOAT32, ATTN_FLOAT16},
        {ATTN_BFLOAT16, 0, ATTN_DTYPE_COUNT, ATTN_PRECISION_FLOAT32, ATTN_BFLOAT16},
        {ATTN_FLOAT64, 0, ATTN_DTYPE_COUNT, ATTN_PRECISION_FLOAT64, ATTN_FLOAT64},
        {ATTN_FLOAT64, ATTN_PRECISION_FLOAT32, ATTN_DTYPE_COUNT, ATTN_PRECISION_FLOAT32,
         ATTN_FLOAT64},
        {ATTN_FLOAT32, ATTN_PRECISION_FLOAT64, ATTN_DTYPE_COUNT, ATTN_PRECISION_FLOAT64,
         ATTN_FLOAT64},
        {ATTN_FLOAT16, ATTN_PRECISION_FLOAT64, ATTN_FLOAT16, ATTN_PRECISION_FLOAT64, ATTN_FLOAT16},
        {ATTN_FLOAT32, 0, ATTN_BFLOAT16, ATTN_PRECISION_FLOAT32, ATTN_BFLOAT16},
        {ATTN_FLOAT16, 0, ATTN_FLOAT64, ATTN_PRECISION_FLOAT32, ATTN_FLOAT64},
    };
    for (size_t n = 0; n < COUNT_OF(rows); n++) {
        const enum attn_dtype dtype = rows[n].input;
        struct attn_request request =
            request_of(SHAPED(dtype, 2, 2), SHAPED(dtype, 2, 2), SHAPED(dtype, 2, 2));
        request.precision = rows[n].asked;
        request.output_dtype_given = rows[n].asked_output != ATTN_DTYPE_COUNT;
        request.output_dtype = rows[n].asked_output;
        struct attn_call call = accept_request(&request);
        ck_assert_msg(call.precision == rows[n].precision, "precision of row %zu", n);
        ck_assert_msg(call.output_dtype == rows[n].output, "output of row %zu", n);
        attn_call_close(&call);
    }
}
END_TEST

START_TEST(output_dtype_is_a_float) {
    struct attn_request request = plain();
    request.output_dtype_given = true;
    request.output_dtype = ATTN_INT8;
    refuse_request(&request, ATTN_BAD_DTYPE, "/output_dtype", "got int8");
}
END_TEST

static double at_element(const struct attn_tensor *tensor, size_t b, size_t h, size_t i, size_t j) {
    return ((const float *)tensor->data)[attn_tensor_offset(tensor, b, h, i, j)];
}

START_TEST(bias_broadcasts_from_the_right) {
    float values[4 * 3 * 3];
    for (size_t n = 0; n < COUNT_OF(values); n++)
        values[n] = (float)n;
    struct attn_request request = plain();
    request.bias = attn_tensor_view(values, ATTN_FLOAT32, 3, (const size_t[]){4, 3, 3});
    struct attn_call call = accept_request(&request);
    ck_assert(at_element(&call.bias, 1, 2, 1, 2) == 23);
    attn_call_close(&call);
    request.bias = attn_tensor_view(values, ATTN_FLOAT32, 2, (const size_t[]){3, 1});
    call = accept_request(&request);
    ck_assert(at_element(&call.bias, 1, 3, 2, 1) == 2);
    attn_call_close(&call);
    request.bias = attn_tensor_view(values + 7, ATTN_FLOAT32, 0, NULL);
    call = accept_request(&request);
    ck_assert(at_element(&call.bias, 1, 3, 2, 1) == 7);
    attn_call_close(&call);
    request.bias = SHAPED(ATTN_FLOAT16, 2, 1, 1, 3); /* another dtype than q's is fine */
    call = accept_request(&request);
    attn_call_close(&call);
}
END_TEST

START_TEST(bias_of_another_shape_or_type_is_refused) {
    struct attn_request request = plain();
    request.bias = F32(4, 3);
    refuse_request(&request, ATTN_BAD_SHAPE, "/bias", "[2,4,3,3]; its shape is [4, 3]");
    request.bias = F32(2, 3, 3);
    refuse_request(&request, ATTN_BAD_SHAPE, "/bias", "its shape is [2, 3, 3]");
    request.bias = F32(1, 2, 4, 3, 3);
    refuse_request(&request, ATTN_BAD_SHAPE, "/bias", "its shape is [1, 2, 4, 3, 3]");
    request.bias = SHAPED(ATTN_BOOL, 3, 3);
    refuse_request(&request, ATTN_BAD_DTYPE, "/bias", "got bool. For a mask of booleans use");
}
END_TEST

/* Values beyond the first chunk of the scan, too. */
START_TEST(bias_values_are_looked_at) {
    static double values[40 * 40];
    struct attn_request request = request_sized(1, 1, 1, 40, 40, 4, 4);
    request.bias = attn_tensor_view(values, ATTN_FLOAT64, 2, (const size_t[]){40, 40});
    values[1500] = -9999;
    values[0] = -INFINITY;
    values[1] = NAN;
    struct attn_call call = accept_request(&request);
    ck_assert_ptr_null(call.note);
    attn_call_close(&call);
    values[1500] = -1e4;
    call = accept_request(&request);
    ck_assert_ptr_nonnull(call.note);
    ck_assert_ptr_nonnull(strstr(call.note, "almost hides"));
    attn_call_close(&call);
    values[1300] = INFINITY;
    refuse_request(&request, ATTN_BAD_VALUE, "/bias", "+infinity (element 1300");
}
END_TEST

/* The paper's: powers of two, and for 6 heads those of 4, then every second of 8. */
/* More elements than can be counted, over keys of no size: no memory holds such a bias. */
START_TEST(a_bias_without_an_end_is_not_looked_through) {
    const size_t keys = (size_t)1 << 50;
    struct attn_request request = request_sized(1, 1, 1, 1 << 20, keys, 0, 0);
    request.bias = F32(1 << 20, keys);
    struct attn_call call = accept_request(&request);
    ck_assert_uint_eq(call.Tk, keys);
    attn_call_close(&call);
}
END_TEST

START_TEST(alibi_slopes_are_the_papers) {
    static const double six[] = {0x1p-2, 0x1p-4, 0x1p-6, 0x1p-8, 0x1p-1, 0x1p-3};
    for (size_t heads = 1; heads <= 16; heads *= 2) {
        struct attn_request request = request_sized(1, heads, 1, 3, 3, 4, 4);
        request.alibi = true;
        struct attn_call call = accept_request(&request);
        for (size_t h = 0; h < heads; h++)
            ck_assert_msg(fabs(call.alibi[h] / exp2(-8.0 * (double)(h + 1) / (double)heads) - 1) <
                              1e-15,
                          "head %zu of %zu has %g", h, heads, call.alibi[h]);
        attn_call_close(&call);
    }
    struct attn_request request = request_sized(1, 6, 1, 3, 3, 4, 4);
    request.alibi = true;
    struct attn_call call = accept_request(&request);
    for (size_t h = 0; h < 6; h++)
        ck_assert_msg(call.alibi[h] == six[h], "head %zu has %g", h, call.alibi[h]);
    attn_call_close(&call);
}
END_TEST

START_TEST(slopes_and_sinks_are_one_or_one_per_head) {
    struct attn_request request = plain();
    request.alibi = true;
    request.alibi_slopes = REALS(1, -2, 0, 1e299);
    request.sink = REALS(-INFINITY);
    struct attn_call call = accept_request(&request);
    for (size_t h = 0; h < 4; h++) {
        ck_assert(call.alibi[h] == request.alibi_slopes.values[h]);
        ck_assert(call.sink[h] == -INFINITY);
    }
    attn_call_close(&call);
    request.alibi_slopes = REALS(0.5);
    request.sink = REALS(1, 2, 3, -1e300);
    call = accept_request(&request);
    for (size_t h = 0; h < 4; h++) {
        ck_assert(call.alibi[h] == 0.5);
        ck_assert(call.sink[h] == request.sink.values[h]);
    }
    attn_call_close(&call);
}
END_TEST

START_TEST(wrong_slopes_and_sinks_are_refused) {
    struct attn_request request = plain();
    request.alibi_slopes = REALS(1, 2);
    refuse_request(&request, ATTN_BAD_VALUE, "/alibi", "alibi must have one value per query head");
    request.alibi_slopes = REALS(1, 2, NAN, 4);
    refuse_request(&request, ATTN_BAD_VALUE, "/alibi", "got nan");
    request.alibi_slopes = REALS(-INFINITY);
    refuse_request(&request, ATTN_BAD_VALUE, "/alibi", "got -inf");
    request = plain();
    request.sink = REALS(1, 2, 3, 4, 5);
    refuse_request(&request, ATTN_BAD_VALUE, "/sink", "(4) or one for all, got 5");
    request.sink = REALS(INFINITY);
    refuse_request(&request, ATTN_BAD_VALUE, "/sink", "got inf");
    request.sink = REALS(1, 2, NAN, 4);
    refuse_request(&request, ATTN_BAD_VALUE, "/sink", "got nan");
}
END_TEST

static Suite *call_options_suite(void) {
    Suite *suite = suite_create("call_options");
    TCase *numbers = tcase_create("numbers");
    tcase_add_test(numbers, defaults_are_the_fields_own);
    tcase_add_test(numbers, what_is_given_is_taken);
    tcase_add_loop_test(numbers, scale_is_finite, 0, 3);
    tcase_add_loop_test(numbers, softcap_is_above_zero, 0, 5);
    tcase_add_test(numbers, types_follow_the_inputs_unless_asked);
    tcase_add_test(numbers, output_dtype_is_a_float);
    suite_add_tcase(suite, numbers);
    TCase *added = tcase_create("added");
    tcase_add_test(added, bias_broadcasts_from_the_right);
    tcase_add_test(added, bias_of_another_shape_or_type_is_refused);
    tcase_add_test(added, bias_values_are_looked_at);
    tcase_add_test(added, a_bias_without_an_end_is_not_looked_through);
    tcase_add_test(added, alibi_slopes_are_the_papers);
    tcase_add_test(added, slopes_and_sinks_are_one_or_one_per_head);
    tcase_add_test(added, wrong_slopes_and_sinks_are_refused);
    suite_add_tcase(suite, added);
    return suite;
}

ATTN_TEST_MAIN(call_options_suite)
