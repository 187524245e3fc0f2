/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of q on their way into strips (fused_strips.h); `first` is a score row of the task, with
 * which a strip begins. */
#ifndef ATTN_CORE_KERNELS_FUSED_QUERIES_H
#define ATTN_CORE_KERNELS_FUSED_QUERIES_H

#include "core/kernels/fused_strips.h"

/* Rows are read once and may lie far away: asks for a strip's, which may be past the last one. */
void attn_queries_ask(const struct attn_strips *strips, size_t first);

/* q[d][r] = factor * row r of the strip, zeros past the task's last; up to a panel's width of
 * floats may be written behind it. Returns the largest magnitude. */
float attn_queries_pack(const struct attn_strips *strips, size_t first, float factor, float *q);

/* q[r][d] = row r of the strip, for products with keys in place. */
void attn_queries_copy(const struct attn_strips *strips, size_t first, float *q);

#endif
