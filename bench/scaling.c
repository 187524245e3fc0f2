/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the second worker brings: the time of a call on one worker over its time on two, over what
 * the second thread brings to a loop of multiply-adds in registers (bench/peak.h), all four in turn
 * in each round.
 *
 *   make bench BENCH=scaling: two workers against one, half a minute
 *   build/release/bench/scaling [rounds [kernel]]
 */
#include "bench/figure.h"
#include "bench/square.h"
#include "bench/yardstick.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 9, HEADS = 8, PEAKS = 5, CALLS = 3, LONG = 4096 };

#define GOAL 0.97

/* The best of a few: a thread that waits for a processor is no limit of the processor. */
static double best_peak(size_t threads, const char *kernel) {
    double best = 0;
    for (int turn = 0; turn < PEAKS; turn++)
        best = fmax(best, yardstick_peak_of(threads, kernel));
    return best;
}

/* The median of a few calls; one, where it is long. */
static double seconds_of(struct square *square, size_t n) {
    double seconds[CALLS];
    const size_t calls = n < LONG ? CALLS : 1;
    for (size_t call = 0; call < calls; call++)
        seconds[call] = yardstick_time(square_run, square);
    return yardstick_median(seconds, calls);
}

static void measure(struct square_shape shape, size_t rounds) {
    double shares[YARDSTICK_ROUNDS_MAX], gains[YARDSTICK_ROUNDS_MAX], fma[YARDSTICK_ROUNDS_MAX];
    struct square one, two;
    char what[64], beside[64];
    square_open(&one, shape, 1);
    square_open(&two, shape, YARDSTICK_THREADS);
    const char *kernel = two.bare.plan.kernel->name;
    square_run(&one);
    square_run(&two);
    for (size_t round = 0; round < rounds; round++) {
        const double alone = best_peak(1, kernel);
        fma[round] = best_peak(YARDSTICK_THREADS, kernel);
        const double slow = seconds_of(&one, shape.n);
        gains[round] = slow / seconds_of(&two, shape.n);
        shares[round] = gains[round] / (fma[round] / alone);
    }
    const struct yardstick_kept kept = yardstick_keep(shares, fma, rounds);
    snprintf(what, sizeof what, "%s, n=%zu, D=%zu, by %s", shape.causal ? "causal" : "full",
             shape.n, shape.D, kernel);
    snprintf(beside, sizeof beside, "%.3f to %.3f; %.2f times as fast as one", kept.least,
             kept.most, yardstick_keep(gains, fma, rounds).median);
    figure_print(&(struct figure){.what = what,
                                  .value = kept.median,
                                  .unit = "of the loop's gain",
                                  .at_least = GOAL,
                                  .rounds = kept.rounds,
                                  .discarded = kept.discarded,
                                  .beside = beside});
    square_close(&one);
    square_close(&two);
}

int main(int argc, char **argv) {
    static const size_t LENGTHS[] = {2048, 4096};
    const size_t asked = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    const size_t rounds = asked == 0 ? ROUNDS : asked;
    const char *kernel = argc > 2 ? argv[2] : NULL;
    char machine[256];
    setvbuf(stdout, NULL, _IOLBF, 0);
    attn_start();
    if (rounds > YARDSTICK_ROUNDS_MAX)
        return 1;
    printf("%s; %d heads, float32\n", yardstick_machine(machine, sizeof machine), HEADS);
    for (size_t at = 0; at < sizeof LENGTHS / sizeof *LENGTHS; at++)
        for (size_t width = 64; width <= 128; width *= 2)
            for (int causal = 0; causal <= 1; causal++)
                measure((struct square_shape){.heads = HEADS,
                                              .n = LENGTHS[at],
                                              .D = width,
                                              .causal = causal,
                                              .kernel = kernel},
                        rounds);
    return 0;
}
