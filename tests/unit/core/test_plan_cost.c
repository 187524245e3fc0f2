/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a mask saves: a plan counts the scores of the tiles that are not known to be hidden, never
 * fewer than are visible, and not many more than lie in tiles along an edge.
 */
#include "core/plan.h"
#include "tests/support/request_builder.h"

#include <math.h>
#include <stdint.h>
#include <time.h>

static const struct attn_limits NO_LIMITS = {SIZE_MAX, INFINITY};

static struct attn_plan plan_of(struct attn_request *request) {
    struct attn_call call = accept_request(request);
    struct attn_error error = {.status = ATTN_OK};
    struct attn_plan plan;
    struct attn_result result;
    ck_assert_int_eq(attn_plan_make(&call, &NO_LIMITS, &plan, &result, &error), ATTN_OK);
    attn_call_close(&call);
    return plan;
}

static struct attn_request masked(size_t B, size_t Hq, size_t Tq, size_t Tk,
                                  struct attn_mask mask) {
    struct attn_request request = request_sized(B, Hq, 1, Tq, Tk, 4, 4);
    request.mask = mask;
    return request;
}

/* A tile that an edge crosses is counted whole: at most a row tile and a key tile per row. */
static double slack(const struct attn_plan *plan) {
    return (double)(plan->grid.row_tile + plan->grid.key_tile);
}

static void expect_per_row(const struct attn_plan *plan, double rows, double visible) {
    const double planned = plan->scores_planned / rows;
    ck_assert_msg(planned >= visible, "%g planned per row, %g are visible", planned, visible);
    ck_assert_msg(planned <= visible + slack(plan), "%g planned per row, %g are visible", planned,
                  visible);
    ck_assert(fabs(plan->flops / (2.0 * 8 * plan->scores_planned) - 1) < 1e-12);
}

/* Small ones are classified tile by tile, larger ones by rows alone. */
START_TEST(causal_costs_about_half) {
    static const size_t lengths[] = {2048, (size_t)1 << 17};
    const size_t T = lengths[_i];
    struct attn_request request = masked(1, 1, T, T, PROGRAM(CAUSAL(NONE)));
    const struct attn_plan plan = plan_of(&request);
    expect_per_row(&plan, (double)T, ((double)T + 1) / 2);
    ck_assert(plan.scores_total == (double)T * (double)T);
}
END_TEST

START_TEST(a_window_costs_its_width) {
    static const size_t lengths[] = {2048, (size_t)1 << 17};
    const struct attn_mask_node window = {
        .kind = ATTN_MASK_WINDOW, .left = 100, .right = 0, .pointer = "/mask"};
    const double T = (double)lengths[_i];
    struct attn_request request = masked(1, 1, lengths[_i], lengths[_i], PROGRAM(window));
    const struct attn_plan plan = plan_of(&request);
    expect_per_row(&plan, T, 101 - 100.0 * 101 / 2 / T);
}
END_TEST

/* Two bands apart: the range of keys of a row covers what lies between, its tiles do not. */
START_TEST(a_gap_inside_a_row_costs_nothing) {
    const struct attn_mask_node window = {
        .kind = ATTN_MASK_WINDOW, .left = 10, .right = 0, .pointer = "/mask/any/0"};
    const struct attn_mask_node prefix = {
        .kind = ATTN_MASK_PREFIX, .lengths = INTS(10), .pointer = "/mask/any/1"};
    struct attn_request request = masked(1, 1, 8192, 8192, PROGRAM(window, prefix, JOIN(ANY, 2)));
    const struct attn_plan plan = plan_of(&request);
    ck_assert_msg(plan.scores_planned <= 8192 * (20 + 2 * slack(&plan)), "%g per row",
                  plan.scores_planned / 8192);
}
END_TEST

/* A window with global tokens: a band, the column and the row of the tiles that hold one. */
START_TEST(global_tokens_cost_their_rows_and_columns) {
    const double T = 8192;
    const struct attn_mask_node window = {
        .kind = ATTN_MASK_WINDOW, .left = 10, .right = 10, .pointer = "/mask/any/0"};
    const struct attn_mask_node global = {
        .kind = ATTN_MASK_GLOBAL, .tokens = INTS(0, 1, 2), .pointer = "/mask/any/1"};
    struct attn_request request = masked(1, 1, 8192, 8192, PROGRAM(window, global, JOIN(ANY, 2)));
    const struct attn_plan plan = plan_of(&request);
    const double row = (double)plan.grid.row_tile, column = (double)plan.grid.key_tile;
    ck_assert_msg(plan.scores_planned <= T * (21 + slack(&plan)) + T * row + T * column,
                  "%g per row", plan.scores_planned / T);
    ck_assert(plan.scores_planned >= T * 24);
}
END_TEST

