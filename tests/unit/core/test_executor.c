/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tasks against the formula, for every kernel: output, lse and all five stages of the map under
 * every option, every dtype and every layout; sizes of zero; and bits that depend neither on what
 * was asked for nor on the order or threads of the tasks.
 */
#include "tests/unit/core/executor_cases.h"

#include <pthread.h>

/*
 * A kernel that works in float sums at most 90 products below 1 (relative 90 * 2^-24 = 5e-6 at
 * worst) and takes exponentials of scores of a few units; rounding to the output's dtype follows.
 */
static double tolerance_of(const struct run *run, enum attn_result_name name) {
    switch (run->result.tensors[name].dtype) {
    case ATTN_FLOAT64:
        return run->call.precision == ATTN_PRECISION_FLOAT64 ? 1e-13 : 1e-5;
    case ATTN_FLOAT16:
        return 0x1p-11;
    case ATTN_BFLOAT16:
        return 0x1p-8;
    default:
        return 1e-5;
    }
}

static void expect_close(const struct run *run, enum attn_result_name name, const double *want) {
    const double tolerance = tolerance_of(run, name);
    for (size_t n = 0; n < run_count(run, name); n++)
        if (!run_is_close(run_at(run, name, n), want[n], tolerance))
            ck_abort_msg("%s: %s[%zu] is %.9g, not %.9g", run->plan.kernel->name,
                         attn_result_tensor_name(name), n, run_at(run, name, n), want[n]);
}

/* Hidden is exactly -inf and exactly +0, not almost. */
static void expect_hidden(const struct run *run, const struct run_expected *expected) {
    for (size_t n = 0; n < run_count(run, ATTN_RESULT_WEIGHTS); n++) {
        if (expected->stage[ATTN_STAGE_MASKED][n] != -INFINITY)
            continue;
        const double weight = run_at(run, ATTN_RESULT_WEIGHTS, n);
        if (run_at(run, ATTN_RESULT_SCORES, n) != -INFINITY)
            ck_abort_msg("hidden score %zu is not -inf", n);
        if (run->call.stage == ATTN_STAGE_WEIGHTS && (weight != 0 || signbit(weight)))
            ck_abort_msg("hidden weight %zu is %g", n, weight);
    }
}

static void expect_agreement(struct run *run) {
    run_all(run);
    struct run_expected expected = run_expect(run);
    expect_close(run, ATTN_RESULT_OUTPUT, expected.output);
    expect_close(run, ATTN_RESULT_WEIGHTS, expected.stage[run->call.stage]);
    expect_close(run, ATTN_RESULT_SCORES, expected.stage[ATTN_STAGE_MASKED]);
    expect_close(run, ATTN_RESULT_LSE, expected.lse);
    expect_hidden(run, &expected);
    ck_assert_uint_eq(atomic_load(&run->result.empty_rows), expected.empty_rows);
    ck_assert(!atomic_load(&run->result.non_finite));
    run_expected_close(&expected);
}

static struct executor_case shared; /* large for a stack */

START_TEST(every_stage_of_every_case_agrees) {
    const size_t kernel = (size_t)_i / CASE_COUNT, which = (size_t)_i % CASE_COUNT;
    for (int stage = ATTN_STAGE_RAW; stage <= ATTN_STAGE_WEIGHTS; stage++) {
        case_open(&shared, which, kernel, ATTN_FLOAT32, RUN_BHTD);
        shared.run.request.map.stage = (enum attn_stage)stage;
        expect_agreement(&shared.run);
        run_close(&shared.run);
    }
}
END_TEST

START_TEST(every_dtype_agrees) {
    static const enum attn_dtype dtypes[] = {ATTN_FLOAT64, ATTN_FLOAT16, ATTN_BFLOAT16};
    for (size_t n = 0; n < COUNT_OF(dtypes); n++) {
        case_open(&shared, CASE_COUNT - 1, (size_t)_i, dtypes[n], RUN_BHTD);
        expect_agreement(&shared.run);
        run_close(&shared.run);
    }
    case_open(&shared, CASE_COUNT - 1, (size_t)_i, ATTN_FLOAT32, RUN_BHTD);
    shared.run.request.precision = ATTN_PRECISION_FLOAT64;
    expect_agreement(&shared.run);
    run_close(&shared.run);
    case_open(&shared, CASE_COUNT - 1, (size_t)_i, ATTN_FLOAT64, RUN_BHTD);
    shared.run.request.precision = ATTN_PRECISION_FLOAT32;
    expect_agreement(&shared.run);
    run_close(&shared.run);
}
END_TEST

