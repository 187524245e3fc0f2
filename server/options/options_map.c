/* SPDX-License-Identifier: Apache-2.0 */
/* What comes back: `return`, and `weights` with its stage, heads, rows, columns, pool and top_k. */
#include <stdio.h>
#include <string.h>

#include "server/options/options_table.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

enum { MEMBERS_MAX = 6 };

struct return_word {
    const char *name;
    unsigned bit;
};

static const struct return_word RETURNS[] = {
    {"output", ATTN_RETURN_OUTPUT}, {"weights", ATTN_RETURN_WEIGHTS},
    {"scores", ATTN_RETURN_SCORES}, {"lse", ATTN_RETURN_LSE},
    {"stats", ATTN_RETURN_STATS},   {"col_sums", ATTN_RETURN_COL_SUMS},
};

static enum attn_status take_return(struct options *options, struct json_value word,
                                    const char *pointer) {
    char came[JSON_DESCRIPTION_ROOM];
    const char *const name = json_string_value(word.node);
    for (size_t i = 0; name != NULL && i < COUNT(RETURNS); i++)
        if (strcmp(RETURNS[i].name, name) == 0) {
            options->request->attention.returns |= RETURNS[i].bit;
            return ATTN_OK;
        }
    return attn_fail(options->reader.error, name == NULL ? ATTN_BAD_TYPE : ATTN_BAD_VALUE, pointer,
                     "Expected any of \"output\", \"weights\", \"scores\", \"lse\", \"stats\" and "
                     "\"col_sums\", but %s came.",
                     json_value_describe(word, came));
}

enum attn_status options_apply_return(struct options *options, struct json_value value,
                                      const char *pointer) {
    char came[JSON_DESCRIPTION_ROOM];
    if (json_value_kind(value) == JSON_KIND_TEXT)
        return take_return(options, value, pointer);
    if (json_value_kind(value) != JSON_KIND_LIST)
        return attn_fail(options->reader.error, ATTN_BAD_TYPE, pointer,
                         "Expected a list such as [\"output\", \"weights\"], but %s came.",
                         json_value_describe(value, came));
    if (json_array_size(value.node) == 0)
        return attn_fail(options->reader.error, ATTN_BAD_VALUE, pointer,
                         "The list is empty. Name at least one of output, weights, scores, lse, "
                         "stats and col_sums, or leave return out for [\"output\"].");
    enum attn_status status = ATTN_OK;
    for (size_t i = 0; status == ATTN_OK && i < json_array_size(value.node); i++)
        status = take_return(options, json_value_item(value, i), pointer);
    return status;
}

static enum attn_status read_stage(struct options *options, struct json_value value,
                                   const char *pointer) {
    static const char *const words[] = {"weights", "masked", "capped", "scaled", "raw"};
    static const enum attn_stage stages[] = {ATTN_STAGE_WEIGHTS, ATTN_STAGE_MASKED,
                                             ATTN_STAGE_CAPPED, ATTN_STAGE_SCALED, ATTN_STAGE_RAW};
    size_t index;
    const enum attn_status status =
        json_value_word(&options->reader, value, pointer, words, COUNT(words), &index);
    if (status == ATTN_OK)
        options->request->attention.map.stage = stages[index];
    return status;
}

static enum attn_status read_heads(struct options *options, struct json_value value,
                                   const char *pointer) {
    struct attn_map_selection *const map = &options->request->attention.map;
    const char *const word = json_string_value(value.node);
    char came[JSON_DESCRIPTION_ROOM];
    if (word != NULL && (strcmp(word, "mean") == 0 || strcmp(word, "max") == 0)) {
        map->over_heads = strcmp(word, "mean") == 0 ? ATTN_HEADS_MEAN : ATTN_HEADS_MAX;
        return ATTN_OK;
    }
    if (json_value_kind(value) == JSON_KIND_TEXT)
        return attn_fail(options->reader.error, ATTN_BAD_VALUE, pointer,
                         "Expected a list of heads, or \"mean\" or \"max\" of all of them, but %s "
                         "came.",
                         json_value_describe(value, came));
    const enum attn_status status =
        json_value_ints(&options->reader, value, pointer, &options->request->attention.map.heads);
    if (status == ATTN_OK && options->request->attention.map.heads.count == 0)
        return attn_fail(options->reader.error, ATTN_BAD_VALUE, pointer,
                         "The list of heads is empty. Leave heads out for all of them.");
    return status;
}

static enum attn_status read_pair(struct options *options, struct json_value value,
                                  const char *pointer, int64_t pair[2], bool *given) {
    struct attn_int_list list;
    const enum attn_status status = json_value_ints(&options->reader, value, pointer, &list);
    if (status != ATTN_OK)
        return status;
    if (list.count != 2)
        return attn_fail(options->reader.error, ATTN_BAD_TYPE, pointer,
                         "Expected two whole numbers, [first, end), but %zu came.", list.count);
    memcpy(pair, list.values, 2 * sizeof *pair);
    *given = true;
    return ATTN_OK;
}

static enum attn_status read_rows(struct options *options, struct json_value value,
                                  const char *pointer) {
    struct attn_map_selection *const map = &options->request->attention.map;
    return read_pair(options, value, pointer, map->rows, &map->rows_given);
}

static enum attn_status read_cols(struct options *options, struct json_value value,
                                  const char *pointer) {
    struct attn_map_selection *const map = &options->request->attention.map;
    return read_pair(options, value, pointer, map->cols, &map->cols_given);
}

static enum attn_status read_top_k(struct options *options, struct json_value value,
                                   const char *pointer) {
    struct attn_map_selection *const map = &options->request->attention.map;
    map->top_k_given = true;
    return json_value_int(&options->reader, value, pointer, 1, INT64_MAX, &map->top_k);
}

