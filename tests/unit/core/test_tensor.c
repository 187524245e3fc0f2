/* SPDX-License-Identifier: Apache-2.0 */
/* Views: the dtype table, shapes whose sizes do not fit, broadcasting, and offsets past 2^32. */
#include "core/tensor.h"

#include <string.h>

#include "core/checked.h"
#include "tests/support/test_main.h"

START_TEST(dtypes_are_found_by_both_names) {
    for (int i = 0; i < ATTN_DTYPE_COUNT; i++) {
        const enum attn_dtype dtype = (enum attn_dtype)i;
        enum attn_dtype found = ATTN_DTYPE_COUNT;
        ck_assert(attn_dtype_from_name(attn_dtype_name(dtype), &found));
        ck_assert_int_eq(found, dtype);
        found = ATTN_DTYPE_COUNT;
        ck_assert(attn_dtype_from_name(attn_dtype_safetensors_name(dtype), &found));
        ck_assert_int_eq(found, dtype);
    }
    enum attn_dtype found = ATTN_INT8;
    ck_assert(!attn_dtype_from_name("Float32", &found));
    ck_assert(!attn_dtype_from_name("", &found));
    ck_assert_int_eq(found, ATTN_INT8);
}
END_TEST

START_TEST(dtypes_have_their_sizes_and_classes) {
    ck_assert_uint_eq(attn_dtype_size(ATTN_FLOAT64), 8);
    ck_assert_uint_eq(attn_dtype_size(ATTN_FLOAT32), 4);
    ck_assert_uint_eq(attn_dtype_size(ATTN_BFLOAT16), 2);
    ck_assert_uint_eq(attn_dtype_size(ATTN_BOOL), 1);
    ck_assert_int_eq(attn_dtype_class(ATTN_FLOAT16), ATTN_CLASS_FLOAT);
    ck_assert_int_eq(attn_dtype_class(ATTN_BOOL), ATTN_CLASS_BOOL);
    ck_assert_int_eq(attn_dtype_class(ATTN_UINT64), ATTN_CLASS_INT);
}
END_TEST

START_TEST(a_view_is_row_major) {
    const size_t shape[] = {2, 3, 4, 5};
    const struct attn_tensor view = attn_tensor_view(NULL, ATTN_FLOAT32, 4, shape);
    const ptrdiff_t stride[] = {60, 20, 5, 1};
    ck_assert_int_eq(memcmp(view.stride, stride, sizeof stride), 0);
    ck_assert(!attn_tensor_is_none(&view));
    const struct attn_tensor empty = attn_tensor_view(NULL, ATTN_BOOL, 3, (size_t[]){2, 0, 3});
    ck_assert_int_eq(memcmp(empty.stride, (ptrdiff_t[]){3, 3, 1}, 3 * sizeof(ptrdiff_t)), 0);
    const struct attn_tensor none = attn_tensor_none();
    ck_assert(attn_tensor_is_none(&none));
}
END_TEST

START_TEST(sizes_that_do_not_fit_are_refused) {
    const size_t big = (size_t)1 << 32;
    size_t n = 7;
    ck_assert(!attn_shape_elements(2, (size_t[]){big, big}, &n));
    ck_assert(!attn_shape_elements(2, (size_t[]){big, big / 2}, &n));
    ck_assert(!attn_shape_elements(3, (size_t[]){0, big, big}, &n));
    ck_assert(!attn_shape_bytes(ATTN_FLOAT64, 2, (size_t[]){big, big / 16}, &n));
    ck_assert_uint_eq(n, 7);
    ck_assert(attn_shape_elements(2, (size_t[]){big, big / 4}, &n));
    ck_assert_uint_eq(n, (size_t)1 << 62);
    ck_assert(attn_shape_bytes(ATTN_FLOAT64, 2, (size_t[]){big, big / 32}, &n));
    ck_assert_uint_eq(n, (size_t)1 << 62);
    ck_assert(attn_shape_elements(2, (size_t[]){big, 0}, &n));
    ck_assert_uint_eq(n, 0);
    ck_assert(attn_shape_bytes(ATTN_INT16, 0, NULL, &n));
    ck_assert_uint_eq(n, 2);
}
END_TEST

START_TEST(checked_arithmetic_stops_at_the_edge) {
    size_t out = 3;
    ck_assert(!attn_add_size(SIZE_MAX, 1, &out));
    ck_assert(!attn_mul_size(SIZE_MAX / 2 + 1, 2, &out));
    ck_assert(!attn_round_up_size(SIZE_MAX - 2, 64, &out));
    ck_assert_uint_eq(out, 3);
    ck_assert(attn_round_up_size(65, 64, &out));
    ck_assert_uint_eq(out, 128);
    ck_assert(attn_sub_saturating(INT64_MIN, 1) == INT64_MIN);
    ck_assert(attn_sub_saturating(INT64_MAX, -1) == INT64_MAX);
    ck_assert(attn_add_saturating(INT64_MAX, 1) == INT64_MAX);
    ck_assert(attn_add_saturating(INT64_MIN, -1) == INT64_MIN);
    ck_assert(attn_add_saturating(-3, 5) == 2);
}
END_TEST

