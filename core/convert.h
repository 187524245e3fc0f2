/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conversion of runs of elements between the float types. Widening is exact; narrowing rounds to
 * nearest, ties to even, once, from the source type to the target. NaN stays NaN, infinities stay,
 * overflow becomes infinity as IEEE 754 says. No floating-point flags or modes are relied on.
 */
#ifndef ATTN_CORE_CONVERT_H
#define ATTN_CORE_CONVERT_H

#include <stddef.h>
#include <stdint.h>

#include "core/tensor.h"

float attn_half_to_float(uint16_t bits);
uint16_t attn_half_from_float(float value);
uint16_t attn_half_from_double(double value);
float attn_bfloat_to_float(uint16_t bits);
uint16_t attn_bfloat_from_float(float value);
uint16_t attn_bfloat_from_double(double value);

/* The smallest magnitude that storing as `dtype` (a float type) rounds to infinity. */
double attn_overflow_threshold(enum attn_dtype dtype);

/*
 * Reads n elements of `dtype` (a float type) from src, `stride` elements apart, into dense dst.
 * FLOAT64 into float rounds once.
 */
void attn_load_float(enum attn_dtype dtype, const void *src, ptrdiff_t stride, size_t n,
                     float *dst);
void attn_load_double(enum attn_dtype dtype, const void *src, ptrdiff_t stride, size_t n,
                      double *dst);

/* Writes n dense elements to dst of `dtype` (a float type), `stride` elements apart. */
void attn_store_float(enum attn_dtype dtype, void *dst, ptrdiff_t stride, size_t n,
                      const float *src);
void attn_store_double(enum attn_dtype dtype, void *dst, ptrdiff_t stride, size_t n,
                       const double *src);
/* The same value n times. */
void attn_fill(enum attn_dtype dtype, void *dst, size_t n, double value);

#endif
