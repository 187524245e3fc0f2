/* SPDX-License-Identifier: Apache-2.0 */
/* Row operations for AVX2 with FMA. */
#define ROWOPS_NAME avx2
#define ROWOPS_BYTES 32
#define ROWOPS_TEST (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
#include "core/kernels/rowops_set.h"
