/* SPDX-License-Identifier: Apache-2.0 */
/* The table of kernels, in order of preference. */
#include <stdio.h>
#include <string.h>

#include "core/kernels/blas.h"
#include "core/kernels/fused.h"
#include "core/kernels/kernel.h"
#include "core/kernels/reference.h"
#include "core/plan.h"

static const struct attn_kernel *const KERNELS[] = {
#if defined(__x86_64__)
    &attn_kernel_decode_avx512, &attn_kernel_decode_avx2,
    &attn_kernel_fused_avx512,  &attn_kernel_fused_avx2,
#elif defined(__aarch64__)
    &attn_kernel_decode_neon,
    &attn_kernel_fused_neon,
#endif
    &attn_kernel_blas,          &attn_kernel_reference,
};

enum { KERNEL_COUNT = sizeof KERNELS / sizeof *KERNELS };

const struct attn_kernel *attn_kernel_at(size_t index) {
    return index < KERNEL_COUNT ? KERNELS[index] : NULL;
}

/* By the name itself or by its family's, up to a '-'. */
static bool is_named(const struct attn_kernel *kernel, const char *name) {
    const size_t length = strlen(name);
    return strncmp(kernel->name, name, length) == 0 &&
           (kernel->name[length] == '\0' || kernel->name[length] == '-');
}

const struct attn_kernel *attn_kernel_find(const char *name) {
    for (size_t n = 0; n < KERNEL_COUNT; n++)
        if (is_named(KERNELS[n], name) && KERNELS[n]->available())
            return KERNELS[n];
    return NULL;
}

const char *attn_kernel_names(char *text) {
    int used = 0;
    text[0] = '\0';
    for (size_t n = 0; n < KERNEL_COUNT && used < ATTN_KERNEL_NAMES_SIZE; n++)
        if (KERNELS[n]->available())
            used += snprintf(text + used, (size_t)(ATTN_KERNEL_NAMES_SIZE - used), "%s%s",
                             used == 0 ? "" : ", ", KERNELS[n]->name);
    return text;
}

const struct attn_kernel *attn_kernel_default(void) {
    size_t n = 0;
    while (n + 1 < KERNEL_COUNT && (KERNELS[n]->prefers != NULL || !KERNELS[n]->available()))
        n++;
    return KERNELS[n];
}

static bool is_choice(const struct attn_kernel *kernel, const struct attn_call *call) {
    return kernel->available() && attn_kernel_suits(kernel, call) &&
           (kernel->prefers == NULL || kernel->prefers(call));
}

const struct attn_kernel *attn_kernel_choose(const struct attn_call *call) {
    size_t n = 0;
    while (n + 1 < KERNEL_COUNT && !is_choice(KERNELS[n], call))
        n++;
    return KERNELS[n];
}

void attn_start(void) {
    attn_kernel_blas_start();
}
