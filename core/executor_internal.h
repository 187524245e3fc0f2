/* SPDX-License-Identifier: Apache-2.0 */
/* How a worker's workspace is divided; shared by the plan, which sizes it, and the executor. */
#ifndef ATTN_CORE_EXECUTOR_INTERNAL_H
#define ATTN_CORE_EXECUTOR_INTERNAL_H

#include "core/kernels/kernel.h"

/* Bytes of one worker's workspace for tasks of this grid; SIZE_MAX when they do not fit. */
size_t attn_task_workspace_bytes(const struct attn_call *call, const struct attn_kernel *kernel,
                                 const struct attn_grid *grid);

#endif
