/* SPDX-License-Identifier: Apache-2.0 */
/* The decode kernel's products for NEON. */
#define DECODE_NAME neon
#define DECODE_BYTES 16
#define DECODE_SUMS 16
#define DECODE_STRIPS STRIP(4, 4, 1) STRIP(2, 4, 1) STRIP(1, 8, 1)
#include "core/kernels/decode_set.h"
