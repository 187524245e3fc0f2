/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors in JSON: nested lists of numbers, or {"shape","dtype","data":[flat]}, or
 * {"shape","dtype","base64"} (little-endian, C order). Numbers round once, from decimal to the
 * target type.
 */
#ifndef SERVER_JSON_JSON_TENSOR_H
#define SERVER_JSON_JSON_TENSOR_H

#include "core/tensor.h"
#include "server/codecs/codec.h"
#include "server/json/json_value.h"

enum json_tensor_role {
    JSON_TENSOR_REAL, /* without dtype: the type given as `real` */
    JSON_TENSOR_MASK  /* without dtype: bool when the first element is true or false, else int64 */
};

/*
 * Reads `value` into the reader's storage. *form says how it was written (may be NULL). Errors, at
 * `pointer`: BAD_TYPE, BAD_VALUE, BAD_DTYPE, BAD_SHAPE, MISSING_FIELD, UNKNOWN_FIELD, MALFORMED,
 * NUMBER_RANGE, NO_MEMORY. The result owns nothing.
 */
enum attn_status json_tensor_read(const struct json_reader *reader, struct json_value value,
                                  enum json_tensor_role role, enum attn_dtype real,
                                  const char *pointer, struct attn_tensor *out,
                                  enum codec_encoding *form);

/*
 * The elements of an array, flat or nested, as `dtype` and in the reader's storage, and the shape
 * in which they were written. Errors as json_value_numbers(), and BAD_VALUE for a whole number that
 * `dtype` does not hold.
 */
enum attn_status json_tensor_elements(const struct json_reader *reader, struct json_value value,
                                      const char *pointer, enum attn_dtype dtype, void **data,
                                      struct number_array_shape *shape);

#endif
