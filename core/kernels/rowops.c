/* SPDX-License-Identifier: Apache-2.0 */
/* The table of instruction sets, best first. */
#include "core/kernels/rowops.h"

static const struct attn_rowops *const SETS[] = {
#if defined(__x86_64__)
    &attn_rowops_avx512,
    &attn_rowops_avx2,
#endif
    &attn_rowops_baseline,
};

const struct attn_rowops *attn_rowops_at(size_t index) {
    for (size_t n = 0; n < sizeof SETS / sizeof *SETS; n++)
        if (SETS[n]->available() && index-- == 0)
            return SETS[n];
    return NULL;
}

const struct attn_rowops *attn_rowops_best(void) {
    return attn_rowops_at(0);
}
