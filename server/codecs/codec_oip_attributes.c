/* SPDX-License-Identifier: Apache-2.0 */
/* The attributes of the ONNX operator Attention, opsets 23 to 25, as parameters of a request. */
#include <stddef.h>

#include "server/codecs/codec_oip_notes.h"
#include "server/options/options_table.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

static struct oip_onnx *onnx_of(struct options *options) {
    return &oip_notes_of(options->request)->onnx;
}

static enum attn_status read_int(struct options *options, struct json_value value,
                                 const char *pointer, int64_t least, int64_t *out) {
    return json_value_int(&options->reader, value, pointer, least, INT64_MAX, out);
}

static enum attn_status apply_scale(struct options *options, struct json_value value,
                                    const char *pointer) {
    options->request->attention.scale_given = true;
    return json_value_real(&options->reader, value, pointer, &options->request->attention.scale);
}

/* 0 is none. */
static enum attn_status apply_softcap(struct options *options, struct json_value value,
                                      const char *pointer) {
    struct attn_request *const request = &options->request->attention;
    const enum attn_status status =
        json_value_real(&options->reader, value, pointer, &request->softcap);
    request->softcap_given = request->softcap != 0;
    return status;
}

/* The one attribute that is a flag: ONNX writes it as 1 or 0, clients as true or false, too. */
static enum attn_status apply_is_causal(struct options *options, struct json_value value,
                                        const char *pointer) {
    if (json_value_kind(value) != JSON_KIND_BOOL)
        return read_int(options, value, pointer, 0, &onnx_of(options)->is_causal);
    onnx_of(options)->is_causal = json_is_true(value.node);
    return ATTN_OK;
}

static enum attn_status apply_q_num_heads(struct options *options, struct json_value value,
                                          const char *pointer) {
    return read_int(options, value, pointer, 1, &onnx_of(options)->q_num_heads);
}

static enum attn_status apply_kv_num_heads(struct options *options, struct json_value value,
                                           const char *pointer) {
    return read_int(options, value, pointer, 1, &onnx_of(options)->kv_num_heads);
}

/* ONNX's numbers of float types. Half types are accumulated in float32 whichever is asked. */
static enum attn_status apply_softmax_precision(struct options *options, struct json_value value,
                                                const char *pointer) {
    enum { FLOAT = 1, FLOAT16 = 10, DOUBLE = 11, BFLOAT16 = 16 };
    int64_t type = 0;
    const enum attn_status status = read_int(options, value, pointer, 0, &type);
    if (status != ATTN_OK)
        return status;
    if (type != FLOAT && type != FLOAT16 && type != DOUBLE && type != BFLOAT16)
        return attn_fail(options->reader.error, ATTN_BAD_VALUE, pointer,
                         "softmax_precision should be %d (float), %d (float16), %d (double) or %d "
                         "(bfloat16), but %lld came.",
                         FLOAT, FLOAT16, DOUBLE, BFLOAT16, (long long)type);
    onnx_of(options)->in_double = type == DOUBLE;
    return ATTN_OK;
}

/* The operator multiplies Q and K by the root of the scale first, so its raw product is scaled. */
static enum attn_status apply_mode(struct options *options, struct json_value value,
                                   const char *pointer) {
    static const enum attn_stage stages[] = {ATTN_STAGE_SCALED, ATTN_STAGE_CAPPED,
                                             ATTN_STAGE_MASKED, ATTN_STAGE_WEIGHTS};
    int64_t mode = 0;
    const enum attn_status status = read_int(options, value, pointer, 0, &mode);
    if (status != ATTN_OK)
        return status;
    if ((size_t)mode >= COUNT(stages))
        return attn_fail(options->reader.error, ATTN_BAD_VALUE, pointer,
                         "qk_matmul_output_mode should be 0 (Q K^T), 1 (after softcap), 2 (after "
                         "the mask) or 3 (after softmax), but %lld came.",
                         (long long)mode);
    options->request->attention.map.stage = stages[mode];
    return ATTN_OK;
}

static enum attn_status apply_left(struct options *options, struct json_value value,
                                   const char *pointer) {
    return read_int(options, value, pointer, -1, &onnx_of(options)->left);
}

static enum attn_status apply_right(struct options *options, struct json_value value,
                                    const char *pointer) {
    return read_int(options, value, pointer, -1, &onnx_of(options)->right);
}

static const struct option ATTRIBUTES[] = {
    {"scale", OPTION_SCALAR, apply_scale},
    {"softcap", OPTION_SCALAR, apply_softcap},
    {"is_causal", OPTION_SCALAR, apply_is_causal},
    {"q_num_heads", OPTION_SCALAR, apply_q_num_heads},
    {"kv_num_heads", OPTION_SCALAR, apply_kv_num_heads},
    {"softmax_precision", OPTION_SCALAR, apply_softmax_precision},
    {"qk_matmul_output_mode", OPTION_SCALAR, apply_mode},
    {"left_window_size", OPTION_SCALAR, apply_left},
    {"right_window_size", OPTION_SCALAR, apply_right},
};

static const struct codec_operand OPERANDS[] = {
    {"Q", offsetof(struct codec_request, attention.q), false},
    {"K", offsetof(struct codec_request, attention.k), false},
    {"V", offsetof(struct codec_request, attention.v), false},
};

static const struct options_hint HINTS[] = {
    {"q", "The operator's inputs are called Q, K and V"},
    {"k", "The operator's inputs are called Q, K and V"},
    {"v", "The operator's inputs are called Q, K and V"},
    {"mask", "The operator's masks are attn_mask, is_causal, nonpad_kv_seqlen and the windows"},
    {"num_heads", "It is called q_num_heads"},
    {"causal", "It is called is_causal"},
    {NULL, NULL},
};

const struct codec_schema OIP_ONNX_SCHEMA = {
    .title = "The operator Attention",
    .members = "Q, K and V",
    .unknown = "the operator has no input and no attribute of this name",
    .operands = OPERANDS,
    .operand_count = COUNT(OPERANDS),
    .options = ATTRIBUTES,
    .option_count = COUNT(ATTRIBUTES),
    .hints = HINTS,
};
