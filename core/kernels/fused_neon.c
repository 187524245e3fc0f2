/* SPDX-License-Identifier: Apache-2.0 */
/* The fused kernel's products for NEON: 24 sums, 4 vectors of a panel, one factor. */
#define FUSED_NAME neon
#define FUSED_BYTES 16
#define FUSED_ROWS 6
#define FUSED_PANELS 1
#include "core/kernels/fused_set.h"
