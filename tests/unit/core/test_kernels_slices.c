/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel may cut a block that is hidden in part into slices of its rows when a key/value head has
 * one query head. Here are masks whose edges run through blocks of every kernel's grid, on heads
 * of 300 queries and 600 keys: all stages, sums of weights, and what hidden values may not change.
 */
#include "tests/unit/core/executor_cases.h"

enum { Tq = 300, Tk = 600 };

static const struct run_sizes SIZES = {
    .B = 1, .Hq = 2, .Hkv = 2, .Tq = Tq, .Tk = Tk, .D = 8, .Dv = 5};

static struct run run, clean;
static int64_t query_ids[Tq], key_ids[Tk];

static void with_diagonal(struct attn_mask_node *node) {
    *node = (struct attn_mask_node){.kind = ATTN_MASK_CAUSAL, .pointer = "/mask"};
}

static void with_narrow_window(struct attn_mask_node *node) {
    *node = (struct attn_mask_node){
        .kind = ATTN_MASK_WINDOW, .left = 20, .right = 3, .pointer = "/mask"};
}

/* Documents of 70 tokens, twice as many keys as queries in each. */
static void with_documents(struct attn_mask_node *node) {
    for (size_t t = 0; t < Tq; t++)
        query_ids[t] = (int64_t)t / 70;
    for (size_t t = 0; t < Tk; t++)
        key_ids[t] = (int64_t)t / 140;
    *node = (struct attn_mask_node){
        .kind = ATTN_MASK_SEGMENTS,
        .tensor = attn_tensor_view(query_ids, ATTN_INT64, 2, (const size_t[]){1, Tq}),
        .kv = attn_tensor_view(key_ids, ATTN_INT64, 2, (const size_t[]){1, Tk}),
        .pointer = "/mask"};
}

/* Only rows of one slice see anything. */
static void with_few_rows(struct attn_mask_node *node) {
    static const int64_t keys = 600, rows = 40;
    *node = (struct attn_mask_node){.kind = ATTN_MASK_PADDING,
                                    .kv_lengths = {&keys, 1},
                                    .q_lengths = {&rows, 1},
                                    .pointer = "/mask"};
}

static void (*const MASKS[])(struct attn_mask_node *node) = {with_diagonal, with_narrow_window,
                                                             with_documents, with_few_rows};

enum { MASK_COUNT = sizeof MASKS / sizeof *MASKS };

static void open_masked(struct run *opened, struct attn_mask_node *node, int index) {
    static const int64_t offset = 50;
    run_open(opened, ATTN_FLOAT32, RUN_BHTD, SIZES);
    MASKS[index % MASK_COUNT](node);
    opened->request.preferred_kernel = kernel_name((size_t)(index / MASK_COUNT));
    opened->request.returns = RUN_EVERYTHING;
    opened->request.q_offset = (struct attn_int_list){&offset, 1};
    opened->request.mask = (struct attn_mask){node, 1};
}

static void expect_close(enum attn_result_name name, const double *want) {
    size_t wrong = 0;
    for (size_t n = 0; n < run_count(&run, name); n++)
        wrong += (size_t)!run_is_close(run_at(&run, name, n), want[n], 2e-6);
    ck_assert_msg(wrong == 0, "%zu elements of %s differ", wrong, attn_result_tensor_name(name));
}

/* Scores are below 8 / sqrt(8) in magnitude; float32 products of 8 terms keep 1e-6 of that. */
START_TEST(every_stage_agrees_with_the_formula) {
    static struct attn_mask_node node;
    for (int stage = ATTN_STAGE_RAW; stage <= ATTN_STAGE_WEIGHTS; stage++) {
        open_masked(&run, &node, _i);
        run.request.map.stage = (enum attn_stage)stage;
        run_all(&run);
        struct run_expected expected = run_expect(&run);
        expect_close(ATTN_RESULT_WEIGHTS, expected.stage[stage]);
        expect_close(ATTN_RESULT_OUTPUT, expected.output);
        expect_close(ATTN_RESULT_LSE, expected.lse);
        ck_assert_uint_eq(atomic_load(&run.result.empty_rows), expected.empty_rows);
        run_expected_close(&expected);
        run_close(&run);
    }
}
END_TEST

static bool sees(size_t row, size_t j) {
    return run_at(&clean, ATTN_RESULT_SCORES, row * Tk + j) != -(double)INFINITY;
}

