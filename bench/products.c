/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decode kernel's two products alone, on one thread: strips of each height by a block of 256
 * rows of keys and values that lie in the second-level cache, as a share of that thread's
 * multiply-adds. The fastest of many is taken, so that a busy machine tells the same as one at
 * rest.
 *
 *   make bench BENCH=products: the decode kernel's products, a few seconds
 *   build/release/bench/products [kernel]
 */
#include "bench/peak.h"
#include "bench/yardstick.h"
#include "core/attention.h"
#include "core/kernels/fused_set_contract.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEYS = ATTN_FUSED_KEYS, TIMES = 2000, MOST = 128, ROWS = ATTN_FUSED_ROWS_MOST };

static double fastest_peak(const char *kernel) {
    double best = 0;
    float sink = 0;
    for (size_t n = 0; n < TIMES; n++) {
        const double begin = yardstick_now();
        const double flops = peak_run(kernel, 2000, &sink);
        const double rate = flops / (yardstick_now() - begin);
        best = rate > best ? rate : best;
    }
    return best;
}

/* Keys and values as float16 and as float32 are small numbers, both ways. */
static void fill(void *to, size_t bytes) {
    for (size_t n = 0; n < bytes; n++)
        ((char *)to)[n] = (char)(0x20 + n % 13);
}

static void measure(const struct attn_fused_set *set, size_t D, enum attn_dtype dtype,
                    double peak) {
    static _Alignas(64) char k[KEYS * MOST * 4], v[KEYS * MOST * 4];
    static _Alignas(64) float q[ROWS * MOST], s[ROWS * ATTN_FUSED_STRIDE], o[ROWS * MOST];
    const float shrink[ROWS] = {0};
    const ptrdiff_t stride = (ptrdiff_t)(D * attn_dtype_size(dtype));
    const struct attn_direct_rows keys = {.data = k, .stride = stride};
    const struct attn_direct_rows values = {.data = v, .stride = stride};
    double score = 1, gather = 1;
    fill(k, sizeof k);
    fill(v, sizeof v);
    for (size_t n = 0; n < TIMES; n++) {
        const double begin = yardstick_now();
        set->direct[dtype].score(q, D, &keys, KEYS, s);
        const double middle = yardstick_now();
        set->direct[dtype].gather(s, shrink, &values, KEYS, o, D, D);
        const double end = yardstick_now();
        score = middle - begin < score ? middle - begin : score;
        gather = end - middle < gather ? end - middle : gather;
    }
    const double flops = 2.0 * KEYS * (double)(D * set->rows);
    printf("D=%-3zu %zu rows %s  scores %.2f of the FMA peak, output %.2f, both %.2f; %.0f GB/s\n",
           D, set->rows, attn_dtype_name(dtype), flops / score / peak, flops / gather / peak,
           2 * flops / (score + gather) / peak,
           2e-9 * KEYS * (double)(D * attn_dtype_size(dtype)) / (score + gather));
}

int main(int argc, char **argv) {
    const struct attn_kernel *kernel = attn_kernel_find(argc > 1 ? argv[1] : "decode");
    const enum attn_dtype dtypes[] = {ATTN_FLOAT32, ATTN_FLOAT16, ATTN_BFLOAT16};
    if (kernel == NULL || kernel->prefers == NULL)
        return 1;
    const double peak = fastest_peak(kernel->name);
    printf("%s, one thread of %.0f GFLOP/s\n", kernel->name, 1e-9 * peak);
    for (size_t d = 0; d < 3; d++)
        for (size_t D = MOST / 2; D <= MOST; D *= 2)
            for (const struct attn_fused_set *set = kernel->set; set->rows > 0; set++)
                measure(set, D, dtypes[d], peak);
    return 0;
}
