/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request of the Open Inference Protocol, taken apart: JSON, and bytes of tensors behind it in
 * the order of the inputs that have some. Nothing is believed before it is checked against the
 * body's length, and nothing is allocated on its word.
 */
#ifndef SERVER_CODECS_CODEC_OIP_FILE_H
#define SERVER_CODECS_CODEC_OIP_FILE_H

#include "server/codecs/codec_oip.h"
#include "server/json/json_value.h"

enum { OIP_INPUTS_MAX = 64, OIP_OUTPUTS_MAX = 16 };

struct oip_input {
    const char *name; /* borrowed from the document */
    enum attn_dtype dtype;
    int rank;
    size_t shape[ATTN_MAX_RANK];
    struct json_value data; /* node NULL: bytes */
    const char *bytes;
    size_t size; /* of the tensor, in bytes */
};

struct oip_wanted {
    const char *name; /* borrowed from the document */
    bool binary;
};

struct oip_file {
    const struct codec_input *input;
    struct json_document document;
    const char *id;               /* borrowed from the document, or NULL */
    struct json_value parameters; /* node NULL: none */
    bool binary_output;           /* of outputs that say nothing of it */
    struct oip_input inputs[OIP_INPUTS_MAX];
    size_t input_count;
    struct oip_wanted outputs[OIP_OUTPUTS_MAX]; /* none: the model's choice */
    size_t output_count;
};

/*
 * Reads the input's body, which the file borrows. Refused (MALFORMED): what is no JSON or is longer
 * than the body, tensors whose bytes are not shape x datatype, bytes that are missing or left over,
 * names that stand twice. BAD_TYPE, BAD_SHAPE, BAD_DTYPE, MISSING_FIELD, UNKNOWN_FIELD and others
 * for what is wrong within the JSON. On failure there is nothing to close.
 */
enum attn_status oip_file_open(struct oip_file *file, const struct json_reader *reader,
                               const struct codec_input *input);
void oip_file_close(struct oip_file *file);

/* The number of the input called `name`, or input_count. */
size_t oip_file_find(const struct oip_file *file, const char *name);
/* An input as a tensor: in place when its bytes are aligned, else copied. For codec_container. */
const char *oip_file_name(const void *file, size_t input);
enum attn_status oip_file_tensor(const void *opened, size_t number,
                                 const struct json_reader *reader, struct attn_tensor *out);

/* One input's JSON, its bytes aside (codec_oip_input.c). */
enum attn_status oip_input_read(const struct json_reader *reader, struct json_value value,
                                const char *pointer, struct oip_input *input);
/* An output's JSON. */
enum attn_status oip_wanted_read(const struct json_reader *reader, struct json_value value,
                                 const char *pointer, struct oip_wanted *wanted);
/* true or false. */
enum attn_status oip_flag_read(const struct json_reader *reader, struct json_value value,
                               const char *pointer, bool *flag);

#endif
