/* SPDX-License-Identifier: Apache-2.0 */
/* `score`: what a query and a key make of each other. */
#include <string.h>

#include "server/options/options_table.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

static const struct {
    const char *name;
    enum attn_score score;
} TYPES[] = {
    {"scaled_dot", ATTN_SCORE_SCALED_DOT},
    {"additive", ATTN_SCORE_ADDITIVE},
};

/* What papers and libraries call a score. */
static const struct options_hint ELSEWHERE[] = {
    {"bahdanau", "It is called {\"type\": \"additive\", \"w\": [...]}"},
    {"concat",
     "It is called {\"type\": \"additive\", \"w\": [...]}, with W1 q and W2 k as q and k"},
    {"mlp", "It is called {\"type\": \"additive\", \"w\": [...]}, with W1 q and W2 k as q and k"},
    {"dot", "Say \"scaled_dot\" and \"scale\": \"none\""},
    {"dot_product", "Say \"scaled_dot\" and \"scale\": \"none\""},
    {"luong", "Say \"scaled_dot\" and \"scale\": \"none\", and send W q as q for the general form"},
    {"general", "Say \"scaled_dot\" and \"scale\": \"none\", and send W q as q"},
    {"multiplicative", "Say \"scaled_dot\" and \"scale\": \"none\", and send W q as q"},
    {"cosine", "Say \"scaled_dot\" with q and k scaled to length 1, and a scale"},
    {"scaled_dot_product", "It is called \"scaled_dot\""},
};

static enum attn_status refuse_type(struct options *options, const char *word,
                                    const char *pointer) {
    const char *names[COUNT(TYPES) + 1] = {NULL};
    char shown[40];
    json_snippet(word, strlen(word), 0, shown, sizeof shown);
    for (size_t i = 0; i < COUNT(ELSEWHERE); i++)
        if (strcmp(ELSEWHERE[i].name, word) == 0)
            return attn_fail(options->reader.error, ATTN_BAD_VALUE, pointer,
                             "There is no score \"%s\" here. %s.", shown, ELSEWHERE[i].sentence);
    for (size_t i = 0; i < COUNT(TYPES); i++)
        names[i] = TYPES[i].name;
    const char *const nearest = options_nearest(word, names);
    return attn_fail(options->reader.error, ATTN_BAD_VALUE, pointer,
                     "There is no score \"%s\".%s%s%s There are \"scaled_dot\" and {\"type\": "
                     "\"additive\", \"w\": [...]}.",
                     shown, nearest == NULL ? "" : " Did you mean \"",
                     nearest == NULL ? "" : nearest, nearest == NULL ? "" : "\"?");
}

static enum attn_status read_type(struct options *options, const char *word, const char *pointer) {
    for (size_t i = 0; i < COUNT(TYPES); i++)
        if (strcmp(TYPES[i].name, word) == 0) {
            options->request->attention.score = TYPES[i].score;
            return ATTN_OK;
        }
    return refuse_type(options, word, pointer);
}

/* Numbers inline keep their digits, as in other lists: they are few, and q may be float64. */
static enum attn_status read_weights(struct options *options, struct json_value value,
                                     const char *pointer) {
    const enum attn_dtype real = options->real;
    if (json_value_kind(value) != JSON_KIND_TEXT)
        options->real = ATTN_FLOAT64;
    const enum attn_status status =
        options_tensor(options, value, JSON_TENSOR_REAL, pointer, &options->request->attention.w);
    options->real = real;
    return status;
}

static enum attn_status read_members(struct options *options, struct json_value object,
                                     const char *pointer) {
    const bool additive = options->request->attention.score == ATTN_SCORE_ADDITIVE;
    char where[JSON_POINTER_ROOM], shown[40];
    const char *name;
    json_t *node;
    enum attn_status status = ATTN_OK;
    json_object_foreach(object.node, name, node) {
        if (status != ATTN_OK || strcmp(name, "type") == 0)
            continue;
        json_pointer_member(where, pointer, name);
        if (additive && strcmp(name, "w") == 0)
            status = read_weights(options, (struct json_value){object.document, node}, where);
        else
            status = attn_fail(options->reader.error, ATTN_UNKNOWN_FIELD, where,
                               "This score has no \"%s\"; %s.",
                               json_snippet(name, strlen(name), 0, shown, sizeof shown),
                               additive ? "besides type it has w" : "it has only its type");
    }
    return status;
}

enum attn_status options_apply_score(struct options *options, struct json_value value,
                                     const char *pointer) {
    char came[JSON_DESCRIPTION_ROOM], where[JSON_POINTER_ROOM];
    const char *const word = json_string_value(value.node);
    if (word != NULL && strcmp(word, "additive") == 0)
        return attn_fail(options->reader.error, ATTN_BAD_TYPE, pointer,
                         "An additive score needs its weights: {\"type\": \"additive\", \"w\": "
                         "[...]}, w of D numbers.");
    if (word != NULL)
        return read_type(options, word, pointer);
    if (json_value_kind(value) != JSON_KIND_OBJECT)
        return attn_fail(
            options->reader.error, ATTN_BAD_TYPE, pointer,
            "Expected \"scaled_dot\" or {\"type\": \"additive\", \"w\": [...]}, but %s "
            "came.",
            json_value_describe(value, came));
    json_pointer_member(where, pointer, "type");
    const char *const type = json_string_value(json_object_get(value.node, "type"));
    if (type == NULL)
        return attn_fail(options->reader.error, ATTN_MISSING_FIELD, where,
                         "A score that is an object needs a \"type\": \"scaled_dot\" or "
                         "\"additive\".");
    const enum attn_status status = read_type(options, type, where);
    return status == ATTN_OK ? read_members(options, value, pointer) : status;
}
