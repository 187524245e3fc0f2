/* SPDX-License-Identifier: Apache-2.0 */
/* The decode kernel's products for AVX-512. */
#define DIRECT_NAME avx512
#define DIRECT_BYTES 64
#define DIRECT_STRIPS STRIP(4, 4) STRIP(2, 4) STRIP(1, 8)
#include "core/kernels/direct_set.h"
