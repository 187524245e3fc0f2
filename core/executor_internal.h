/* SPDX-License-Identifier: Apache-2.0 */
/* How a worker's workspace is divided; shared by the plan, which sizes it, and the executor. */
#ifndef ATTN_CORE_EXECUTOR_INTERNAL_H
#define ATTN_CORE_EXECUTOR_INTERNAL_H

#include "core/kernels/kernel.h"

/* Bytes of one worker's workspace for tasks of this grid; SIZE_MAX when they do not fit. */
size_t attn_task_workspace_bytes(const struct attn_call *call, const struct attn_kernel *kernel,
                                 const struct attn_grid *grid);

/* Bytes of the results of a task's attention, a multiple of 64; SIZE_MAX when they do not fit. */
size_t attn_partial_bytes(const struct attn_call *call, const struct attn_kernel *kernel,
                          const struct attn_grid *grid);
/* Cuts them from *cursor, which moves past them. */
struct attn_partial attn_partial_take(const struct attn_call *call,
                                      const struct attn_kernel *kernel,
                                      const struct attn_grid *grid, char **cursor);

#endif
