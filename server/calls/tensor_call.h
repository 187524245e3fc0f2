/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What calls with a body have in common: which media types they take and give, how a body becomes
 * a codec_request, and for those whose answer is tensors how these get their places and their text.
 */
#ifndef SERVER_CALLS_TENSOR_CALL_H
#define SERVER_CALLS_TENSOR_CALL_H

#include "server/calls/call_work.h"
#include "server/codecs/codec_oip.h"

struct tensor_call {
    struct call_work work;
    const struct codec *in, *out;
    struct oip_head oip; /* of the Open Inference Protocol's calls */
    struct codec_request request;
    struct attn_result result;
    struct number_team team; /* the workers, once decoding has begun */
};

/* A route's check. `only`: the one codec both ways, or NULL for every one there is. `has_map`: an
   answer may be drawn. */
bool tensor_call_check(struct exchange *exchange, const struct codec *only, bool has_map,
                       struct problem *problem);
/* A part of it that does not depend on media types: the deadline that the query string brings, or
   the configured one. */
void tensor_call_set_deadline(struct exchange *exchange);
/* The codecs of a complete request; false when it was refused. */
bool tensor_call_choose_codecs(struct tensor_call *call, const struct codec *only, bool has_map);

/* An attention call of no codec yet, which reads this schema; NULL when there is no memory: then
   the exchange has its answer (attention_handler.c). */
struct tensor_call *attention_call_create(struct exchange *exchange,
                                          const struct codec_schema *schema);

/* The request's tensors and options, and the call's own deadline. */
enum attn_status tensor_call_decode(struct tensor_call *call, const struct codec_schema *schema);
/* Reserves memory for the wanted tensors of `result` and gives them their places. `attention` is
   NULL for other calls. */
enum attn_status tensor_call_lay_out(struct tensor_call *call, const struct attn_call *attention);
/* Completes the answer; fills in the report's id and times. */
enum attn_status tensor_call_encode(struct tensor_call *call, struct codec_report *report);
/* Every kind's close ends with it. */
void tensor_call_close(struct tensor_call *call);

#endif
