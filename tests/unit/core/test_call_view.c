/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a call over a session's keys may not say: the session gives shapes, positions and rotation.
 * The view is made by hand, as nothing here reads a key.
 */
#include "core/kv_cache.h"
#include "tests/support/request_builder.h"

static const struct attn_kv_view VIEW = {.Hkv = 2, .keys = 5, .D = 8, .Dv = 4, .position = 4};

static struct attn_request over_view(struct attn_tensor q) {
    struct attn_request request;
    attn_request_init(&request);
    request.q = q;
    request.kv = &VIEW;
    return request;
}

START_TEST(shapes_of_queries_are_refused_by_name) {
    const struct {
        struct attn_tensor q;
        enum attn_status status;
        const char *words;
    } wrong[] = {
        {attn_tensor_none(), ATTN_MISSING_FIELD, "q"},
        {F32(3, 8), ATTN_BAD_SHAPE, "got shape [3, 8]"},
        {F32(2, 4, 3, 8), ATTN_BAD_SHAPE, "a batch axis of 1; got shape [2, 4, 3, 8]"},
        {F32(4, 3, 7), ATTN_BAD_SHAPE, "keys have size 8; the last axis of q is 7"},
        {F32(3, 3, 8), ATTN_BAD_SHAPE, "q has 3 and the session has 2"},
    };
    for (size_t n = 0; n < COUNT_OF(wrong); n++) {
        struct attn_request request = over_view(wrong[n].q);
        refuse_request(&request, wrong[n].status, "/q", wrong[n].words);
    }
}
END_TEST

START_TEST(options_of_heads_and_layout_are_refused) {
    struct attn_request request = over_view(F32(4, 3, 8));
    request.num_heads = 4;
    refuse_request(&request, ATTN_BAD_VALUE, "/num_heads", "leave num_heads");
    request.num_heads = 0;
    request.num_kv_heads = 2;
    refuse_request(&request, ATTN_BAD_VALUE, "/num_kv_heads", "leave num_heads");
    request = over_view(F32(4, 3, 8));
    request.layout = ATTN_LAYOUT_BTHD;
    refuse_request(&request, ATTN_BAD_VALUE, "/layout", "q has rank 3");
}
END_TEST

START_TEST(rank_4_may_have_its_heads_inside) {
    struct attn_request request = over_view(F32(1, 3, 4, 8));
    request.layout = ATTN_LAYOUT_BTHD;
    struct attn_call call = accept_request(&request);
    ck_assert(call.Hq == 4 && call.Tq == 3 && call.q.sh == 8 && call.q.st == 32);
    attn_call_close(&call);
    request = over_view(F32(1, 4, 3, 8));
    call = accept_request(&request);
    ck_assert(call.Hq == 4 && call.Tq == 3 && call.q.sh == 24 && call.q.st == 8);
    attn_call_close(&call);
}
END_TEST

START_TEST(positions_are_the_sessions) {
    struct attn_request request = over_view(F32(4, 3, 8));
    request.q_offset = INTS(2);
    refuse_request(&request, ATTN_BAD_VALUE, "/q_offset", "leave q_offset out");
    request = over_view(F32(4, 3, 8));
    request.rope.given = true;
    refuse_request(&request, ATTN_BAD_VALUE, "/rope", "give rope when it is created");
    request = over_view(F32(4, 3, 8));
    request.mask = PROGRAM(CAUSAL(TOP_LEFT));
    refuse_request(&request, ATTN_BAD_MASK, "/mask/c", "leave align out");
    request.mask = PROGRAM(CAUSAL(NONE));
    struct attn_call call = accept_request(&request);
    ck_assert_uint_eq(call.mask.count, 3); /* the call's, the session's, and both */
    ck_assert_int_eq(call.space.q_offset[0], 4);
    attn_call_close(&call);
}
END_TEST

static Suite *call_view_suite(void) {
    Suite *suite = suite_create("call_view");
    TCase *calls = tcase_create("calls");
    tcase_add_test(calls, shapes_of_queries_are_refused_by_name);
    tcase_add_test(calls, options_of_heads_and_layout_are_refused);
    tcase_add_test(calls, rank_4_may_have_its_heads_inside);
    tcase_add_test(calls, positions_are_the_sessions);
    suite_add_tcase(suite, calls);
    return suite;
}

ATTN_TEST_MAIN(call_view_suite)
