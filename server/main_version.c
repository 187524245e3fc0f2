/* SPDX-License-Identifier: Apache-2.0 */
/* What --version says: the program, and with which kernels it computes on this machine. */
#include <stdio.h>

#include "server/main_internal.h"

static const char revision[] =
#include "revision.inc"
    ;

void main_print_version(void) {
    char names[ATTN_KERNEL_NAMES_SIZE];
    attn_start();
    printf("attentiond %s\ncommit %s\nkernels %s\nOpenBLAS for %s\n", ATTN_VERSION, revision,
           attn_kernel_names(names), attn_blas_core());
}
