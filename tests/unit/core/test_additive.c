/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Additive scores, sum of w tanh(q + k): the row operation of every instruction set against libm,
 * calls of every kernel that computes them against the formula, and what must be refused.
 */
#include <float.h>

#include "core/convert.h"
#include "core/kernels/rowops.h"
#include "tests/unit/core/executor_cases.h"

enum { LONGEST = 75 }; /* keys: four vectors of AVX-512 and a part of one */

static const struct attn_rowops *rowops_under_test(int index) {
    const struct attn_rowops *set = attn_rowops_at((size_t)index);
    return set != NULL ? set : attn_rowops_best();
}

static float tanh_float(const struct attn_rowops *set, float x) {
    const float zero = 0, one = 1;
    float s = -7;
    set->f.tanh_sum(&s, 1, &zero, &one, &x, 1, 1);
    return s;
}

static double tanh_double(const struct attn_rowops *set, double x) {
    const double zero = 0, one = 1;
    double s = -7;
    set->d.tanh_sum(&s, 1, &zero, &one, &x, 1, 1);
    return s;
}

/* Relative, from 2^-40 on: the polynomial's 1.8e-8 and a few roundings of 6e-8; four units in
 * double. Odd to the bit, and exactly 1 beyond the clamp. */
START_TEST(tanh_is_accurate) {
    const struct attn_rowops *set = rowops_under_test(_i);
    for (int step = 0; step < 20000; step++) {
        const double x = exp2(-40 + 45.0 * step / 20000) * (1 + step % 7 / 8.0);
        const float narrow = (float)x;
        const double want_f = tanh((double)narrow), want_d = tanh(x);
        ck_assert_msg(fabs((double)tanh_float(set, narrow) - want_f) <= 3e-7 * want_f,
                      "%s: tanh(%g) is %.9g, not %.9g", set->name, (double)narrow,
                      (double)tanh_float(set, narrow), want_f);
        ck_assert_msg(fabs(tanh_double(set, x) - want_d) <= 4 * DBL_EPSILON * want_d,
                      "%s: tanh(%g) is %.17g, not %.17g", set->name, x, tanh_double(set, x),
                      want_d);
        ck_assert(tanh_float(set, -narrow) == -tanh_float(set, narrow));
        ck_assert(tanh_double(set, -x) == -tanh_double(set, x));
    }
    const float ends[] = {9.1f, 10, 50, 1e30f, FLT_MAX, INFINITY};
    for (size_t n = 0; n < COUNT_OF(ends); n++) {
        ck_assert(tanh_float(set, -ends[n]) == -1);
        ck_assert(tanh_double(set, 3 * (double)ends[n]) == 1);
    }
    ck_assert(isnan(tanh_float(set, NAN)) && isnan(tanh_double(set, (double)NAN)));
    ck_assert(tanh_float(set, 1e-42f) == 1e-42f && tanh_float(set, 0) == 0);
}
END_TEST

/* Every number of keys, in steps wider than it: the sum of each is its own, and what stands behind
 * the row stays. */
START_TEST(sums_keep_to_their_keys) {
    const struct attn_rowops *set = rowops_under_test(_i);
    enum { D = 3, STEP = LONGEST + 2 };
    static float q[D] = {0.5f, -1, 2}, w[D] = {1, -2, 0.25f};
    static double qd[D] = {0.5, -1, 2}, wd[D] = {1, -2, 0.25};
    float k[D * STEP], s[LONGEST + 1];
    double kd[D * STEP], sd[LONGEST + 1];
    for (size_t e = 0; e < COUNT_OF(k); e++)
        kd[e] = k[e] = (float)(e % 29) / 8 - 2;
    for (size_t n = 0; n <= LONGEST; n++) {
        s[n] = 7;
        sd[n] = 7;
        set->f.tanh_sum(s, n, q, w, k, STEP, D);
        set->d.tanh_sum(sd, n, qd, wd, kd, STEP, D);
        ck_assert(s[n] == 7 && sd[n] == 7);
        for (size_t j = 0; j < n; j++) {
            double want = 0;
            for (size_t d = 0; d < D; d++)
                want += wd[d] * tanh(qd[d] + kd[d * STEP + j]);
            ck_assert(fabs((double)s[j] - want) <= 2e-6 && fabs(sd[j] - want) <= 4e-15);
            float alone;
            set->f.tanh_sum(&alone, 1, q, w, k + j, STEP, D);
            ck_assert(alone == s[j]);
        }
        set->f.tanh_sum(s, n, q, w, k, STEP, 0);
        for (size_t j = 0; j < n; j++)
            ck_assert(s[j] == 0);
    }
}
END_TEST

