/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention as it stands in a textbook, on OpenBLAS: per head a product, a softmax of its rows with
 * this project's vectorised exp, and a second product, two heads at a time on two threads with a
 * serial OpenBLAS each. The square of scores is stored; under a causal mask hidden weights are 0
 * and the products whole. Ours, by the default kernel and by fused-avx2, in the same rounds.
 *
 *   make bench BENCH=naive: two products and a softmax against ours, a quarter of a minute
 *   build/release/bench/naive [n [D [rounds]]]    0 stands for all
 */
#include "bench/figure.h"
#include "bench/square.h"
#include "bench/yardstick.h"
#include "core/kernels/rowops.h"

#include <cblas.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 5, HEADS = 8, OURS_MAX = 2 };

struct naive {
    const struct square *operands;
    struct square_shape shape;
    float *scores[YARDSTICK_THREADS], *sums[YARDSTICK_THREADS], *output;
};

struct lane {
    const struct naive *naive;
    size_t thread;
};

/* Makes scores weights, and returns their sum, by which the output is divided: that is less work.
 */
static float weigh(float *row, size_t visible, size_t n) {
    const struct attn_rowops *ops = attn_rowops_best();
    const float most = ops->f.max(row, visible, -INFINITY);
    memset(row + visible, 0, (n - visible) * sizeof *row);
    return ops->f.exp_sum(row, visible, most);
}

static void attend(const struct naive *naive, size_t head, float *scores, float *sums) {
    const size_t n = naive->shape.n, D = naive->shape.D;
    const int rows = (int)n, width = (int)D;
    const float *q = naive->operands->q + head * n * D;
    const float *k = naive->operands->k + head * n * D;
    const float *v = naive->operands->v + head * n * D;
    float *output = naive->output + head * n * D;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, rows, width, 1.0f / sqrtf((float)D),
                q, width, k, width, 0, scores, rows);
    for (size_t t = 0; t < n; t++)
        sums[t] = weigh(scores + t * n, naive->shape.causal ? t + 1 : n, n);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, width, rows, 1, scores, rows, v,
                width, 0, output, width);
    for (size_t t = 0; t < n; t++)
        attn_rowops_best()->f.scale(output + t * D, D, 1.0f / sums[t]);
}

static void *attend_heads(void *argument) {
    const struct lane *lane = argument;
    for (size_t head = lane->thread; head < lane->naive->shape.heads; head += YARDSTICK_THREADS)
        attend(lane->naive, head, lane->naive->scores[lane->thread],
               lane->naive->sums[lane->thread]);
    return NULL;
}

static void run_naive(void *argument) {
    struct lane lanes[YARDSTICK_THREADS];
    pthread_t threads[YARDSTICK_THREADS];
    for (size_t t = 0; t < YARDSTICK_THREADS; t++) {
        lanes[t] = (struct lane){argument, t};
        if (pthread_create(&threads[t], NULL, attend_heads, &lanes[t]) != 0)
            abort();
    }
    for (size_t t = 0; t < YARDSTICK_THREADS; t++)
        pthread_join(threads[t], NULL);
}

/* It must be attention, or its time says nothing. */
static void compare(const struct naive *naive, const struct square *ours) {
    const float *output = ours->bare.result.tensors[ATTN_RESULT_OUTPUT].data;
    const size_t count = naive->shape.heads * naive->shape.n * naive->shape.D;
    for (size_t n = 0; n < count; n++)
        if (!(fabsf(output[n] - naive->output[n]) < 1e-4f)) {
            fprintf(stderr, "bench/naive: the two outputs differ\n");
            exit(1);
        }
}

static void report(const struct square_shape *shape, const char *kernel, double theirs,
                   struct yardstick_kept kept) {
    char what[64], beside[64];
    snprintf(what, sizeof what, "%s, n=%zu, D=%zu, by %s", shape->causal ? "causal" : "full",
             shape->n, shape->D, kernel);
    snprintf(beside, sizeof beside, "%.2f to %.2f; theirs %.1f ms", kept.least, kept.most,
             1e3 * theirs);
    figure_print(&(struct figure){.what = what,
                                  .value = kept.median,
                                  .unit = "times as fast",
                                  .at_least = shape->D != 64  ? 0
                                              : shape->causal ? 2.5
                                                              : 1.5,
                                  .rounds = kept.rounds,
                                  .discarded = kept.discarded,
                                  .beside = beside});
}

static void measure(struct square_shape shape, size_t rounds) {
    static struct square ours[OURS_MAX];
    static double ratios[OURS_MAX][YARDSTICK_ROUNDS_MAX];
    double fma[YARDSTICK_ROUNDS_MAX], theirs[YARDSTICK_ROUNDS_MAX];
    struct naive naive = {.operands = &ours[0], .shape = shape};
    size_t count = 1;
    square_open(&ours[0], shape, YARDSTICK_THREADS);
    shape.kernel = "fused-avx2";
    if (strcmp(ours[0].bare.plan.kernel->name, "fused-avx512") == 0)
        square_open(&ours[count++], shape, YARDSTICK_THREADS);
    for (size_t t = 0; t < YARDSTICK_THREADS; t++) {
        naive.scores[t] = bare_random(shape.n * shape.n);
        naive.sums[t] = bare_random(shape.n);
    }
    naive.output = bare_random(shape.heads * shape.n * shape.D);
    run_naive(&naive);
    for (size_t at = 0; at < count; at++) {
        square_run(&ours[at]);
        compare(&naive, &ours[at]);
    }
    for (size_t round = 0; round < rounds; round++) {
        fma[round] = yardstick_peak();
        theirs[round] = yardstick_time(run_naive, &naive);
        for (size_t at = 0; at < count; at++)
            ratios[at][round] = theirs[round] / yardstick_time(square_run, &ours[at]);
    }
    const double median = yardstick_keep(theirs, fma, rounds).median;
    for (size_t at = 0; at < count; at++) {
        report(&shape, ours[at].bare.plan.kernel->name, median,
               yardstick_keep(ratios[at], fma, rounds));
        square_close(&ours[at]);
    }
    for (size_t t = 0; t < YARDSTICK_THREADS; t++) {
        free(naive.scores[t]);
        free(naive.sums[t]);
    }
    free(naive.output);
}

static size_t number(int argc, char **argv, int index, size_t otherwise) {
    const size_t given = argc > index ? strtoul(argv[index], NULL, 10) : 0;
    return given == 0 ? otherwise : given;
}

int main(int argc, char **argv) {
    static const size_t LENGTHS[] = {512, 1024, 2048, 4096};
    const size_t n = number(argc, argv, 1, 0);
    const size_t D = number(argc, argv, 2, 0);
    const size_t rounds = number(argc, argv, 3, ROUNDS);
    char machine[256];
    setvbuf(stdout, NULL, _IOLBF, 0);
    attn_start();
    openblas_set_num_threads(1);
    if (rounds > YARDSTICK_ROUNDS_MAX)
        return 1;
    printf("%s; %d heads, float32\n", yardstick_machine(machine, sizeof machine), HEADS);
    for (size_t width = 64; width <= 128; width *= 2)
        for (int causal = 0; causal <= 1; causal++)
            for (size_t at = 0; at < sizeof LENGTHS / sizeof *LENGTHS; at++)
                if ((n == 0 || n == LENGTHS[at]) && (D == 0 || D == width))
                    measure(
                        (struct square_shape){
                            .heads = HEADS, .n = LENGTHS[at], .D = width, .causal = causal},
                        rounds);
    return 0;
}