/* A stride longer than a tile: tiles between the diagonals hold nothing. */
START_TEST(a_long_stride_costs_its_diagonals) {
    const double T = 1 << 14, diagonals = 5;
    const struct attn_mask_node dilated = {
        .kind = ATTN_MASK_DILATED, .width = 5000, .stride = 2048, .pointer = "/mask"};
    struct attn_request request = masked(1, 1, 1 << 14, 1 << 14, PROGRAM(dilated));
    const struct attn_plan plan = plan_of(&request);
    ck_assert_msg(plan.scores_planned <= T * diagonals * (1 + slack(&plan)), "%g per row",
                  plan.scores_planned / T);
    ck_assert(plan.scores_planned >= T * (diagonals - 1));
}
END_TEST

START_TEST(block_causal_costs_about_half) {
    const struct attn_mask_node blocks = {
        .kind = ATTN_MASK_BLOCK_CAUSAL, .block = 64, .pointer = "/mask"};
    struct attn_request request = masked(1, 1, 2048, 2048, PROGRAM(blocks));
    const struct attn_plan plan = plan_of(&request);
    expect_per_row(&plan, 2048, (2048 + 64) / 2.0);
}
END_TEST

START_TEST(padding_is_counted_per_item) {
    const struct attn_mask_node padding = {
        .kind = ATTN_MASK_PADDING, .kv_lengths = INTS(4096, 1024, 0), .pointer = "/mask"};
    struct attn_request request = masked(3, 2, 512, 4096, PROGRAM(padding));
    const struct attn_plan plan = plan_of(&request);
    expect_per_row(&plan, 3 * 2 * 512, (4096 + 1024) / 3.0);
    ck_assert(plan.scores_planned <= 2.0 * 512 * (4096 + 1024 + slack(&plan)));
}
END_TEST

START_TEST(offsets_are_counted_per_item) {
    struct attn_request request = masked(2, 2, 1000, 1000, PROGRAM(CAUSAL(NONE)));
    request.q_offset = INTS(0, -1000);
    const struct attn_plan plan = plan_of(&request);
    ck_assert(plan.scores_planned >= 2.0 * 1000 * 1001 / 2);
    ck_assert(plan.scores_planned <= 2.0 * 1000 * (500.5 + slack(&plan)));
}
END_TEST

/* Elements of a mask tensor are not read for an estimate, so none of its tiles is known. */
START_TEST(an_allow_tensor_costs_everything_it_may_show) {
    const struct attn_mask_node allow = {
        .kind = ATTN_MASK_ALLOW, .tensor = SHAPED(ATTN_BOOL, 2, 1, 64), .pointer = "/mask"};
    struct attn_request request = masked(3, 2, 50, 64, PROGRAM(allow));
    const struct attn_plan plan = plan_of(&request);
    ck_assert(plan.scores_planned == plan.scores_total);
    ck_assert(plan.scores_total == 3.0 * 2 * 50 * 64);
}
END_TEST

START_TEST(nothing_visible_costs_nothing) {
    struct attn_request request = masked(2, 2, 300, 300, PROGRAM(JOIN(ANY, 0)));
    const struct attn_plan plan = plan_of(&request);
    ck_assert(plan.scores_planned == 0 && plan.flops == 0);
    ck_assert_uint_gt(plan.tasks, 0);
}
END_TEST

/* Planning is asked for before anything is admitted, so its own time must stay small. */
START_TEST(very_long_calls_are_costed_whole) {
    struct attn_request request = masked(1, 1, (size_t)1 << 28, 1000, PROGRAM(CAUSAL(TOP_LEFT)));
    const struct attn_plan plan = plan_of(&request);
    ck_assert(plan.scores_planned == plan.scores_total);
}
END_TEST

START_TEST(sizes_of_zero_cost_nothing) {
    for (unsigned zeros = 1; zeros < 1u << 4; zeros++) {
        size_t n[4];
        for (size_t axis = 0; axis < 4; axis++)
            n[axis] = zeros >> axis & 1 ? 0 : 3;
        struct attn_request request = masked(n[0], n[1], n[2], n[3], PROGRAM(CAUSAL(TOP_LEFT)));
        const struct attn_plan plan = plan_of(&request);
        ck_assert_msg(plan.scores_planned == 0, "zeros %x: %g", zeros, plan.scores_planned);
        ck_assert(plan.flops == 0 && plan.scores_total == 0);
    }
}
END_TEST

/* An expression of `count` nodes: all of so many leaves. */
static struct attn_mask all_of(struct attn_mask_node leaf, size_t count) {
    static struct attn_mask_node nodes[ATTN_MASK_MAX_NODES];
    for (size_t n = 0; n + 1 < count; n++)
        nodes[n] = leaf;
    nodes[count - 1] = (struct attn_mask_node)JOIN(ALL, count - 1);
    return (struct attn_mask){nodes, count};
}