static struct run run;
static double weights[8 * 64];

/* A call with weights of this dtype, one set or one per head. */
static void open_additive(int kernel, enum attn_dtype dtype, enum run_form form,
                          struct run_sizes sizes, enum attn_dtype w_dtype, bool per_head) {
    struct random random = random_seeded(sizes.D + 3);
    const size_t shape[] = {sizes.Hq, sizes.D};
    for (size_t n = 0; n < sizes.Hq * sizes.D; n++) {
        const double value = (2 * random_unit(&random) - 1) / sqrt((double)sizes.D);
        attn_store_double(w_dtype, (char *)weights + n * attn_dtype_size(w_dtype), 1, 1, &value);
    }
    run_open(&run, dtype, form, sizes);
    run.request.preferred_kernel = kernel_name((size_t)kernel);
    run.request.returns = RUN_EVERYTHING;
    run.request.output_dtype_given = true;
    run.request.output_dtype = ATTN_FLOAT64;
    run.request.score = ATTN_SCORE_ADDITIVE;
    run.request.w = per_head ? attn_tensor_view(weights, w_dtype, 2, shape)
                             : attn_tensor_view(weights, w_dtype, 1, &sizes.D);
}

static void expect(const double *want, enum attn_result_name name) {
    const bool wide = run.call.precision == ATTN_PRECISION_FLOAT64;
    for (size_t n = 0; n < run_count(&run, name); n++)
        if (!run_is_close(run_at(&run, name, n), want[n], wide ? 2e-14 : 4e-6))
            ck_abort_msg("%s, Tq %zu Tk %zu D %zu: %s %zu is %.17g, not %.17g",
                         run.plan.kernel->name, run.sizes.Tq, run.sizes.Tk, run.sizes.D,
                         attn_result_tensor_name(name), n, run_at(&run, name, n), want[n]);
}

static void expect_formula(void) {
    run_all(&run);
    struct run_expected expected = run_expect(&run);
    expect(expected.stage[run.call.stage], ATTN_RESULT_WEIGHTS);
    expect(expected.stage[ATTN_STAGE_MASKED], ATTN_RESULT_SCORES);
    expect(expected.lse, ATTN_RESULT_LSE);
    if (run.sizes.B * run.sizes.Hq == 1)
        expect(expected.output, ATTN_RESULT_OUTPUT);
    run_expected_close(&expected);
    run_close(&run);
}

START_TEST(every_size_agrees) {
    static const size_t keys[] = {1, 2, 15, 16, 17, 64, 65, 255, 256, 257, 300};
    static const size_t rows[] = {1, 3, 16, 17}, widths[] = {0, 1, 5, 16, 59, 64};
    for (size_t n = 0; n < COUNT_OF(keys) * COUNT_OF(widths); n++) {
        struct run_sizes sizes = {.B = 1,
                                  .Hq = 1,
                                  .Hkv = 1,
                                  .Tq = rows[n % COUNT_OF(rows)],
                                  .Tk = keys[n % COUNT_OF(keys)],
                                  .D = widths[n / COUNT_OF(keys)],
                                  .Dv = 3};
        open_additive(_i, ATTN_FLOAT32, RUN_BHTD, sizes, ATTN_FLOAT32, n % 2);
        run.request.map.stage = (enum attn_stage)(n % (ATTN_STAGE_WEIGHTS + 1));
        expect_formula();
        sizes.Hq = 4;
        sizes.Hkv = 2;
        open_additive(_i, ATTN_FLOAT32, RUN_BHTD, sizes, ATTN_FLOAT64, n % 3);
        expect_formula();
    }
    /* Several tasks of rows, sliced under a causal mask. */
    static struct attn_mask_node causal;
    causal = (struct attn_mask_node)CAUSAL(TOP_LEFT);
    open_additive(_i, ATTN_FLOAT32, RUN_BHTD, (struct run_sizes){1, 1, 1, 530, 530, 8, 4},
                  ATTN_FLOAT32, true);
    run.request.mask = (struct attn_mask){&causal, 1};
    expect_formula();
}
END_TEST

