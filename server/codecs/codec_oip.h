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
/* Of a request or an answer: how many bytes of it are JSON, where others follow them. */
#define OIP_LENGTH_HEADER "Inference-Header-Content-Length"

/* What an output is made of: a result's tensor, or keys and values with those of the past. */
enum { OIP_PRESENT_KEY = ATTN_RESULT_COUNT, OIP_PRESENT_VALUE, OIP_SOURCE_COUNT };

/* An input as the metadata of a model has it; the sizes of its axes vary. */
struct oip_input_row {
    const char *name;
    enum attn_dtype dtype; /* others of its class are understood too */
    int rank;
    bool optional;
};

struct oip_output_row {
    const char *name;
    enum attn_dtype dtype;
    int rank;
    int source;
    unsigned returns; /* attn_return_bit that asks for it; 0: nothing has to */
    bool
        needs_an_option; /* so that metadata, all of which some clients ask for, does not list it */
};

struct json_reader;
struct oip_file;
struct options;

struct oip_model {
    const char *name;
    const struct codec_schema *schema;
    const struct oip_input_row *inputs;
    size_t input_count;
    const struct oip_output_row *outputs;
    size_t output_count;
    /* Steps of decoding: gives options that are inputs, makes something of other inputs once the
       options are known, and completes the request. */
    enum attn_status (*give)(const struct oip_file *file, struct options *options);
    enum attn_status (*settle)(const struct oip_file *file, struct options *options,
                               const bool *used);
    enum attn_status (*complete)(const struct oip_file *file, const struct json_reader *reader,
                                 struct codec_request *request);
};

/* The table; NULL past the end. */
const struct oip_model *oip_model_at(size_t index);
size_t oip_model_index(const struct oip_model *model);

/* "FP32": what the protocol calls an element type; and the other way, false when it has none. */
const char *oip_datatype_name(enum attn_dtype dtype);
bool oip_datatype_find(const char *name, enum attn_dtype *dtype);

/* What decoding has to know of the request's head. Borrowed. */
struct oip_head {
    const struct oip_model *model;
    const char *json_length; /* the length header's text, or NULL */
};

/* No row of the codec table: media types do not choose it, and it ignores them. */
extern const struct codec CODEC_OIP;

#endif