static enum attn_status read_pool_rows(struct options *options, struct json_value value,
                                       const char *pointer) {
    return json_value_int(&options->reader, value, pointer, 1, INT64_MAX,
                          &options->request->attention.map.pool_rows);
}

static enum attn_status read_pool_cols(struct options *options, struct json_value value,
                                       const char *pointer) {
    return json_value_int(&options->reader, value, pointer, 1, INT64_MAX,
                          &options->request->attention.map.pool_cols);
}

static enum attn_status read_pool_op(struct options *options, struct json_value value,
                                     const char *pointer) {
    static const char *const words[] = {"max", "mass"};
    static const enum attn_pool values[] = {ATTN_POOL_MAX, ATTN_POOL_MASS};
    size_t index;
    const enum attn_status status =
        json_value_word(&options->reader, value, pointer, words, COUNT(words), &index);
    if (status == ATTN_OK)
        options->request->attention.map.pool = values[index];
    return status;
}

/* Members of an object, each with its function. */
struct members {
    const char *of, *list; /* what it is called, and the names for people */
    const struct option *options;
    size_t count;
};

static enum attn_status take_member(struct options *options, const struct members *members,
                                    const char *name, struct json_value value,
                                    const char *pointer) {
    const char *names[MEMBERS_MAX + 1] = {NULL};
    char where[JSON_POINTER_ROOM], shown[40];
    json_pointer_member(where, pointer, name);
    for (size_t i = 0; i < members->count; i++) {
        if (strcmp(members->options[i].name, name) == 0)
            return members->options[i].apply(options, value, where);
        names[i] = members->options[i].name;
    }
    const char *const nearest = options_nearest(name, names);
    return attn_fail(options->reader.error, ATTN_UNKNOWN_FIELD, where,
                     "%s has no \"%s\".%s%s%s It has %s.", members->of,
                     json_snippet(name, strlen(name), 0, shown, sizeof shown),
                     nearest == NULL ? "" : " Did you mean \"", nearest == NULL ? "" : nearest,
                     nearest == NULL ? "" : "\"?", members->list);
}

static enum attn_status take_members(struct options *options, const struct members *members,
                                     struct json_value value, const char *pointer) {
    const char *name;
    json_t *node;
    enum attn_status status = ATTN_OK;
    json_object_foreach(value.node, name, node) {
        if (status == ATTN_OK)
            status = take_member(options, members, name, (struct json_value){value.document, node},
                                 pointer);
    }
    return status;
}

static enum attn_status read_pool(struct options *options, struct json_value value,
                                  const char *pointer) {
    static const struct option rows[] = {{"rows", OPTION_BODY_ONLY, read_pool_rows},
                                         {"cols", OPTION_BODY_ONLY, read_pool_cols},
                                         {"op", OPTION_BODY_ONLY, read_pool_op}};
    static const struct members members = {"pool", "rows, cols and op", rows, COUNT(rows)};
    struct attn_map_selection *const map = &options->request->attention.map;
    char came[JSON_DESCRIPTION_ROOM];
    if (json_value_kind(value) != JSON_KIND_OBJECT)
        return attn_fail(options->reader.error, ATTN_BAD_TYPE, pointer,
                         "Expected an object such as {\"rows\": 64, \"cols\": 64, \"op\": "
                         "\"max\"}, but %s came.",
                         json_value_describe(value, came));
    const enum attn_status status = take_members(options, &members, value, pointer);
    if (status != ATTN_OK)
        return status;
    if (map->pool_rows == 0 || map->pool_cols == 0)
        return attn_fail(options->reader.error, ATTN_MISSING_FIELD, pointer,
                         "pool needs rows and cols, the numbers of bins that come back; %s is not "
                         "there.",
                         map->pool_rows == 0 ? "rows" : "cols");
    map->pool_given = true;
    return ATTN_OK;
}

static const struct option MEMBERS[] = {
    {"stage", OPTION_BODY_ONLY, read_stage}, {"heads", OPTION_BODY_ONLY, read_heads},
    {"rows", OPTION_BODY_ONLY, read_rows},   {"cols", OPTION_BODY_ONLY, read_cols},
    {"pool", OPTION_BODY_ONLY, read_pool},   {"top_k", OPTION_BODY_ONLY, read_top_k},
};

_Static_assert(COUNT(MEMBERS) <= MEMBERS_MAX, "the names of members have room");

enum attn_status options_apply_weights(struct options *options, struct json_value value,
                                       const char *pointer) {
    static const struct members members = {"weights", "stage, heads, rows, cols, pool and top_k",
                                           MEMBERS, COUNT(MEMBERS)};
    char came[JSON_DESCRIPTION_ROOM];
    const enum json_kind kind = json_value_kind(value);
    if (kind == JSON_KIND_BOOL && json_is_false(value.node))
        return ATTN_OK;
    if (kind != JSON_KIND_BOOL && kind != JSON_KIND_OBJECT)
        return attn_fail(
            options->reader.error, ATTN_BAD_TYPE, pointer,
            "Expected true, or an object with stage, heads, rows, cols, pool or top_k, but %s "
            "came.",
            json_value_describe(value, came));
    struct attn_request *const request = &options->request->attention;
    if (request->returns == 0)
        request->returns = ATTN_RETURN_OUTPUT;
    /* An object beside `return: scores` selects the part of that map and asks for no second one. */
    if (kind == JSON_KIND_BOOL || (request->returns & ATTN_RETURN_SCORES) == 0)
        request->returns |= ATTN_RETURN_WEIGHTS;
    return take_members(options, &members, value, pointer);
}
