/* SPDX-License-Identifier: Apache-2.0 */
/* What a step of a session says besides attention, and a step of many sessions. */
#include <stddef.h>

#include "server/options/options_table.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

static struct codec_session *session_of(struct options *options) {
    return &options->request->session;
}

static enum attn_status apply_layer(struct options *options, struct json_value value,
                                    const char *pointer) {
    session_of(options)->layer_given = true;
    return json_value_int(&options->reader, value, pointer, 0, INT64_MAX,
                          &session_of(options)->layer);
}

static enum attn_status apply_position(struct options *options, struct json_value value,
                                       const char *pointer) {
    session_of(options)->position_given = true;
    return json_value_int(&options->reader, value, pointer, 0, INT64_MAX,
                          &session_of(options)->position);
}

static enum attn_status read_bool(struct options *options, struct json_value value,
                                  const char *pointer, bool *out) {
    char came[JSON_DESCRIPTION_ROOM];
    if (json_value_kind(value) != JSON_KIND_BOOL)
        return attn_fail(options->reader.error, ATTN_BAD_TYPE, pointer,
                         "Expected true or false, but %s came.", json_value_describe(value, came));
    *out = json_is_true(value.node);
    return ATTN_OK;
}

static enum attn_status apply_append(struct options *options, struct json_value value,
                                     const char *pointer) {
    bool appends = true;
    const enum attn_status status = read_bool(options, value, pointer, &appends);
    session_of(options)->attends_only = !appends;
    return status;
}

static enum attn_status apply_causal(struct options *options, struct json_value value,
                                     const char *pointer) {
    bool is_causal = true;
    const enum attn_status status = read_bool(options, value, pointer, &is_causal);
    options->request->attention.kv_all = !is_causal;
    return status;
}

static enum attn_status apply_sessions(struct options *options, struct json_value value,
                                       const char *pointer) {
    char came[JSON_DESCRIPTION_ROOM];
    struct codec_session *const session = session_of(options);
    const bool is_list = json_value_kind(value) == JSON_KIND_LIST;
    const size_t count = is_list ? json_array_size(value.node) : 0;
    session->ids = storage_take_array(options->reader.storage, count, sizeof *session->ids);
    session->id_count = count;
    if (session->ids == NULL)
        return attn_fail(options->reader.error, ATTN_NO_MEMORY, "", "There is no memory now.");
    for (size_t i = 0; i < count; i++) {
        json_t *const node = json_value_item(value, i).node;
        const char *const id = json_string_value(node);
        session->ids[i] =
            id == NULL ? NULL
                       : storage_take_text(options->reader.storage, id, json_string_length(node));
        if (session->ids[i] == NULL)
            return attn_fail(options->reader.error, ATTN_BAD_TYPE, pointer,
                             "Expected a list of the sessions' ids, which are texts.");
    }
    return count > 0 ? ATTN_OK
                     : attn_fail(options->reader.error, ATTN_BAD_TYPE, pointer,
                                 "Expected a list of the sessions' ids, but %s came.",
                                 json_value_describe(value, came));
}

static enum attn_status apply_positions(struct options *options, struct json_value value,
                                        const char *pointer) {
    return options_ints(options, value, pointer, &session_of(options)->positions);
}

