/* SPDX-License-Identifier: Apache-2.0 */
/* The BLAS kernel's row for the registry. */
#ifndef ATTN_CORE_KERNELS_BLAS_H
#define ATTN_CORE_KERNELS_BLAS_H

#include "core/kernels/kernel.h"

extern const struct attn_kernel attn_kernel_blas;

/* OpenBLAS works on one thread inside each of ours. Once per process, before the first task. */
void attn_kernel_blas_start(void);

#endif
