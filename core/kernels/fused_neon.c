/* SPDX-License-Identifier: Apache-2.0 */
/* The fused kernel's products for NEON: 24 sums, 4 vectors of a panel, one factor. */
#define FUSED_NAME neon
#define FUSED_BYTES 16
#define FUSED_STRIPS STRIP(6, 1) STRIP(4, 1) STRIP(2, 1) STRIP(1, 2)
#include "core/kernels/fused_set.h"
