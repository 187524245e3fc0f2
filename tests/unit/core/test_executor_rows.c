/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows at the edge: sinks of any size, rows that see nothing, and values that are not finite, which
 * must reach exactly what depends on them and be said.
 */
#include "tests/unit/core/executor_cases.h"

static struct run run, other;

static const struct run_sizes SIZES = {
    .B = 1, .Hq = 2, .Hkv = 1, .Tq = 20, .Tk = 20, .D = 8, .Dv = 4};

static void open_small(struct run *opened, size_t kernel) {
    run_open(opened, ATTN_FLOAT32, RUN_BHTD, SIZES);
    opened->request.preferred_kernel = kernel_name(kernel);
    opened->request.returns = RUN_EVERYTHING;
}

static void expect_same_bits(void) {
    run_expect_same_bits(&run, &other, 0);
}

static void expect_values(enum attn_result_name name, double want) {
    for (size_t n = 0; n < run_count(&run, name); n++) {
        const double got = run_at(&run, name, n);
        if (!run_is_close(got, want, 1e-6) || signbit(got) != signbit(want))
            ck_abort_msg("%s[%zu] is %.9g, not %.9g", attn_result_tensor_name(name), n, got, want);
    }
}

static float *operand(struct run *opened, size_t which) {
    return opened->operands[which];
}

static void open_with_sink(size_t kernel, double sink) {
    static double value;
    value = sink;
    open_small(&run, kernel);
    run.request.sink = (struct attn_real_list){&value, 1};
}

/* One that weighs nothing changes no bit. */
START_TEST(a_sink_of_nothing_changes_nothing) {
    static const double sinks[] = {-INFINITY, -1e300, -1e4};
    open_small(&other, (size_t)_i);
    run_all(&other);
    for (size_t n = 0; n < COUNT_OF(sinks); n++) {
        open_with_sink((size_t)_i, sinks[n]);
        run_all(&run);
        expect_same_bits();
        run_close(&run);
    }
    run_close(&other);
}
END_TEST

/* One beyond every exponential takes everything; lse is the sink as float32 holds it. */
START_TEST(a_sink_of_everything_takes_everything) {
    static const double sinks[] = {1e3, 1e30, 1e300};
    for (size_t n = 0; n < COUNT_OF(sinks); n++) {
        open_with_sink((size_t)_i, sinks[n]);
        run_all(&run);
        for (size_t e = 0; e < run_count(&run, ATTN_RESULT_OUTPUT); e++)
            if (run_at(&run, ATTN_RESULT_OUTPUT, e) != 0)
                ck_abort_msg("sink %g leaves %g", sinks[n], run_at(&run, ATTN_RESULT_OUTPUT, e));
        expect_values(ATTN_RESULT_WEIGHTS, 0);
        expect_values(ATTN_RESULT_LSE, (double)(float)sinks[n]);
        ck_assert(!atomic_load(&run.result.non_finite));
        run_close(&run);
    }
}
END_TEST

/*
 * Scores of exactly 100000 beside a sink that float32 cannot hold: n keys share n / (n + e^0.003),
 * or n / (n + 1) where the kernel's own scores are float32. A sink that is rounded in one place and
 * not in another is off by 3e-3.
 */
START_TEST(a_sink_has_the_precision_of_a_score) {
    static const float level = 100000;
    open_with_sink((size_t)_i, 100000.003);
    memset(run.operands[0], 0, SIZES.Hq * SIZES.Tq * SIZES.D * sizeof(float));
    run.request.bias = attn_tensor_view(&level, ATTN_FLOAT32, 0, NULL);
    run_all(&run);
    const double weight = 1 / (20 + (run.plan.kernel->accumulates_double ? exp(0.003) : 1));
    expect_values(ATTN_RESULT_WEIGHTS, weight);
    for (size_t d = 0; d < SIZES.Dv; d++) {
        double sum = 0;
        for (size_t j = 0; j < SIZES.Tk; j++)
            sum += (double)operand(&run, 2)[j * SIZES.Dv + d];
        ck_assert(run_is_close(run_at(&run, ATTN_RESULT_OUTPUT, d), weight * sum, 1e-6));
    }
    expect_values(ATTN_RESULT_LSE, 100000 + log(21));
    run_close(&run);
}
END_TEST

