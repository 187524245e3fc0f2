/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The safetensors codec's row, and the parts its decoder and encoder are made of. The format: a
 * little-endian u64 with the header's length, a JSON header {name: {dtype, shape, data_offsets}}
 * with an optional __metadata__ of strings, then the tensors' bytes without gaps.
 */
#ifndef SERVER_CODECS_CODEC_SAFETENSORS_H
#define SERVER_CODECS_CODEC_SAFETENSORS_H

#include "server/codecs/codec.h"
#include "server/json/json_value.h"

extern const struct codec CODEC_SAFETENSORS;

struct safetensors_entry {
    const char *name; /* borrowed from the header's document */
    enum attn_dtype dtype;
    int rank;
    size_t shape[ATTN_MAX_RANK];
    size_t begin, end; /* bytes, from the first byte behind the header */
};

struct safetensors_file {
    struct json_document header;
    struct json_value metadata;        /* node NULL: none */
    struct safetensors_entry *entries; /* in the order of their data; in the reader's storage */
    size_t count;
    const char *data;
    size_t data_bytes;
    const struct codec_input *input; /* that holds it */
};

/*
 * Reads the header of the input's body, which the file borrows. Refused (MALFORMED): a header that
 * is no JSON or does not fit the body, unknown dtypes, extents that are not shape * dtype,
 * overlaps, holes, bytes left over, more than 2,048 entries. BAD_SHAPE: a rank that no tensor has.
 * On failure there is nothing to close.
 */
enum attn_status safetensors_open(struct safetensors_file *file, const struct json_reader *reader,
                                  const struct codec_input *input);
void safetensors_close(struct safetensors_file *file);

/* An entry of a struct safetensors_file as a tensor: in place when it is aligned, else copied. */
enum attn_status safetensors_tensor(const void *opened, size_t entry,
                                    const struct json_reader *reader, struct attn_tensor *out);

bool safetensors_answer_bytes(const struct attn_call *call, const struct codec_request *request,
                              const struct attn_result *result, size_t *bytes);
enum attn_status safetensors_answer_lay_out(const struct attn_call *call,
                                            const struct codec_request *request,
                                            struct attn_result *result, struct codec_answer *answer,
                                            struct attn_error *error);
enum attn_status safetensors_answer_finish(const struct codec_report *report,
                                           const struct codec_request *request,
                                           const struct attn_result *result,
                                           struct codec_answer *answer, struct attn_error *error);

#endif
