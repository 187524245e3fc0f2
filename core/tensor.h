/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tensor as the core sees it: a borrowed view of memory with a dtype, a shape and strides.
 * Views never own and never copy; sizes are computed with checked arithmetic only.
 */
#ifndef ATTN_CORE_TENSOR_H
#define ATTN_CORE_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The axes of a call's tensors, [B,H,T,D] or [B,H,Tq,Tk]; and one more for a pile of them. */
#define ATTN_AXES 4
#define ATTN_MAX_RANK 5
#define ATTN_INT_TEXT_ROOM 24

enum attn_dtype {
#define ATTN_DTYPE(code, name, safetensors, bytes, class) ATTN_##code,
#include "core/dtype.def"
#undef ATTN_DTYPE
    ATTN_DTYPE_COUNT
};

enum attn_dtype_class { ATTN_CLASS_FLOAT, ATTN_CLASS_BOOL, ATTN_CLASS_INT };

/* `data` NULL together with rank -1 means "no tensor". A tensor without elements may have any data.
 */
struct attn_tensor {
    const void *data; /* borrowed; aligned to the element size */
    enum attn_dtype dtype;
    int rank;                        /* 0..ATTN_MAX_RANK, or -1 for none */
    size_t shape[ATTN_MAX_RANK];     /* elements per axis, outermost first */
    ptrdiff_t stride[ATTN_MAX_RANK]; /* in elements; 0 along a broadcast axis */
};

size_t attn_dtype_size(enum attn_dtype dtype);
enum attn_dtype_class attn_dtype_class(enum attn_dtype dtype);
/* "float32"; and "F32" as safetensors writes it. Static strings. */
const char *attn_dtype_name(enum attn_dtype dtype);
const char *attn_dtype_safetensors_name(enum attn_dtype dtype);
/* Finds a dtype by either name; false when there is none. */
bool attn_dtype_from_name(const char *name, enum attn_dtype *out);

struct attn_tensor attn_tensor_none(void);
bool attn_tensor_is_none(const struct attn_tensor *tensor);

/* A dense row-major view; borrows data. The caller has checked that the sizes fit
 * (attn_shape_bytes). */
struct attn_tensor attn_tensor_view(const void *data, enum attn_dtype dtype, int rank,
                                    const size_t *shape);

/*
 * Elements and bytes of a dense tensor of this shape; false when they, or the strides over them,
 * exceed PTRDIFF_MAX (an axis of size 0 does not excuse the others).
 */
bool attn_shape_elements(int rank, const size_t *shape, size_t *elements);
bool attn_shape_bytes(enum attn_dtype dtype, int rank, const size_t *shape, size_t *bytes);

/*
 * Right-aligned broadcast of `tensor` to `shape` of rank ATTN_AXES: axes of size 1 and missing
 * leading axes get stride 0. False when some axis is neither 1 nor the wanted size, or when there
 * are more axes. Borrows the same data.
 */
bool attn_tensor_broadcast(const struct attn_tensor *tensor, const size_t shape[ATTN_AXES],
                           struct attn_tensor *out);

/* Where element [i0,i1,i2,i3] of a tensor of rank ATTN_AXES lies, in elements from data. */
static inline ptrdiff_t attn_tensor_offset(const struct attn_tensor *tensor, size_t i0, size_t i1,
                                           size_t i2, size_t i3) {
    return (ptrdiff_t)i0 * tensor->stride[0] + (ptrdiff_t)i1 * tensor->stride[1] +
           (ptrdiff_t)i2 * tensor->stride[2] + (ptrdiff_t)i3 * tensor->stride[3];
}

/* Writes "[2, 3, 4]" for messages; always NUL-terminated. Returns text. */
const char *attn_shape_text(int rank, const size_t *shape, char *text, size_t size);

/* Element at an offset (in elements) of an integer or bool tensor, widened; uint64 saturates to
 * INT64_MAX. */
int64_t attn_tensor_int_at(const struct attn_tensor *tensor, ptrdiff_t offset);

/* The same as decimal digits, for sentences, and uint64 in full; returns `text`. */
const char *attn_tensor_int_text(const struct attn_tensor *tensor, ptrdiff_t offset,
                                 char text[ATTN_INT_TEXT_ROOM]);

#endif
