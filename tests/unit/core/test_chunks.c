/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys in chunks: which calls get them, and that joining them is as if they had been one, on any
 * number of threads. Every option in chunks is compared in test_kernels.c, promises of kernels in
 * test_kernels_contract.c and test_kernels_range.c.
 */
#include <float.h>
#include <pthread.h>

#include "core/checked.h"
#include "tests/unit/core/executor_cases.h"

enum { KEYS = 300, CHUNK = 256 };

static struct run run, other;

static void open_sized(struct run *opened, size_t kernel, struct run_sizes sizes) {
    run_open(opened, ATTN_FLOAT32, RUN_BHTD, sizes);
    opened->request.preferred_kernel = kernel_name(kernel);
    opened->request.returns = RUN_EVERYTHING;
}

/* Decoding with a long cache: chunks by themselves, the last one short, two rows per head. */
static const struct run_sizes LONG = {
    .B = 1, .Hq = 6, .Hkv = 2, .Tq = 2, .Tk = 1700, .D = 72, .Dv = 56};

static size_t planned_chunks(size_t kernel, struct run_sizes sizes) {
    open_sized(&run, kernel, sizes);
    run_plan(&run);
    const struct attn_plan *plan = &run.plan;
    ck_assert_uint_eq(plan->tasks, sizes.B * sizes.Hkv * plan->row_tiles * plan->chunks);
    ck_assert(plan->chunks == 1 || plan->tasks < 2 * ATTN_CHUNKS_MOST);
    ck_assert(plan->chunks == 1 || plan->chunk_keys % plan->grid.key_tile == 0);
    ck_assert_uint_ge(plan->chunks * plan->chunk_keys, sizes.Tk);
    ck_assert_uint_lt((plan->chunks - 1) * plan->chunk_keys, attn_max_size(sizes.Tk, 1));
    ck_assert((plan->chunk_bytes > 0) == (plan->chunks > 1));
    const size_t chunks = plan->chunks;
    run_close(&run);
    return chunks;
}

START_TEST(calls_with_few_tasks_have_chunks) {
    static const struct {
        struct run_sizes sizes;
        size_t least, most;
    } cases[] = {
        {{.B = 1, .Hq = 8, .Hkv = 1, .Tq = 1, .Tk = 4096, .D = 64, .Dv = 64}, 8, 8},
        {{.B = 1, .Hq = 8, .Hkv = 8, .Tq = 1, .Tk = 4096, .D = 64, .Dv = 64}, 4, 4},
        {{.B = 1, .Hq = 1, .Hkv = 1, .Tq = 48, .Tk = 8192, .D = 64, .Dv = 64}, 16, 16},
        {{.B = 1, .Hq = 8, .Hkv = 1, .Tq = 1, .Tk = 1023, .D = 64, .Dv = 64}, 1, 1},
        {{.B = 4, .Hq = 8, .Hkv = 8, .Tq = 1, .Tk = 4096, .D = 64, .Dv = 64}, 1, 1},
        {{.B = 1, .Hq = 1, .Hkv = 1, .Tq = 1, .Tk = 4096, .D = 2, .Dv = 2}, 1, 1},
        {{.B = 1, .Hq = 300, .Hkv = 1, .Tq = 1, .Tk = 2048, .D = 64, .Dv = 64}, 1, 1},
        {{.B = 1, .Hq = 1, .Hkv = 1, .Tq = 0, .Tk = 4096, .D = 64, .Dv = 64}, 1, 1},
    };
    for (size_t n = 0; n < COUNT_OF(cases); n++) {
        const size_t chunks = planned_chunks((size_t)_i, cases[n].sizes);
        const bool whole = run.plan.kernel->takes_all_keys;
        ck_assert_msg(whole ? chunks == 1 : cases[n].least <= chunks && chunks <= cases[n].most,
                      "case %zu has %zu chunks", n, chunks);
    }
}
END_TEST

