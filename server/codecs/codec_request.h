/* SPDX-License-Identifier: Apache-2.0 */
/* What every decoder begins with, and how it takes memory. */
#ifndef SERVER_CODECS_CODEC_REQUEST_H
#define SERVER_CODECS_CODEC_REQUEST_H

#include "server/codecs/codec.h"
#include "server/json/json_value.h"

/* An empty request with storage of its own. Errors: NO_MEMORY. */
enum attn_status codec_request_start(struct codec_request *request, struct attn_error *error);

/*
 * `bytes` bytes of the request's storage for a copy of the tensor `name`, charged to the input's
 * budget before they are taken. Errors: BODY_TOO_LARGE, OVERLOADED, CANCELLED, NO_MEMORY.
 */
enum attn_status codec_request_take(const struct codec_input *input,
                                    const struct json_reader *reader, const char *name,
                                    size_t bytes, void **out);

/*
 * Charges what reading the text `name` of `length` bytes of JSON takes, where the body is of
 * another encoding; a body of JSON has paid for itself. Errors: BODY_TOO_LARGE, OVERLOADED,
 * CANCELLED.
 */
enum attn_status codec_request_charge_json(const struct codec_input *input,
                                           const struct json_reader *reader, const char *name,
                                           size_t length);

#endif
