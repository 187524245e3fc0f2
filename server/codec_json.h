/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON codec's row, and its answer half (json_answer.c); see codec.h for the contracts. */
#ifndef SERVER_CODEC_JSON_H
#define SERVER_CODEC_JSON_H

#include "server/codec.h"

extern const struct codec CODEC_JSON;

bool json_answer_bytes(const struct attn_call *call, const struct codec_request *request,
                       const struct attn_result *result, size_t *bytes);
enum attn_status json_answer_lay_out(const struct attn_call *call,
                                     const struct codec_request *request,
                                     struct attn_result *result, struct codec_answer *answer,
                                     struct attn_error *error);
enum attn_status json_answer_finish(const struct codec_report *report,
                                    const struct codec_request *request,
                                    const struct attn_result *result, struct codec_answer *answer,
                                    struct attn_error *error);

#endif
