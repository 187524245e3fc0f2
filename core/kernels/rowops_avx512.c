/* SPDX-License-Identifier: Apache-2.0 */
/* Row operations for AVX-512 (F, BW, DQ, VL). */
#define ROWOPS_NAME avx512
#define ROWOPS_BYTES 64
#define ROWOPS_TEST                                                             \
    (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && \
     __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
#include "core/kernels/rowops_set.h"