START_TEST(every_type_and_form_agrees) {
    static const enum attn_dtype dtypes[] = {ATTN_FLOAT32, ATTN_FLOAT64, ATTN_FLOAT16,
                                             ATTN_BFLOAT16};
    static const enum run_form forms[] = {RUN_BHTD, RUN_BTHD, RUN_SPLIT};
    for (size_t n = 0; n < 4 * 4 * 3 * 2; n++) {
        open_additive(_i, dtypes[n % 4], forms[n / 16 % 3],
                      (struct run_sizes){2, 4, 2, 9, 37, 24, 10}, dtypes[n / 4 % 4], n % 5);
        run.request.precision = n / 48 == 0 ? ATTN_PRECISION_FLOAT32 : ATTN_PRECISION_FLOAT64;
        run.request.scale_given = n % 3 == 0;
        run.request.scale = -1.75;
        expect_formula();
    }
}
END_TEST

/* Weights and scales whose sums no float holds: rows of one winner, in double; in the last case one
 * that would be -inf, like a hidden key, as a float. */
START_TEST(weights_of_any_size) {
    for (int n = 0; n < 3; n++) {
        open_additive(_i, ATTN_FLOAT32, RUN_BHTD, (struct run_sizes){1, 1, 1, 40, 300, 8, 5},
                      ATTN_FLOAT64, true);
        for (size_t d = 0; d < 8; d++)
            weights[d] = n == 2 ? 1e38 : n == 1 ? weights[d] : 1e38 * weights[d];
        for (size_t e = 0; e < 40 * 8 && n == 2; e++)
            ((float *)run.operands[0])[e] = -3;
        run.request.scale_given = true;
        run.request.scale = n == 1 ? 1e60 : 30;
        run_all(&run);
        struct run_expected expected = run_expect(&run);
        expect(expected.stage[ATTN_STAGE_WEIGHTS], ATTN_RESULT_WEIGHTS);
        expect(expected.output, ATTN_RESULT_OUTPUT);
        ck_assert(!atomic_load(&run.result.non_finite));
        run_expected_close(&expected);
        run_close(&run);
    }
}
END_TEST

/* Infinite inputs are tanh's own ends; NaN takes its row. */
START_TEST(inputs_that_are_not_finite) {
    open_additive(_i, ATTN_FLOAT32, RUN_BHTD, (struct run_sizes){1, 1, 1, 4, 20, 8, 5},
                  ATTN_FLOAT32, false);
    ((float *)run.operands[1])[3 * 8 + 2] = INFINITY;
    ((float *)run.operands[1])[7 * 8 + 1] = -INFINITY;
    ((float *)run.operands[0])[2 * 8] = NAN;
    run_all(&run);
    struct run_expected expected = run_expect(&run);
    expect(expected.stage[ATTN_STAGE_WEIGHTS], ATTN_RESULT_WEIGHTS);
    for (size_t row = 0; row < 4; row++)
        ck_assert(isnan(run_at(&run, ATTN_RESULT_LSE, row)) == (row == 2));
    run_expected_close(&expected);
    run_close(&run);
}
END_TEST

START_TEST(defaults_and_weights_of_a_call) {
    struct attn_request request = request_sized(1, 4, 2, 3, 3, 16, 5);
    request.score = ATTN_SCORE_ADDITIVE;
    request.w = F32(4, 16);
    struct attn_call call = accept_request(&request);
    ck_assert(call.scale == 1 && call.score == ATTN_SCORE_ADDITIVE);
    ck_assert(call.w.stride[2] == 16 && call.w.stride[3] == 1);
    attn_call_close(&call);
    request.w = F32(1, 16);
    call = accept_request(&request);
    ck_assert(call.w.stride[2] == 0 && call.w.stride[3] == 1);
    attn_call_close(&call);
    request.w = F32(16);
    request.scale_given = true;
    request.scale = 0.5;
    call = accept_request(&request);
    ck_assert(call.scale == 0.5 && call.w.stride[2] == 0);
    attn_call_close(&call);
    request.scale = INFINITY;
    refuse_request(&request, ATTN_BAD_VALUE, "/scale", "leave it out for 1.");
}
END_TEST

/* Weights of queries that are not there: so wide that their number wraps, and read by nobody. */
START_TEST(weights_without_an_end_are_not_looked_through) {
    const size_t huge = (size_t)1 << 62;
    struct attn_request request = request_sized(1, 8, 8, 0, 0, huge, 1);
    request.score = ATTN_SCORE_ADDITIVE;
    request.w = F32(8, huge);
    struct attn_call call = accept_request(&request);
    ck_assert_uint_eq(call.D, huge);
    attn_call_close(&call);
}
END_TEST

