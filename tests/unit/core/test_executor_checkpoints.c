/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tasks that are interrupted at their checkpoints by tasks of another call: both calls' bits are
 * those of calls that were left alone, and no kernel computes long without passing one.
 */
#include "tests/unit/core/executor_cases.h"

enum { INTERRUPTIONS = 300 };

static struct executor_case left_alone;

/* A planned call with what its tasks need, and how often it has been looked at. */
struct visitor {
    struct executor_case at;
    struct attn_heads *heads;
    void *workspace;
    size_t looks;
};

static void *full_of_nan(size_t bytes) {
    void *memory = NULL;
    ck_assert_int_eq(posix_memalign(&memory, 64, bytes + 1), 0);
    return memset(memory, 0xff, bytes);
}

static void visitor_open(struct visitor *visitor, size_t which, size_t kernel) {
    case_open(&visitor->at, which, kernel, ATTN_FLOAT32, RUN_BTHD);
    run_plan(&visitor->at.run);
    visitor->heads = run_heads(&visitor->at.run, 1);
    visitor->workspace = full_of_nan(visitor->at.run.plan.workspace_bytes);
    visitor->looks = 0;
}

static void visitor_close(struct visitor *visitor) {
    run_heads_close(visitor->heads);
    free(visitor->workspace);
    run_close(&visitor->at.run);
}

static void visitor_task(struct visitor *visitor, size_t index,
                         const struct attn_checkpoint *checkpoint) {
    struct run *run = &visitor->at.run;
    attn_execute_task(&run->call, &run->plan, &run->result, visitor->heads, index,
                      visitor->workspace, checkpoint);
}

/* At a checkpoint: the visitor's next task, so that each runs several times. */
static void visit(void *context) {
    struct visitor *visitor = context;
    if (visitor->looks++ < INTERRUPTIONS)
        visitor_task(visitor, visitor->looks % visitor->at.run.plan.tasks, NULL);
}

static struct attn_checkpoint always(void (*give_way)(void *), void *context) {
    static const atomic_int_least64_t waiting = 0;
    return (struct attn_checkpoint){
        .waiting = &waiting, .cost = 1, .give_way = give_way, .context = context};
}

/* A case as it comes out when nothing interrupts it. */
static void expect_undisturbed(const struct run *run, size_t which, size_t kernel) {
    case_open(&left_alone, which, kernel, ATTN_FLOAT32, RUN_BTHD);
    run_all(&left_alone.run);
    run_expect_same_bits(run, &left_alone.run, 0);
    run_close(&left_alone.run);
}

START_TEST(interruptions_change_no_bit) {
    static struct visitor outer, inner;
    const size_t kernel = (size_t)_i / CASE_COUNT, which = (size_t)_i % CASE_COUNT;
    const size_t other = (which + 3) % CASE_COUNT;
    visitor_open(&outer, which, kernel);
    visitor_open(&inner, other, kernel);
    const struct attn_checkpoint checkpoint = always(visit, &inner);
    for (size_t index = 0; index < outer.at.run.plan.tasks; index++)
        visitor_task(&outer, index, &checkpoint);
    ck_assert_uint_ge(inner.looks, inner.at.run.plan.tasks);
    expect_undisturbed(&outer.at.run, which, kernel);
    expect_undisturbed(&inner.at.run, other, kernel);
    visitor_close(&outer);
    visitor_close(&inner);
}
END_TEST

static void count(void *context) {
    ++*(size_t *)context;
}

/* Checkpoints that the whole call passes when `returns` is asked for. */
static size_t count_looks(size_t kernel, unsigned returns, struct run_sizes sizes) {
    struct run run;
    size_t looks = 0;
    run_open(&run, ATTN_FLOAT32, RUN_BHTD, sizes);
    run.request.preferred_kernel = kernel_name(kernel);
    run.request.returns = returns;
    run_plan(&run);
    void *workspace = full_of_nan(run.plan.workspace_bytes);
    struct attn_heads *heads = run_heads(&run, 1);
    const struct attn_checkpoint checkpoint = always(count, &looks);
    for (size_t index = 0; index < run.plan.tasks; index++)
        attn_execute_task(&run.call, &run.plan, &run.result, heads, index, workspace, &checkpoint);
    run_heads_close(heads);
    free(workspace);
    run_close(&run);
    return looks;
}

/* Twice in each block of 256 keys, in each walk over them. */
START_TEST(a_kernel_looks_up_often) {
    static const struct run_sizes SIZES = {
        .B = 1, .Hq = 1, .Hkv = 1, .Tq = 16, .Tk = 5000, .D = 3, .Dv = 2};
    const size_t blocks = SIZES.Tk / 256, kernel = (size_t)_i;
    const size_t output = count_looks(kernel, ATTN_RETURN_OUTPUT, SIZES);
    const size_t mapped = count_looks(kernel, ATTN_RETURN_OUTPUT | ATTN_RETURN_WEIGHTS, SIZES);
    ck_assert_uint_ge(output, 2 * blocks);
    ck_assert_uint_ge(mapped, output + 2 * blocks);
}
END_TEST

static Suite *executor_checkpoints_suite(void) {
    attn_start(); /* one thread in OpenBLAS, as in a process that serves */
    Suite *suite = suite_create("executor_checkpoints");
    const int kernels = kernel_count();
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 60);
    tcase_add_loop_test(all, interruptions_change_no_bit, 0, kernels * CASE_COUNT);
    tcase_add_loop_test(all, a_kernel_looks_up_often, 0, kernels);
    suite_add_tcase(suite, all);
    return suite;
}

ATTN_TEST_MAIN(executor_checkpoints_suite)
