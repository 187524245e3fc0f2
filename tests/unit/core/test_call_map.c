/* SPDX-License-Identifier: Apache-2.0 */
/* What comes back of a map: region, heads, pool and top_k, and what is refused of each. */
#include "tests/support/request_builder.h"

START_TEST(a_region_is_half_open) {
    struct attn_request request = request_sized(1, 4, 2, 10, 20, 4, 4);
    request.map.rows_given = request.map.cols_given = true;
    request.map.rows[0] = 2, request.map.rows[1] = 10;
    request.map.cols[0] = 20, request.map.cols[1] = 20;
    struct attn_call call = accept_request(&request);
    ck_assert_uint_eq(call.map_row, 2);
    ck_assert_uint_eq(call.map_rows, 8);
    ck_assert_uint_eq(call.map_col, 20);
    ck_assert_uint_eq(call.map_cols, 0);
    attn_call_close(&call);
}
END_TEST

START_TEST(a_region_outside_is_refused) {
    static const int64_t wrong[][2] = {{-1, 2}, {3, 2}, {0, 11}, {INT64_MIN, INT64_MAX}};
    struct attn_request request = request_sized(1, 4, 2, 10, 10, 4, 4);
    request.map.rows_given = true;
    memcpy(request.map.rows, wrong[_i], sizeof wrong[_i]);
    refuse_request(&request, ATTN_BAD_VALUE, "/weights/rows", "0 <= first <= end <= 10");
    request.map.rows_given = false;
    request.map.cols_given = true;
    memcpy(request.map.cols, wrong[_i], sizeof wrong[_i]);
    refuse_request(&request, ATTN_BAD_VALUE, "/weights/cols", "cols must be [first, end)");
}
END_TEST

START_TEST(heads_of_the_map_keep_their_order) {
    struct attn_request request = request_sized(2, 4, 2, 3, 5, 16, 6);
    request.map.heads = INTS(3, 0, 3);
    struct attn_call call = accept_request(&request);
    ck_assert_uint_eq(call.map_head_count, 3);
    ck_assert_int_eq(call.map_heads[0], 3);
    ck_assert_int_eq(call.map_heads[1], 0);
    attn_call_close(&call);
    request.map.heads = INTS(0, 4);
    refuse_request(&request, ATTN_BAD_VALUE, "/weights/heads", "below Hq = 4; got 4");
    request.map.heads = INTS(-1);
    refuse_request(&request, ATTN_BAD_VALUE, "/weights/heads", "got -1");
    request = request_sized(1, 0, 1, 3, 3, 4, 4);
    request.map.heads = INTS(0);
    refuse_request(&request, ATTN_BAD_VALUE, "/weights/heads", "below Hq = 0; got 0");
}
END_TEST

START_TEST(a_map_of_rank_2_has_one_head) {
    struct attn_request request = request_of(F32(3, 8), F32(5, 8), F32(5, 4));
    request.map.heads = INTS(0, 0);
    refuse_request(&request, ATTN_BAD_VALUE, "/weights/heads", "give [0], not 2 entries");
    request.map.heads = INTS(0);
    struct attn_call call = accept_request(&request);
    ck_assert_uint_eq(call.map_head_count, 1);
    attn_call_close(&call);
}
END_TEST

START_TEST(a_pool_fits_its_region) {
    struct attn_request request = request_sized(1, 4, 2, 10, 20, 4, 4);
    request.map.pool_given = true;
    request.map.pool_cols = 20;
    request.map.pool_rows = 0;
    refuse_request(&request, ATTN_BAD_VALUE, "/weights/pool/rows", "each of the 10 query rows");
    request.map.pool_rows = 11;
    refuse_request(&request, ATTN_BAD_VALUE, "/weights/pool/rows", "got 11");
    request.map.pool_rows = 10;
    request.map.pool_cols = 21;
    refuse_request(&request, ATTN_BAD_VALUE, "/weights/pool/cols", "each of the 20 keys");
    request.map.cols_given = true;
    refuse_request(&request, ATTN_BAD_VALUE, "/weights/pool/cols", "no keys to be pooled");
}
END_TEST

