/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reduced maps of whole calls, per kernel, against the whole map of the same kernel; and that what
 * tasks add up together has the same bits however many threads run them. More over HTTP:
 * tests/e2e/test_maps.py.
 */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/support/attention_run.h"
#include "tests/support/test_main.h"

static const struct run_sizes SIZES = {2, 4, 2, 270, 530, 8, 4};
static struct attn_mask_node causal = {.kind = ATTN_MASK_CAUSAL, .align = ATTN_ALIGN_BOTTOM_RIGHT};

static bool open_run(struct run *run, size_t kernel, enum attn_dtype dtype) {
    const struct attn_kernel *row = attn_kernel_at(kernel);
    if (row == NULL || !row->available() || (row->float32_only && dtype == ATTN_FLOAT64))
        return false;
    run_open(run, dtype, RUN_BHTD, SIZES);
    run->request.kernel = row->name;
    run->request.mask = (struct attn_mask){&causal, 1};
    run->request.returns = ATTN_RETURN_WEIGHTS;
    return true;
}

static void pool(struct run *run, int64_t rows, int64_t cols, enum attn_pool op) {
    run->request.map.pool_given = true;
    run->request.map.pool_rows = rows;
    run->request.map.pool_cols = cols;
    run->request.map.pool = op;
}

/* The whole map, [B,Hq,Tq,Tk]. */
static double *whole_map(size_t kernel, enum attn_dtype dtype) {
    struct run run;
    if (!open_run(&run, kernel, dtype))
        return NULL;
    run_all(&run);
    const size_t count = run_count(&run, ATTN_RESULT_WEIGHTS);
    double *map = calloc(count, sizeof *map);
    ck_assert_ptr_nonnull(map);
    for (size_t n = 0; n < count; n++)
        map[n] = run_at(&run, ATTN_RESULT_WEIGHTS, n);
    run_close(&run);
    return map;
}

/* The largest of a bin, or its mass. */
static double bin(const double *map, size_t plane, size_t rows, size_t r, size_t cols, size_t c,
                  enum attn_pool op) {
    const size_t top = r * SIZES.Tq / rows, bottom = (r + 1) * SIZES.Tq / rows;
    double value = 0;
    for (size_t t = top; t < bottom; t++)
        for (size_t j = c * SIZES.Tk / cols; j < (c + 1) * SIZES.Tk / cols; j++) {
            const double p = map[(plane * SIZES.Tq + t) * SIZES.Tk + j];
            value = op == ATTN_POOL_MASS ? value + p : fmax(value, p);
        }
    return op == ATTN_POOL_MASS ? value / (double)(bottom - top) : value;
}

static const struct { size_t rows, cols; } BINS[] = {{2, 530}, {7, 9}, {270, 1}, {269, 529}};

START_TEST(bins_hold_what_the_map_holds) {
    for (int wide = 0; wide <= 1; wide++)
        for (int op = ATTN_POOL_MAX; op <= ATTN_POOL_MASS; op++) {
            const enum attn_dtype dtype = wide ? ATTN_FLOAT64 : ATTN_FLOAT32;
            double *map = whole_map((size_t)_i, dtype);
            for (size_t b = 0; map != NULL && b < sizeof BINS / sizeof *BINS; b++) {
                const size_t rows = BINS[b].rows, cols = BINS[b].cols;
                struct run run;
                open_run(&run, (size_t)_i, dtype);
                pool(&run, (int64_t)rows, (int64_t)cols, (enum attn_pool)op);
                run_all(&run);
                for (size_t n = 0; n < run_count(&run, ATTN_RESULT_WEIGHTS); n++) {
                    const double want = bin(map, n / (rows * cols), rows, n / cols % rows, cols,
                                            n % cols, (enum attn_pool)op);
                    const double got = run_at(&run, ATTN_RESULT_WEIGHTS, n);
                    if (op == ATTN_POOL_MAX ? got != want : !run_is_close(got, want, 1e-6))
                        ck_abort_msg("%zu x %zu, bin %zu: %g, not %g", rows, cols, n, got, want);
                }
                run_close(&run);
            }
            free(map);
        }
}
END_TEST

/* Threads that take tasks by number. */
struct crew {
    struct run *run;
    struct attn_heads *heads;
    atomic_size_t next;
};

static void *work(void *argument) {
    struct crew *crew = argument;
    for (;;) {
        const size_t index = atomic_fetch_add(&crew->next, 1);
        if (index >= crew->run->plan.tasks)
            return NULL;
        run_task_with(crew->run, crew->heads, index);
    }
}

static void run_threads(struct run *run, size_t threads) {
    pthread_t thread[8];
    run_plan(run);
    struct crew crew = {.run = run, .heads = run_heads(run, threads)};
    for (size_t n = 0; n < threads; n++)
        ck_assert_int_eq(pthread_create(&thread[n], NULL, work, &crew), 0);
    for (size_t n = 0; n < threads; n++)
        pthread_join(thread[n], NULL);
    run_heads_close(crew.heads);
}

static void wish(struct run *run, size_t which) {
    struct attn_map_selection *map = &run->request.map;
    if (which < 2)
        pool(run, 3, 500, ATTN_POOL_MASS);
    if (which % 2 == 1)
        map->over_heads = ATTN_HEADS_MEAN;
    map->top_k_given = which == 2;
    map->top_k = 9;
    if (which == 4)
        run->request.returns = ATTN_RETURN_STATS | ATTN_RETURN_COL_SUMS;
}

