/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels against the yardstick (bench/yardstick.h), in useful FLOPs: 4 H D per visible score.
 *
 *   make bench BENCH=kernels: kernels against OpenBLAS's sgemm, one to four minutes
 *   build/release/bench/kernels [kernel [n [D [rounds]]]]    0 stands for all
 */
#include "bench/bare_call.h"
#include "bench/yardstick.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 8, ROUNDS = 5 };

static void measure(struct yardstick *yardstick, const char *kernel, size_t n, size_t D,
                    bool causal, size_t rounds) {
    const size_t shape[] = {1, HEADS, n, D};
    const size_t count = HEADS * n * D;
    float *tensors[3];
    struct bare_call bare;
    struct attn_mask_node node = {.kind = ATTN_MASK_CAUSAL};
    attn_request_init(&bare.request);
    for (size_t t = 0; t < 3; t++)
        tensors[t] = bare_random(count);
    bare.request.q = attn_tensor_view(tensors[0], ATTN_FLOAT32, 4, shape);
    bare.request.k = attn_tensor_view(tensors[1], ATTN_FLOAT32, 4, shape);
    bare.request.v = attn_tensor_view(tensors[2], ATTN_FLOAT32, 4, shape);
    bare.request.kernel = kernel;
    bare.request.mask = (struct attn_mask){&node, causal ? 1 : 0};
    bare_call_open(&bare, YARDSTICK_THREADS);
    const double scores = causal ? (double)n * (double)(n + 1) / 2 : (double)n * (double)n;
    const struct yardstick_result result = yardstick_measure(
        yardstick, rounds, 4.0 * HEADS * (double)D * scores, bare_call_run, &bare);
    printf(
        "%-10s n=%-5zu D=%-4zu %-7s %7.1f GF of %7.1f: ratio %.3f  (%zu rounds, %zu discarded)\n",
        kernel, n, D, causal ? "causal" : "full", result.gflops, result.yardstick, result.ratio,
        result.rounds, result.discarded);
    bare_call_close(&bare);
    for (size_t t = 0; t < 3; t++)
        free(tensors[t]);
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
                    measure(yardstick, kernel, LENGTHS[at], width, causal, rounds);
    yardstick_free(yardstick);
    return 0;
}
