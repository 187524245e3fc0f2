/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mask as a person would write it, for meta.mask: "causal & window(2,0)". The program is postfix
 * and the text infix: a combinator's opening is written before the first leaf below it, which is
 * reached from that leaf by climbing while it is the first operand.
 */
#include "core/mask_internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct writer {
    char *text;
    size_t size, at; /* at >= size once something did not fit */
};

__attribute__((format(printf, 2, 3))) static void put(struct writer *writer, const char *format,
                                                      ...) {
    if (writer->at >= writer->size)
        return;
    va_list arguments;
    va_start(arguments, format);
    writer->at +=
        (size_t)vsnprintf(writer->text + writer->at, writer->size - writer->at, format, arguments);
    va_end(arguments);
}

/* At most this many values of a list are written. */
enum { LIST_VALUES = 4 };

static void put_list(struct writer *writer, const struct attn_int_list *list) {
    for (size_t i = 0; i < list->count && i < LIST_VALUES; i++)
        put(writer, "%s%" PRId64, i == 0 ? "" : ",", list->values[i]);
    if (list->count > LIST_VALUES)
        put(writer, ",...");
}

static void put_list_in_parentheses(struct writer *writer, const struct attn_int_list *list) {
    put(writer, "(");
    put_list(writer, list);
    put(writer, ")");
}

static void put_padding(struct writer *writer, const struct attn_mask_node *node) {
    if (attn_mask_tensor_given(&node->tensor)) {
        put(writer, "(keep)");
        return;
    }
    put(writer, "(kv ");
    put_list(writer, &node->kv_lengths);
    if (attn_int_list_given(&node->q_lengths)) {
        put(writer, "; q ");
        put_list(writer, &node->q_lengths);
    }
    put(writer, ")");
}

static void put_leaf(struct writer *writer, const struct attn_mask_node *node) {
    put(writer, "%s", attn_mask_kind_name(node->kind));
    switch (node->kind) {
    case ATTN_MASK_CAUSAL:
        if (node->align != ATTN_ALIGN_NONE)
            put(writer, node->align == ATTN_ALIGN_TOP_LEFT ? "(top_left)" : "(bottom_right)");
        break;
    case ATTN_MASK_WINDOW:
        put(writer, "(%" PRId64 ",%" PRId64 ")", node->left, node->right);
        break;
    case ATTN_MASK_PADDING:
        put_padding(writer, node);
        break;
    case ATTN_MASK_PREFIX:
        put_list_in_parentheses(writer, &node->lengths);
        break;
    case ATTN_MASK_GLOBAL:
        put_list_in_parentheses(writer, &node->tokens);
        break;
    case ATTN_MASK_DILATED:
        put(writer, "(%" PRId64 ",%" PRId64 ")", node->width, node->stride);
        break;
    case ATTN_MASK_BLOCK_CAUSAL:
        put(writer, "(%" PRId64 ")", node->block);
        break;
    default:
        break;
    }
}

static bool has_parentheses(const struct attn_mask_node *node) {
    return node->kind != ATTN_MASK_NOT && node->operands > 1 && node->place.depth > 0;
}

/* Everything that stands before node i, which has nothing below it: the sign that joins the
 * outermost part that begins here to the part before, then the openings from the outside in. */
static void put_openings(struct writer *writer, const struct attn_mask *mask, size_t i) {
    size_t above[ATTN_MASK_MAX_DEPTH] = {0}, count = 0;
    const struct attn_mask_node *node = &mask->nodes[i];
    while (node->place.first && node->place.parent < mask->count) {
        above[count++] = node->place.parent;
        node = &mask->nodes[node->place.parent];
    }
    if (!node->place.first)
        put(writer, mask->nodes[node->place.parent].kind == ATTN_MASK_ALL ? " & " : " | ");
    while (count-- > 0) {
        const struct attn_mask_node *opened = &mask->nodes[above[count]];
        if (opened->kind == ATTN_MASK_NOT)
            put(writer, "not ");
        else if (has_parentheses(opened))
            put(writer, "(");
    }
}

const char *attn_mask_text(const struct attn_mask *mask, char *text, size_t size) {
    struct writer writer = {text, size, 0};
    if (mask->count == 0)
        put(&writer, "none");
    for (size_t i = 0; i < mask->count; i++) {
        const struct attn_mask_node *node = &mask->nodes[i];
        if (attn_mask_leaf(node) != NULL) {
            put_openings(&writer, mask, i);
            put_leaf(&writer, node);
        } else if (node->kind != ATTN_MASK_NOT && node->operands == 0) {
            put_openings(&writer, mask, i);
            put(&writer, node->kind == ATTN_MASK_ALL ? "everything" : "nothing");
        } else if (has_parentheses(node)) {
            put(&writer, ")");
        }
    }
    static const char ellipsis[] = "...";
    if (writer.at >= size && size >= sizeof ellipsis)
        memcpy(text + size - sizeof ellipsis, ellipsis, sizeof ellipsis);
    return text;
}