/* Long enough for several tiles both ways, whatever the kernel's grid. */
START_TEST(many_tiles_agree) {
    struct attn_mask_node causal = CAUSAL(BOTTOM_RIGHT);
    for (int masked = 0; masked < 2; masked++) {
        run_open(
            &shared.run, ATTN_FLOAT32, RUN_BHTD,
            (struct run_sizes){.B = 1, .Hq = 2, .Hkv = 1, .Tq = 270, .Tk = 530, .D = 6, .Dv = 3});
        shared.run.request.preferred_kernel = kernel_name((size_t)_i);
        shared.run.request.returns = RUN_EVERYTHING;
        shared.run.request.mask = (struct attn_mask){&causal, (size_t)masked};
        expect_agreement(&shared.run);
        ck_assert_uint_gt(shared.run.plan.row_tiles, 1);
        ck_assert_uint_lt(shared.run.plan.grid.key_tile, 530);
        run_close(&shared.run);
    }
}
END_TEST

/* The same values in another layout give the same bits in another layout. */
START_TEST(layouts_carry_the_same_bits) {
    const enum run_form form = _i % 2 == 0 ? RUN_BTHD : RUN_SPLIT;
    struct run plain, other;
    run_open(&plain, ATTN_FLOAT16, RUN_BHTD, CASE_SIZES);
    run_open(&other, ATTN_FLOAT16, form, CASE_SIZES);
    plain.request.kernel = other.request.preferred_kernel = kernel_name((size_t)_i / 2);
    plain.request.returns = other.request.returns = RUN_EVERYTHING;
    run_all(&plain);
    run_all(&other);
    for (size_t b = 0; b < CASE_SIZES.B; b++)
        for (size_t h = 0; h < CASE_SIZES.Hq; h++)
            for (size_t t = 0; t < CASE_SIZES.Tq; t++)
                for (size_t d = 0; d < CASE_SIZES.Dv; d++)
                    if (run_output_at(&other, b, h, t, d) != run_output_at(&plain, b, h, t, d))
                        ck_abort_msg("output [%zu,%zu,%zu,%zu] differs", b, h, t, d);
    run_expect_same_bits(&other, &plain, ATTN_RESULT_WEIGHTS);
    run_close(&plain);
    run_close(&other);
}
END_TEST

/* Ranks below 4 are one batch item, and one head, of the same call. */
START_TEST(lower_ranks_carry_the_same_bits) {
    static const enum run_form forms[] = {RUN_HTD, RUN_TD};
    for (size_t n = 0; n < 2; n++) {
        struct run_sizes sizes = CASE_SIZES;
        sizes.B = 1;
        if (forms[n] == RUN_TD)
            sizes.Hq = sizes.Hkv = 1;
        struct run plain, other;
        run_open(&plain, ATTN_FLOAT32, RUN_BHTD, sizes);
        run_open(&other, ATTN_FLOAT32, forms[n], sizes);
        plain.request.kernel = other.request.preferred_kernel = kernel_name((size_t)_i);
        plain.request.returns = other.request.returns = RUN_EVERYTHING;
        run_all(&plain);
        run_all(&other);
        run_expect_same_bits(&other, &plain, 0);
        run_close(&plain);
        run_close(&other);
    }
}
END_TEST

/* Every combination of axes of size 0 that leaves something to answer. */
START_TEST(sizes_of_zero_agree) {
    for (unsigned zeros = 1; zeros < 1u << 6; zeros++) {
        size_t n[6];
        for (size_t axis = 0; axis < 6; axis++)
            n[axis] = zeros >> axis & 1 ? 0 : axis + 2;
        run_open(&shared.run, ATTN_FLOAT32, RUN_BHTD,
                 (struct run_sizes){.B = n[0],
                                    .Hq = 2 * n[1],
                                    .Hkv = n[1],
                                    .Tq = n[2],
                                    .Tk = n[3],
                                    .D = n[4],
                                    .Dv = n[5]});
        shared.run.request.preferred_kernel = kernel_name((size_t)_i);
        shared.run.request.returns = RUN_EVERYTHING;
        expect_agreement(&shared.run);
        run_close(&shared.run);
    }
    run_open(&shared.run, ATTN_FLOAT32, RUN_BHTD,
             (struct run_sizes){.B = 2, .Hq = 0, .Hkv = 2, .Tq = 3, .Tk = 3, .D = 4, .Dv = 4});
    shared.run.request.returns = RUN_EVERYTHING;
    expect_agreement(&shared.run);
    run_close(&shared.run);
}
END_TEST