START_TEST(a_picture_pools_what_is_too_large_for_it) {
    struct attn_request request = request_sized(1, 1, 1, 10, 7, 4, 4);
    struct attn_error error = {.status = ATTN_OK};
    struct attn_call call = accept_request(&request);
    ck_assert_int_eq(attn_call_fit_map(&call, 10, &error), ATTN_OK);
    ck_assert(!call.pooled);
    ck_assert_int_eq(attn_call_fit_map(&call, 4, &error), ATTN_OK);
    ck_assert(call.pooled && call.pool_rows == 4 && call.pool_cols == 4);
    ck_assert_int_eq(attn_call_fit_map(&call, 2, &error), ATTN_OK); /* it has its pool */
    ck_assert(call.pool_rows == 4 && call.pool_cols == 4);
    attn_call_close(&call);
    request = request_sized(1, 1, 1, 3, 9, 4, 4);
    call = accept_request(&request);
    ck_assert_int_eq(attn_call_fit_map(&call, 4, &error), ATTN_OK);
    ck_assert(call.pooled && call.pool_rows == 3 && call.pool_cols == 3);
    attn_call_close(&call);
}
END_TEST

START_TEST(a_picture_of_nothing_pools_nothing) {
    struct attn_request request = request_sized(1, 1, 1, 10, 7, 4, 4);
    for (int rows = 0; rows < 2; rows++) {
        request.map.rows_given = rows;
        request.map.cols_given = !rows;
        struct attn_error error = {.status = ATTN_OK};
        struct attn_call call = accept_request(&request);
        ck_assert_int_eq(attn_call_fit_map(&call, 4, &error), ATTN_OK);
        ck_assert(!call.pooled);
        attn_call_close(&call);
    }
}
END_TEST

START_TEST(top_k_is_of_one_map_of_rows_by_keys) {
    static const int64_t wrong[] = {0, ((int64_t)1 << 31) + 1};
    static const char place[] = "/weights/top_k";
    struct attn_request request = request_sized(1, 1, 1, 1, ((size_t)1 << 31) + 1, 0, 0);
    request.map.top_k_given = true;
    request.map.top_k = 1;
    refuse_request(&request, ATTN_BAD_VALUE, place, "got 1 of 2147483649");
    request = request_sized(1, 4, 2, 10, 20, 4, 4);
    request.map.top_k_given = true;
    for (size_t n = 0; n < COUNT_OF(wrong); n++) {
        request.map.top_k = wrong[n];
        refuse_request(&request, ATTN_BAD_VALUE, place, "from 1 to 2^31");
    }
    request.map.top_k = 3;
    request.map.over_heads = ATTN_HEADS_MEAN;
    refuse_request(&request, ATTN_BAD_VALUE, place, "with the mean or max of heads");
    request.map.over_heads = ATTN_HEADS_EACH;
    request.map.pool_given = true;
    request.map.pool_rows = request.map.pool_cols = 1;
    refuse_request(&request, ATTN_BAD_VALUE, place, "with pool there are none");
    request.map.pool_given = false;
    request.returns = ATTN_RETURN_WEIGHTS | ATTN_RETURN_SCORES;
    refuse_request(&request, ATTN_BAD_VALUE, place, "Ask for one of them");
    request.returns = ATTN_RETURN_SCORES;
    struct attn_call call = accept_request(&request);
    ck_assert_uint_eq(call.top_k, 3);
    attn_call_close(&call);
}
END_TEST

static Suite *call_map_suite(void) {
    Suite *suite = suite_create("call_map");
    TCase *map = tcase_create("map");
    tcase_add_test(map, a_region_is_half_open);
    tcase_add_loop_test(map, a_region_outside_is_refused, 0, 4);
    tcase_add_test(map, heads_of_the_map_keep_their_order);
    tcase_add_test(map, a_map_of_rank_2_has_one_head);
    tcase_add_test(map, a_pool_fits_its_region);
    tcase_add_test(map, a_picture_pools_what_is_too_large_for_it);
    tcase_add_test(map, a_picture_of_nothing_pools_nothing);
    tcase_add_test(map, top_k_is_of_one_map_of_rows_by_keys);
    suite_add_tcase(suite, map);
    return suite;
}

ATTN_TEST_MAIN(call_map_suite)