static const struct option STEP_OPTIONS[] = {
    {"layer", OPTION_SCALAR, apply_layer},
    {"position", OPTION_SCALAR, apply_position},
    {"append", OPTION_SCALAR, apply_append},
    {"causal", OPTION_SCALAR, apply_causal},
    {"precision", OPTION_SCALAR, options_apply_precision},
    {"layout", OPTION_SCALAR, options_apply_layout},
    {"scale", OPTION_SCALAR, options_apply_scale},
    {"softcap", OPTION_SCALAR, options_apply_softcap},
    {"mask", OPTION_SCALAR, options_apply_mask},
    {"bias", OPTION_SCALAR, options_apply_bias},
    {"alibi", OPTION_LIST, options_apply_alibi},
    {"sink", OPTION_LIST, options_apply_sink},
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

static const struct options_hint STEP_HINTS[] = {
    {"q_offset", "A session knows its positions: say position for where its next token stands"},
    {"rope", "A session's rope is given when it is made, and turns k and q by itself"},
    {"num_heads", "Tensors of a session are [H,T,D], or [1,H,T,D] in either layout"},
    {"num_kv_heads", "Tensors of a session are [H,T,D], or [1,H,T,D] in either layout"},
    {"is_causal", "It is called causal, and true unless you say otherwise"},
    {"attn_mask", "A boolean mask is \"mask\": {\"type\": \"allow\", \"tensor\": ...}; an additive "
                  "one is \"bias\""},
    {"layer_idx", "It is called layer"},
    {"cache_position", "It is called position"},
    {"position_ids", "A session knows its positions: say position for the first of them"},
    {"query", "The query tensor is called q"},
    {"key", "The key tensor is called k"},
    {"value", "The value tensor is called v"},
    {NULL, NULL},
};

static const struct codec_operand STEP_OPERANDS[] = {
    {"q", offsetof(struct codec_request, attention.q), false},
    {"k", offsetof(struct codec_request, attention.k), true},
    {"v", offsetof(struct codec_request, attention.v), true},
};

const struct codec_schema SESSION_STEP_SCHEMA = {
    .title = "A step of a session",
    .members = "q, k and v",
    .unknown = "it is no option of a session's attention, and no mask or bias names it as a tensor",
    .operands = STEP_OPERANDS,
    .operand_count = COUNT(STEP_OPERANDS),
    .options = STEP_OPTIONS,
    .option_count = COUNT(STEP_OPTIONS),
    .hints = STEP_HINTS,
};

static const struct option STEPS_OPTIONS[] = {
    {"sessions", OPTION_BODY_ONLY, apply_sessions},
    {"layer", OPTION_SCALAR, apply_layer},
    {"positions", OPTION_LIST, apply_positions},
    {"precision", OPTION_SCALAR, options_apply_precision},
    {"scale", OPTION_SCALAR, options_apply_scale},
    {"softcap", OPTION_SCALAR, options_apply_softcap},
    {"alibi", OPTION_LIST, options_apply_alibi},
    {"sink", OPTION_LIST, options_apply_sink},
    {"output_dtype", OPTION_SCALAR, options_apply_output_dtype},
    {"return", OPTION_LIST, options_apply_return},
    {"weights", OPTION_SCALAR, options_apply_weights},
    {"timeout_ms", OPTION_SCALAR, options_apply_timeout},
    {"encoding", OPTION_SCALAR, options_apply_encoding},
    {"kernel", OPTION_SCALAR, options_apply_kernel},
};

static const struct options_hint STEPS_HINTS[] = {
    {"position", "It is called positions: one per session"},
    {"ids", "It is called sessions"},
    {"mask", "Sessions of one step differ in length: ask with a mask for each by itself"},
    {"bias", "Sessions of one step differ in length: ask with a bias for each by itself"},
    {"capture", "A capture is of one session: ask for each one's by itself, with append: false"},
    {"append", "A step of many sessions appends"},
    {"q_offset", "A session knows its positions: say positions for where the next tokens stand"},
    {"rope", "A session's rope is given when it is made, and turns k and q by itself"},
    {NULL, NULL},
};

static const struct codec_operand STEPS_OPERANDS[] = {
    {"q", offsetof(struct codec_request, attention.q), false},
    {"k", offsetof(struct codec_request, attention.k), false},
    {"v", offsetof(struct codec_request, attention.v), false},
};
_Static_assert(COUNT(STEP_OPERANDS) <= OPERANDS_MAX && COUNT(STEPS_OPERANDS) <= OPERANDS_MAX &&
                   COUNT(STEP_OPTIONS) <= OPTIONS_MAX,
               "values have their places");

const struct codec_schema SESSION_STEPS_SCHEMA = {
    .title = "A step of many sessions",
    .members = "sessions, q, k and v",
    .unknown =
        "a step of many sessions has q, k, v, sessions, layer, positions, precision, scale, "
        "softcap, alibi, sink, output_dtype, return, weights, timeout_ms, encoding and kernel",
    .operands = STEPS_OPERANDS,
    .operand_count = COUNT(STEPS_OPERANDS),
    .options = STEPS_OPTIONS,
    .option_count = COUNT(STEPS_OPTIONS),
    .hints = STEPS_HINTS,
};
