/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Float32 calls on numbers near and beyond the ends of float's range, for every kernel: what the
 * formula makes finite in double must come out so, whatever would overflow on the way.
 */
#include <float.h>

#include "tests/unit/core/executor_cases.h"

/* As in test_kernels_contract.c: several tiles of rows and keys, one head or six to a group; and
 * both again with their keys in chunks. */
static const struct run_sizes SIZES[] = {
    {.B = 1, .Hq = 6, .Hkv = 1, .Tq = 50, .Tk = 300, .D = 8, .Dv = 5},
    {.B = 1, .Hq = 1, .Hkv = 1, .Tq = 300, .Tk = 300, .D = 8, .Dv = 5},
    {.B = 1, .Hq = 6, .Hkv = 1, .Tq = 50, .Tk = 300, .D = 8, .Dv = 5},
    {.B = 1, .Hq = 1, .Hkv = 1, .Tq = 300, .Tk = 300, .D = 8, .Dv = 5}};
static const size_t CHUNK_KEYS[] = {0, 0, 256, 256};
enum { ROWS = 300, SIZE_COUNT = COUNT_OF(SIZES) };

static struct run run, clean;

static void open_run(struct run *opened, enum attn_dtype dtype, int loop) {
    run_open(opened, dtype, RUN_BHTD, SIZES[loop % SIZE_COUNT]);
    opened->chunk_keys = CHUNK_KEYS[loop % SIZE_COUNT];
    opened->request.kernel = kernel_name((size_t)loop / SIZE_COUNT);
    opened->request.returns = RUN_EVERYTHING;
    opened->request.precision = ATTN_PRECISION_FLOAT32;
    opened->request.output_dtype_given = true;
    opened->request.output_dtype = ATTN_FLOAT32;
}

static void set_scale(struct run *opened, double scale) {
    opened->request.scale_given = true;
    opened->request.scale = scale;
}

/* Values of a float32 operand. */
static float *values(const struct run *opened, size_t which) {
    return opened->operands[which];
}

static void multiply(const struct run *opened, size_t which, float factor) {
    const struct run_sizes *n = &opened->sizes;
    const size_t counts[] = {n->Hq * n->Tq * n->D, n->Hkv * n->Tk * n->D, n->Hkv * n->Tk * n->Dv};
    for (size_t e = 0; e < counts[which]; e++)
        values(opened, which)[e] *= factor;
}

static void expect_tensor(enum attn_result_name name, const double *want, double tolerance) {
    for (size_t n = 0; n < run_count(&run, name); n++)
        if (!run_is_close(run_at(&run, name, n), (double)(float)want[n], tolerance))
            ck_abort_msg("%s: %s %zu is %.9g, not %.9g", run.request.kernel,
                         attn_result_tensor_name(name), n, run_at(&run, name, n), want[n]);
}

/* Scores to within what their largest products round: those of one float sum may cancel. */
static void expect_scores(const double *want, double tolerance) {
    double largest = 0;
    for (size_t n = 0; n < run_count(&run, ATTN_RESULT_SCORES); n++)
        largest = fmax(largest, fabs(want[n]) <= (double)FLT_MAX ? fabs(want[n]) : 0);
    for (size_t n = 0; n < run_count(&run, ATTN_RESULT_SCORES); n++) {
        const double got = run_at(&run, ATTN_RESULT_SCORES, n), nearest = (double)(float)want[n];
        if (!(got == nearest || fabs(got - nearest) <= tolerance * largest))
            ck_abort_msg("%s: score %zu is %.9g, not %.9g", run.request.kernel, n, got, want[n]);
    }
}

/* Runs, and compares with the formula; a score or lse beyond a float is infinite in the answer. */
static void expect_formula(double tolerance) {
    run_all(&run);
    struct run_expected expected = run_expect(&run);
    expect_tensor(ATTN_RESULT_OUTPUT, expected.output, tolerance);
    expect_tensor(ATTN_RESULT_WEIGHTS, expected.stage[ATTN_STAGE_WEIGHTS], tolerance);
    expect_scores(expected.stage[ATTN_STAGE_MASKED], tolerance);
    expect_tensor(ATTN_RESULT_LSE, expected.lse, tolerance);
    ck_assert_uint_eq(atomic_load(&run.result.empty_rows), expected.empty_rows);
    ck_assert(!atomic_load(&run.result.non_finite));
    run_expected_close(&expected);
}

