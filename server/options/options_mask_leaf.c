/* SPDX-License-Identifier: Apache-2.0 */
/* Leaves of mask expressions: a row per type and member. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "server/options/options_mask.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

typedef enum attn_status (*member_reader)(struct options *options, struct json_value value,
                                          const char *pointer, struct attn_mask_node *node);

struct leaf_member {
    enum attn_mask_kind kind;
    const char *name;
    bool required;
    member_reader read;
};

static enum attn_status read_align(struct options *options, struct json_value value,
                                   const char *pointer, struct attn_mask_node *node) {
    static const char *const words[] = {"top_left", "bottom_right"};
    static const enum attn_align aligns[] = {ATTN_ALIGN_TOP_LEFT, ATTN_ALIGN_BOTTOM_RIGHT};
    size_t index;
    const enum attn_status status =
        json_value_word(&options->reader, value, pointer, words, COUNT(words), &index);
    if (status == ATTN_OK)
        node->align = aligns[index];
    return status;
}

static enum attn_status read_left(struct options *options, struct json_value value,
                                  const char *pointer, struct attn_mask_node *node) {
    return json_value_int(&options->reader, value, pointer, INT64_MIN, INT64_MAX, &node->left);
}

static enum attn_status read_right(struct options *options, struct json_value value,
                                   const char *pointer, struct attn_mask_node *node) {
    return json_value_int(&options->reader, value, pointer, INT64_MIN, INT64_MAX, &node->right);
}

static enum attn_status read_kv_lengths(struct options *options, struct json_value value,
                                        const char *pointer, struct attn_mask_node *node) {
    return options_ints(options, value, pointer, &node->kv_lengths);
}

static enum attn_status read_q_lengths(struct options *options, struct json_value value,
                                       const char *pointer, struct attn_mask_node *node) {
    return options_ints(options, value, pointer, &node->q_lengths);
}

static enum attn_status read_length(struct options *options, struct json_value value,
                                    const char *pointer, struct attn_mask_node *node) {
    return options_ints(options, value, pointer, &node->lengths);
}

static enum attn_status read_tokens(struct options *options, struct json_value value,
                                    const char *pointer, struct attn_mask_node *node) {
    return options_int_set(options, value, pointer, &node->tokens);
}

static enum attn_status read_width(struct options *options, struct json_value value,
                                   const char *pointer, struct attn_mask_node *node) {
    return json_value_int(&options->reader, value, pointer, INT64_MIN, INT64_MAX, &node->width);
}

static enum attn_status read_stride(struct options *options, struct json_value value,
                                    const char *pointer, struct attn_mask_node *node) {
    return json_value_int(&options->reader, value, pointer, INT64_MIN, INT64_MAX, &node->stride);
}

static enum attn_status read_block(struct options *options, struct json_value value,
                                   const char *pointer, struct attn_mask_node *node) {
    return json_value_int(&options->reader, value, pointer, INT64_MIN, INT64_MAX, &node->block);
}

static enum attn_status read_tensor(struct options *options, struct json_value value,
                                    const char *pointer, struct attn_mask_node *node) {
    return options_tensor(options, value, JSON_TENSOR_MASK, pointer, &node->tensor);
}

static enum attn_status read_kv(struct options *options, struct json_value value,
                                const char *pointer, struct attn_mask_node *node) {
    return options_tensor(options, value, JSON_TENSOR_MASK, pointer, &node->kv);
}

static const struct leaf_member MEMBERS[] = {
    {ATTN_MASK_CAUSAL, "align", false, read_align},
    {ATTN_MASK_WINDOW, "left", true, read_left},
    {ATTN_MASK_WINDOW, "right", true, read_right},
    {ATTN_MASK_PADDING, "kv_lengths", false, read_kv_lengths},
    {ATTN_MASK_PADDING, "q_lengths", false, read_q_lengths},
    {ATTN_MASK_PADDING, "keep", false, read_tensor},
    {ATTN_MASK_PREFIX, "length", true, read_length},
    {ATTN_MASK_SEGMENTS, "q", true, read_tensor},
    {ATTN_MASK_SEGMENTS, "kv", false, read_kv},
    {ATTN_MASK_GLOBAL, "tokens", true, read_tokens},
    {ATTN_MASK_DILATED, "width", true, read_width},
    {ATTN_MASK_DILATED, "stride", true, read_stride},
    {ATTN_MASK_BLOCK_CAUSAL, "block", true, read_block},
    {ATTN_MASK_ALLOW, "tensor", true, read_tensor},
    {ATTN_MASK_HIDE, "tensor", true, read_tensor},
};

/* What other libraries and papers call a mask. */
static const struct {
    const char *name, *here;
} ELSEWHERE[] = {
    {"sliding_window", "window"},     {"local", "window"},
    {"prefix_lm", "prefix"},          {"document", "segments"},
    {"block_diagonal", "segments"},   {"strided", "dilated"},
    {"dilation", "dilated"},          {"blockwise_causal", "block_causal"},
    {"frame_causal", "block_causal"},
};