static double seconds_of(struct attn_request *request) {
    return plan_of(request).work / 50e9; /* what a worker is planned with */
}

/* An axis of 0 is free to send, and rows without scores are answered all the same. Measured here
 * (release): 25 s for 2^28 rows of one head, 0.4 s for 2^20 heads of one row, five under 200 nodes.
 */
START_TEST(rows_without_scores_are_work) {
    const struct attn_mask_node allow = {
        .kind = ATTN_MASK_ALLOW, .tensor = SHAPED(ATTN_UINT8, 0), .pointer = "/mask"};
    struct attn_request rows = request_sized(1, 1, 1, (size_t)1 << 28, 0, 0, 0);
    struct attn_request items = request_sized((size_t)1 << 20, 1, 1, 1, 0, 0, 0);
    ck_assert(seconds_of(&rows) > 5 && seconds_of(&items) > 0.1);
    items = request_sized((size_t)1 << 20, 1, 1, 1, 0, 0, 0);
    items.mask = all_of(allow, 200);
    items.q_offset = INTS(0);
    ck_assert(seconds_of(&items) > 1);
}
END_TEST

/* Whatever is visible of 2^34 keys, 2^26 blocks are marked as not packed: 0.9 s here. */
START_TEST(blocks_of_packed_heads_are_work) {
    const struct attn_mask_node prefix = {
        .kind = ATTN_MASK_PREFIX, .lengths = INTS(1), .pointer = "/mask"};
    struct attn_request request = request_sized(1, 1, 1, 1, (size_t)1 << 34, 0, 0);
    request.mask = PROGRAM(prefix);
    const struct attn_plan plan = plan_of(&request);
    ck_assert(plan.packed_bytes == 0 || plan.work / 50e9 > 0.3);
}
END_TEST

/* Of 2^40 keys one is visible; the reference asks of each. */
START_TEST(a_kernel_that_skips_nothing_pays_for_what_is_hidden) {
    const struct attn_mask_node prefix = {
        .kind = ATTN_MASK_PREFIX, .lengths = INTS(1), .pointer = "/mask"};
    struct attn_request request = request_sized(1, 1, 1, 1, (size_t)1 << 40, 0, 0);
    request.mask = PROGRAM(prefix);
    request.kernel = "blas";
    ck_assert(seconds_of(&request) < 1e-3);
    request.kernel = "reference";
    ck_assert(seconds_of(&request) > 1000);
}
END_TEST

static const int64_t GLOBAL_TOKENS[] = {0, 299};

static const struct attn_mask_node *long_leaf(int which) {
    static const struct attn_mask_node leaves[] = {
        {.kind = ATTN_MASK_WINDOW, .left = 5, .right = 5, .pointer = "/mask"},
        {.kind = ATTN_MASK_SEGMENTS, .pointer = "/mask"},
        {.kind = ATTN_MASK_ALLOW, .pointer = "/mask"},
        {.kind = ATTN_MASK_DILATED, .width = 50, .stride = 2, .pointer = "/mask"},
        {.kind = ATTN_MASK_GLOBAL, .tokens = {GLOBAL_TOKENS, 2}, .pointer = "/mask"},
    };
    return &leaves[which];
}

static double work_of(int which, size_t nodes) {
    static const int64_t ids[300] = {1, 2, 1, 2}; /* not all alike: no tile is shown whole */
    struct attn_mask_node leaf = *long_leaf(which);
    if (leaf.kind == ATTN_MASK_SEGMENTS)
        leaf.tensor = attn_tensor_view(ids, ATTN_INT64, 1, (const size_t[]){300});
    if (leaf.kind == ATTN_MASK_ALLOW)
        leaf.tensor = SHAPED(ATTN_BOOL, 1, 1, 300);
    struct attn_request request = masked(1, 1, 300, 300, all_of(leaf, nodes));
    return plan_of(&request).work;
}

/* Measured here (release, two cores): 250 nodes over 300 x 300 take 0.7 ms as windows, 1.3 to 20 as
 * segments, 3 as tensors and dilated, 0.45 as global; their scores take 0.05. A worker is planned
 * with 50 per nanosecond. */
START_TEST(a_long_expression_is_work) {
    static const double least[] = {0.7e6 * 50, 20e6 * 50, 3e6 * 50, 3e6 * 50, 0.45e6 * 50};
    const double some = work_of(_i, 100), more = work_of(_i, 200), most = work_of(_i, 251);
    ck_assert_msg(most >= least[_i], "%g", most);
    ck_assert_msg(more > 1.7 * some && more < 2.1 * some, "%g for 100 nodes, %g for 200", some,
                  more);
}
END_TEST