/* Half of the rows stand before the first key. */
START_TEST(an_empty_row_is_zeros) {
    static struct attn_mask_node causal;
    static const int64_t before = -10;
    open_small(&run, (size_t)_i);
    causal = (struct attn_mask_node)CAUSAL(NONE);
    run.request.mask = (struct attn_mask){&causal, 1};
    run.request.q_offset = (struct attn_int_list){&before, 1};
    run_all(&run);
    ck_assert_uint_eq(atomic_load(&run.result.empty_rows), 2 * 10);
    ck_assert(!atomic_load(&run.result.non_finite));
    for (size_t n = 0; n < run_count(&run, ATTN_RESULT_LSE); n++) {
        const bool empty = n % 20 < 10;
        const double lse = run_at(&run, ATTN_RESULT_LSE, n);
        ck_assert_msg(empty ? lse == -INFINITY : isfinite(lse), "lse[%zu] is %g", n, lse);
        for (size_t d = 0; d < SIZES.Dv && empty; d++)
            ck_assert(run_at(&run, ATTN_RESULT_OUTPUT, n * SIZES.Dv + d) == 0);
        for (size_t j = 0; j < 20 && empty; j++)
            ck_assert(run_at(&run, ATTN_RESULT_WEIGHTS, n * 20 + j) == 0);
    }
    run_close(&run);
}
END_TEST

START_TEST(an_empty_row_with_a_sink_has_the_sinks_lse) {
    static struct attn_mask_node nothing = JOIN(ANY, 0);
    static const double sinks[] = {0.75, -1e30};
    for (size_t n = 0; n < COUNT_OF(sinks); n++) {
        open_with_sink((size_t)_i, sinks[n]);
        run.request.mask = (struct attn_mask){&nothing, 1};
        run_all(&run);
        expect_values(ATTN_RESULT_OUTPUT, 0);
        expect_values(ATTN_RESULT_WEIGHTS, 0);
        expect_values(ATTN_RESULT_LSE, sinks[n]);
        ck_assert_uint_eq(atomic_load(&run.result.empty_rows), 2 * 20);
        run_close(&run);
    }
}
END_TEST

static void mask_causal(struct run *opened, struct attn_mask_node *node) {
    *node = (struct attn_mask_node)CAUSAL(NONE);
    opened->request.mask = (struct attn_mask){node, 1};
}

static void open_causal_pair(size_t kernel) {
    static struct attn_mask_node nodes[2];
    open_small(&run, kernel);
    open_small(&other, kernel);
    mask_causal(&run, &nodes[0]);
    mask_causal(&other, &nodes[1]);
    run_all(&other);
}

/* True when rows of a tensor of the answer, all but one, have the bits of the clean run. */
static bool other_rows_same(enum attn_result_name name, size_t row) {
    const struct attn_result_tensor *tensor = &run.result.tensors[name];
    const size_t bytes = tensor->bytes / (SIZES.Hq * SIZES.Tq);
    for (size_t n = 0; n < SIZES.Hq * SIZES.Tq && bytes > 0; n++)
        if (n != row && memcmp((char *)tensor->data + n * bytes,
                               (char *)other.result.tensors[name].data + n * bytes, bytes) != 0)
            return false;
    return true;
}

/* A query of NaN: its row and lse are NaN, what is hidden in it is still 0, and no other row
 * changes. */
START_TEST(nan_in_a_query_stays_in_its_row) {
    static const float values[] = {NAN, INFINITY, -INFINITY};
    for (size_t n = 0; n < COUNT_OF(values); n++) {
        open_causal_pair((size_t)_i);
        operand(&run, 0)[7 * SIZES.D + 3] = values[n];
        if (isinf(values[n])) /* one key of the other sign, so that a score of +inf is met */
            operand(&run, 1)[2 * SIZES.D + 3] = values[n];
        run_all(&run);
        ck_assert(atomic_load(&run.result.non_finite));
        ck_assert(isnan(run_at(&run, ATTN_RESULT_LSE, 7)));
        for (size_t d = 0; d < SIZES.Dv; d++)
            ck_assert(isnan(run_at(&run, ATTN_RESULT_OUTPUT, 7 * SIZES.Dv + d)));
        for (size_t j = 8; j < 20; j++) {
            ck_assert(run_at(&run, ATTN_RESULT_WEIGHTS, 7 * 20 + j) == 0);
            ck_assert(run_at(&run, ATTN_RESULT_SCORES, 7 * 20 + j) == -INFINITY);
        }
        if (isnan(values[n]))
            for (unsigned name = 0; name < ATTN_RESULT_COUNT; name++)
                ck_assert(other_rows_same((enum attn_result_name)name, 7));
        run_close(&run);
        run_close(&other);
    }
}
END_TEST