/* Column 0 is the largest float throughout, column 1 its negative, column 2 both in turn; what the
 * others come to must not change by a bit. */
START_TEST(sums_of_large_values_average) {
    open_run(&run, ATTN_FLOAT32, _i);
    open_run(&clean, ATTN_FLOAT32, _i);
    run_all(&clean);
    const size_t Dv = run.sizes.Dv;
    for (size_t j = 0; j < run.sizes.Tk; j++) {
        values(&run, 2)[j * Dv] = FLT_MAX;
        values(&run, 2)[j * Dv + 1] = -FLT_MAX;
        values(&run, 2)[j * Dv + 2] = j % 2 == 0 ? FLT_MAX : -FLT_MAX;
    }
    run_all(&run);
    struct run_expected expected = run_expect(&run);
    for (size_t row = 0; row < ROWS; row++)
        for (size_t d = 0; d < Dv; d++) {
            const double got = run_at(&run, ATTN_RESULT_OUTPUT, row * Dv + d);
            const double want = expected.output[row * Dv + d];
            if (d < 3 ? !(fabs(got - want) <= 4e-6 * (double)FLT_MAX)
                      : got != run_at(&clean, ATTN_RESULT_OUTPUT, row * Dv + d))
                ck_abort_msg("%s: row %zu column %zu is %.9g, not %.9g", run.request.kernel, row, d,
                             got, want);
        }
    ck_assert(!atomic_load(&run.result.non_finite));
    run_expected_close(&expected);
    run_close(&run);
    run_close(&clean);
}
END_TEST

/* Beside a value that is infinite itself, and with a sink that takes half of each row. */
START_TEST(large_values_and_infinite_ones) {
    static const double sink = 5.7; /* about ln 300 */
    open_run(&run, ATTN_FLOAT32, _i);
    run.request.sink = (struct attn_real_list){&sink, 1};
    const size_t Dv = run.sizes.Dv;
    for (size_t j = 0; j < run.sizes.Tk; j++)
        values(&run, 2)[j * Dv] = FLT_MAX;
    values(&run, 2)[7 * Dv + 4] = INFINITY;
    run_all(&run);
    struct run_expected expected = run_expect(&run);
    for (size_t row = 0; row < ROWS; row++) {
        const double got = run_at(&run, ATTN_RESULT_OUTPUT, row * Dv);
        ck_assert(fabs(got - expected.output[row * Dv]) <= 4e-6 * (double)FLT_MAX);
        ck_assert(got < 0.7 * (double)FLT_MAX);
        ck_assert(run_at(&run, ATTN_RESULT_OUTPUT, row * Dv + 4) == INFINITY);
    }
    run_expected_close(&expected);
    run_close(&run);
}
END_TEST

/* A query of zeros has scores that are 0 by any cap. */
START_TEST(softcaps_that_no_float_holds) {
    static const double caps[] = {1e-60, 1e60};
    for (size_t n = 0; n < COUNT_OF(caps); n++) {
        open_run(&run, ATTN_FLOAT32, _i);
        run.request.softcap_given = true;
        run.request.softcap = caps[n];
        memset(values(&run, 0), 0, run.sizes.D * sizeof(float));
        run_all(&run);
        struct run_expected expected = run_expect(&run);
        expect_tensor(ATTN_RESULT_OUTPUT, expected.output, 2e-6);
        expect_tensor(ATTN_RESULT_LSE, expected.lse, 2e-6);
        run_expected_close(&expected);
        run_close(&run);
    }
}
END_TEST

