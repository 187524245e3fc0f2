/* SPDX-License-Identifier: Apache-2.0 */
/* Samples of kept calls: what their rows hold, and how little is redone for them, by each kernel.
 */
#include "tests/unit/core/kept_fixture.h"

/* The sum of a bin that is sampled is its middle row's. */
START_TEST(sampled_rows_keep_their_mass) {
    struct executor_case c;
    struct keeping keeping;
    open_long(&c, (size_t)_i);
    keep(&keeping, &c.run, ATTN_FLOAT32);
    struct attn_kept_part part = {.returns = ATTN_RETURN_WEIGHTS, .batch = 1, .sampled = true};
    part.map = (struct attn_map_selection){.stage = ATTN_STAGE_WEIGHTS,
                                           .pool_given = true,
                                           .pool_rows = 9,
                                           .pool_cols = 4,
                                           .pool = ATTN_POOL_MASS};
    struct redone redone;
    redo(&redone, keeping.kept, &part);
    const float *bins = redone_data(&redone, ATTN_RESULT_WEIGHTS);
    for (size_t row = 0; row < 4 * 9; row++, bins += 4)
        ck_assert(run_is_close((double)bins[0] + bins[1] + bins[2] + bins[3], 1, 1e-5));
    redone_close(&redone);
    keeping_close(&keeping);
    run_close(&c.run);
}
END_TEST

/* A sample redoes the few rows around those that it shows, whatever tiles the kernel would have. */
START_TEST(a_sample_attends_to_few_rows) {
    struct executor_case c;
    struct keeping keeping;
    open_long(&c, (size_t)_i);
    c.run.request.mask.count = 0;
    keep(&keeping, &c.run, ATTN_FLOAT16);
    struct attn_kept_part part = {.returns = ATTN_RETURN_WEIGHTS, .batch = 1, .sampled = true};
    part.map = (struct attn_map_selection){.stage = ATTN_STAGE_WEIGHTS,
                                           .pool_given = true,
                                           .pool_rows = 3,
                                           .pool_cols = 4,
                                           .pool = ATTN_POOL_MASS};
    struct redone redone;
    redo(&redone, keeping.kept, &part);
    const float *bins = redone_data(&redone, ATTN_RESULT_WEIGHTS);
    for (size_t row = 0; row < LONG.Hq * 3; row++, bins += 4)
        ck_assert(run_is_close((double)bins[0] + bins[1] + bins[2] + bins[3], 1, 1e-5));
    ck_assert_uint_le(atomic_load(&redone.result.scores_computed), 3 * 4 * LONG.Hq * LONG.Tk);
    redone_close(&redone);
    keeping_close(&keeping);
    run_close(&c.run);
}
END_TEST

static Suite *kept_samples_suite(void) {
    Suite *suite = suite_create("kept_samples");
    TCase *kernels = tcase_create("kernels");
    const int count = kernel_count();
    tcase_set_timeout(kernels, 120);
    tcase_add_loop_test(kernels, sampled_rows_keep_their_mass, 0, count);
    tcase_add_loop_test(kernels, a_sample_attends_to_few_rows, 0, count);
    suite_add_tcase(suite, kernels);
    return suite;
}

ATTN_TEST_MAIN(kept_samples_suite)
