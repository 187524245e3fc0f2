/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mask expressions: a walk over the tree with a stack of its own writes the postfix program. More
 * than ATTN_MASK_MAX_NODES nodes or ATTN_MASK_MAX_DEPTH levels are refused.
 */
#include "server/options/options_mask.h"

#include <assert.h>
#include <string.h>

/* A combinator whose operands are being read. */
struct frame {
    enum attn_mask_kind kind;
    struct json_value operands; /* the list, or the one operand of `not` */
    size_t next, count;
    char pointer[JSON_POINTER_ROOM]; /* of the combinator's node */
    char base[JSON_POINTER_ROOM];    /* of its operands; theirs add an index, but for `not` */
};

struct walk {
    struct options *options;
    struct attn_mask_node *nodes;
    size_t count, room;
    struct frame stack[ATTN_MASK_MAX_DEPTH];
    size_t depth;
};

static enum attn_status refuse(const struct walk *walk, const char *pointer, const char *what,
                               struct json_value value) {
    char came[JSON_DESCRIPTION_ROOM];
    return attn_fail(walk->options->reader.error, ATTN_BAD_MASK, pointer, "%s, but %s came.", what,
                     json_value_describe(value, came));
}

/* Longer pointers are cut off. */
static void copy_pointer(char *out, size_t size, const char *pointer) {
    const size_t length = strnlen(pointer, size - 1);
    memcpy(out, pointer, length);
    out[length] = 0;
}

/* Room for one more node; most masks have a few, so it starts small. */
static enum attn_status reserve_node(struct walk *walk) {
    struct attn_error *const error = walk->options->reader.error;
    if (walk->count < walk->room)
        return ATTN_OK;
    if (walk->room == ATTN_MASK_MAX_NODES)
        return attn_fail_limit(error, ATTN_BAD_MASK, "/mask", ATTN_MASK_MAX_NODES,
                               "The mask has more than %d parts. A mask this irregular is an allow "
                               "tensor.",
                               ATTN_MASK_MAX_NODES);
    const size_t room = walk->room == 0 ? 4 : walk->room * 2;
    struct attn_mask_node *const nodes =
        storage_take_array(walk->options->reader.storage, room, sizeof *nodes);
    if (nodes == NULL)
        return attn_fail(error, ATTN_NO_MEMORY, "/mask", "There is no memory now.");
    if (walk->count > 0)
        memcpy(nodes, walk->nodes, walk->count * sizeof *nodes);
    walk->nodes = nodes;
    walk->room = room;
    return ATTN_OK;
}

/* The next node of the program, empty but for its pointer; NULL when the error is set. */
static struct attn_mask_node *add_node(struct walk *walk, const char *pointer) {
    if (reserve_node(walk) != ATTN_OK)
        return NULL;
    assert(walk->nodes != NULL);
    struct attn_mask_node *const node = &walk->nodes[walk->count++];
    *node = (struct attn_mask_node){.tensor = attn_tensor_none(), .kv = attn_tensor_none()};
    copy_pointer(node->pointer, sizeof node->pointer, pointer);
    return node;
}

static enum attn_status failure(const struct walk *walk) {
    return walk->options->reader.error->status;
}

/* A document has no more levels than the stack, or its reader would have refused it. */
static_assert((int)JSON_MAX_DEPTH <= ATTN_MASK_MAX_DEPTH, "the stack holds every level of JSON");

static enum attn_status push(struct walk *walk, const struct frame *frame) {
    assert(walk->depth < ATTN_MASK_MAX_DEPTH);
    walk->stack[walk->depth++] = *frame;
    return ATTN_OK;
}

static enum attn_status open_list(struct walk *walk, enum attn_mask_kind kind,
                                  struct json_value list, const char *pointer, const char *base) {
    if (json_value_kind(list) != JSON_KIND_LIST)
        return refuse(walk, base, "Expected a list of mask expressions", list);
    struct frame frame = {.kind = kind, .operands = list, .count = json_array_size(list.node)};
    copy_pointer(frame.pointer, sizeof frame.pointer, pointer);
    copy_pointer(frame.base, sizeof frame.base, base);
    return push(walk, &frame);
}