static bool is_leaf(enum attn_mask_kind kind) {
    return kind != ATTN_MASK_ALL && kind != ATTN_MASK_ANY && kind != ATTN_MASK_NOT;
}

/* Types that are leaves; the combinators have no "type". */
static bool find_leaf_kind(const char *name, enum attn_mask_kind *kind) {
    for (int i = 0; i < ATTN_MASK_KIND_COUNT; i++) {
        *kind = (enum attn_mask_kind)i;
        if (is_leaf(*kind) && strcmp(attn_mask_kind_name(*kind), name) == 0)
            return true;
    }
    return false;
}

/* "causal, window, ..." */
static void list_leaves(char *out, size_t size) {
    size_t at = 0;
    for (int i = 0; i < ATTN_MASK_KIND_COUNT; i++)
        if (is_leaf((enum attn_mask_kind)i))
            at += (size_t)snprintf(out + at, size - at, "%s%s", at == 0 ? "" : ", ",
                                   attn_mask_kind_name((enum attn_mask_kind)i));
    assert(at < size);
}

static const char *nearest_kind(const char *word) {
    const char *names[ATTN_MASK_KIND_COUNT + 1] = {NULL};
    for (size_t i = 0; i < COUNT(ELSEWHERE); i++)
        if (strcmp(ELSEWHERE[i].name, word) == 0)
            return ELSEWHERE[i].here;
    for (int i = 0; i < ATTN_MASK_KIND_COUNT; i++)
        names[i] = attn_mask_kind_name((enum attn_mask_kind)i);
    return options_nearest(word, names);
}

/* "kv_lengths, q_lengths, keep" */
static void list_members(enum attn_mask_kind kind, char *out, size_t size) {
    size_t at = 0;
    out[0] = 0;
    for (size_t i = 0; i < COUNT(MEMBERS); i++)
        if (MEMBERS[i].kind == kind)
            at +=
                (size_t)snprintf(out + at, size - at, "%s%s", at == 0 ? "" : ", ", MEMBERS[i].name);
    assert(at < size);
}

/* A name of ours that stands alone where an object belongs. */
static enum attn_status refuse_bare_name(struct options *options, const char *name,
                                         const char *pointer) {
    enum attn_mask_kind kind;
    char members[64];
    if (!find_leaf_kind(name, &kind))
        return attn_fail(options->reader.error, ATTN_BAD_MASK, pointer,
                         "\"%s\" alone is no mask; it is an object of what it combines, as "
                         "{\"%s\": ...}.",
                         name, name);
    list_members(kind, members, sizeof members);
    return attn_fail(options->reader.error, ATTN_BAD_MASK, pointer,
                     "\"%s\" alone is no mask; it is an object with \"type\": \"%s\" and more: %s.",
                     name, name, members);
}

