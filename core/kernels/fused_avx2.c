/* SPDX-License-Identifier: Apache-2.0 */
/* The fused kernel's products for AVX2 with FMA: 12 sums, 2 vectors of a panel, one factor. */
#define FUSED_NAME avx2
#define FUSED_BYTES 32
#define FUSED_STRIPS STRIP(6, 1) STRIP(4, 1) STRIP(2, 2) STRIP(1, 4)
#include "core/kernels/fused_set.h"