static enum attn_status open_not(struct walk *walk, struct json_value operand, const char *pointer,
                                 const char *base) {
    struct frame frame = {.kind = ATTN_MASK_NOT, .operands = operand, .count = 1};
    copy_pointer(frame.pointer, sizeof frame.pointer, pointer);
    copy_pointer(frame.base, sizeof frame.base, base);
    return push(walk, &frame);
}

static enum attn_status visit_object(struct walk *walk, struct json_value object,
                                     const char *pointer) {
    static const enum attn_mask_kind kinds[] = {ATTN_MASK_ALL, ATTN_MASK_ANY, ATTN_MASK_NOT};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const char *const word = attn_mask_kind_name(kinds[i]);
        const struct json_value operands = json_value_member(object, word);
        char base[JSON_POINTER_ROOM];
        if (operands.node == NULL)
            continue;
        if (json_object_size(object.node) != 1)
            return attn_fail(walk->options->reader.error, ATTN_BAD_MASK, pointer,
                             "\"%s\" stands alone in its object; put the rest into its list or "
                             "into an object of its own.",
                             word);
        json_pointer_member(base, pointer, word);
        return kinds[i] == ATTN_MASK_NOT ? open_not(walk, operands, pointer, base)
                                         : open_list(walk, kinds[i], operands, pointer, base);
    }
    struct attn_mask_node *const node = add_node(walk, pointer);
    return node == NULL ? failure(walk) : options_mask_leaf(walk->options, object, pointer, node);
}

static enum attn_status visit_word(struct walk *walk, struct json_value value,
                                   const char *pointer) {
    const char *const word = json_string_value(value.node);
    if (strcmp(word, "causal") != 0)
        return options_mask_refuse(walk->options, word, pointer);
    struct attn_mask_node *const node = add_node(walk, pointer);
    if (node == NULL)
        return failure(walk);
    node->kind = ATTN_MASK_CAUSAL;
    return ATTN_OK;
}

static enum attn_status visit(struct walk *walk, struct json_value value, const char *pointer) {
    switch (json_value_kind(value)) {
    case JSON_KIND_TEXT:
        return visit_word(walk, value, pointer);
    case JSON_KIND_LIST:
        return open_list(walk, ATTN_MASK_ALL, value, pointer, pointer);
    case JSON_KIND_OBJECT:
        return visit_object(walk, value, pointer);
    case JSON_KIND_NUMBERS:
        return refuse(walk, pointer,
                      "Expected a mask expression; a tensor goes into one, as {\"type\": "
                      "\"allow\", \"tensor\": ...}",
                      value);
    default:
        return refuse(walk, pointer,
                      "Expected a mask expression: \"causal\", an object with a type, or a list of "
                      "such",
                      value);
    }
}

/* All operands of the innermost combinator have been written: now itself. */
static enum attn_status close_frame(struct walk *walk) {
    const struct frame *const frame = &walk->stack[--walk->depth];
    struct attn_mask_node *const node = add_node(walk, frame->pointer);
    if (node == NULL)
        return failure(walk);
    node->kind = frame->kind;
    node->operands = frame->count;
    return ATTN_OK;
}

static enum attn_status step(struct walk *walk) {
    struct frame *const frame = &walk->stack[walk->depth - 1];
    char pointer[JSON_POINTER_ROOM];
    if (frame->next == frame->count)
        return close_frame(walk);
    const size_t index = frame->next++;
    if (frame->kind == ATTN_MASK_NOT)
        return visit(walk, frame->operands, frame->base);
    json_pointer_index(pointer, frame->base, index);
    return visit(walk, json_value_item(frame->operands, index), pointer);
}

enum attn_status options_read_mask(struct options *options, struct json_value value) {
    struct walk walk = {.options = options};
    enum attn_status status = visit(&walk, value, "/mask");
    while (status == ATTN_OK && walk.depth > 0)
        status = step(&walk);
    if (status == ATTN_OK)
        options->request->attention.mask = (struct attn_mask){walk.nodes, walk.count};
    return status;
}
