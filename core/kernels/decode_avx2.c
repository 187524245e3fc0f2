/* SPDX-License-Identifier: Apache-2.0 */
/* The decode kernel's products for AVX2 with FMA. */
#define DECODE_NAME avx2
#define DECODE_BYTES 32
#define DECODE_SUMS 8
#define DECODE_STRIPS STRIP(4, 2, 1) STRIP(2, 4, 1) STRIP(1, 8, 1)
#include "core/kernels/decode_set.h"
