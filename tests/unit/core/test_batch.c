/* SPDX-License-Identifier: Apache-2.0 */
/* Several calls in one job: the bits of each are those that it has alone, on one thread and on two.
 */
#include "core/checked.h"
#include "tests/unit/core/executor_cases.h"

enum { CALLS = 5 };

/* Calls of several shapes, one without any task, and the same once more. */
struct batch_test {
    struct run alone[CALLS], together[CALLS];
    struct attn_batch_item items[CALLS];
    struct attn_batch batch;
    struct attn_job job;
    atomic_bool done;
};

static void open_calls(struct batch_test *test, size_t threads) {
    static const struct run_sizes sizes[CALLS] = {{1, 2, 1, 1, 700, 16, 8},
                                                  {1, 4, 2, 0, 30, 4, 4},
                                                  {1, 8, 8, 1, 4000, 64, 64},
                                                  {2, 2, 2, 300, 20, 8, 5},
                                                  {1, 6, 3, 2, 90, 24, 10}};
    for (size_t n = 0; n < CALLS; n++) {
        run_open(&test->alone[n], ATTN_FLOAT32, RUN_BHTD, sizes[n]);
        run_open(&test->together[n], ATTN_FLOAT32, RUN_BHTD, sizes[n]);
        test->alone[n].request.returns = test->together[n].request.returns =
            RUN_EVERYTHING | ATTN_RETURN_STATS;
        run_all(&test->alone[n]);
        run_plan(&test->together[n]);
        test->items[n] = (struct attn_batch_item){.call = &test->together[n].call,
                                                  .plan = &test->together[n].plan,
                                                  .result = &test->together[n].result,
                                                  .heads = run_heads(&test->together[n], threads)};
    }
    test->batch = attn_batch_of(test->items, CALLS);
}

static void expect_same_and_close(struct batch_test *test) {
    for (size_t n = 0; n < CALLS; n++) {
        run_expect_same_bits(&test->together[n], &test->alone[n], 0);
        run_heads_close(test->items[n].heads);
        run_close(&test->together[n]);
        run_close(&test->alone[n]);
    }
}

START_TEST(a_batch_counts_all_of_its_calls) {
    struct batch_test test = {0};
    size_t steps = 0, workspace = 0;
    double work = 0;
    open_calls(&test, 1);
    for (size_t n = 0; n < CALLS; n++) {
        ck_assert_uint_eq(test.items[n].first, steps);
        steps += test.together[n].plan.tasks;
        work += test.together[n].plan.work;
        workspace = attn_max_size(workspace, test.together[n].plan.workspace_bytes);
    }
    ck_assert_uint_eq(test.batch.steps, steps);
    ck_assert_uint_eq(test.batch.workspace_bytes, workspace);
    ck_assert_double_eq(test.batch.work, work);
    void *memory = aligned_alloc(64, (workspace + 63) / 64 * 64);
    for (size_t index = 0; index < steps; index++)
        attn_batch_step(&test.batch, index, memory, NULL);
    free(memory);
    expect_same_and_close(&test);
}
END_TEST

static void step(struct attn_job *job, size_t index, void *workspace,
                 const struct attn_checkpoint *checkpoint) {
    struct batch_test *test =
        (struct batch_test *)(void *)((char *)job - offsetof(struct batch_test, job));
    attn_batch_step(&test->batch, index, workspace, checkpoint);
}

static bool finished(struct attn_job *job) {
    struct batch_test *test =
        (struct batch_test *)(void *)((char *)job - offsetof(struct batch_test, job));
    atomic_store(&test->done, true);
    return false;
}

START_TEST(a_batch_is_one_job) {
    struct batch_test test = {0};
    struct attn_scheduler *scheduler;
    struct attn_error error = {0};
    open_calls(&test, 2);
    ck_assert_int_eq(attn_scheduler_create(2, 0, &scheduler, &error), ATTN_OK);
    test.job.step = step;
    test.job.finished = finished;
    test.job.steps = test.batch.steps;
    test.job.workspace_bytes = test.batch.workspace_bytes;
    attn_scheduler_submit(scheduler, &test.job);
    attn_scheduler_free(&scheduler);
    ck_assert(atomic_load(&test.done));
    expect_same_and_close(&test);
}
END_TEST

static Suite *batch_suite(void) {
    Suite *suite = suite_create("batch");
    TCase *cases = tcase_create("calls");
    tcase_add_test(cases, a_batch_counts_all_of_its_calls);
    tcase_add_test(cases, a_batch_is_one_job);
    suite_add_tcase(suite, cases);
    return suite;
}

ATTN_TEST_MAIN(batch_suite)
