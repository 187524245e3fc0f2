/* SPDX-License-Identifier: Apache-2.0 */
/* The most that one thread can do, on the widest vectors of this processor or on a kernel's:
 * multiply-adds that stay in registers, and a plain read of memory. */
#ifndef BENCH_PEAK_H
#define BENCH_PEAK_H

#include <stddef.h>

/* Does `steps` steps and returns the FLOPs that were in them, with the vectors of the kernel of
 * this name, as fused-avx2; NULL and other names: the widest. `*sink` keeps them from vanishing. */
double peak_run(const char *kernel, size_t steps, float *sink);

/* Adds up floats, a multiple of 512 bytes, aligned to 64: that is as good as only reading them. */
void peak_read(const void *from, size_t bytes, float *sink);

const char *peak_name(void); /* "AVX-512": the widest here */

#endif
