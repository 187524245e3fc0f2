/* SPDX-License-Identifier: Apache-2.0 */
/* The reference kernel's row for the registry. */
#ifndef ATTN_CORE_KERNELS_REFERENCE_H
#define ATTN_CORE_KERNELS_REFERENCE_H

#include "core/kernels/kernel.h"

extern const struct attn_kernel attn_kernel_reference;

#endif
