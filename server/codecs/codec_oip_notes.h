/* SPDX-License-Identifier: Apache-2.0 */
/* What the codec keeps of a request for its answer: codec_request.notes, in the request's storage.
 */
#ifndef SERVER_CODECS_CODEC_OIP_NOTES_H
#define SERVER_CODECS_CODEC_OIP_NOTES_H

#include "server/codecs/codec_oip_file.h"

/* An output of the answer. What follows `wanted` is filled in when the answer is laid out. */
struct oip_output {
    const struct oip_output_row *row;
    bool binary;
    bool wanted;
    enum attn_dtype dtype;
    int rank;
    size_t shape[ATTN_MAX_RANK];
    size_t bytes;
    size_t offset;              /* of a binary output, behind the JSON */
    bool in_place;              /* it is made where it is sent from */
    void *place;                /* where it is sent or printed from; NULL: from where it is made */
    const void *from;           /* where it is made */
    enum attn_dtype from_dtype; /* what it is made as */
};

/* Attributes of the ONNX operator that are no options of attention. */
struct oip_onnx {
    int64_t is_causal, q_num_heads, kv_num_heads; /* 0: not given */
    bool in_double;
    int64_t left, right;              /* windows; -1 is open */
    struct attn_tensor mask, past[2]; /* of keys and values */
    struct attn_int_list lengths;     /* nonpad_kv_seqlen; not given: values NULL */
};

struct oip_notes {
    const struct oip_model *model;
    const char *id;                             /* NULL: none */
    bool listed;                                /* the request says which outputs it wants */
    struct oip_output outputs[OIP_OUTPUTS_MAX]; /* in the order of the answer */
    size_t output_count;
    struct oip_onnx onnx;
    struct attn_tensor present[2]; /* keys and values with the past; or none */
    bool folds_heads;              /* Y is [B,T,H*D] and computed as [B,T,H,D] */
    bool map_as_q;                 /* the map comes back in q's dtype */
    enum attn_dtype q_dtype;
};

/* The notes of a request that is being, or has been, decoded. */
static inline struct oip_notes *oip_notes_of(const struct codec_request *request) {
    return request->notes;
}

bool oip_answer_bytes(const struct attn_call *call, const struct codec_request *request,
                      const struct attn_result *result, size_t *bytes);
enum attn_status oip_answer_lay_out(const struct attn_call *call,
                                    const struct codec_request *request, struct attn_result *result,
                                    struct codec_answer *answer, struct attn_error *error);
enum attn_status oip_answer_finish(const struct codec_report *report,
                                   const struct codec_request *request,
                                   const struct attn_result *result, struct codec_answer *answer,
                                   struct attn_error *error);

/* The model called `attention` (codec_oip_attention.c). */
enum attn_status oip_attention_give(const struct oip_file *file, struct options *options);
enum attn_status oip_attention_settle(const struct oip_file *file, struct options *options,
                                      const bool *used);
enum attn_status oip_attention_complete(const struct oip_file *file,
                                        const struct json_reader *reader,
                                        struct codec_request *request);

/* The model called `onnx_attention` (codec_oip_onnx.c, its attributes codec_oip_attributes.c). */
extern const struct codec_schema OIP_ONNX_SCHEMA;
enum attn_status oip_onnx_give(const struct oip_file *file, struct options *options);
enum attn_status oip_onnx_settle(const struct oip_file *file, struct options *options,
                                 const bool *used);
enum attn_status oip_onnx_complete(const struct oip_file *file, const struct json_reader *reader,
                                   struct codec_request *request);

#endif