/* Each key belongs to one chunk of each row. */
START_TEST(chunks_cover_every_key_once) {
    open_sized(&run, (size_t)_i, LONG);
    run_plan(&run);
    size_t next = 0;
    for (size_t index = 0; index < run.plan.tasks; index++) {
        struct attn_task task = {0};
        attn_plan_locate(&run.plan, &run.call, index, &task);
        ck_assert_uint_eq(task.key, next);
        next = task.key + task.keys == LONG.Tk ? 0 : task.key + task.keys;
        ck_assert_uint_eq(task.hkv, index / run.plan.chunks / run.plan.row_tiles);
    }
    ck_assert_uint_eq(next, 0);
    run_close(&run);
}
END_TEST

/* Threads take tasks from one end or the other. */
struct team {
    struct run *run;
    struct attn_heads *heads;
    bool backwards;
    atomic_size_t taken;
};

static void *take_tasks(void *argument) {
    struct team *team = argument;
    const struct attn_plan *plan = &team->run->plan;
    for (size_t n; (n = atomic_fetch_add(&team->taken, 1)) < plan->tasks;)
        run_task_with(team->run, team->heads, team->backwards ? plan->tasks - 1 - n : n);
    return NULL;
}

static void run_by(struct run *opened, size_t threads, bool backwards) {
    pthread_t thread[3];
    run_plan(opened);
    /* What maps add up over tasks wants them in their order. */
    struct team team = {opened, run_heads(opened, threads),
                        backwards && opened->plan.slot_bytes == 0, 0};
    for (size_t n = 0; n < threads; n++)
        ck_assert_int_eq(pthread_create(&thread[n], NULL, take_tasks, &team), 0);
    for (size_t n = 0; n < threads; n++)
        pthread_join(thread[n], NULL);
    run_heads_close(team.heads);
}

/* Masks that end within a chunk, leave chunks out, or hide everything of one batch item; a sink. */
static struct attn_mask_node nodes[2];
static const int64_t late = 1650, lengths[] = {800};

static void with_all_keys(struct run *opened) {
    opened->request.mask.count = 0;
}

static void with_the_last_keys(struct run *opened) {
    nodes[0] = (struct attn_mask_node){
        .kind = ATTN_MASK_WINDOW, .left = 40, .right = 20, .pointer = "/mask"};
    opened->request.q_offset = (struct attn_int_list){&late, 1};
    opened->request.mask = (struct attn_mask){nodes, 1};
}

static void with_the_first_keys(struct run *opened) {
    static const double sink = 0.5;
    nodes[0] = (struct attn_mask_node){
        .kind = ATTN_MASK_PADDING, .kv_lengths = {lengths, 1}, .pointer = "/mask"};
    opened->request.mask = (struct attn_mask){nodes, 1};
    opened->request.sink = (struct attn_real_list){&sink, 1};
}

static void with_no_keys(struct run *opened) {
    nodes[0] = (struct attn_mask_node)JOIN(ANY, 0);
    opened->request.mask = (struct attn_mask){nodes, 1};
}

static void with_reduced_maps(struct run *opened) {
    opened->request.returns |= ATTN_RETURN_STATS | ATTN_RETURN_COL_SUMS;
    opened->request.map.pool_rows = 7;
    opened->request.map.pool_cols = 5;
}

static void (*const OPTIONS[])(struct run *opened) = {
    with_all_keys, with_the_last_keys, with_the_first_keys, with_no_keys, with_reduced_maps};

