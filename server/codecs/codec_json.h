/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON codec's row, and its answer half (json_answer.c); see codec.h for the contracts. */
#ifndef SERVER_CODECS_CODEC_JSON_H
#define SERVER_CODECS_CODEC_JSON_H

#include "server/codecs/codec.h"
#include "server/json/json_text.h"

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

/* Statistics as an object of nested lists, and room for its text: 0 when none are wanted. */
bool json_stats_room(const struct attn_result *result, size_t *room);
void json_stats_write(struct json_text *text, const struct attn_result *result);

#endif