/* Products as they are: one is beyond a float, and the others do not mind. */
START_TEST(raw_scores_beside_one_that_no_float_holds) {
    open_run(&run, ATTN_FLOAT32, _i);
    run.request.map.stage = ATTN_STAGE_RAW;
    for (size_t d = 0; d < run.sizes.D; d++)
        values(&run, 0)[d] = values(&run, 1)[d] = 1e30f;
    run_all(&run);
    struct run_expected expected = run_expect(&run);
    const double *const want = expected.stage[ATTN_STAGE_RAW];
    ck_assert(run_at(&run, ATTN_RESULT_WEIGHTS, 0) == INFINITY);
    for (size_t n = run.sizes.Tk; n < run_count(&run, ATTN_RESULT_WEIGHTS); n++) {
        const double got = run_at(&run, ATTN_RESULT_WEIGHTS, n);
        if (n % run.sizes.Tk != 0 && !(fabs(got - want[n]) <= 2e-6 * (double)run.sizes.D))
            ck_abort_msg("%s: product %zu is %.9g, not %.9g", run.request.kernel, n, got, want[n]);
    }
    run_expected_close(&expected);
    run_close(&run);
}
END_TEST

/* The same of double in a float64 call, by the kernel or whatever stands in for it. */
START_TEST(sums_of_large_doubles_average) {
    open_run(&run, ATTN_FLOAT64, _i);
    run.request.kernel = NULL;
    run.request.preferred_kernel = kernel_name((size_t)_i / SIZE_COUNT);
    run.request.precision = ATTN_PRECISION_FLOAT64;
    run.request.output_dtype = ATTN_FLOAT64;
    double *v = run.operands[2];
    for (size_t e = 0; e < run.sizes.Tk * run.sizes.Dv; e++)
        v[e] = e % run.sizes.Dv == 0 ? DBL_MAX : v[e];
    run_all(&run);
    for (size_t row = 0; row < ROWS; row++)
        ck_assert(fabs(run_at(&run, ATTN_RESULT_OUTPUT, row * run.sizes.Dv) / DBL_MAX - 1) < 1e-12);
    ck_assert(!atomic_load(&run.result.non_finite));
    run_close(&run);
}
END_TEST

/* Products of 1e60 and their sums; every row has one winner, of either sign. */
START_TEST(scores_of_any_size_are_weighed) {
    static const float sizes[][2] = {
        {1e30f, 1e30f}, {-1e30f, 1e30f}, {FLT_MAX, 1.0f}, {3e19f, 3e19f}};
    for (size_t n = 0; n < COUNT_OF(sizes); n++) {
        open_run(&run, ATTN_FLOAT32, _i);
        multiply(&run, 0, sizes[n][0]);
        multiply(&run, 1, sizes[n][1]);
        expect_formula(4e-6);
        run_close(&run);
    }
}
END_TEST

/* The same of rows that are turned, which are too large for that themselves. */
START_TEST(turned_scores_of_any_size) {
    for (int interleaved = 0; interleaved < 2; interleaved++) {
        static const int64_t offset = -40;
        open_run(&run, ATTN_FLOAT32, _i);
        run.request.rope = (struct attn_rope_request){
            .given = true, .interleaved = interleaved != 0, .q_offset = {&offset, 1}};
        multiply(&run, 0, interleaved ? 1e30f : FLT_MAX);
        multiply(&run, 1, 1e30f);
        expect_formula(4e-6);
        run_close(&run);
    }
}
END_TEST

/* No score fits a float, and none is above 0. */
START_TEST(scores_that_are_all_too_low) {
    open_run(&run, ATTN_FLOAT32, _i);
    for (size_t e = 0; e < ROWS * run.sizes.D; e++)
        values(&run, 0)[e] = 1e30f;
    for (size_t j = 0; j < run.sizes.Tk; j++)
        for (size_t d = 0; d < run.sizes.D; d++)
            values(&run, 1)[j * run.sizes.D + d] = -1e30f * (1 + (float)j / 512);
    expect_formula(4e-6);
    ck_assert(run_at(&run, ATTN_RESULT_WEIGHTS, 0) == 1);
    run_close(&run);
}
END_TEST

/* Products that cancel: sums that go beyond a float and come back. */
START_TEST(sums_that_come_back_count) {
    open_run(&run, ATTN_FLOAT32, _i);
    for (size_t e = 0; e < ROWS * run.sizes.D; e++)
        values(&run, 0)[e] = e % 8 < 4 ? -1e20f : 1e20f;
    for (size_t e = 0; e < run.sizes.Tk * run.sizes.D; e++)
        values(&run, 1)[e] = e / 8 % 7 == 3 ? 3e18f : 1e-20f * values(&run, 1)[e];
    set_scale(&run, 1);
    expect_formula(4e-6);
    run_close(&run);
}
END_TEST