START_TEST(wrong_weights_are_refused) {
    static const float infinite[16] = {[5] = INFINITY};
    const struct {
        struct attn_tensor w;
        enum attn_status status;
        const char *words;
    } wrong[] = {
        {attn_tensor_none(), ATTN_MISSING_FIELD, "needs w, the 16 weights"},
        {SHAPED(ATTN_INT64, 16), ATTN_BAD_DTYPE, "got int64"},
        {F32(15), ATTN_BAD_SHAPE, "its shape is [15]"},
        {F32(1), ATTN_BAD_SHAPE, "[D] = [16]"},
        {F32(2, 16), ATTN_BAD_SHAPE, "[Hq,D] = [4,16]"},
        {F32(4, 1), ATTN_BAD_SHAPE, "[4, 1]"},
        {F32(1, 4, 16), ATTN_BAD_SHAPE, "[1, 4, 16]"},
        {attn_tensor_view(infinite, ATTN_FLOAT32, 1, (const size_t[]){16}), ATTN_BAD_VALUE,
         "element 5"},
    };
    for (size_t n = 0; n < COUNT_OF(wrong); n++) {
        struct attn_request request = request_sized(1, 4, 2, 3, 3, 16, 5);
        request.score = ATTN_SCORE_ADDITIVE;
        request.w = wrong[n].w;
        refuse_request(&request, wrong[n].status, "/score/w", wrong[n].words);
    }
}
END_TEST

/* Kernels of products leave them to others, and say so by name; a tanh is more work. */
START_TEST(plans_know_additive_scores) {
    static const struct attn_limits limits = {SIZE_MAX, INFINITY};
    struct attn_request request = request_sized(1, 2, 2, 300, 300, 64, 8);
    struct attn_plan plan, dot;
    struct attn_result result;
    struct attn_error error = {.status = ATTN_OK};
    struct attn_call call = accept_request(&request);
    ck_assert_int_eq(attn_plan_make(&call, &limits, &dot, &result, &error), ATTN_OK);
    attn_call_close(&call);
    request.score = ATTN_SCORE_ADDITIVE;
    request.w = F32(64);
    for (int n = 0; n < kernel_count(); n++) {
        const struct attn_kernel *kernel = attn_kernel_at((size_t)n);
        request.kernel = kernel_name((size_t)n);
        call = accept_request(&request);
        const bool planned = attn_plan_make(&call, &limits, &plan, &result, &error) == ATTN_OK;
        ck_assert(planned == !attn_kernel_find(request.kernel)->products_only);
        if (kernel->available() && kernel->products_only)
            ck_assert_ptr_nonnull(strstr(error.detail, "this call's score is additive"));
        attn_call_close(&call);
    }
    ck_assert(plan.flops == dot.flops && plan.work - dot.work >= 10.0 * 64 * 2 * 300 * 300);
}
END_TEST

static Suite *additive_suite(void) {
    Suite *suite = suite_create("additive");
    int sets = 0;
    attn_start();
    while (attn_rowops_at((size_t)sets) != NULL)
        sets++;
    TCase *rows = tcase_create("every instruction set");
    tcase_add_loop_test(rows, tanh_is_accurate, 0, sets);
    tcase_add_loop_test(rows, sums_keep_to_their_keys, 0, sets);
    suite_add_tcase(suite, rows);
    TCase *calls = tcase_create("every kernel");
    tcase_set_timeout(calls, 120);
    tcase_add_loop_test(calls, every_size_agrees, 0, kernel_count());
    tcase_add_loop_test(calls, every_type_and_form_agrees, 0, kernel_count());
    tcase_add_loop_test(calls, weights_of_any_size, 0, kernel_count());
    tcase_add_loop_test(calls, inputs_that_are_not_finite, 0, kernel_count());
    suite_add_tcase(suite, calls);
    TCase *validation = tcase_create("validation");
    tcase_add_test(validation, defaults_and_weights_of_a_call);
    tcase_add_test(validation, wrong_weights_are_refused);
    tcase_add_test(validation, weights_without_an_end_are_not_looked_through);
    tcase_add_test(validation, plans_know_additive_scores);
    suite_add_tcase(suite, validation);
    return suite;
}

ATTN_TEST_MAIN(additive_suite)
