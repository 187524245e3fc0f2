/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Open Inference Protocol (KServe v2, Triton): the models there are, and the codec that reads
 * their requests and writes their answers. Both are a JSON document, behind which tensors may stand
 * as bytes (the binary tensor data extension).
 */
#ifndef SERVER_CODECS_CODEC_OIP_H
#define SERVER_CODECS_CODEC_OIP_H

#include "server/codecs/codec.h"

/* Of every model. */
#define OIP_VERSION "1"

/* A tensor as the metadata of a model has it; the sizes of its axes vary. */
struct oip_tensor_row {
    const char *name;
    enum attn_dtype dtype; /* others of its class are understood too */
    int rank;
    bool optional;
};

struct oip_model {
    const char *name;
    const struct oip_tensor_row *inputs, *outputs;
    size_t input_count, output_count;
};

/* The table; NULL past the end. */
const struct oip_model *oip_model_at(size_t index);
size_t oip_model_index(const struct oip_model *model);

/* "FP32": what the protocol calls an element type; and the other way, false when it has none. */
const char *oip_datatype_name(enum attn_dtype dtype);
bool oip_datatype_find(const char *name, enum attn_dtype *dtype);

#endif
