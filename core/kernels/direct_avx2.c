/* SPDX-License-Identifier: Apache-2.0 */
/* The decode kernel's products for AVX2 with FMA. */
#define DIRECT_NAME avx2
#define DIRECT_BYTES 32
#define DIRECT_STRIPS STRIP(2, 4) STRIP(1, 8)
#include "core/kernels/direct_set.h"