/* What a mask costs where calls are ordinary is lost in what scores cost. */
START_TEST(a_short_expression_is_hardly_work) {
    struct attn_request request = request_sized(1, 8, 8, 2048, 2048, 64, 64);
    request.mask = PROGRAM(CAUSAL(NONE));
    const struct attn_plan plan = plan_of(&request);
    const double rows = 50 * (40.0 * 8 * 2048 + 200.0 * (double)plan.tasks);
    const double scores = plan.flops + 16 * plan.scores_planned + rows;
    ck_assert_msg(plan.work > scores && plan.work < 1.01 * scores, "%g of %g", plan.work, scores);
}
END_TEST

/* The mask is evaluated for the output and again for each map. */
START_TEST(maps_evaluate_the_mask_again) {
    struct attn_request request =
        masked(1, 1, 300, 300, all_of(*long_leaf(0), ATTN_MASK_MAX_NODES));
    const double once = plan_of(&request).work;
    request.mask = all_of(*long_leaf(0), ATTN_MASK_MAX_NODES);
    request.returns = ATTN_RETURN_WEIGHTS | ATTN_RETURN_SCORES;
    const double thrice = plan_of(&request).work;
    ck_assert_msg(thrice > 2.8 * once && thrice < 3.1 * once, "%g, %g with maps", once, thrice);
}
END_TEST

/* 250 lists of segments over 4096 tokens fit 64 KB when they share one name; such a call is planned
 * where it came in. */
START_TEST(planning_itself_is_short) {
    struct attn_mask_node leaf = *long_leaf(1);
    leaf.tensor = SHAPED(ATTN_UINT8, 8192);
    struct attn_request request = masked(1, 1, 8192, 8192, all_of(leaf, 250));
    const clock_t began = clock();
    plan_of(&request);
    const double seconds = (double)(clock() - began) / CLOCKS_PER_SEC;
    ck_assert_msg(seconds < 0.05, "%g s", seconds);
}
END_TEST

/* Scores are redone on the tiles that their rows are known by, however much memory that takes. */
START_TEST(known_rows_keep_their_tiles) {
    const struct attn_rows rows = {.row_tile = 64, .key_tile = 128};
    struct attn_request request = request_sized(1, 1, 1, 300, 300, 100000, 100000);
    request.kernel = "reference";
    const struct attn_plan cut = plan_of(&request);
    struct attn_call call = accept_request(&request);
    struct attn_error error = {.status = ATTN_OK};
    struct attn_plan plan;
    struct attn_result result;
    call.rows = &rows;
    ck_assert_int_eq(attn_plan_make(&call, &NO_LIMITS, &plan, &result, &error), ATTN_OK);
    ck_assert_uint_eq(plan.grid.row_tile, 64);
    ck_assert_uint_eq(plan.grid.key_tile, 128);
    ck_assert_uint_gt(plan.workspace_bytes, cut.workspace_bytes);
    attn_call_close(&call);
}
END_TEST

static Suite *plan_cost_suite(void) {
    Suite *suite = suite_create("plan_cost");
    TCase *cost = tcase_create("cost");
    tcase_add_loop_test(cost, causal_costs_about_half, 0, 2);
    tcase_add_loop_test(cost, a_window_costs_its_width, 0, 2);
    tcase_add_test(cost, a_gap_inside_a_row_costs_nothing);
    tcase_add_test(cost, global_tokens_cost_their_rows_and_columns);
    tcase_add_test(cost, a_long_stride_costs_its_diagonals);
    tcase_add_test(cost, block_causal_costs_about_half);
    tcase_add_test(cost, padding_is_counted_per_item);
    tcase_add_test(cost, offsets_are_counted_per_item);
    tcase_add_test(cost, an_allow_tensor_costs_everything_it_may_show);
    tcase_add_test(cost, nothing_visible_costs_nothing);
    tcase_add_test(cost, very_long_calls_are_costed_whole);
    tcase_add_test(cost, sizes_of_zero_cost_nothing);
    tcase_add_test(cost, rows_without_scores_are_work);
    tcase_add_test(cost, blocks_of_packed_heads_are_work);
    tcase_add_test(cost, a_kernel_that_skips_nothing_pays_for_what_is_hidden);
    tcase_add_loop_test(cost, a_long_expression_is_work, 0, 5);
    tcase_add_test(cost, a_short_expression_is_hardly_work);
    tcase_add_test(cost, maps_evaluate_the_mask_again);
    tcase_add_test(cost, planning_itself_is_short);
    tcase_add_test(cost, known_rows_keep_their_tiles);
    suite_add_tcase(suite, cost);
    return suite;
}

ATTN_TEST_MAIN(plan_cost_suite)