START_TEST(threads_change_no_bit) {
    const size_t kernel = (size_t)_i / COUNT_OF(OPTIONS), option = (size_t)_i % COUNT_OF(OPTIONS);
    open_sized(&other, kernel, LONG);
    OPTIONS[option](&other);
    run_all(&other);
    for (size_t threads = 1; threads <= 3; threads++)
        for (int backwards = 0; backwards < 2; backwards++) {
            open_sized(&run, kernel, LONG);
            OPTIONS[option](&run);
            run_by(&run, threads, backwards);
            for (size_t name = 0; name < ATTN_RESULT_COUNT; name++)
                if (run.result.tensors[name].wanted)
                    ck_assert_mem_eq(run.result.tensors[name].data, other.result.tensors[name].data,
                                     run.result.tensors[name].bytes);
            ck_assert_uint_eq(atomic_load(&run.result.scores_computed),
                              atomic_load(&other.result.scores_computed));
            ck_assert_uint_eq(atomic_load(&run.result.empty_rows),
                              atomic_load(&other.result.empty_rows));
            run_close(&run);
        }
    run_close(&other);
}
END_TEST

static void expect_close_to(const struct run *wanted, double tolerance) {
    for (unsigned name = 0; name < ATTN_RESULT_COUNT; name++)
        for (size_t n = 0; n < run_count(&run, (enum attn_result_name)name); n++) {
            const double got = run_at(&run, (enum attn_result_name)name, n);
            const double want = run_at(wanted, (enum attn_result_name)name, n);
            if (!run_is_close(got, want, tolerance))
                ck_abort_msg("%s: %s[%zu] is %.9g, not %.9g", run.plan.kernel->name,
                             attn_result_tensor_name((enum attn_result_name)name), n, got, want);
        }
    ck_assert_uint_eq(atomic_load(&run.result.empty_rows), atomic_load(&wanted->result.empty_rows));
}

static void expect_as_reference(size_t option) {
    OPTIONS[option](&run);
    run_all(&run);
    OPTIONS[option](&other);
    run_all(&other);
    ck_assert(run.plan.kernel->takes_all_keys || run.plan.chunks > 2);
    expect_close_to(&other, 4e-6);
    run_close(&run);
    run_close(&other);
}

/* Sums over 1700 keys in float. */
START_TEST(long_calls_agree_with_the_reference) {
    open_sized(&run, (size_t)_i / COUNT_OF(OPTIONS), LONG);
    open_sized(&other, (size_t)kernel_count() - 1, LONG);
    expect_as_reference((size_t)_i % COUNT_OF(OPTIONS));
}
END_TEST

/* Bins over rows of several tasks, and heads that share keys. */
START_TEST(tall_calls_agree_with_the_reference) {
    static const struct run_sizes TALL = {
        .B = 2, .Hq = 4, .Hkv = 2, .Tq = 270, .Tk = 900, .D = 8, .Dv = 5};
    open_sized(&run, (size_t)_i / COUNT_OF(OPTIONS), TALL);
    open_sized(&other, (size_t)kernel_count() - 1, TALL);
    run.chunk_keys = CHUNK;
    expect_as_reference((size_t)_i % COUNT_OF(OPTIONS));
}
END_TEST

/* A chunk in which nothing is seen computes nothing. */
START_TEST(hidden_chunks_cost_nothing) {
    open_sized(&run, (size_t)_i, LONG);
    with_the_last_keys(&run);
    run_all(&run);
    if (!run.plan.kernel->visits_hidden)
        ck_assert_uint_le(atomic_load(&run.result.scores_computed), 6 * 2 * (size_t)(256 + 164));
    run_close(&run);
}
END_TEST

static float *operand(size_t which) {
    return run.operands[which];
}

/* Two chunks of one query; D = 1 and a scale of 1, so that key j's score is q times k[j]. */
static void open_pair(size_t kernel, float q, float k) {
    open_sized(&run, kernel,
               (struct run_sizes){.B = 1, .Hq = 1, .Hkv = 1, .Tq = 1, .Tk = KEYS, .D = 1, .Dv = 3});
    run.chunk_keys = CHUNK;
    run.request.scale_given = true;
    run.request.scale = 1;
    operand(0)[0] = q;
    for (size_t j = 0; j < KEYS; j++) {
        operand(1)[j] = k;
        for (size_t d = 0; d < 3; d++)
            operand(2)[3 * j + d] = (float)(d + 1);
    }
}

