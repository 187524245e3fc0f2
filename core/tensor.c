/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dtype table, dense views, right-aligned broadcasting and the integer reader behind masks.
 * Refuses shapes whose size does not fit in memory's own terms (PTRDIFF_MAX).
 */
#include "core/tensor.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/checked.h"

struct dtype_row {
    const char *name;
    const char *safetensors;
    size_t bytes;
    enum attn_dtype_class class;
};

static const struct dtype_row DTYPE_ROWS[ATTN_DTYPE_COUNT] = {
#define ATTN_DTYPE(code, name, safetensors, bytes, class) \
    [ATTN_##code] = {name, safetensors, bytes, ATTN_CLASS_##class},
#include "core/dtype.def"
#undef ATTN_DTYPE
};

size_t attn_dtype_size(enum attn_dtype dtype) {
    return DTYPE_ROWS[dtype].bytes;
}

enum attn_dtype_class attn_dtype_class(enum attn_dtype dtype) {
    return DTYPE_ROWS[dtype].class;
}

const char *attn_dtype_name(enum attn_dtype dtype) {
    return DTYPE_ROWS[dtype].name;
}

const char *attn_dtype_safetensors_name(enum attn_dtype dtype) {
    return DTYPE_ROWS[dtype].safetensors;
}

bool attn_dtype_from_name(const char *name, enum attn_dtype *out) {
    for (unsigned i = 0; i < ATTN_DTYPE_COUNT; i++)
        if (strcmp(name, DTYPE_ROWS[i].name) == 0 || strcmp(name, DTYPE_ROWS[i].safetensors) == 0) {
            *out = (enum attn_dtype)i;
            return true;
        }
    return false;
}

struct attn_tensor attn_tensor_none(void) {
    return (struct attn_tensor){.data = NULL, .rank = -1};
}

bool attn_tensor_is_none(const struct attn_tensor *tensor) {
    return tensor->rank < 0;
}

struct attn_tensor attn_tensor_view(const void *data, enum attn_dtype dtype, int rank,
                                    const size_t *shape) {
    assert(rank >= 0 && rank <= ATTN_MAX_RANK);
    struct attn_tensor view = {.data = data, .dtype = dtype, .rank = rank};
    size_t stride = 1;
    for (int axis = rank - 1; axis >= 0; axis--) {
        view.shape[axis] = shape[axis];
        view.stride[axis] = (ptrdiff_t)stride;
        stride *= attn_max_size(shape[axis], 1);
    }
    return view;
}

/* An axis of size 0 does not excuse the others: the strides over them must fit as well. */
bool attn_shape_elements(int rank, const size_t *shape, size_t *elements) {
    size_t product = 1;
    bool empty = false;
    for (int axis = 0; axis < rank; axis++) {
        empty = empty || shape[axis] == 0;
        if (!attn_mul_size(product, attn_max_size(shape[axis], 1), &product))
            return false;
    }
    if (product > PTRDIFF_MAX)
        return false;
    *elements = empty ? 0 : product;
    return true;
}

bool attn_shape_bytes(enum attn_dtype dtype, int rank, const size_t *shape, size_t *bytes) {
    size_t elements, product;
    if (!attn_shape_elements(rank, shape, &elements) ||
        !attn_mul_size(elements, attn_dtype_size(dtype), &product) || product > PTRDIFF_MAX)
        return false;
    *bytes = product;
    return true;
}

bool attn_tensor_broadcast(const struct attn_tensor *tensor, const size_t shape[ATTN_AXES],
                           struct attn_tensor *out) {
    struct attn_tensor view = {.data = tensor->data, .dtype = tensor->dtype, .rank = ATTN_AXES};
    const int missing = ATTN_AXES - tensor->rank;
    if (missing < 0)
        return false;
    for (int axis = 0; axis < ATTN_AXES; axis++) {
        view.shape[axis] = shape[axis];
        if (axis < missing || tensor->shape[axis - missing] == 1)
            continue;
        if (tensor->shape[axis - missing] != shape[axis])
            return false;
        view.stride[axis] = tensor->stride[axis - missing];
    }
    *out = view;
    return true;
}

const char *attn_shape_text(int rank, const size_t *shape, char *text, size_t size) {
    if (size == 0)
        return text;
    size_t at = 0;
    for (int axis = 0; axis < rank && at < size; axis++)
        at += (size_t)snprintf(text + at, size - at, "%s%zu", axis == 0 ? "[" : ", ", shape[axis]);
    if (at < size)
        snprintf(text + at, size - at, "%s", rank <= 0 ? "[]" : "]");
    return text;
}

int64_t attn_tensor_int_at(const struct attn_tensor *tensor, ptrdiff_t offset) {
    switch (tensor->dtype) {
    case ATTN_BOOL:
    case ATTN_UINT8:
        return ((const uint8_t *)tensor->data)[offset];
    case ATTN_INT8:
        return ((const int8_t *)tensor->data)[offset];
    case ATTN_UINT16:
        return ((const uint16_t *)tensor->data)[offset];
    case ATTN_INT16:
        return ((const int16_t *)tensor->data)[offset];
    case ATTN_UINT32:
        return ((const uint32_t *)tensor->data)[offset];
    case ATTN_INT32:
        return ((const int32_t *)tensor->data)[offset];
    case ATTN_INT64:
        return ((const int64_t *)tensor->data)[offset];
    case ATTN_UINT64: {
        const uint64_t value = ((const uint64_t *)tensor->data)[offset];
        return value > INT64_MAX ? INT64_MAX : (int64_t)value;
    }
    default:
        assert(attn_dtype_class(tensor->dtype) != ATTN_CLASS_FLOAT);
        return 0;
    }
}

const char *attn_tensor_int_text(const struct attn_tensor *tensor, ptrdiff_t offset,
                                 char text[ATTN_INT_TEXT_ROOM]) {
    if (tensor->dtype == ATTN_UINT64)
        snprintf(text, ATTN_INT_TEXT_ROOM, "%llu",
                 (unsigned long long)((const uint64_t *)tensor->data)[offset]);
    else
        snprintf(text, ATTN_INT_TEXT_ROOM, "%lld", (long long)attn_tensor_int_at(tensor, offset));
    return text;
}
