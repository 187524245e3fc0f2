/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a map costs beside the output: the time of a call that returns both, over that of one that
 * returns the output alone, in turn, in CPU time of the whole process, for others use the machine
 * too, and the memory that it reserves. Then the call of eight heads itself, by the clock, once,
 * with the memory that it adds to its operands, answer and all.
 *
 *   make bench BENCH=maps: maps at 32,768 tokens beside the output, about a minute
 *   build/release/bench/maps [n [heads [rounds [kernel]]]]
 */
#include "bench/bare_call.h"
#include "bench/figure.h"
#include "bench/resident.h"
#include "bench/yardstick.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WIDTH = 64, SIDE = 512, LIST = 16, ROUNDS = 3, HEADS = 8 };

#define MIB 1048576.0
#define GOAL 1.9
#define MEMORY_GOAL 256

/* What the call returns, besides its output. */
struct wish {
    const char *name;
    unsigned returns;
    enum attn_pool pool;
    bool pooled;
    int64_t top_k;
};

static const struct wish WISHES[] = {
    {"max-pooled to 512 x 512", ATTN_RETURN_WEIGHTS, ATTN_POOL_MAX, true, 0},
    {"mass-pooled to 512 x 512", ATTN_RETURN_WEIGHTS, ATTN_POOL_MASS, true, 0},
    {"the 16 largest of each row", ATTN_RETURN_WEIGHTS, ATTN_POOL_MAX, false, LIST},
    {"statistics", ATTN_RETURN_STATS, ATTN_POOL_MAX, false, 0},
    {"what each key receives", ATTN_RETURN_COL_SUMS, ATTN_POOL_MAX, false, 0},
};

