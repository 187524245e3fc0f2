/* SPDX-License-Identifier: Apache-2.0 */
/* One function per option and one row per option; and how schemas are searched. */
#include "server/options/options_table.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#define READER(options) (&(options)->reader)
#define COUNT(list) (sizeof(list) / sizeof *(list))

static struct attn_request *request_of(struct options *options) {
    return &options->request->attention;
}

enum attn_status options_apply_precision(struct options *options, struct json_value value,
                                         const char *pointer) {
    static const char *const words[] = {"float32", "float64"};
    static const enum attn_precision values[] = {ATTN_PRECISION_FLOAT32, ATTN_PRECISION_FLOAT64};
    size_t index;
    const enum attn_status status =
        json_value_word(READER(options), value, pointer, words, COUNT(words), &index);
    if (status != ATTN_OK)
        return status;
    request_of(options)->precision = values[index];
    if (values[index] == ATTN_PRECISION_FLOAT64)
        options->real = ATTN_FLOAT64;
    return ATTN_OK;
}

enum attn_status options_apply_layout(struct options *options, struct json_value value,
                                      const char *pointer) {
    static const char *const words[] = {"bhtd", "bthd"};
    static const enum attn_layout values[] = {ATTN_LAYOUT_BHTD, ATTN_LAYOUT_BTHD};
    size_t index;
    const enum attn_status status =
        json_value_word(READER(options), value, pointer, words, COUNT(words), &index);
    if (status == ATTN_OK)
        request_of(options)->layout = values[index];
    return status;
}

enum attn_status options_apply_output_dtype(struct options *options, struct json_value value,
                                            const char *pointer) {
    static const char *const words[] = {"float32", "float64", "float16", "bfloat16"};
    static const enum attn_dtype values[] = {ATTN_FLOAT32, ATTN_FLOAT64, ATTN_FLOAT16,
                                             ATTN_BFLOAT16};
    size_t index;
    const enum attn_status status =
        json_value_word(READER(options), value, pointer, words, COUNT(words), &index);
    if (status != ATTN_OK)
        return status;
    request_of(options)->output_dtype_given = true;
    request_of(options)->output_dtype = values[index];
    return ATTN_OK;
}

enum attn_status options_apply_encoding(struct options *options, struct json_value value,
                                        const char *pointer) {
    static const char *const words[] = {"nested", "flat", "base64"};
    static const enum codec_encoding values[] = {CODEC_NESTED, CODEC_FLAT, CODEC_BASE64};
    size_t index;
    const enum attn_status status =
        json_value_word(READER(options), value, pointer, words, COUNT(words), &index);
    if (status == ATTN_OK)
        options->request->encoding = values[index];
    return status;
}

static enum attn_status apply_num_heads(struct options *options, struct json_value value,
                                        const char *pointer) {
    return json_value_int(READER(options), value, pointer, 1, INT64_MAX,
                          &request_of(options)->num_heads);
}

static enum attn_status apply_num_kv_heads(struct options *options, struct json_value value,
                                           const char *pointer) {
    return json_value_int(READER(options), value, pointer, 1, INT64_MAX,
                          &request_of(options)->num_kv_heads);
}

enum attn_status options_apply_q_offset(struct options *options, struct json_value value,
                                        const char *pointer) {
    return options_ints(options, value, pointer, &request_of(options)->q_offset);
}

enum attn_status options_apply_scale(struct options *options, struct json_value value,
                                     const char *pointer) {
    struct attn_request *const request = request_of(options);
    const char *const word = json_string_value(value.node);
    request->scale_given = true;
    request->scale = 1;
    if (word != NULL && strcmp(word, "none") == 0)
        return ATTN_OK;
    char came[JSON_DESCRIPTION_ROOM];
    if (word != NULL && strcmp(word, "NaN") != 0 && strstr(word, "Infinity") == NULL)
        return attn_fail(options->reader.error, ATTN_BAD_TYPE, pointer,
                         "Expected a finite number or \"none\" (which is 1), but %s came. Leave "
                         "scale out for 1/sqrt(D).",
                         json_value_describe(value, came));
    return json_value_real(READER(options), value, pointer, &request->scale);
}

enum attn_status options_apply_softcap(struct options *options, struct json_value value,
                                       const char *pointer) {
    request_of(options)->softcap_given = true;
    return json_value_real(READER(options), value, pointer, &request_of(options)->softcap);
}

