/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels against the yardstick (bench/yardstick.h), in useful FLOPs: 4 H D per visible score.
 *
 *   make bench BENCH=kernels: the portable kernel against sgemm, half a minute
 *   build/release/bench/kernels [kernel [n [D [rounds]]]]    0 stands for all
 */
#include "bench/figure.h"
#include "bench/square.h"
#include "bench/yardstick.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 8, ROUNDS = 5 };

static void measure(struct yardstick *yardstick, struct square_shape shape, size_t rounds) {
    struct square square;
    square_open(&square, shape, YARDSTICK_THREADS);
    const struct yardstick_result result =
        yardstick_measure(yardstick, rounds, square.flops, shape.kernel, square_run, &square);
    char what[64], beside[64];
    snprintf(what, sizeof what, "%s, n=%zu, D=%zu, by %s", shape.causal ? "causal" : "full",
             shape.n, shape.D, shape.kernel);
    snprintf(beside, sizeof beside, "%.1f GFLOP/s of %.1f", result.gflops, result.yardstick);
    const bool aimed = strcmp(shape.kernel, "blas") == 0 && !shape.causal && shape.n >= 1024;
    figure_print(&(struct figure){.what = what,
                                  .value = result.ratio,
                                  .unit = "of sgemm",
                                  .at_least = !aimed          ? 0
                                              : shape.D == 64 ? 0.75
                                                              : 0.85,
                                  .rounds = result.rounds,
                                  .discarded = result.discarded,
                                  .beside = beside});
    square_close(&square);
}

static size_t number(int argc, char **argv, int index, size_t otherwise) {
    const size_t given = argc > index ? strtoul(argv[index], NULL, 10) : 0;
    return given == 0 ? otherwise : given;
}

int main(int argc, char **argv) {
    static const size_t LENGTHS[] = {512, 1024, 2048, 4096};
    const char *kernel = argc > 1 && strcmp(argv[1], "0") != 0 ? argv[1] : "blas";
    const size_t n = number(argc, argv, 2, 0);
    const size_t D = number(argc, argv, 3, 0);
    const size_t rounds = number(argc, argv, 4, ROUNDS);
    char machine[256];
    setvbuf(stdout, NULL, _IOLBF, 0);
    attn_start();
    struct yardstick *yardstick = yardstick_create();
    if (yardstick == NULL || rounds > YARDSTICK_ROUNDS_MAX)
        return 1;
    printf("%s; H=%d, float32\n", yardstick_machine(machine, sizeof machine), HEADS);
    for (size_t at = 0; at < sizeof LENGTHS / sizeof *LENGTHS; at++)
        for (size_t width = 64; width <= 128; width *= 2)
            for (int causal = 0; causal <= 1; causal++)
                if ((n == 0 || n == LENGTHS[at]) && (D == 0 || D == width))
                    measure(yardstick,
                            (struct square_shape){.heads = HEADS,
                                                  .n = LENGTHS[at],
                                                  .D = width,
                                                  .causal = causal,
                                                  .kernel = kernel},
                            rounds);
    yardstick_free(yardstick);
    return 0;
}
