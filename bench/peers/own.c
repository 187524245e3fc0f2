/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our side of bench/peers.py: one call without HTTP on two threads, run as often as each line says
 * that comes in, its seconds going out. Float32, B = 1, uniform numbers.
 *
 *   own Hq Hkv Tq Tk D causal [kernel]      causal: 0 or 1, the last query at the last key
 */
#include "bench/bare_call.h"
#include "bench/yardstick.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    size_t sizes[6];
    char line[16];
    struct bare_call bare;
    struct attn_mask_node node = {.kind = ATTN_MASK_CAUSAL, .align = ATTN_ALIGN_BOTTOM_RIGHT};
    if (argc < 7) {
        fprintf(stderr, "own: expected Hq Hkv Tq Tk D causal [kernel]\n");
        return 1;
    }
    for (int n = 0; n < 6; n++)
        sizes[n] = strtoul(argv[n + 1], NULL, 10);
    const size_t query[] = {1, sizes[0], sizes[2], sizes[4]};
    const size_t keys[] = {1, sizes[1], sizes[3], sizes[4]};
    float *q = bare_random(sizes[0] * sizes[2] * sizes[4]);
    float *k = bare_random(sizes[1] * sizes[3] * sizes[4]);
    float *v = bare_random(sizes[1] * sizes[3] * sizes[4]);
    attn_start();
    attn_request_init(&bare.request);
    bare.request.q = attn_tensor_view(q, ATTN_FLOAT32, 4, query);
    bare.request.k = attn_tensor_view(k, ATTN_FLOAT32, 4, keys);
    bare.request.v = attn_tensor_view(v, ATTN_FLOAT32, 4, keys);
    bare.request.mask = (struct attn_mask){&node, sizes[5] != 0};
    bare.request.kernel = argc > 7 ? argv[7] : NULL;
    bare_call_open(&bare, YARDSTICK_THREADS);
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("%s\n", bare.plan.kernel->name);
    while (fgets(line, sizeof line, stdin) != NULL)
        for (size_t calls = strtoul(line, NULL, 10); calls > 0; calls--) {
            const double begin = yardstick_now();
            bare_call_run(&bare);
            printf("%.9f\n", yardstick_now() - begin);
        }
    bare_call_close(&bare);
    free(q);
    free(k);
    free(v);
    return 0;
}