static void expect_output(double first, double second, double third) {
    const double want[] = {first, second, third};
    for (size_t d = 0; d < 3; d++) {
        const double got = run_at(&run, ATTN_RESULT_OUTPUT, d);
        if (!run_is_close(got, want[d], 4e-6))
            ck_abort_msg("%s: output %zu is %.9g, not %.9g", run.plan.kernel->name, d, got,
                         want[d]);
    }
}

static void run_and_expect(double first, double second, double third) {
    run_all(&run);
    expect_output(first, second, third);
    run_close(&run);
}

/* An infinite value whose chunk weighs much by itself and nothing beside the other. */
START_TEST(values_that_weigh_nothing_in_the_end_do_not_matter) {
    static const float values[] = {INFINITY, NAN};
    for (size_t n = 0; n < COUNT_OF(values); n++)
        for (size_t key = 0; key < KEYS; key += CHUNK) {
            open_pair((size_t)_i, 1, -2000);
            operand(1)[key == 0 ? CHUNK : 0] = 0;
            operand(2)[3 * key + 1] = values[n];
            run_and_expect(1, 2, 3);
        }
}
END_TEST

/* Weights of exp(-60) in its chunk times exp(-60) for the chunk are 0 as a float, those of exp(-20)
 * are not; doubles hold both. */
START_TEST(values_that_weigh_little_in_a_light_chunk) {
    for (int heavy = 0; heavy < 2; heavy++) {
        open_pair((size_t)_i, 1, heavy ? -80 : -120);
        operand(1)[1] = -60;
        operand(1)[CHUNK] = 0;
        operand(2)[2] = INFINITY;
        const struct attn_kernel *kernel = attn_kernel_find(run.request.preferred_kernel);
        const bool reaches = heavy || kernel->accumulates_double;
        run_and_expect(1, 2, reaches ? (double)INFINITY : 3);
    }
}
END_TEST

/* Beside an infinite one that does weigh, other elements keep their bits. */
START_TEST(an_infinite_value_reaches_its_element_alone) {
    for (size_t key = 0; key < KEYS; key += CHUNK) {
        open_pair((size_t)_i, 0.25f, 3);
        operand(2)[3 * key + 2] = -INFINITY;
        run_and_expect(1, 2, -(double)INFINITY);
    }
}
END_TEST

/* Every chunk's sum fits a float, and all of them together do not. */
START_TEST(sums_that_overflow_when_joined) {
    open_pair((size_t)_i, 1, 1);
    for (size_t j = 0; j < KEYS; j++)
        operand(2)[3 * j] = FLT_MAX / 280;
    run_and_expect((double)(FLT_MAX / 280), 2, 3);
}
END_TEST

/* And with an infinite value beside. */
START_TEST(sums_that_overflow_beside_infinity) {
    open_pair((size_t)_i, 1, 1);
    for (size_t j = 0; j < KEYS; j++)
        operand(2)[3 * j] = FLT_MAX / 280;
    operand(2)[3 * 7 + 1] = INFINITY;
    run_and_expect((double)(FLT_MAX / 280), (double)INFINITY, 3);
}
END_TEST

/* One chunk has a score that no float holds, and so is done in double; the winner is in the other,
 * whose float scores are too coarse to be told apart from it. */
START_TEST(one_chunk_beyond_a_float) {
    for (int wins = 0; wins < 2; wins++) {
        open_pair((size_t)_i, 1e20f, 1e-20f);
        operand(1)[3] = wins ? 1e20f : -1e20f;
        operand(1)[CHUNK + 1] = 1.23456789e18f;
        for (size_t d = 0; d < 3; d++)
            operand(2)[3 * (size_t)(wins ? 3 : CHUNK + 1) + d] = 10 * (float)(d + 1);
        run_all(&run);
        ck_assert_msg(run_at(&run, ATTN_RESULT_WEIGHTS, wins ? 3 : CHUNK + 1) == 1,
                      "the winner weighs %g",
                      run_at(&run, ATTN_RESULT_WEIGHTS, wins ? 3 : CHUNK + 1));
        expect_output(10, 20, 30);
        run_close(&run);
    }
}
END_TEST