/* One query is too large; the others keep their bits. */
START_TEST(a_large_query_stays_in_its_row) {
    open_run(&run, ATTN_FLOAT32, _i);
    open_run(&clean, ATTN_FLOAT32, _i);
    set_scale(&run, 1);
    set_scale(&clean, 1);
    run_all(&clean);
    for (size_t d = 0; d < run.sizes.D; d++)
        values(&run, 0)[17 * run.sizes.D + d] = FLT_MAX;
    expect_formula(4e-6);
    for (size_t row = 0; row < ROWS; row++)
        for (size_t d = 0; d < run.sizes.Dv && row != 17; d++)
            ck_assert(run_at(&run, ATTN_RESULT_OUTPUT, row * run.sizes.Dv + d) ==
                      run_at(&clean, ATTN_RESULT_OUTPUT, row * run.sizes.Dv + d));
    run_close(&run);
    run_close(&clean);
}
END_TEST

/* A scale that no float can be, of q that brings the scores back; and one that leaves nothing. */
START_TEST(scales_of_any_size) {
    static const struct {
        double scale;
        float q, k;
    } cases[] = {{1e39, 1e-38f, 1},     {-1e60, 1e-30f, 1e-30f}, {1e300, 1, 1},
                 {1e-50, 1e25f, 1e25f}, {1e-45, 1e22f, 1e23f},   {1e-310, 1, 1},
                 {0, 1e30f, 1e30f}};
    for (size_t n = 0; n < COUNT_OF(cases); n++) {
        open_run(&run, ATTN_FLOAT32, _i);
        set_scale(&run, cases[n].scale);
        multiply(&run, 0, cases[n].q);
        multiply(&run, 1, cases[n].k);
        expect_formula(4e-6);
        run_close(&run);
    }
}
END_TEST

/* Biases of double beyond a float: row r has `low` but for key r and, in every third row, key
 * r + 1, which has `high`. */
START_TEST(biases_of_any_size) {
    static const double cases[][2] = {{0, 1e39},       {-1e39, 0},
                                      {-2e39, -1e39},  {1e39, 2e39},
                                      {-1e300, 1e300}, {-(double)FLT_MAX, (double)FLT_MAX}};
    static double bias[300 * 300];
    const struct run_sizes *sizes = &SIZES[_i % SIZE_COUNT];
    for (size_t n = 0; n < COUNT_OF(cases); n++) {
        for (size_t e = 0; e < sizes->Tq * 300; e++) {
            const size_t row = e / 300, key = e % 300;
            bias[e] = cases[n][key == row || (row % 3 == 0 && key == row + 1)];
        }
        open_run(&run, ATTN_FLOAT32, _i);
        run.request.bias =
            attn_tensor_view(bias, ATTN_FLOAT64, 2, (const size_t[]){sizes->Tq, 300});
        multiply(&run, 0, 1e-30f);
        expect_formula(4e-6);
        run_close(&run);
    }
}
END_TEST

/* A float bias and a slope that make sums of finite numbers overflow, with scores of 1e38 below. */
START_TEST(sums_with_bias_and_alibi) {
    static float bias[300];
    static const double slope = 3e38;
    for (size_t j = 0; j < 300; j++)
        bias[j] = j % 2 == 0 ? -FLT_MAX : -3e38f;
    for (int which = 0; which < 2; which++) {
        open_run(&run, ATTN_FLOAT32, _i);
        for (size_t e = 0; e < ROWS * run.sizes.D; e++)
            values(&run, 0)[e] = 1e19f;
        for (size_t e = 0; e < run.sizes.Tk * run.sizes.D; e++)
            values(&run, 1)[e] = -1e18f * (1 + (float)(e / 8 % 100));
        if (which == 0)
            run.request.bias = attn_tensor_view(bias, ATTN_FLOAT32, 1, (const size_t[]){300});
        else
            run.request.alibi_slopes = (struct attn_real_list){&slope, 1};
        static const int64_t offset = 1000;
        run.request.q_offset = (struct attn_int_list){&offset, 1};
        expect_formula(4e-6);
        run_close(&run);
    }
}
END_TEST