START_TEST(threads_give_the_same_bits) {
    for (size_t which = 0; which < 5; which++) {
        struct run one, many;
        if (!open_run(&one, (size_t)_i, ATTN_FLOAT32))
            return;
        open_run(&many, (size_t)_i, ATTN_FLOAT32);
        wish(&one, which);
        wish(&many, which);
        run_all(&one);
        run_threads(&many, 3);
        for (size_t n = 0; n < ATTN_RESULT_COUNT; n++)
            if (one.result.tensors[n].wanted)
                ck_assert_mem_eq(many.result.tensors[n].data, one.result.tensors[n].data,
                                 one.result.tensors[n].bytes);
        run_close(&one);
        run_close(&many);
    }
}
END_TEST

/* A thread that runs a call's last task, whose slot is not free before the first ones are done. */
struct early {
    struct run run;
    struct attn_heads *heads;
    atomic_bool off;
};

static void *run_last(void *argument) {
    struct early *early = argument;
    struct run *run = &early->run;
    void *workspace = aligned_alloc(64, (run->plan.workspace_bytes + 63) / 64 * 64);
    const struct attn_checkpoint checkpoint = {.cancelled = &early->off};
    attn_execute_task(&run->call, &run->plan, &run->result, early->heads, run->plan.tasks - 1,
                      workspace, &checkpoint);
    free(workspace);
    return NULL;
}

START_TEST(who_waits_sees_that_the_call_is_off) {
    static struct early early;
    pthread_t thread;
    if (!open_run(&early.run, (size_t)_i, ATTN_FLOAT32))
        return;
    pool(&early.run, 3, 5, ATTN_POOL_MASS);
    run_plan(&early.run);
    ck_assert_uint_gt(early.run.plan.slot_bytes, 0);
    ck_assert_uint_gt(early.run.plan.tasks, 4);
    early.heads = run_heads(&early.run, 1);
    atomic_store(&early.off, false);
    ck_assert_int_eq(pthread_create(&thread, NULL, run_last, &early), 0);
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    ck_assert_int_eq(pthread_tryjoin_np(thread, NULL), EBUSY);
    atomic_store(&early.off, true);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    run_heads_close(early.heads);
    run_close(&early.run);
}
END_TEST

START_TEST(tensors_have_the_names_of_the_wire) {
    static const char *const names[] = {
        "output",        "weights",  "scores",    "lse",         "top_k_weights", "top_k_scores",
        "top_k_indices", "col_sums", "col_means", "k_positions", "stats"};
    for (unsigned n = 0; n < ATTN_RESULT_COUNT; n++)
        ck_assert_str_eq(attn_result_tensor_name((enum attn_result_name)n), names[n]);
}
END_TEST

/* A pool's memory is that of its bins and of some tiles, whatever is pooled. */
START_TEST(memory_does_not_grow_with_the_map) {
    size_t bytes[2];
    for (size_t n = 0; n < 2; n++) {
        struct attn_request request;
        struct attn_call call;
        struct attn_plan plan;
        struct attn_result result;
        struct attn_error error = {0};
        const struct attn_limits limits = {SIZE_MAX, INFINITY};
        static const float nothing[1];
        const size_t shape[] = {1, 8, (size_t)4096 << (4 * n), 0};
        attn_request_init(&request);
        request.q = request.k = request.v = attn_tensor_view(nothing, ATTN_FLOAT32, 4, shape);
        request.returns = ATTN_RETURN_WEIGHTS;
        request.map.pool_given = true;
        request.map.pool_rows = request.map.pool_cols = 512;
        ck_assert_int_eq(attn_call_init(&call, &request, &error), ATTN_OK);
        ck_assert_int_eq(attn_plan_make(&call, &limits, &plan, &result, &error), ATTN_OK);
        bytes[n] = plan.slot_bytes + plan.carry_bytes + plan.result_bytes;
        attn_call_close(&call);
    }
    ck_assert_uint_le(bytes[1], bytes[0]);
}
END_TEST

static Suite *suite(void) {
    attn_start(); /* one thread in OpenBLAS, as in a process that serves */
    Suite *suite = suite_create("map");
    TCase *reductions = tcase_create("reductions");
    TCase *threads = tcase_create("threads");
    int kernels = 0;
    while (attn_kernel_at((size_t)kernels) != NULL)
        kernels++;
    tcase_set_timeout(reductions, 60);
    tcase_set_timeout(threads, 60);
    tcase_add_loop_test(reductions, bins_hold_what_the_map_holds, 0, kernels);
    tcase_add_loop_test(threads, threads_give_the_same_bits, 0, kernels);
    tcase_add_loop_test(reductions, who_waits_sees_that_the_call_is_off, 0, kernels);
    tcase_add_test(reductions, tensors_have_the_names_of_the_wire);
    tcase_add_test(reductions, memory_does_not_grow_with_the_map);
    suite_add_tcase(suite, reductions);
    suite_add_tcase(suite, threads);
    return suite;
}

ATTN_TEST_MAIN(suite)
