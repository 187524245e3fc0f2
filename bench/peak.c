/* SPDX-License-Identifier: Apache-2.0 */
/* See peak.h. A chain per register that the instruction set can spare hides the latency of all. */
#include "bench/peak.h"

#include <stdbool.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

struct peak {
    const char *name;
    double flops; /* of a step */
    void (*run)(size_t steps, float *sink);
    void (*read)(const void *from, size_t bytes, float *sink);
};

enum { READ_CHAINS = 8 };

/* All chains must be in the sum: one that is not would be removed. */
#define PEAK(identifier, target, reg, chains, unroll, set, fma, store)                  \
    target static void run_##identifier(size_t steps, float *sink) {                    \
        const reg factor = set(0.999f), term = set(0.001f);                             \
        reg sums[chains], total = set(0.0f);                                            \
        _Pragma(unroll) for (int c = 0; c < (chains); c++) sums[c] = set((float)c);     \
        for (size_t step = 0; step < steps; step++)                                     \
            _Pragma(unroll) for (int c = 0; c < (chains); c++) sums[c] = fma;           \
        _Pragma(unroll) for (int c = 0; c < (chains); c++) total += sums[c];            \
        store(sink, total);                                                             \
    }                                                                                   \
    target static void read_##identifier(const void *from, size_t bytes, float *sink) { \
        const reg *at = from;                                                           \
        reg sums[READ_CHAINS], total = set(0.0f);                                       \
        _Pragma("GCC unroll 8") for (int c = 0; c < READ_CHAINS; c++) sums[c] = total;  \
        for (size_t n = 0; n < bytes / sizeof(reg); n += READ_CHAINS)                   \
            _Pragma("GCC unroll 8") for (int c = 0; c < READ_CHAINS; c++) sums[c] +=    \
                at[n + (size_t)c];                                                      \
        _Pragma("GCC unroll 8") for (int c = 0; c < READ_CHAINS; c++) total += sums[c]; \
        store(sink, total);                                                             \
    }

#if defined(__x86_64__)
PEAK(avx512, __attribute__((target("avx512f"))), __m512, 16, "GCC unroll 16", _mm512_set1_ps,
     _mm512_fmadd_ps(sums[c], factor, term), _mm512_storeu_ps)
PEAK(avx2, __attribute__((target("avx2,fma"))), __m256, 12, "GCC unroll 12", _mm256_set1_ps,
     _mm256_fmadd_ps(sums[c], factor, term), _mm256_storeu_ps)
#elif defined(__aarch64__)
PEAK(neon, , float32x4_t, 24, "GCC unroll 24", vdupq_n_f32, vfmaq_f32(term, sums[c], factor),
     vst1q_f32)
#endif

static void run_plain(size_t steps, float *sink) {
    float sums[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    for (size_t step = 0; step < steps; step++)
        for (int c = 0; c < 8; c++)
            sums[c] = sums[c] * 0.999f + 0.001f;
    for (int c = 0; c < 8; c++)
        *sink += sums[c];
}

static void read_plain(const void *from, size_t bytes, float *sink) {
    const float *at = from;
    float sums[READ_CHAINS] = {0};
    for (size_t n = 0; n < bytes / sizeof *at; n += READ_CHAINS)
        for (size_t c = 0; c < READ_CHAINS; c++)
            sums[c] += at[n + c];
    for (int c = 0; c < READ_CHAINS; c++)
        *sink += sums[c];
}

static struct peak best(bool narrow) {
#if defined(__x86_64__)
    if (!narrow && __builtin_cpu_supports("avx512f"))
        return (struct peak){"AVX-512", 2.0 * 16 * 16, run_avx512, read_avx512};
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return (struct peak){"AVX2", 2.0 * 8 * 12, run_avx2, read_avx2};
#elif defined(__aarch64__)
    return (struct peak){"NEON", 2.0 * 4 * 24, run_neon, read_neon};
#endif
    (void)narrow;
    return (struct peak){"the compiler's own width", 2.0 * 8, run_plain, read_plain};
}

double peak_run(const char *kernel, size_t steps, float *sink) {
    float vector[16] = {0};
    const struct peak peak = best(kernel != NULL && strstr(kernel, "-avx2") != NULL);
    peak.run(steps, vector);
    *sink += vector[0];
    return peak.flops * (double)steps;
}

void peak_read(const void *from, size_t bytes, float *sink) {
    float vector[16] = {0};
    best(false).read(from, bytes, vector);
    *sink += vector[0];
}

const char *peak_name(void) {
    return best(false).name;
}