static double cpu_now(void) {
    struct timespec at;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

static void make_request(struct bare_call *bare, float *const operands[3], size_t n, size_t heads,
                         const char *kernel, struct attn_mask_node *causal) {
    const size_t shape[] = {1, heads, n, WIDTH};
    attn_request_init(&bare->request);
    bare->request.q = attn_tensor_view(operands[0], ATTN_FLOAT32, 4, shape);
    bare->request.k = attn_tensor_view(operands[1], ATTN_FLOAT32, 4, shape);
    bare->request.v = attn_tensor_view(operands[2], ATTN_FLOAT32, 4, shape);
    bare->request.kernel = kernel;
    bare->request.mask = (struct attn_mask){causal, causal != NULL};
}

static void add_wish(struct attn_request *request, const struct wish *wish) {
    request->returns = ATTN_RETURN_OUTPUT | wish->returns;
    request->map.pool_given = wish->pooled;
    request->map.pool_rows = request->map.pool_cols = SIDE;
    request->map.pool = wish->pool;
    request->map.top_k_given = wish->top_k > 0;
    request->map.top_k = wish->top_k;
}

static double run(struct bare_call *bare) {
    const double begin = cpu_now();
    bare_call_run(bare);
    return cpu_now() - begin;
}

static void measure(float *const operands[3], size_t n, size_t heads, size_t rounds,
                    const char *kernel, bool causal) {
    enum { COUNT = sizeof WISHES / sizeof *WISHES };
    static struct bare_call alone, both[COUNT];
    static double ratios[COUNT][YARDSTICK_ROUNDS_MAX];
    struct attn_mask_node node = {.kind = ATTN_MASK_CAUSAL};
    make_request(&alone, operands, n, heads, kernel, causal ? &node : NULL);
    bare_call_open(&alone, YARDSTICK_THREADS);
    for (size_t w = 0; w < COUNT; w++) {
        make_request(&both[w], operands, n, heads, kernel, causal ? &node : NULL);
        add_wish(&both[w].request, &WISHES[w]);
        bare_call_open(&both[w], YARDSTICK_THREADS);
    }
    for (size_t round = 0; round < rounds; round++) {
        const double output = run(&alone);
        for (size_t w = 0; w < COUNT; w++)
            ratios[w][round] = run(&both[w]) / output;
    }
    for (size_t w = 0; w < COUNT; w++) {
        const struct attn_plan *plan = &both[w].plan;
        const size_t shared = attn_heads_bytes(plan, YARDSTICK_THREADS);
        const double ratio = yardstick_median(ratios[w], rounds); /* sorts */
        char what[96], beside[128];
        snprintf(what, sizeof what, "%s, %s, n=%zu, H=%zu, by %s", WISHES[w].name,
                 causal ? "causal" : "full", n, heads, plan->kernel->name);
        snprintf(beside, sizeof beside,
                 "%.2f to %.2f, %.1f MiB reserved beside operands and answer", ratios[w][0],
                 ratios[w][rounds - 1],
                 (double)(shared + YARDSTICK_THREADS * plan->workspace_bytes) / MIB);
        figure_print(&(struct figure){.what = what,
                                      .value = ratio,
                                      .unit = "times the output alone",
                                      .at_most = WISHES[w].pooled ? GOAL : 0,
                                      .rounds = rounds,
                                      .beside = beside});
        bare_call_close(&both[w]);
    }
    bare_call_close(&alone);
}

/* Elapsed time of one pass each, all heads, and what lies in RAM beside the operands meanwhile. */
static void measure_whole(float *const operands[3], size_t n, const char *kernel) {
    static struct bare_call alone, both;
    char what[96], beside[96];
    make_request(&alone, operands, n, HEADS, kernel, NULL);
    bare_call_open(&alone, YARDSTICK_THREADS);
    const double output = yardstick_time(bare_call_run, &alone);
    bare_call_close(&alone);
    const double before = resident_begin();
    make_request(&both, operands, n, HEADS, kernel, NULL);
    add_wish(&both.request, &WISHES[0]);
    bare_call_open(&both, YARDSTICK_THREADS);
    const double mapped = yardstick_time(bare_call_run, &both);
    const double memory = resident_most() - before;
    bare_call_close(&both);
    snprintf(what, sizeof what, "%s, full, n=%zu, H=%d, elapsed", WISHES[0].name, n, HEADS);
    snprintf(beside, sizeof beside, "%.1f s of %.1f, once", mapped, output);
    figure_print(&(struct figure){.what = what,
                                  .value = mapped / output,
                                  .unit = "times the output alone",
                                  .at_most = GOAL,
                                  .beside = beside});
    snprintf(what, sizeof what, "%s, full, n=%zu, H=%d, memory", WISHES[0].name, n, HEADS);
    snprintf(beside, sizeof beside, "the answer is %.0f of it",
             (double)both.plan.result_bytes / MIB);
    figure_print(&(struct figure){.what = what,
                                  .value = memory,
                                  .unit = "MiB beside the operands",
                                  .at_most = MEMORY_GOAL,
                                  .beside = beside});
}

static size_t number(int argc, char **argv, int index, size_t otherwise) {
    const size_t given = argc > index ? strtoul(argv[index], NULL, 10) : 0;
    return given == 0 ? otherwise : given;
}

int main(int argc, char **argv) {
    const size_t n = number(argc, argv, 1, 32768);
    const size_t heads = number(argc, argv, 2, 1);
    const size_t rounds = number(argc, argv, 3, ROUNDS);
    const char *kernel = argc > 4 ? argv[4] : NULL;
    float *operands[3];
    char machine[256];
    setvbuf(stdout, NULL, _IOLBF, 0);
    attn_start();
    if (rounds > YARDSTICK_ROUNDS_MAX)
        return 1;
    for (size_t t = 0; t < 3; t++)
        operands[t] = bare_random((heads > HEADS ? heads : HEADS) * n * WIDTH);
    printf("%s; D=%d, float32, two threads, CPU time where not elapsed\n",
           yardstick_machine(machine, sizeof machine), WIDTH);
    measure_whole(operands, n, kernel);
    measure(operands, n, heads, rounds, kernel, true);
    measure(operands, n, heads, rounds, kernel, false);
    for (size_t t = 0; t < 3; t++)
        free(operands[t]);
    return 0;
}