/* Under a causal mask too: what is hidden is neither done again nor counted. */
START_TEST(masked_scores_of_any_size) {
    static struct attn_mask_node causal;
    causal = (struct attn_mask_node)CAUSAL(BOTTOM_RIGHT);
    open_run(&run, ATTN_FLOAT32, _i);
    run.request.mask = (struct attn_mask){&causal, 1};
    multiply(&run, 0, 1e30f);
    multiply(&run, 1, 1e30f);
    expect_formula(4e-6);
    run_close(&run);
}
END_TEST

/* Both at once: all scores alike and too large, so that each row averages all of V. */
START_TEST(large_values_of_large_scores) {
    open_run(&run, ATTN_FLOAT32, _i);
    for (size_t e = 0; e < ROWS * run.sizes.D; e++)
        values(&run, 0)[e] = 1e30f;
    for (size_t e = 0; e < run.sizes.Tk * run.sizes.D; e++)
        values(&run, 1)[e] = 1e30f;
    for (size_t j = 0; j < run.sizes.Tk; j++)
        values(&run, 2)[j * run.sizes.Dv + 1] = -FLT_MAX;
    expect_formula(4e-6);
    ck_assert(fabs(run_at(&run, ATTN_RESULT_OUTPUT, 1) / (double)FLT_MAX + 1) < 4e-6);
    run_close(&run);
}
END_TEST

/* A double that no float can be is infinite as a value of a float32 call. */
START_TEST(values_beyond_a_float_are_infinite) {
    open_run(&run, ATTN_FLOAT64, _i);
    run.request.output_dtype = ATTN_FLOAT64;
    ((double *)run.operands[2])[3] = 1e39;
    run_all(&run);
    for (size_t row = 0; row < ROWS; row++)
        for (size_t d = 0; d < run.sizes.Dv; d++)
            ck_assert((run_at(&run, ATTN_RESULT_OUTPUT, row * run.sizes.Dv + d) == INFINITY) ==
                      (d == 3));
    ck_assert(atomic_load(&run.result.non_finite));
    run_close(&run);
}
END_TEST

static Suite *kernels_range_suite(void) {
    Suite *suite = suite_create("kernels_range");
    const int loops = kernel_count() * SIZE_COUNT;
    TCase *range = tcase_create("range");
    attn_start();
    tcase_set_timeout(range, 120);
    tcase_add_loop_test(range, sums_of_large_values_average, 0, loops);
    tcase_add_loop_test(range, large_values_and_infinite_ones, 0, loops);
    tcase_add_loop_test(range, sums_of_large_doubles_average, 0, loops);
    tcase_add_loop_test(range, softcaps_that_no_float_holds, 0, loops);
    tcase_add_loop_test(range, raw_scores_beside_one_that_no_float_holds, 0, loops);
    tcase_add_loop_test(range, scores_of_any_size_are_weighed, 0, loops);
    tcase_add_loop_test(range, turned_scores_of_any_size, 0, loops);
    tcase_add_loop_test(range, scores_that_are_all_too_low, 0, loops);
    tcase_add_loop_test(range, sums_that_come_back_count, 0, loops);
    tcase_add_loop_test(range, a_large_query_stays_in_its_row, 0, loops);
    tcase_add_loop_test(range, scales_of_any_size, 0, loops);
    tcase_add_loop_test(range, biases_of_any_size, 0, loops);
    tcase_add_loop_test(range, sums_with_bias_and_alibi, 0, loops);
    tcase_add_loop_test(range, masked_scores_of_any_size, 0, loops);
    tcase_add_loop_test(range, large_values_of_large_scores, 0, loops);
    tcase_add_loop_test(range, values_beyond_a_float_are_infinite, 0, loops);
    suite_add_tcase(suite, range);
    return suite;
}

ATTN_TEST_MAIN(kernels_range_suite)
