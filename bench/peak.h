/* SPDX-License-Identifier: Apache-2.0 */
/* The most that one thread can do, on the widest vectors of this processor: multiply-adds that stay
 * in registers, and a plain read of memory. */
#ifndef BENCH_PEAK_H
#define BENCH_PEAK_H

#include <stddef.h>

/* Does `steps` steps and returns the FLOPs that were in them. `*sink` keeps them from vanishing. */
double peak_run(size_t steps, float *sink);

/* Adds up floats, a multiple of 512 bytes, aligned to 64: that is as good as only reading them. */
void peak_read(const void *from, size_t bytes, float *sink);

const char *peak_name(void); /* "AVX-512": what peak_run uses here */

#endif
