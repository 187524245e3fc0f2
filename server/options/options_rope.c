/* SPDX-License-Identifier: Apache-2.0 */
/* `rope`: how q and k are turned by their positions. */
#include <stdio.h>
#include <string.h>

#include "server/options/options_table.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

static struct attn_rope_request *rope_of(struct options *options) {
    return &options->request->attention.rope;
}

static enum attn_status read_theta(struct options *options, struct json_value value,
                                   const char *pointer) {
    rope_of(options)->theta_given = true;
    return json_value_real(&options->reader, value, pointer, &rope_of(options)->theta);
}

static enum attn_status read_inv_freq(struct options *options, struct json_value value,
                                      const char *pointer) {
    return options_reals(options, value, pointer, &rope_of(options)->inv_freq);
}

static enum attn_status read_interleaved(struct options *options, struct json_value value,
                                         const char *pointer) {
    char came[JSON_DESCRIPTION_ROOM];
    if (json_value_kind(value) != JSON_KIND_BOOL)
        return attn_fail(options->reader.error, ATTN_BAD_TYPE, pointer,
                         "Expected true (pairs are 2n and 2n+1) or false (n and n+dims/2), but %s "
                         "came.",
                         json_value_describe(value, came));
    rope_of(options)->interleaved = json_is_true(value.node);
    return ATTN_OK;
}

static enum attn_status read_dims(struct options *options, struct json_value value,
                                  const char *pointer) {
    rope_of(options)->dims_given = true;
    return json_value_int(&options->reader, value, pointer, INT64_MIN, INT64_MAX,
                          &rope_of(options)->dims);
}

static enum attn_status read_q_offset(struct options *options, struct json_value value,
                                      const char *pointer) {
    return options_ints(options, value, pointer, &rope_of(options)->q_offset);
}

static enum attn_status read_k_offset(struct options *options, struct json_value value,
                                      const char *pointer) {
    return json_value_int(&options->reader, value, pointer, INT64_MIN, INT64_MAX,
                          &rope_of(options)->k_offset);
}

static const struct option MEMBERS[] = {
    {"theta", OPTION_BODY_ONLY, read_theta},
    {"inv_freq", OPTION_BODY_ONLY, read_inv_freq},
    {"interleaved", OPTION_BODY_ONLY, read_interleaved},
    {"dims", OPTION_BODY_ONLY, read_dims},
    {"q_offset", OPTION_BODY_ONLY, read_q_offset},
    {"k_offset", OPTION_BODY_ONLY, read_k_offset},
};

/* What other libraries call the members. */
static const struct options_hint ELSEWHERE[] = {
    {"base", "It is called theta"},
    {"rope_theta", "It is called theta"},
    {"rotary_dim", "It is called dims"},
    {"rotary_embedding_dim", "It is called dims"},
    {"partial_rotary_factor", "Say dims, which is the factor times D"},
    {"is_neox", "Say \"interleaved\": false; neox pairs n with n+dims/2, and that is the default"},
    {"is_neox_style",
     "Say \"interleaved\": false; neox pairs n with n+dims/2, and that is the default"},
    {"scaling", "Send the scaled frequencies as inv_freq"},
    {"rope_scaling", "Send the scaled frequencies as inv_freq"},
    {"rope_type", "Send the scaled frequencies as inv_freq"},
    {"factor", "Send the scaled frequencies as inv_freq"},
    {"freqs", "Send the frequencies, one per pair and not one per position, as inv_freq"},
    {"offset", "Say q_offset, and k_offset where key 0 does not stand at 0"},
    {"position_ids", "Rows stand one after the other from q_offset and k_offset on"},
};

static enum attn_status take_member(struct options *options, const char *name,
                                    struct json_value value, const char *pointer) {
    const char *names[COUNT(MEMBERS) + 1] = {NULL};
    char where[JSON_POINTER_ROOM], shown[40];
    json_pointer_member(where, pointer, name);
    for (size_t i = 0; i < COUNT(MEMBERS); i++) {
        if (strcmp(MEMBERS[i].name, name) == 0)
            return MEMBERS[i].apply(options, value, where);
        names[i] = MEMBERS[i].name;
    }
    json_snippet(name, strlen(name), 0, shown, sizeof shown);
    for (size_t i = 0; i < COUNT(ELSEWHERE); i++)
        if (strcmp(ELSEWHERE[i].name, name) == 0)
            return attn_fail(options->reader.error, ATTN_UNKNOWN_FIELD, where,
                             "rope has no \"%s\". %s.", shown, ELSEWHERE[i].sentence);
    const char *const nearest = options_nearest(name, names);
    return attn_fail(
        options->reader.error, ATTN_UNKNOWN_FIELD, where,
        "rope has no \"%s\".%s%s%s It has theta, inv_freq, interleaved, dims, q_offset "
        "and k_offset.",
        shown, nearest == NULL ? "" : " Did you mean \"", nearest == NULL ? "" : nearest,
        nearest == NULL ? "" : "\"?");
}

enum attn_status options_apply_rope(struct options *options, struct json_value value,
                                    const char *pointer) {
    char came[JSON_DESCRIPTION_ROOM];
    if (json_value_kind(value) != JSON_KIND_OBJECT)
        return attn_fail(options->reader.error, ATTN_BAD_TYPE, pointer,
                         "Expected an object such as {\"theta\": 10000} ({} has that theta and "
                         "turns all dimensions), but %s came. Leave rope out for none.",
                         json_value_describe(value, came));
    rope_of(options)->given = true;
    const char *name;
    json_t *node;
    enum attn_status status = ATTN_OK;
    json_object_foreach(value.node, name, node) {
        if (status == ATTN_OK)
            status = take_member(options, name, (struct json_value){value.document, node}, pointer);
    }
    return status;
}