START_TEST(maps_change_no_bit_of_the_output) {
    const size_t kernel = (size_t)_i / CASE_COUNT, which = (size_t)_i % CASE_COUNT;
    case_open(&shared, which, kernel, ATTN_FLOAT32, RUN_BHTD);
    run_all(&shared.run);
    void *all[ATTN_RESULT_COUNT];
    for (unsigned n = 0; n < ATTN_RESULT_COUNT; n++)
        all[n] = run_copy(&shared.run, (enum attn_result_name)n);
    run_close(&shared.run);
    for (unsigned returns = 1; returns < RUN_EVERYTHING; returns++) {
        case_open(&shared, which, kernel, ATTN_FLOAT32, RUN_BHTD);
        shared.run.request.returns = returns;
        run_all(&shared.run);
        for (size_t n = 0; n < ATTN_RESULT_COUNT; n++)
            if (returns >> n & 1)
                ck_assert_mem_eq(shared.run.result.tensors[n].data, all[n],
                                 shared.run.result.tensors[n].bytes);
        run_close(&shared.run);
    }
    for (size_t n = 0; n < ATTN_RESULT_COUNT; n++)
        free(all[n]);
}
END_TEST

/* Threads take tasks from the end, or as suits them, each with a workspace that another task has
 * used. */
struct team {
    struct run *run;
    struct attn_heads *heads;
    bool as_suits;
    atomic_size_t left;
};

static void *take_tasks(void *argument) {
    struct team *team = argument;
    void *workspace = NULL;
    if (posix_memalign(&workspace, 64, team->run->plan.workspace_bytes) != 0)
        abort();
    memset(workspace, 0x5a, team->run->plan.workspace_bytes);
    for (;;) {
        const size_t left = atomic_fetch_sub(&team->left, 1);
        if (left == 0 || left > team->run->plan.tasks)
            break;
        if (team->as_suits)
            attn_execute_next(&team->run->call, &team->run->plan, &team->run->result, team->heads,
                              workspace, NULL);
        else
            attn_execute_task(&team->run->call, &team->run->plan, &team->run->result, team->heads,
                              left - 1, workspace, NULL);
    }
    free(workspace);
    return NULL;
}

START_TEST(order_and_threads_change_no_bit) {
    const bool as_suits = _i % 2 == 1;
    const size_t at = (size_t)_i / 2;
    const size_t kernel = at / CASE_COUNT, which = at % CASE_COUNT;
    static struct executor_case other;
    pthread_t threads[3];
    case_open(&shared, which, kernel, ATTN_FLOAT32, RUN_BTHD);
    case_open(&other, which, kernel, ATTN_FLOAT32, RUN_BTHD);
    run_all(&shared.run);
    run_plan(&other.run);
    struct team team = {&other.run, run_heads(&other.run, 3), as_suits, other.run.plan.tasks};
    for (size_t n = 0; n < 3; n++)
        ck_assert_int_eq(pthread_create(&threads[n], NULL, take_tasks, &team), 0);
    for (size_t n = 0; n < 3; n++)
        pthread_join(threads[n], NULL);
    run_heads_close(team.heads);
    run_expect_same_bits(&other.run, &shared.run, 0);
    ck_assert_uint_eq(atomic_load(&other.run.result.scores_computed),
                      atomic_load(&shared.run.result.scores_computed));
    ck_assert_uint_eq(atomic_load(&other.run.result.empty_rows),
                      atomic_load(&shared.run.result.empty_rows));
    run_close(&shared.run);
    run_close(&other.run);
}
END_TEST

static Suite *executor_suite(void) {
    attn_start(); /* one thread in OpenBLAS, as in a process that serves */
    Suite *suite = suite_create("executor");
    const int kernels = kernel_count();
    TCase *formula = tcase_create("formula");
    tcase_set_timeout(formula, 60);
    tcase_add_loop_test(formula, every_stage_of_every_case_agrees, 0, kernels * CASE_COUNT);
    tcase_add_loop_test(formula, every_dtype_agrees, 0, kernels);
    tcase_add_loop_test(formula, many_tiles_agree, 0, kernels);
    tcase_add_loop_test(formula, sizes_of_zero_agree, 0, kernels);
    suite_add_tcase(suite, formula);
    TCase *bits = tcase_create("bits");
    tcase_set_timeout(bits, 60);
    tcase_add_loop_test(bits, layouts_carry_the_same_bits, 0, kernels * 2);
    tcase_add_loop_test(bits, lower_ranks_carry_the_same_bits, 0, kernels);
    tcase_add_loop_test(bits, maps_change_no_bit_of_the_output, 0, kernels * CASE_COUNT);
    tcase_add_loop_test(bits, order_and_threads_change_no_bit, 0, 2 * kernels * CASE_COUNT);
    suite_add_tcase(suite, bits);
    return suite;
}

ATTN_TEST_MAIN(executor_suite)
