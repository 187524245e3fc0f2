/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The yardstick of every benchmark: two threads at once, each running a serial OpenBLAS sgemm of
 * 2048 x 2048 x 2048. A contestant is timed in the same rounds, in turn with it, and only the
 * ratio counts, for these machines swing by a factor of two. A loop of multiply-adds in registers
 * (bench/peak.h) is timed in every round as well: rounds in which it runs more than 10 % below the
 * run's best are discarded, and counted.
 */
#ifndef BENCH_YARDSTICK_H
#define BENCH_YARDSTICK_H

#include <stddef.h>

enum { YARDSTICK_THREADS = 2, YARDSTICK_ROUNDS_MAX = 101 };

struct yardstick;

/* NULL when there is no memory. Sets OpenBLAS to one thread per caller. */
struct yardstick *yardstick_create(void);
void yardstick_free(struct yardstick *yardstick);

struct yardstick_result {
    double ratio;     /* median over the kept rounds of contestant FLOP/s over the yardstick's */
    double gflops;    /* median of the contestant, GFLOP/s */
    double yardstick; /* median of the yardstick, GFLOP/s */
    double of_peak;   /* median of contestant FLOP/s over the FMA loop's */
    double yardstick_of_peak;
    double fma; /* best of the FMA loop, GFLOP/s, all threads */
    size_t rounds, discarded;
};

/*
 * Runs `contestant(argument)`, which does `flops` floating-point operations on YARDSTICK_THREADS
 * threads of its own, in `rounds` rounds (<= YARDSTICK_ROUNDS_MAX) after one to warm up. The FMA
 * loop has the vectors of `kernel` (bench/peak.h).
 */
struct yardstick_result yardstick_measure(struct yardstick *yardstick, size_t rounds, double flops,
                                          const char *kernel, void (*contestant)(void *argument),
                                          void *argument);

/* Of the rounds in which the FMA loop, fma[round], was within 10 % of its best. */
struct yardstick_kept {
    double median, least, most; /* of the values */
    size_t rounds, discarded;
};

struct yardstick_kept yardstick_keep(const double *values, const double *fma, size_t rounds);

/* "AMD EPYC, OpenBLAS Zen": the machine line of every report; static storage of the caller. */
const char *yardstick_machine(char *text, size_t size);

/* GFLOP/s of the FMA loop on all threads, or on `threads` with the vectors of `kernel`: a few
 * milliseconds. */
double yardstick_peak(void);
double yardstick_peak_of(size_t threads, const char *kernel);

double yardstick_now(void);
double yardstick_median(double *values, size_t count);

/* Seconds that `run(argument)` takes: the mean of as many, one at least, as fill 50 ms. A single
 * call of a few milliseconds after a long wait would be told by how soon a sleeping thread wakes.
 */
double yardstick_time(void (*run)(void *argument), void *argument);

#endif