/* One key and its value are NaN; rows that do not see it keep every bit. */
static void expect_others_unchanged(size_t head, size_t j) {
    const size_t Dv = SIZES.Dv;
    const float *const got = run.result.tensors[ATTN_RESULT_OUTPUT].data;
    const float *const want = clean.result.tensors[ATTN_RESULT_OUTPUT].data;
    size_t wrong = 0;
    for (size_t row = 0; row < SIZES.Hq * Tq; row++) {
        const bool spoiled = row / Tq == head && sees(row, j);
        for (size_t d = 0; d < Dv && spoiled; d++)
            wrong += (size_t)!isnan(got[row * Dv + d]);
        if (!spoiled)
            wrong += (size_t)(memcmp(got + row * Dv, want + row * Dv, Dv * sizeof *got) != 0);
    }
    ck_assert_msg(wrong == 0, "key %zu: %zu faults", j, wrong);
}

START_TEST(a_nan_stays_where_it_is_seen) {
    static const size_t keys[] = {0, 64, 255, 256, 349, 599};
    static struct attn_mask_node nodes[2];
    open_masked(&clean, &nodes[0], _i);
    run_all(&clean);
    for (size_t n = 0; n < COUNT_OF(keys); n++) {
        open_masked(&run, &nodes[1], _i);
        for (size_t d = 0; d < SIZES.D; d++)
            ((float *)run.operands[1])[(Tk + keys[n]) * SIZES.D + d] = NAN;
        for (size_t d = 0; d < SIZES.Dv; d++)
            ((float *)run.operands[2])[(Tk + keys[n]) * SIZES.Dv + d] = NAN;
        run_all(&run);
        expect_others_unchanged(1, keys[n]);
        run_close(&run);
    }
    run_close(&clean);
}
END_TEST

/* What a kernel that skips computes of these masks; the reference computes all 360000. */
START_TEST(a_mask_costs_about_what_it_shows) {
    static const double most[MASK_COUNT] = {0.49, 0.22, 0.55, 0.22};
    static struct attn_mask_node node;
    open_masked(&run, &node, _i);
    run_all(&run);
    const double all = (double)SIZES.Hq * Tq * Tk;
    const double computed = (double)atomic_load(&run.result.scores_computed) / all;
    ck_assert_msg(run.plan.kernel->accumulates_double || computed <= most[_i % MASK_COUNT],
                  "%.3f of all scores were computed", computed);
    run_close(&run);
}
END_TEST

/*
 * Half of a square lies under its diagonal; what a task takes beyond it, a triangle for each 64 of
 * its rows, is 64 / 2 / 1024 = 3 % of the square. The reference skips nothing.
 */
START_TEST(a_causal_call_computes_half) {
    static struct attn_mask_node causal;
    const uint64_t all = (uint64_t)1024 * 1024;
    run_open(&run, ATTN_FLOAT32, RUN_BHTD,
             (struct run_sizes){.B = 1, .Hq = 1, .Hkv = 1, .Tq = 1024, .Tk = 1024, .D = 1});
    run.request.preferred_kernel = kernel_name((size_t)_i);
    run.request.returns = ATTN_RETURN_LSE;
    run_all(&run);
    ck_assert_uint_eq(atomic_load(&run.result.scores_computed), all);
    run_reset(&run);
    causal = (struct attn_mask_node)CAUSAL(NONE);
    run.request.mask = (struct attn_mask){&causal, 1};
    run_all(&run);
    const uint64_t computed = atomic_load(&run.result.scores_computed);
    if (run.plan.kernel->accumulates_double)
        ck_assert_uint_eq(computed, all);
    else
        ck_assert_msg(computed >= all / 2 && computed <= all * 55 / 100, "%ju of %ju computed",
                      (uintmax_t)computed, (uintmax_t)all);
    run_close(&run);
}
END_TEST

static Suite *kernels_slices_suite(void) {
    attn_start(); /* one thread in OpenBLAS, as in a process that serves */
    Suite *suite = suite_create("kernels_slices");
    TCase *cases = tcase_create("masks that cut blocks");
    const int runs = kernel_count() * MASK_COUNT;
    tcase_set_timeout(cases, 60);
    tcase_add_loop_test(cases, every_stage_agrees_with_the_formula, 0, runs);
    tcase_add_loop_test(cases, a_nan_stays_where_it_is_seen, 0, runs);
    tcase_add_loop_test(cases, a_mask_costs_about_what_it_shows, 0, runs);
    tcase_add_loop_test(cases, a_causal_call_computes_half, 0, kernel_count());
    suite_add_tcase(suite, cases);
    return suite;
}

ATTN_TEST_MAIN(kernels_slices_suite)