/* Its scores are all NaN, which comparisons drop: the row has no largest score, and is not empty.
 */
START_TEST(a_query_of_nan_in_float64_has_an_lse_of_nan) {
    const struct attn_kernel *kernel = attn_kernel_find(kernel_name((size_t)_i));
    if (kernel->float32_only)
        return;
    run_open(&run, ATTN_FLOAT64, RUN_BHTD, SIZES);
    run.request.kernel = kernel->name;
    run.request.returns = RUN_EVERYTHING;
    ((double *)run.operands[0])[7 * SIZES.D + 3] = NAN;
    run_all(&run);
    ck_assert(isnan(run_at(&run, ATTN_RESULT_LSE, 7)));
    ck_assert(isnan(run_at(&run, ATTN_RESULT_OUTPUT, 7 * SIZES.Dv)));
    ck_assert(!isnan(run_at(&run, ATTN_RESULT_LSE, 6)));
    ck_assert_uint_eq(atomic_load(&run.result.empty_rows), 0);
    run_close(&run);
}
END_TEST

/* A sink does not hide that a row is NaN. */
START_TEST(nan_is_stronger_than_a_sink) {
    static const double sinks[] = {0, 1e300};
    for (size_t n = 0; n < COUNT_OF(sinks); n++) {
        open_with_sink((size_t)_i, sinks[n]);
        operand(&run, 0)[0] = NAN;
        run_all(&run);
        ck_assert(atomic_load(&run.result.non_finite));
        ck_assert(isnan(run_at(&run, ATTN_RESULT_LSE, 0)));
        ck_assert(isnan(run_at(&run, ATTN_RESULT_OUTPUT, 0)));
        run_close(&run);
    }
}
END_TEST

/* Hides the last key by a length, or by a bias: that one is no mask, and kernels compute its score.
 */
static void hide_last_key(struct run *opened, struct attn_mask_node *node, bool by_bias) {
    static const int64_t length = 19;
    static float bias[20];
    bias[19] = -INFINITY;
    *node = (struct attn_mask_node){
        .kind = ATTN_MASK_PADDING, .kv_lengths = {&length, 1}, .pointer = "/mask"};
    if (by_bias)
        opened->request.bias = attn_tensor_view(bias, ATTN_FLOAT32, 1, (const size_t[]){20});
    else
        opened->request.mask = (struct attn_mask){node, 1};
}

START_TEST(hidden_values_that_are_not_finite_change_nothing) {
    static const float values[] = {NAN, INFINITY, -INFINITY};
    for (size_t n = 0; n < 2 * COUNT_OF(values); n++) {
        struct attn_mask_node nodes[2];
        open_small(&run, (size_t)_i);
        open_small(&other, (size_t)_i);
        hide_last_key(&run, &nodes[0], n % 2 == 1);
        hide_last_key(&other, &nodes[1], n % 2 == 1);
        for (size_t d = 0; d < SIZES.D; d++)
            operand(&run, 1)[19 * SIZES.D + d] = values[n / 2];
        for (size_t d = 0; d < SIZES.Dv; d++)
            operand(&run, 2)[19 * SIZES.Dv + d] = values[n / 2];
        run_all(&run);
        run_all(&other);
        expect_same_bits();
        ck_assert(!atomic_load(&run.result.non_finite));
        run_close(&run);
        run_close(&other);
    }
}
END_TEST