START_TEST(broadcasting_is_right_aligned) {
    const size_t wanted[] = {2, 3, 4, 5};
    struct attn_tensor out;
    struct attn_tensor t = attn_tensor_view(NULL, ATTN_BOOL, 3, (size_t[]){3, 1, 5});
    ck_assert(attn_tensor_broadcast(&t, wanted, &out));
    ck_assert_int_eq(memcmp(out.stride, (ptrdiff_t[ATTN_MAX_RANK]){0, 5, 0, 1}, sizeof out.stride),
                     0);
    ck_assert_int_eq(memcmp(out.shape, wanted, sizeof wanted), 0);
    ck_assert_int_eq(out.rank, 4);

    t = attn_tensor_view(NULL, ATTN_BOOL, 0, NULL);
    ck_assert(attn_tensor_broadcast(&t, wanted, &out));
    ck_assert_int_eq(memcmp(out.stride, (ptrdiff_t[ATTN_MAX_RANK]){0}, sizeof out.stride), 0);

    t = attn_tensor_view(NULL, ATTN_BOOL, 5, (size_t[]){1, 2, 3, 4, 5});
    ck_assert(!attn_tensor_broadcast(&t, wanted, &out)); /* an axis too many */

    t = attn_tensor_view(NULL, ATTN_BOOL, 2, (size_t[]){3, 5});
    ck_assert(!attn_tensor_broadcast(&t, wanted, &out));
    t = attn_tensor_view(NULL, ATTN_BOOL, 1, (size_t[]){4});
    ck_assert(!attn_tensor_broadcast(&t, wanted, &out));
    t = attn_tensor_view(NULL, ATTN_BOOL, 1, (size_t[]){0});
    ck_assert(!attn_tensor_broadcast(&t, wanted, &out));
}
END_TEST

START_TEST(offsets_go_past_two_to_the_32) {
    const size_t side = (size_t)1 << 20;
    const struct attn_tensor t =
        attn_tensor_view(NULL, ATTN_UINT8, 4, (size_t[]){4, 32, side, side});
    ck_assert(t.stride[0] == (ptrdiff_t)1 << 45);
    ck_assert(attn_tensor_offset(&t, 3, 31, side - 1, side - 1) == ((ptrdiff_t)1 << 47) - 1);
    ck_assert(attn_tensor_offset(&t, 1, 0, 5, 0) ==
              ((ptrdiff_t)1 << 45) + 5 * ((ptrdiff_t)1 << 20));
}
END_TEST

START_TEST(shapes_are_written_for_people) {
    char text[16];
    ck_assert_str_eq(attn_shape_text(3, (size_t[]){2, 3, 4}, text, sizeof text), "[2, 3, 4]");
    ck_assert_str_eq(attn_shape_text(0, NULL, text, sizeof text), "[]");
    ck_assert_str_eq(attn_shape_text(3, (size_t[]){2, 3, 4}, text, 6), "[2, 3");
    ck_assert_str_eq(attn_shape_text(1, (size_t[]){2}, text, 1), "");
}
END_TEST

#define INTEGER_AT(element, type, low, high)                             \
    {                                                                    \
        const type values[] = {(type)(low), 1, (type)(high)};            \
        const struct attn_tensor t = {.data = values, .dtype = element}; \
        ck_assert(attn_tensor_int_at(&t, 0) == (int64_t)(low));          \
        ck_assert(attn_tensor_int_at(&t, 1) == 1);                       \
        ck_assert(attn_tensor_int_at(&t, 2) == (int64_t)(high));         \
    }

START_TEST(integers_are_widened) {
    INTEGER_AT(ATTN_BOOL, uint8_t, 0, 1)
    INTEGER_AT(ATTN_UINT8, uint8_t, 0, UINT8_MAX)
    INTEGER_AT(ATTN_INT8, int8_t, INT8_MIN, INT8_MAX)
    INTEGER_AT(ATTN_UINT16, uint16_t, 0, UINT16_MAX)
    INTEGER_AT(ATTN_INT16, int16_t, INT16_MIN, INT16_MAX)
    INTEGER_AT(ATTN_UINT32, uint32_t, 0, UINT32_MAX)
    INTEGER_AT(ATTN_INT32, int32_t, INT32_MIN, INT32_MAX)
    INTEGER_AT(ATTN_UINT64, uint64_t, 0, INT64_MAX)
    INTEGER_AT(ATTN_INT64, int64_t, INT64_MIN, INT64_MAX)
    const uint64_t huge = UINT64_MAX;
    const struct attn_tensor t = {.data = &huge, .dtype = ATTN_UINT64};
    ck_assert(attn_tensor_int_at(&t, 0) == INT64_MAX);
}
END_TEST

static Suite *tensor_suite(void) {
    Suite *suite = suite_create("tensor");
    TCase *tests = tcase_create("views");
    tcase_add_test(tests, dtypes_are_found_by_both_names);
    tcase_add_test(tests, dtypes_have_their_sizes_and_classes);
    tcase_add_test(tests, a_view_is_row_major);
    tcase_add_test(tests, sizes_that_do_not_fit_are_refused);
    tcase_add_test(tests, checked_arithmetic_stops_at_the_edge);
    tcase_add_test(tests, broadcasting_is_right_aligned);
    tcase_add_test(tests, offsets_go_past_two_to_the_32);
    tcase_add_test(tests, shapes_are_written_for_people);
    tcase_add_test(tests, integers_are_widened);
    suite_add_tcase(suite, tests);
    return suite;
}

ATTN_TEST_MAIN(tensor_suite)