enum attn_status options_mask_refuse(struct options *options, const char *word,
                                     const char *pointer) {
    char shown[40], leaves[160];
    json_snippet(word, strlen(word), 0, shown, sizeof shown);
    list_leaves(leaves, sizeof leaves);
    const char *const nearest = nearest_kind(word);
    if (nearest != NULL && strcmp(nearest, word) == 0)
        return refuse_bare_name(options, word, pointer);
    return attn_fail(options->reader.error, ATTN_BAD_MASK, pointer,
                     "\"%s\" is no mask.%s%s%s There are %s; all, any and not combine them.", shown,
                     nearest == NULL ? "" : " Did you mean \"", nearest == NULL ? "" : nearest,
                     nearest == NULL ? "" : "\"?", leaves);
}

static const struct leaf_member *find_member(enum attn_mask_kind kind, const char *name) {
    for (size_t i = 0; i < COUNT(MEMBERS); i++)
        if (MEMBERS[i].kind == kind && strcmp(MEMBERS[i].name, name) == 0)
            return &MEMBERS[i];
    return NULL;
}

static enum attn_status read_member(struct options *options, enum attn_mask_kind kind,
                                    const char *name, struct json_value value, const char *pointer,
                                    struct attn_mask_node *node) {
    char where[JSON_POINTER_ROOM], shown[40], list[64];
    const struct leaf_member *const member = find_member(kind, name);
    if (member != NULL)
        return member->read(options, value, json_pointer_member(where, pointer, name), node);
    list_members(kind, list, sizeof list);
    return attn_fail(options->reader.error, ATTN_BAD_MASK, pointer,
                     "A mask of type %s has no \"%s\"; besides type it has %s.",
                     attn_mask_kind_name(kind),
                     json_snippet(name, strlen(name), 0, shown, sizeof shown), list);
}

static enum attn_status check_members(struct options *options, enum attn_mask_kind kind,
                                      struct json_value object, const char *pointer) {
    for (size_t i = 0; i < COUNT(MEMBERS); i++)
        if (MEMBERS[i].kind == kind && MEMBERS[i].required &&
            json_object_get(object.node, MEMBERS[i].name) == NULL)
            return attn_fail(options->reader.error, ATTN_BAD_MASK, pointer,
                             "A mask of type %s needs \"%s\".", attn_mask_kind_name(kind),
                             MEMBERS[i].name);
    const bool lengths = json_object_get(object.node, "kv_lengths") != NULL;
    const bool keep = json_object_get(object.node, "keep") != NULL;
    if (kind == ATTN_MASK_PADDING && lengths == keep)
        return attn_fail(options->reader.error, ATTN_BAD_MASK, pointer,
                         "A padding mask needs either \"kv_lengths\" or \"keep\", and %s came.",
                         lengths ? "both" : "neither");
    return ATTN_OK;
}

enum attn_status options_mask_leaf(struct options *options, struct json_value object,
                                   const char *pointer, struct attn_mask_node *node) {
    const char *const type = json_string_value(json_object_get(object.node, "type"));
    if (type == NULL)
        return attn_fail(options->reader.error, ATTN_BAD_MASK, pointer,
                         "A mask object needs a \"type\" such as \"window\", or one of \"all\", "
                         "\"any\" and \"not\".");
    enum attn_mask_kind kind;
    if (!find_leaf_kind(type, &kind))
        return options_mask_refuse(options, type, pointer);
    node->kind = kind;
    const char *name;
    json_t *member;
    enum attn_status status = ATTN_OK;
    json_object_foreach(object.node, name, member) {
        if (status == ATTN_OK && strcmp(name, "type") != 0)
            status = read_member(options, kind, name, (struct json_value){object.document, member},
                                 pointer, node);
    }
    return status == ATTN_OK ? check_members(options, kind, object, pointer) : status;
}
