/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of a float task whose scores do not fit a float, done again in double, for any kernel that
 * works in float. It tells them by NaN: as l of a row of the partial, or as a score of a map. NaN
 * also is what comes of inputs that are NaN or infinite themselves; those rows cost a few times
 * more and stay what they are.
 */
#ifndef ATTN_CORE_KERNELS_WIDE_H
#define ATTN_CORE_KERNELS_WIDE_H

#include "core/kernels/kernel.h"

/* Bytes of workspace for tasks of this grid; the kernel's own may lie in the same place. */
size_t attn_wide_workspace(const struct attn_call *call, const struct attn_grid *tiles);

/* Does the partial's rows whose l is NaN again. */
void attn_wide_attend(const struct attn_task *task, void *memory, struct attn_partial *partial);

/* Does the block's scores that are NaN again, and the weights of rows that were done again. */
void attn_wide_scores(const struct attn_task *task, void *memory,
                      const struct attn_score_block *block);

#endif