/* Value 5 is seen by rows 5 and later; its third element is infinite. */
START_TEST(a_visible_infinite_value_reaches_its_elements_only) {
    open_causal_pair((size_t)_i);
    operand(&run, 2)[5 * SIZES.Dv + 2] = INFINITY;
    run_all(&run);
    ck_assert(atomic_load(&run.result.non_finite));
    for (size_t n = 0; n < run_count(&run, ATTN_RESULT_OUTPUT); n++) {
        const bool reached = n % SIZES.Dv == 2 && n / SIZES.Dv % 20 >= 5;
        const double got = run_at(&run, ATTN_RESULT_OUTPUT, n);
        if (reached ? got != INFINITY : got != run_at(&other, ATTN_RESULT_OUTPUT, n))
            ck_abort_msg("output[%zu] is %g", n, got);
    }
    run_expect_same_bits(&run, &other, ATTN_RESULT_WEIGHTS);
    run_close(&run);
    run_close(&other);
}
END_TEST

/* Of the values' dtype, all equal to `value`, and the output's: whether it overflows there. */
START_TEST(a_value_that_overflows_the_output_is_said) {
    static const struct {
        enum attn_dtype input, output;
        double value;
        bool overflows;
    } rows[] = {
        {ATTN_FLOAT32, ATTN_FLOAT16, 65504, false},  {ATTN_FLOAT32, ATTN_FLOAT16, 65519, false},
        {ATTN_FLOAT32, ATTN_FLOAT16, 65521, true},   {ATTN_FLOAT32, ATTN_BFLOAT16, 3e38, false},
        {ATTN_FLOAT32, ATTN_BFLOAT16, 3.4e38, true}, {ATTN_FLOAT64, ATTN_FLOAT32, 3e38, false},
        {ATTN_FLOAT64, ATTN_FLOAT32, -1e39, true},   {ATTN_FLOAT64, ATTN_FLOAT64, 1e300, false},
        {ATTN_FLOAT32, ATTN_FLOAT64, 3.4e38, false},
    };
    for (size_t n = 0; n < COUNT_OF(rows); n++) {
        run_open(&run, rows[n].input, RUN_BHTD,
                 (struct run_sizes){.B = 1, .Hq = 1, .Hkv = 1, .Tq = 1, .Tk = 1, .D = 1, .Dv = 1});
        if (rows[n].input == ATTN_FLOAT64)
            *(double *)run.operands[2] = rows[n].value;
        else
            *(float *)run.operands[2] = (float)rows[n].value;
        run.request.preferred_kernel = kernel_name((size_t)_i);
        run.request.output_dtype_given = true;
        run.request.output_dtype = rows[n].output;
        run_all(&run);
        ck_assert_msg(atomic_load(&run.result.non_finite) == rows[n].overflows, "row %zu", n);
        ck_assert_msg(!isfinite(run_at(&run, ATTN_RESULT_OUTPUT, 0)) == rows[n].overflows,
                      "row %zu", n);
        run_close(&run);
    }
}
END_TEST

static Suite *executor_rows_suite(void) {
    attn_start(); /* one thread in OpenBLAS, as in a process that serves */
    Suite *suite = suite_create("executor_rows");
    const int kernels = kernel_count();
    TCase *sink = tcase_create("sink");
    tcase_add_loop_test(sink, a_sink_of_nothing_changes_nothing, 0, kernels);
    tcase_add_loop_test(sink, a_sink_of_everything_takes_everything, 0, kernels);
    tcase_add_loop_test(sink, a_sink_has_the_precision_of_a_score, 0, kernels);
    tcase_add_loop_test(sink, an_empty_row_is_zeros, 0, kernels);
    tcase_add_loop_test(sink, an_empty_row_with_a_sink_has_the_sinks_lse, 0, kernels);
    suite_add_tcase(suite, sink);
    TCase *values = tcase_create("values");
    tcase_add_loop_test(values, nan_in_a_query_stays_in_its_row, 0, kernels);
    tcase_add_loop_test(values, a_query_of_nan_in_float64_has_an_lse_of_nan, 0, kernels);
    tcase_add_loop_test(values, nan_is_stronger_than_a_sink, 0, kernels);
    tcase_add_loop_test(values, hidden_values_that_are_not_finite_change_nothing, 0, kernels);
    tcase_add_loop_test(values, a_visible_infinite_value_reaches_its_elements_only, 0, kernels);
    tcase_add_loop_test(values, a_value_that_overflows_the_output_is_said, 0, kernels);
    suite_add_tcase(suite, values);
    return suite;
}

ATTN_TEST_MAIN(executor_rows_suite)
