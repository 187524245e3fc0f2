/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of precision float64 against the yardstick (bench/yardstick.h), in useful FLOPs. The
 * yardstick is sgemm, in its own FLOPs: a processor does half as many in double.
 *
 *   make bench BENCH=float64: calls in double precision against sgemm, half a minute
 *   build/release/bench/float64 [n [rounds]]    0 stands for all
 */
#include "bench/figure.h"
#include "bench/square.h"
#include "bench/yardstick.h"

#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 5, LONG = 16384, LONG_ROUNDS = 3, HEADS = 8, LONG_HEADS = 2, D = 64 };

#define GOAL 0.4

static void measure(struct yardstick *yardstick, size_t n, size_t rounds) {
    const struct square_shape shape = {.heads = n < LONG ? HEADS : LONG_HEADS,
                                       .n = n,
                                       .D = D,
                                       .precision = ATTN_PRECISION_FLOAT64};
    char what[64], beside[64];
    struct square square;
    square_open(&square, shape, YARDSTICK_THREADS);
    const struct yardstick_result result =
        yardstick_measure(yardstick, rounds, square.flops, NULL, square_run, &square);
    snprintf(what, sizeof what, "full, n=%zu, D=%d, %zu heads, by %s", n, D, shape.heads,
             square.bare.plan.kernel->name);
    snprintf(beside, sizeof beside, "%.1f GFLOP/s of %.1f", result.gflops, result.yardstick);
    figure_print(&(struct figure){.what = what,
                                  .value = result.ratio,
                                  .unit = "of sgemm",
                                  .at_least = GOAL,
                                  .rounds = result.rounds,
                                  .discarded = result.discarded,
                                  .beside = beside});
    square_close(&square);
}

int main(int argc, char **argv) {
    static const size_t LENGTHS[] = {2048, 4096, LONG};
    const size_t only = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    const size_t asked = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    char machine[256];
    setvbuf(stdout, NULL, _IOLBF, 0);
    attn_start();
    struct yardstick *yardstick = yardstick_create();
    if (yardstick == NULL || asked > YARDSTICK_ROUNDS_MAX)
        return 1;
    printf("%s; float32 in and out, float64 between\n", yardstick_machine(machine, sizeof machine));
    for (size_t at = 0; at < sizeof LENGTHS / sizeof *LENGTHS; at++)
        if (only == 0 || only == LENGTHS[at])
            measure(yardstick, LENGTHS[at],
                    asked != 0           ? asked
                    : LENGTHS[at] < LONG ? ROUNDS
                                         : LONG_ROUNDS);
    yardstick_free(yardstick);
    return 0;
}
