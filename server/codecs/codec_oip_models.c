/* SPDX-License-Identifier: Apache-2.0 */
/* The models of the Open Inference Protocol, and its names of element types. */
#include <string.h>

#include "server/codecs/codec_oip_notes.h"
#include "server/options/options_table.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

/* Every input but the first three is an option that is a tensor. */
static const struct oip_input_row ATTENTION_INPUTS[] = {
    {"q", ATTN_FLOAT32, 4, false},        {"k", ATTN_FLOAT32, 4, false},
    {"v", ATTN_FLOAT32, 4, false},        {"bias", ATTN_FLOAT32, 4, true},
    {"allow", ATTN_BOOL, 4, true},        {"hide", ATTN_BOOL, 4, true},
    {"keep", ATTN_BOOL, 2, true},         {"kv_lengths", ATTN_INT64, 1, true},
    {"q_lengths", ATTN_INT64, 1, true},   {"q_segments", ATTN_INT64, 2, true},
    {"kv_segments", ATTN_INT64, 2, true}, {"q_offset", ATTN_INT64, 1, true},
    {"alibi", ATTN_FLOAT32, 1, true},     {"sink", ATTN_FLOAT32, 1, true},
};

/* clang-format off */
static const struct oip_output_row ATTENTION_OUTPUTS[] = {
    {"output", ATTN_FLOAT32, 4, ATTN_RESULT_OUTPUT, ATTN_RETURN_OUTPUT, false},
    {"weights", ATTN_FLOAT32, 4, ATTN_RESULT_WEIGHTS, ATTN_RETURN_WEIGHTS, false},
    {"scores", ATTN_FLOAT32, 4, ATTN_RESULT_SCORES, ATTN_RETURN_SCORES, false},
    {"lse", ATTN_FLOAT32, 3, ATTN_RESULT_LSE, ATTN_RETURN_LSE, false},
    {"col_sums", ATTN_FLOAT32, 3, ATTN_RESULT_COL_SUMS, ATTN_RETURN_COL_SUMS, false},
    {"col_means", ATTN_FLOAT32, 3, ATTN_RESULT_COL_MEANS, ATTN_RETURN_COL_SUMS, false},
    {"stats", ATTN_FLOAT64, 3, ATTN_RESULT_STATS, ATTN_RETURN_STATS, false},
    {"top_k_weights", ATTN_FLOAT32, 4, ATTN_RESULT_TOP_K_WEIGHTS, ATTN_RETURN_WEIGHTS, true},
    {"top_k_scores", ATTN_FLOAT32, 4, ATTN_RESULT_TOP_K_SCORES, ATTN_RETURN_SCORES, true},
    {"top_k_indices", ATTN_INT32, 4, ATTN_RESULT_TOP_K_INDICES, 0, true},
};

static const struct oip_output_row ONNX_OUTPUTS[] = {
    {"Y", ATTN_FLOAT32, 4, ATTN_RESULT_OUTPUT, ATTN_RETURN_OUTPUT, false},
    {"present_key", ATTN_FLOAT32, 4, OIP_PRESENT_KEY, 0, false},
    {"present_value", ATTN_FLOAT32, 4, OIP_PRESENT_VALUE, 0, false},
    {"qk_matmul_output", ATTN_FLOAT32, 4, ATTN_RESULT_WEIGHTS, ATTN_RETURN_WEIGHTS, false},
};
/* clang-format on */

static const struct oip_input_row ONNX_INPUTS[] = {
    {"Q", ATTN_FLOAT32, 4, false},
    {"K", ATTN_FLOAT32, 4, false},
    {"V", ATTN_FLOAT32, 4, false},
    {"attn_mask", ATTN_FLOAT32, 4, true},
    {"past_key", ATTN_FLOAT32, 4, true},
    {"past_value", ATTN_FLOAT32, 4, true},
    {"nonpad_kv_seqlen", ATTN_INT64, 1, true},
};

_Static_assert(COUNT(ATTENTION_INPUTS) <= OIP_INPUTS_MAX &&
                   COUNT(ATTENTION_OUTPUTS) <= OIP_OUTPUTS_MAX,
               "every input and output can be named");

static const struct oip_model MODELS[] = {
    {"attention", &ATTENTION_SCHEMA, ATTENTION_INPUTS, COUNT(ATTENTION_INPUTS), ATTENTION_OUTPUTS,
     COUNT(ATTENTION_OUTPUTS), oip_attention_give, oip_attention_settle, oip_attention_complete},
    {"onnx_attention", &OIP_ONNX_SCHEMA, ONNX_INPUTS, COUNT(ONNX_INPUTS), ONNX_OUTPUTS,
     COUNT(ONNX_OUTPUTS), oip_onnx_give, oip_onnx_settle, oip_onnx_complete},
};

const struct oip_model *oip_model_at(size_t index) {
    return index < COUNT(MODELS) ? &MODELS[index] : NULL;
}

size_t oip_model_index(const struct oip_model *model) {
    return (size_t)(model - MODELS);
}

static const char *const DATATYPES[ATTN_DTYPE_COUNT] = {
    [ATTN_FLOAT32] = "FP32",  [ATTN_FLOAT64] = "FP64",  [ATTN_FLOAT16] = "FP16",
    [ATTN_BFLOAT16] = "BF16", [ATTN_BOOL] = "BOOL",     [ATTN_UINT8] = "UINT8",
    [ATTN_INT8] = "INT8",     [ATTN_UINT16] = "UINT16", [ATTN_INT16] = "INT16",
    [ATTN_UINT32] = "UINT32", [ATTN_INT32] = "INT32",   [ATTN_UINT64] = "UINT64",
    [ATTN_INT64] = "INT64",
};

const char *oip_datatype_name(enum attn_dtype dtype) {
    return DATATYPES[dtype];
}

bool oip_datatype_find(const char *name, enum attn_dtype *dtype) {
    for (int i = 0; i < ATTN_DTYPE_COUNT; i++)
        if (strcmp(DATATYPES[i], name) == 0) {
            *dtype = (enum attn_dtype)i;
            return true;
        }
    return false;
}
