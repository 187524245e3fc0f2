/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session as a file: safetensors with the rows that each layer keeps, as it keeps them -
 * "layers.0.k" [Hkv,n,D], "layers.0.v" [Hkv,n,Dv], "layers.1.k" and so on - and in
 * __metadata__["session"] one JSON text: what makes the session, "lengths", and "gap_keys" and
 * "gap_counts" where tokens have left windows. Read, nothing in it is believed: what does not fit
 * together is refused here, and what no session can be by who makes one of it.
 */
#ifndef SERVER_CODECS_CODEC_SNAPSHOT_H
#define SERVER_CODECS_CODEC_SNAPSHOT_H

#include "server/codecs/codec.h"
#include "server/text.h"

/* Fills request->session. The query string may say id and ttl_s, which then stand for the file's.
   Errors: MALFORMED, UNKNOWN_FIELD, MISSING_FIELD, BAD_VALUE and those of the options. */
enum attn_status codec_snapshot_read(const struct codec_input *input, struct codec_request *request,
                                     struct attn_error *error);

/* What is written: rows of a layer. */
struct codec_snapshot_layer {
    size_t rows;
    size_t k_bytes, v_bytes;
};

/* The file up to its data, which is k and v of layer 0, then of layer 1, and so on: begun with
   `session`, a JSON text. text->failed where there is no memory. */
void codec_snapshot_head(struct text *text, const struct text *session,
                         const struct attn_kv_spec *spec,
                         const struct codec_snapshot_layer *layers);

#endif