/* A NaN score in either chunk spoils the row. */
START_TEST(nan_in_a_chunk_is_nan) {
    for (size_t key = 0; key < KEYS; key += CHUNK) {
        open_pair((size_t)_i, 1, 1);
        operand(1)[key] = NAN;
        run_and_expect((double)NAN, (double)NAN, (double)NAN);
    }
}
END_TEST

/* What is cancelled between two chunks writes no row, and the same heads serve the next run. */
START_TEST(cancelled_between_chunks) {
    static atomic_bool cancelled;
    const struct attn_checkpoint checkpoint = {.cancelled = &cancelled};
    open_sized(&other, (size_t)_i, LONG);
    run_all(&other);
    open_sized(&run, (size_t)_i, LONG);
    run_plan(&run);
    void *workspace = NULL;
    ck_assert_int_eq(posix_memalign(&workspace, 64, run.plan.workspace_bytes), 0);
    struct attn_heads *heads = run_heads(&run, 1);
    for (size_t index = 0; index < run.plan.tasks; index++) {
        atomic_store(&cancelled, index % attn_max_size(run.plan.chunks, 2) > 0);
        attn_execute_task(&run.call, &run.plan, &run.result, heads, index, workspace, &checkpoint);
    }
    for (size_t byte = 0; byte < run.result.tensors[0].bytes && run.plan.chunks > 1; byte++)
        ck_assert_int_eq(((unsigned char *)run.result.tensors[0].data)[byte], RUN_UNTOUCHED);
    attn_heads_reset(heads);
    atomic_store(&run.result.empty_rows, 0);
    for (size_t index = 0; index < run.plan.tasks; index++)
        attn_execute_task(&run.call, &run.plan, &run.result, heads, index, workspace, NULL);
    run_expect_same_bits(&run, &other, 0);
    run_heads_close(heads);
    free(workspace);
    run_close(&run);
    run_close(&other);
}
END_TEST

static Suite *chunks_suite(void) {
    attn_start(); /* one thread in OpenBLAS, as in a process that serves */
    Suite *suite = suite_create("chunks");
    const int kernels = kernel_count(), options = (int)COUNT_OF(OPTIONS);
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 120);
    tcase_add_loop_test(all, calls_with_few_tasks_have_chunks, 0, kernels);
    tcase_add_loop_test(all, chunks_cover_every_key_once, 0, kernels);
    tcase_add_loop_test(all, threads_change_no_bit, 0, kernels * options);
    tcase_add_loop_test(all, long_calls_agree_with_the_reference, 0, kernels * options);
    tcase_add_loop_test(all, tall_calls_agree_with_the_reference, 0, kernels * options);
    tcase_add_loop_test(all, hidden_chunks_cost_nothing, 0, kernels);
    tcase_add_loop_test(all, values_that_weigh_nothing_in_the_end_do_not_matter, 0, kernels);
    tcase_add_loop_test(all, values_that_weigh_little_in_a_light_chunk, 0, kernels);
    tcase_add_loop_test(all, an_infinite_value_reaches_its_element_alone, 0, kernels);
    tcase_add_loop_test(all, sums_that_overflow_when_joined, 0, kernels);
    tcase_add_loop_test(all, sums_that_overflow_beside_infinity, 0, kernels);
    tcase_add_loop_test(all, one_chunk_beyond_a_float, 0, kernels);
    tcase_add_loop_test(all, nan_in_a_chunk_is_nan, 0, kernels);
    tcase_add_loop_test(all, cancelled_between_chunks, 0, kernels);
    suite_add_tcase(suite, all);
    return suite;
}

ATTN_TEST_MAIN(chunks_suite)
