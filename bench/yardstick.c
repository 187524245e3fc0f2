/* SPDX-License-Identifier: Apache-2.0 */
/* See yardstick.h. */
#include "bench/yardstick.h"
#include "bench/peak.h"

#include <cblas.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SIDE = 2048, PEAK_STEPS = 1000000 };

#define SAMPLE_SECONDS 0.05

struct yardstick {
    float *a, *b, *c[YARDSTICK_THREADS];
};

double yardstick_now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

static int compare(const void *left, const void *right) {
    const double a = *(const double *)left;
    const double b = *(const double *)right;
    return (a > b) - (a < b);
}

double yardstick_median(double *values, size_t count) {
    if (count == 0)
        return 0;
    qsort(values, count, sizeof *values, compare);
    return values[count / 2];
}

static float *matrix(void) {
    float *values = aligned_alloc(64, (size_t)SIDE * SIDE * sizeof(float));
    for (size_t n = 0; values != NULL && n < (size_t)SIDE * SIDE; n++)
        values[n] = (float)(n % 17) / 17.0f - 0.5f;
    return values;
}

struct yardstick *yardstick_create(void) {
    struct yardstick *yardstick = calloc(1, sizeof *yardstick);
    openblas_set_num_threads(1);
    if (yardstick == NULL)
        return NULL;
    yardstick->a = matrix();
    yardstick->b = matrix();
    bool whole = yardstick->a != NULL && yardstick->b != NULL;
    for (size_t t = 0; t < YARDSTICK_THREADS; t++)
        whole &= (yardstick->c[t] = matrix()) != NULL;
    if (!whole) {
        yardstick_free(yardstick);
        return NULL;
    }
    return yardstick;
}

void yardstick_free(struct yardstick *yardstick) {
    free(yardstick->a);
    free(yardstick->b);
    for (size_t t = 0; t < YARDSTICK_THREADS; t++)
        free(yardstick->c[t]);
    free(yardstick);
}

struct lane {
    struct yardstick *yardstick;
    const char *kernel;
    size_t thread;
    double flops;
    float sink;
};

static void *multiply(void *argument) {
    struct lane *lane = argument;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, SIDE, SIDE, SIDE, 1, lane->yardstick->a,
                SIDE, lane->yardstick->b, SIDE, 0, lane->yardstick->c[lane->thread], SIDE);
    lane->flops = 2.0 * SIDE * SIDE * SIDE;
    return NULL;
}

static void *multiply_add(void *argument) {
    struct lane *lane = argument;
    lane->flops = peak_run(lane->kernel, PEAK_STEPS, &lane->sink);
    return NULL;
}

/* GFLOP/s of `count` threads together at `work`. */
static double on_threads(size_t count, struct lane lane, void *(*work)(void *)) {
    struct lane lanes[YARDSTICK_THREADS];
    pthread_t threads[YARDSTICK_THREADS];
    const double begin = yardstick_now();
    for (size_t t = 0; t < count; t++) {
        lanes[t] = lane;
        lanes[t].thread = t;
        if (pthread_create(&threads[t], NULL, work, &lanes[t]) != 0)
            abort();
    }
    double flops = 0;
    for (size_t t = 0; t < count; t++) {
        pthread_join(threads[t], NULL);
        flops += lanes[t].flops;
    }
    return flops / 1e9 / (yardstick_now() - begin);
}

double yardstick_peak_of(size_t threads, const char *kernel) {
    return on_threads(threads, (struct lane){.kernel = kernel}, multiply_add);
}

double yardstick_peak(void) {
    return yardstick_peak_of(YARDSTICK_THREADS, NULL);
}

double yardstick_time(void (*run)(void *argument), void *argument) {
    const double begin = yardstick_now();
    size_t runs = 0;
    double seconds = 0;
    while (seconds < SAMPLE_SECONDS) {
        run(argument);
        runs++;
        seconds = yardstick_now() - begin;
    }
    return seconds / (double)runs;
}

struct yardstick_kept yardstick_keep(const double *values, const double *fma, size_t rounds) {
    double kept[YARDSTICK_ROUNDS_MAX], best = 0;
    struct yardstick_kept result = {0};
    for (size_t round = 0; round < rounds; round++)
        best = fma[round] > best ? fma[round] : best;
    for (size_t round = 0; round < rounds; round++)
        if (fma[round] >= 0.9 * best)
            kept[result.rounds++] = values[round];
    result.discarded = rounds - result.rounds;
    result.median = yardstick_median(kept, result.rounds);
    result.least = result.rounds == 0 ? 0 : kept[0];
    result.most = result.rounds == 0 ? 0 : kept[result.rounds - 1];
    return result;
}

struct yardstick_result yardstick_measure(struct yardstick *yardstick, size_t rounds, double flops,
                                          const char *kernel, void (*contestant)(void *argument),
                                          void *argument) {
    enum { OWN, GEMM, RATIO, OF_PEAK, GEMM_OF_PEAK, COLUMNS };
    double columns[COLUMNS][YARDSTICK_ROUNDS_MAX], fma[YARDSTICK_ROUNDS_MAX], medians[COLUMNS];
    struct yardstick_result result = {0};
    contestant(argument);
    for (size_t round = 0; round < rounds; round++) {
        fma[round] = yardstick_peak_of(YARDSTICK_THREADS, kernel);
        const double gemm =
            on_threads(YARDSTICK_THREADS, (struct lane){.yardstick = yardstick}, multiply);
        const double own = flops / 1e9 / yardstick_time(contestant, argument);
        columns[OWN][round] = own;
        columns[GEMM][round] = gemm;
        columns[RATIO][round] = own / gemm;
        columns[OF_PEAK][round] = own / fma[round];
        columns[GEMM_OF_PEAK][round] = gemm / fma[round];
        result.fma = fma[round] > result.fma ? fma[round] : result.fma;
    }
    for (size_t n = 0; n < COLUMNS; n++) {
        const struct yardstick_kept kept = yardstick_keep(columns[n], fma, rounds);
        medians[n] = kept.median;
        result.rounds = kept.rounds;
        result.discarded = kept.discarded;
    }
    result.gflops = medians[OWN];
    result.yardstick = medians[GEMM];
    result.ratio = medians[RATIO];
    result.of_peak = medians[OF_PEAK];
    result.yardstick_of_peak = medians[GEMM_OF_PEAK];
    return result;
}

const char *yardstick_machine(char *text, size_t size) {
    char line[256] = "";
    char model[128] = "unknown CPU";
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "model name : %127[^\n]", model) == 1)
            break;
    if (file != NULL)
        fclose(file);
    snprintf(text, size, "%s, OpenBLAS for %s, %d threads", model, openblas_get_corename(),
             YARDSTICK_THREADS);
    return text;
}
