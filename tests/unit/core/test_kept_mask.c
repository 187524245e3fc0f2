/* SPDX-License-Identifier: Apache-2.0 */
/* A kept call under another mask has the rows of a call that came with it, by each kernel; what is
 * not given stays, and where queries stand has to be known. */
#include "tests/unit/core/kept_fixture.h"

#include "core/call.h"

/* Sums a kept call's rows up under a mask, and keeps them; weights are of batch item 1. */
static void remask(struct keeping *other, const struct attn_kept *kept,
                   struct attn_request *request) {
    static const struct attn_limits limits = {SIZE_MAX, INFINITY};
    struct attn_error error = {.status = ATTN_OK};
    struct attn_call call;
    struct attn_plan plan;
    struct attn_result result;
    if (attn_kept_remask(kept, request, &call, &error) == ATTN_OK)
        attn_plan_make(&call, &limits, &plan, &result, &error);
    ck_assert_msg(error.status == ATTN_OK, "refused: %s", error.detail);
    const size_t bytes = attn_kept_bytes(&call, &plan, call.q.dtype);
    ck_assert_int_eq(posix_memalign(&other->memory, 64, bytes), 0);
    other->kept = attn_kept_make(&call, &plan, call.q.dtype, other->memory);
    result.rows = &other->kept->rows;
    struct attn_call attends = call;
    attends.Dv = 0;
    void *memory = redo_memory(&plan);
    ck_assert(attn_kept_redo(&attends, &plan, &result, memory, NULL));
    free(memory);
    attn_call_close(&call);
}

START_TEST(its_rows_are_those_of_a_call_with_the_mask) {
    struct attn_mask_node nodes[] = {{.kind = ATTN_MASK_WINDOW, .left = 70, .right = 9}};
    struct executor_case first, second;
    struct keeping keeping, want, other;
    struct redone redone;
    struct attn_request request;
    open_long(&first, (size_t)_i);
    keep(&keeping, &first.run, ATTN_FLOAT32);
    open_long(&second, (size_t)_i);
    static const int64_t offset = 830; /* of bottom_right: it stays */
    second.nodes[0] = nodes[0];
    second.run.request.q_offset = (struct attn_int_list){&offset, 1};
    second.run.chunk_keys = 0;
    keep(&want, &second.run, ATTN_FLOAT32);
    attn_request_init(&request);
    request.mask = (struct attn_mask){nodes, 1};
    remask(&other, keeping.kept, &request);
    memset(nodes, 0, sizeof nodes);
    ck_assert_uint_eq(other.kept->Dv, LONG.Dv);
    const struct attn_kept_part part = {
        .returns = ATTN_RETURN_WEIGHTS, .batch = 1, .map.stage = ATTN_STAGE_WEIGHTS};
    redo(&redone, other.kept, &part);
    expect_batch(&redone, ATTN_RESULT_WEIGHTS, 1, want.weights);
    redone_close(&redone);
    free(other.memory);
    keeping_close(&want);
    keeping_close(&keeping);
    run_close(&second.run);
    run_close(&first.run);
}
END_TEST

START_TEST(places_have_to_be_known) {
    struct attn_mask_node causal[] = {{.kind = ATTN_MASK_CAUSAL, .pointer = "/mask"}};
    struct executor_case c;
    struct keeping keeping;
    struct attn_request request;
    struct attn_call call;
    struct attn_error error = {.status = ATTN_OK};
    open_long(&c, 0);
    c.run.request.mask.count = 0;
    keep(&keeping, &c.run, ATTN_FLOAT32);
    attn_request_init(&request);
    request.mask = (struct attn_mask){causal, 1};
    ck_assert_int_eq(attn_kept_remask(keeping.kept, &request, &call, &error), ATTN_AMBIGUOUS);
    ck_assert_ptr_null(call.storage);
    error = (struct attn_error){.status = ATTN_OK};
    causal[0].align = ATTN_ALIGN_BOTTOM_RIGHT;
    ck_assert_int_eq(attn_kept_remask(keeping.kept, &request, &call, &error), ATTN_OK);
    ck_assert_int_eq(attn_call_q_offset(&call, 1), (int64_t)(LONG.Tk - LONG.Tq));
    attn_call_close(&call);
    keeping_close(&keeping);
    run_close(&c.run);
}
END_TEST

START_TEST(a_place_that_was_said_is_known) {
    struct attn_mask_node causal[] = {{.kind = ATTN_MASK_CAUSAL, .pointer = "/mask"}};
    static const int64_t first = 0;
    struct executor_case c;
    struct keeping keeping;
    struct attn_request request;
    struct attn_call call;
    struct attn_error error = {.status = ATTN_OK};
    open_long(&c, 0);
    c.run.request.mask.count = 0;
    c.run.request.q_offset = (struct attn_int_list){&first, 1};
    keep(&keeping, &c.run, ATTN_FLOAT32);
    attn_request_init(&request);
    request.mask = (struct attn_mask){causal, 1};
    ck_assert_int_eq(attn_kept_remask(keeping.kept, &request, &call, &error), ATTN_OK);
    ck_assert_int_eq(attn_call_q_offset(&call, 1), 0);
    attn_call_close(&call);
    keeping_close(&keeping);
    run_close(&c.run);
}
END_TEST

START_TEST(a_mask_places_queries_once) {
    struct attn_mask_node twice[] = {CAUSAL(TOP_LEFT), CAUSAL(BOTTOM_RIGHT), JOIN(ALL, 2)};
    struct executor_case c;
    struct keeping keeping;
    struct attn_request request;
    struct attn_call call;
    struct attn_error error = {.status = ATTN_OK};
    open_long(&c, 0);
    keep(&keeping, &c.run, ATTN_FLOAT32);
    attn_request_init(&request);
    request.mask = (struct attn_mask){twice, 3};
    ck_assert_int_eq(attn_kept_remask(keeping.kept, &request, &call, &error), ATTN_BAD_MASK);
    ck_assert_ptr_nonnull(strstr(error.detail, "different aligns"));
    ck_assert_ptr_null(call.storage);
    keeping_close(&keeping);
    run_close(&c.run);
}
END_TEST

static Suite *kept_mask_suite(void) {
    Suite *suite = suite_create("kept_mask");
    TCase *kernels = tcase_create("kernels");
    tcase_add_loop_test(kernels, its_rows_are_those_of_a_call_with_the_mask, 0, kernel_count());
    tcase_add_test(kernels, places_have_to_be_known);
    tcase_add_test(kernels, a_mask_places_queries_once);
    tcase_add_test(kernels, a_place_that_was_said_is_known);
    suite_add_tcase(suite, kernels);
    return suite;
}

ATTN_TEST_MAIN(kept_mask_suite)
