/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an additive score costs beside the scaled dot product: the same call of eight heads with
 * either, in turns, on one thread in CPU time, and the ratios of their fastest
 * rounds, for a machine that others use too slows either, never speeds one up. The dot product by
 * the default kernel, which is what a call without a `score` gets, and by blas, which computes
 * both.
 *
 *   make bench BENCH=additive: additive scores against the dot product, a few seconds
 *   build/release/bench/additive [n [D [rounds]]]
 */
#include "bench/bare_call.h"
#include "bench/yardstick.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { HEADS = 8, ROUNDS = 15, CALLS = 3 };

static const struct {
    const char *title, *kernel;
    enum attn_score score;
} TRIALS[CALLS] = {
    {"additive", NULL, ATTN_SCORE_ADDITIVE},
    {"scaled_dot", NULL, ATTN_SCORE_SCALED_DOT},
    {"scaled_dot, blas", "blas", ATTN_SCORE_SCALED_DOT},
};

static double cpu_now(void) {
    struct timespec at;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

static void open_call(struct bare_call *bare, size_t trial, float *const operands[4], size_t n,
                      size_t D) {
    const size_t shape[] = {1, HEADS, n, D};
    attn_request_init(&bare->request);
    bare->request.q = attn_tensor_view(operands[0], ATTN_FLOAT32, 4, shape);
    bare->request.k = attn_tensor_view(operands[1], ATTN_FLOAT32, 4, shape);
    bare->request.v = attn_tensor_view(operands[2], ATTN_FLOAT32, 4, shape);
    bare->request.w = attn_tensor_view(operands[3], ATTN_FLOAT32, 1, &D);
    bare->request.score = TRIALS[trial].score;
    bare->request.kernel = TRIALS[trial].kernel;
    bare_call_open(bare, 1);
}

int main(int argc, char **argv) {
    const size_t n = argc > 1 ? strtoul(argv[1], NULL, 10) : 1024;
    const size_t D = argc > 2 ? strtoul(argv[2], NULL, 10) : 64;
    const size_t rounds = argc > 3 ? strtoul(argv[3], NULL, 10) : ROUNDS;
    static struct bare_call bare[CALLS];
    char machine[160];
    float *operands[4];
    double fastest[CALLS] = {0};
    if (n == 0 || D == 0 || rounds == 0) {
        fprintf(stderr, "bench/additive: n, D and rounds are numbers from 1 on\n");
        return 1;
    }
    for (size_t which = 0; which < 4; which++)
        operands[which] = bare_random(HEADS * n * D);
    for (size_t trial = 0; trial < CALLS; trial++)
        open_call(&bare[trial], trial, operands, n, D);
    for (size_t round = 0; round < rounds; round++)
        for (size_t trial = 0; trial < CALLS; trial++) {
            const double begin = cpu_now();
            bare_call_run(&bare[trial]);
            const double spent = cpu_now() - begin;
            if (round == 0 || spent < fastest[trial])
                fastest[trial] = spent;
        }
    printf("%s\n", yardstick_machine(machine, sizeof machine));
    for (size_t trial = 0; trial < CALLS; trial++) {
        printf("n %zu, D %zu, %d heads: %-16s by %-12s %7.1f ms, additive takes %.1f times that\n",
               n, D, HEADS, TRIALS[trial].title, bare[trial].plan.kernel->name,
               1e3 * fastest[trial], fastest[0] / fastest[trial]);
        bare_call_close(&bare[trial]);
    }
    for (size_t which = 0; which < 4; which++)
        free(operands[which]);
    return 0;
}
