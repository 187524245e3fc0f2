/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The largest of each row, as a whole list: those of the whole map, by value and then by key, NaN
 * before all numbers, and padded where a row has fewer.
 */
#include "tests/unit/core/executor_cases.h"

enum { TOP = 7 };

static const struct run_sizes SIZES = {
    .B = 2, .Hq = 4, .Hkv = 2, .Tq = 70, .Tk = 300, .D = 5, .Dv = 2};
static const size_t NAN_KEY = 270;

static struct run whole, top;
static struct attn_mask_node window;

struct wish {
    unsigned returns;
    enum attn_result_name map, list;
    double padding;
};

static const struct wish WISHES[] = {
    {ATTN_RETURN_WEIGHTS, ATTN_RESULT_WEIGHTS, ATTN_RESULT_TOP_K_WEIGHTS, 0},
    {ATTN_RETURN_SCORES, ATTN_RESULT_SCORES, ATTN_RESULT_TOP_K_SCORES, -INFINITY},
};

/* Rows see two keys before their own, and behind it all or fewer than a list has places; rows of
 * the first heads see a NaN. */
static void open_run(struct run *run, const struct wish *wish, enum attn_dtype dtype, int64_t right,
                     const char *kernel) {
    static const int64_t offset = 200;
    run_open(run, dtype, RUN_BHTD, SIZES);
    window = (struct attn_mask_node){.kind = ATTN_MASK_WINDOW, .left = 2, .right = right};
    run->request.preferred_kernel = kernel;
    run->request.mask = (struct attn_mask){&window, 1};
    run->request.q_offset = (struct attn_int_list){&offset, 1};
    run->request.returns = wish->returns;
    if (dtype == ATTN_FLOAT32)
        ((float *)run->operands[1])[NAN_KEY * SIZES.D] = NAN;
    else
        ((double *)run->operands[1])[NAN_KEY * SIZES.D] = NAN;
}

static bool comes_before(double a, size_t a_key, double b, size_t b_key) {
    if (isnan(a) || isnan(b))
        return isnan(a) && (!isnan(b) || a_key < b_key);
    return a > b || (a == b && a_key < b_key);
}

/* The key of the map's row, of those in [begin, end) that are not listed, which comes next; `end`
 * when only what pads a list is left. */
static size_t next_key(const struct wish *wish, size_t row, size_t begin, size_t end,
                       const bool *listed) {
    size_t best = end;
    for (size_t j = begin; j < end; j++) {
        const double value = run_at(&whole, wish->map, row * SIZES.Tk + j);
        if (!listed[j] && value != wish->padding &&
            (best == end ||
             comes_before(value, j, run_at(&whole, wish->map, row * SIZES.Tk + best), best)))
            best = j;
    }
    return best;
}

static void expect_list(const struct wish *wish, size_t row, size_t begin, size_t end) {
    const int32_t *keys = top.result.tensors[ATTN_RESULT_TOP_K_INDICES].data;
    bool listed[300] = {false};
    for (size_t at = row * TOP; at < (row + 1) * TOP; at++) {
        const size_t key = next_key(wish, row, begin, end, listed);
        const bool padded = key == end;
        const double want =
            padded ? wish->padding : run_at(&whole, wish->map, row * SIZES.Tk + key);
        const double got = run_at(&top, wish->list, at);
        if (keys[at] != (padded ? -1 : (int32_t)key) ||
            !(got == want || (isnan(got) && isnan(want))))
            ck_abort_msg("row %zu, place %zu is key %d, %.17g, not key %zu, %.17g", row,
                         at - row * TOP, keys[at], got, key, want);
        if (!padded)
            listed[key] = true;
    }
}

static void expect_lists(const struct wish *wish, enum attn_dtype dtype, int64_t right,
                         const char *kernel, const int64_t *columns) {
    open_run(&whole, wish, dtype, right, kernel);
    run_all(&whole);
    open_run(&top, wish, dtype, right, kernel);
    top.request.map.top_k_given = true;
    top.request.map.top_k = TOP;
    top.request.map.cols_given = true;
    memcpy(top.request.map.cols, columns, sizeof top.request.map.cols);
    run_all(&top);
    for (size_t row = 0; row < SIZES.B * SIZES.Hq * SIZES.Tq; row++)
        expect_list(wish, row, (size_t)columns[0], (size_t)columns[1]);
    run_close(&whole);
    run_close(&top);
}

START_TEST(a_list_is_the_beginning_of_the_sorted_row) {
    static const int64_t columns[][2] = {{0, 300}, {230, 290}};
    static const int64_t right[] = {-1, 3};
    for (size_t w = 0; w < COUNT_OF(WISHES); w++)
        for (size_t n = 0; n < COUNT_OF(columns) * COUNT_OF(right); n++)
            expect_lists(&WISHES[w], ATTN_FLOAT32, right[n % 2], kernel_name((size_t)_i),
                         columns[n / 2]);
}
END_TEST

/* Answers in double hold what no float does. */
START_TEST(a_list_of_doubles_is_too) {
    static const int64_t columns[2] = {0, 300};
    for (size_t w = 0; w < COUNT_OF(WISHES); w++)
        expect_lists(&WISHES[w], ATTN_FLOAT64, -1, kernel_name((size_t)_i), columns);
}
END_TEST

static Suite *map_top_suite(void) {
    attn_start();
    Suite *suite = suite_create("map_top");
    TCase *lists = tcase_create("lists");
    tcase_set_timeout(lists, 60);
    tcase_add_loop_test(lists, a_list_is_the_beginning_of_the_sorted_row, 0, kernel_count());
    tcase_add_loop_test(lists, a_list_of_doubles_is_too, 0, kernel_count());
    suite_add_tcase(suite, lists);
    return suite;
}

ATTN_TEST_MAIN(map_top_suite)