enum attn_status options_apply_mask(struct options *options, struct json_value value,
                                    const char *pointer) {
    (void)pointer;
    return options_read_mask(options, value);
}

enum attn_status options_apply_bias(struct options *options, struct json_value value,
                                    const char *pointer) {
    return options_tensor(options, value, JSON_TENSOR_REAL, pointer, &request_of(options)->bias);
}

enum attn_status options_apply_alibi(struct options *options, struct json_value value,
                                     const char *pointer) {
    struct attn_request *const request = request_of(options);
    if (json_value_kind(value) != JSON_KIND_BOOL)
        return options_reals(options, value, pointer, &request->alibi_slopes);
    request->alibi = json_is_true(value.node);
    return ATTN_OK;
}

enum attn_status options_apply_sink(struct options *options, struct json_value value,
                                    const char *pointer) {
    return options_reals(options, value, pointer, &request_of(options)->sink);
}

enum attn_status options_apply_kernel(struct options *options, struct json_value value,
                                      const char *pointer) {
    char came[JSON_DESCRIPTION_ROOM];
    const char *const name = json_string_value(value.node);
    if (name == NULL)
        return attn_fail(options->reader.error, ATTN_BAD_TYPE, pointer,
                         "Expected the name of a kernel, but %s came.",
                         json_value_describe(value, came));
    request_of(options)->kernel =
        storage_take_text(options->reader.storage, name, json_string_length(value.node));
    if (request_of(options)->kernel == NULL)
        return attn_fail(options->reader.error, ATTN_NO_MEMORY, "", "There is no memory now.");
    return ATTN_OK;
}

enum attn_status options_apply_timeout(struct options *options, struct json_value value,
                                       const char *pointer) {
    return json_value_int(READER(options), value, pointer, 1, INT64_MAX,
                          &options->request->timeout_ms);
}

static const struct option OPTIONS_TABLE[] = {
    {"precision", OPTION_SCALAR, options_apply_precision},
    {"layout", OPTION_SCALAR, options_apply_layout},
    {"num_heads", OPTION_SCALAR, apply_num_heads},
    {"num_kv_heads", OPTION_SCALAR, apply_num_kv_heads},
    {"q_offset", OPTION_LIST, options_apply_q_offset},
    {"scale", OPTION_SCALAR, options_apply_scale},
    {"softcap", OPTION_SCALAR, options_apply_softcap},
    {"mask", OPTION_SCALAR, options_apply_mask},
    {"bias", OPTION_SCALAR, options_apply_bias},
    {"alibi", OPTION_LIST, options_apply_alibi},
    {"sink", OPTION_LIST, options_apply_sink},
    {"rope", OPTION_SCALAR, options_apply_rope},
    {"score", OPTION_SCALAR, options_apply_score},
    {"output_dtype", OPTION_SCALAR, options_apply_output_dtype},
    {"return", OPTION_LIST, options_apply_return},
    {"weights", OPTION_SCALAR, options_apply_weights},
    {"labels", OPTION_SCALAR, options_apply_labels},
    {"capture", OPTION_SCALAR, options_apply_capture},
    {"timeout_ms", OPTION_SCALAR, options_apply_timeout},
    {"encoding", OPTION_SCALAR, options_apply_encoding},
    {"kernel", OPTION_SCALAR, options_apply_kernel},
};

static const struct codec_operand OPERANDS[] = {
    {"q", offsetof(struct codec_request, attention.q), false},
    {"k", offsetof(struct codec_request, attention.k), false},
    {"v", offsetof(struct codec_request, attention.v), false},
};

const struct codec_schema ATTENTION_SCHEMA = {
    .title = "Attention",
    .members = "q, k and v",
    .unknown = "it is no option, and no mask or bias names it as a tensor",
    .operands = OPERANDS,
    .operand_count = COUNT(OPERANDS),
    .options = OPTIONS_TABLE,
    .option_count = COUNT(OPTIONS_TABLE),
    .hints = ATTENTION_HINTS,
};

size_t schema_operand(const struct codec_schema *schema, const char *name) {
    size_t operand = 0;
    while (operand < schema->operand_count && strcmp(schema->operands[operand].name, name) != 0)
        operand++;
    return operand;
}

size_t schema_option(const struct codec_schema *schema, const char *name) {
    size_t option = 0;
    while (option < schema->option_count && strcmp(schema->options[option].name, name) != 0)
        option++;
    return option;
}

_Static_assert(COUNT(OPTIONS_TABLE) <= OPTIONS_MAX, "a value has its place in struct options");
