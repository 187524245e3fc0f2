/* SPDX-License-Identifier: Apache-2.0 */
/* The decode kernel's products for AVX-512. */
#define DECODE_NAME avx512
#define DECODE_BYTES 64
#define DECODE_SUMS 16
#define DECODE_STRIPS STRIP(8, 2, 2) STRIP(4, 4, 2) STRIP(2, 8, 1) STRIP(1, 8, 1)
#include "core/kernels/decode_set.h"
