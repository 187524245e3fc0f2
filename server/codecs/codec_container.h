/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bodies that are a file of named tensors, with the options as one JSON text among them. There are
 * entries for the operands and for any that a mask or the bias names (an entry called bias needs no
 * naming). Refused: entries that nothing uses, and options that are no JSON object.
 */
#ifndef SERVER_CODECS_CODEC_CONTAINER_H
#define SERVER_CODECS_CODEC_CONTAINER_H

#include "server/codecs/codec.h"
#include "server/options/options.h"

/* An opened file; everything is borrowed. */
struct codec_container {
    size_t count; /* of its entries */
    const char *(*name)(const void *file, size_t entry);
    /* The entry as a tensor, which owns nothing. */
    enum attn_status (*tensor)(const void *file, size_t entry, const struct json_reader *reader,
                               struct attn_tensor *out);
    const void *file;
    const char *options; /* NULL: none */
    size_t options_length;
    const char *options_title; /* "The attention text of __metadata__", to begin a sentence with */
    const char *options_place; /* where they stand, as an error's place */
    /* For files that say more than that; each may be NULL. Gives further options before any is
       applied; and, when all are, makes something of entries, of which those used are marked. */
    enum attn_status (*give)(const void *file, struct options *options);
    enum attn_status (*settle)(const void *file, struct options *options, const bool *used);
};

/* Fills a request that codec_request_start() began; the caller closes it when this fails. */
enum attn_status codec_container_read(const struct codec_container *container,
                                      const struct codec_input *input,
                                      const struct json_reader *reader,
                                      struct codec_request *request);

#endif
