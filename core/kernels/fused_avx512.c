/* SPDX-License-Identifier: Apache-2.0 */
/* The fused kernel's products for AVX-512: 24 sums, 2 vectors of panels, one factor. */
#define FUSED_NAME avx512
#define FUSED_BYTES 64
#define FUSED_STRIPS STRIP(12, 2) STRIP(8, 2) STRIP(4, 4) STRIP(2, 4) STRIP(1, 8)
#include "core/kernels/fused_set.h"
