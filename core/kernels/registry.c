/* SPDX-License-Identifier: Apache-2.0 */
/* The table of kernels, in order of preference. */
#include <string.h>

#include "core/kernels/blas.h"
#include "core/kernels/kernel.h"
#include "core/kernels/reference.h"
#include "core/plan.h"

static const struct attn_kernel *const KERNELS[] = {
    &attn_kernel_blas,
    &attn_kernel_reference,
};

const struct attn_kernel *attn_kernel_at(size_t index) {
    return index < sizeof KERNELS / sizeof *KERNELS ? KERNELS[index] : NULL;
}

const struct attn_kernel *attn_kernel_find(const char *name) {
    for (size_t n = 0; n < sizeof KERNELS / sizeof *KERNELS; n++)
        if (strcmp(KERNELS[n]->name, name) == 0)
            return KERNELS[n];
    return NULL;
}

const struct attn_kernel *attn_kernel_default(void) {
    size_t n = 0;
    while (n + 1 < sizeof KERNELS / sizeof *KERNELS && !KERNELS[n]->available())
        n++;
    return KERNELS[n];
}

void attn_start(void) {
    attn_kernel_blas_start();
}
