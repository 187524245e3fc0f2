/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention in registers: products of a few score rows with packed panels of keys and values, the
 * online softmax between them on scores that never leave the first cache. Float32 only. One kernel
 * per instruction set.
 */
#ifndef ATTN_CORE_KERNELS_FUSED_H
#define ATTN_CORE_KERNELS_FUSED_H

#include "core/kernels/kernel.h"

extern const struct attn_kernel attn_kernel_fused_avx512, attn_kernel_fused_avx2,
    attn_kernel_fused_neon;

/* The same walk for few queries, whose keys and values are read once and so where they lie. */
extern const struct attn_kernel attn_kernel_decode_avx512, attn_kernel_decode_avx2,
    attn_kernel_decode_neon;

#endif
