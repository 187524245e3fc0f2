/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate of a mask: the program is one tree of bearable depth, every leaf fits the call's sizes,
 * and tensors become rank-4 views. Refuses what another library would silently read as something
 * else: float masks, [B,Tk] tensors under allow or hide, lengths beyond the buffer.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/mask_internal.h"

struct attn_mask_pointer attn_mask_member(const struct attn_mask_node *node, const char *name) {
    struct attn_mask_pointer pointer;
    snprintf(pointer.text, sizeof pointer.text, "%s/%s", node->pointer, name);
    return pointer;
}

static enum attn_status refuse_both(const struct attn_mask_node *node, struct attn_error *error) {
    return attn_fail(error, ATTN_BAD_MASK, node->pointer,
                     "padding takes kv_lengths (with q_lengths or without) or keep, one of the "
                     "two; this one has both. Send two masks, [{...}, {...}], to apply both.");
}

/* One value or one per batch item, each within [0, limit]. */
static enum attn_status validate_lengths(const struct attn_mask_node *node,
                                         const struct attn_int_list *list, const char *name,
                                         size_t B, const char *limit_name, size_t limit,
                                         struct attn_error *error) {
    if (list->count != 1 && list->count != B)
        return attn_fail(error, ATTN_BAD_MASK, attn_mask_member(node, name).text,
                         "%s has %zu value%s; give one for all batch items or one for each (B = "
                         "%zu).",
                         name, list->count, attn_plural(list->count), B);
    for (size_t i = 0; i < list->count; i++)
        if (list->values[i] < 0 || (uint64_t)list->values[i] > limit)
            return attn_fail(error, ATTN_BAD_MASK, attn_mask_member(node, name).text,
                             "%s of batch item %zu is %lld; it counts from the start and lies "
                             "between 0 and %s = %zu.",
                             name, i, (long long)list->values[i], limit_name, limit);
    return ATTN_OK;
}

enum attn_status attn_mask_validate_causal(struct attn_mask_node *node,
                                           const struct attn_mask_space *space,
                                           struct attn_error *error) {
    (void)node, (void)space, (void)error;
    return ATTN_OK;
}

enum attn_status attn_mask_validate_window(struct attn_mask_node *node,
                                           const struct attn_mask_space *space,
                                           struct attn_error *error) {
    (void)space;
    if (node->left >= -1 && node->right >= -1)
        return ATTN_OK;
    const bool left = node->left < -1;
    return attn_fail(error, ATTN_BAD_MASK, node->pointer,
                     "%s of the window is %lld; it is how many keys to that side of the query are "
                     "visible, 0 or more, or -1 for all of them.",
                     left ? "left" : "right", (long long)(left ? node->left : node->right));
}

enum attn_status attn_mask_validate_lengths(struct attn_mask_node *node,
                                            const struct attn_mask_space *space,
                                            struct attn_error *error) {
    if (!attn_int_list_given(&node->kv_lengths))
        return attn_fail(error, ATTN_BAD_MASK, node->pointer,
                         "padding needs kv_lengths, a list of how many keys are real, or keep, a "
                         "[B, Tk] tensor that is non-zero where a key is real; it has neither.");
    const enum attn_status status =
        validate_lengths(node, &node->kv_lengths, "kv_lengths", space->B, "Tk", space->Tk, error);
    if (status != ATTN_OK || !attn_int_list_given(&node->q_lengths))
        return status;
    return validate_lengths(node, &node->q_lengths, "q_lengths", space->B, "Tq", space->Tq, error);
}

enum attn_status attn_mask_validate_prefix(struct attn_mask_node *node,
                                           const struct attn_mask_space *space,
                                           struct attn_error *error) {
    return validate_lengths(node, &node->lengths, "length", space->B, "Tk",
                            space->Tk + space->gap.count, error);
}

enum attn_status attn_mask_validate_block_causal(struct attn_mask_node *node,
                                                 const struct attn_mask_space *space,
                                                 struct attn_error *error) {
    (void)space;
    if (node->block >= 1)
        return ATTN_OK;
    return attn_fail(error, ATTN_BAD_MASK, attn_mask_member(node, "block").text,
                     "block is %lld; it is how many positions a block has, 1 or more, and 1 is "
                     "causal.",
                     (long long)node->block);
}

/* Fits [T], [1,T] and [B,T]; then replaces the tensor by its view as [B,1,1,T]. */
static bool spread_over_batch(struct attn_tensor *tensor, size_t B, size_t T) {
    const int rank = tensor->rank;
    if (rank < 1 || rank > 2 || tensor->shape[rank - 1] != T)
        return false;
    if (rank == 2 && tensor->shape[0] != 1 && tensor->shape[0] != B)
        return false;
    const struct attn_tensor view = {
        .data = tensor->data,
        .dtype = tensor->dtype,
        .rank = ATTN_AXES,
        .shape = {B, 1, 1, T},
        .stride = {rank == 2 && tensor->shape[0] != 1 ? tensor->stride[0] : 0, 0, 0,
                   tensor->stride[rank - 1]}};
    *tensor = view;
    return true;
}

enum attn_status attn_mask_validate_keep(struct attn_mask_node *node,
                                         const struct attn_mask_space *space,
                                         struct attn_error *error) {
    struct attn_tensor *keep = &node->tensor;
    char shape[96];
    if (attn_int_list_given(&node->kv_lengths) || attn_int_list_given(&node->q_lengths))
        return refuse_both(node, error);
    if (attn_dtype_class(keep->dtype) == ATTN_CLASS_FLOAT)
        return attn_fail(error, ATTN_BAD_MASK, attn_mask_member(node, "keep").text,
                         "keep has dtype %s; it is bool or an integer type, non-zero where a key "
                         "is real. An additive float mask belongs in bias.",
                         attn_dtype_name(keep->dtype));
    attn_shape_text(keep->rank, keep->shape, shape, sizeof shape);
    if (!spread_over_batch(keep, space->B, space->Tk))
        return attn_fail(error, ATTN_BAD_MASK, attn_mask_member(node, "keep").text,
                         "keep has shape %s; it says of each key whether it is real, so it is "
                         "[B, Tk] = [%zu, %zu] or, for all batch items, [Tk].",
                         shape, space->B, space->Tk);
    return ATTN_OK;
}

/* An axis of 0 makes the others free to send, however long they are: there is nothing to look at.
 */
static bool has_elements(const struct attn_tensor *tensor) {
    size_t elements;
    return attn_shape_elements(tensor->rank, tensor->shape, &elements) && elements > 0;
}

/* True when some id is above INT64_MAX. */
static bool has_huge_id(const struct attn_tensor *ids) {
    if (ids->dtype != ATTN_UINT64 || !has_elements(ids))
        return false;
    for (size_t b = 0; b < (ids->stride[0] == 0 ? attn_min_size(ids->shape[0], 1) : ids->shape[0]);
         b++)
        for (size_t t = 0; t < ids->shape[3]; t++)
            if (((const uint64_t *)ids->data)[attn_tensor_offset(ids, b, 0, 0, t)] > INT64_MAX)
                return true;
    return false;
}

static enum attn_status validate_ids(const struct attn_mask_node *node, struct attn_tensor *ids,
                                     const char *name, const char *length_name, size_t B, size_t T,
                                     struct attn_error *error) {
    char shape[96];
    if (attn_dtype_class(ids->dtype) == ATTN_CLASS_FLOAT)
        return attn_fail(error, ATTN_BAD_MASK, node->pointer,
                         "%s of segments has dtype %s; segment ids are integers.", name,
                         attn_dtype_name(ids->dtype));
    attn_shape_text(ids->rank, ids->shape, shape, sizeof shape);
    if (!spread_over_batch(ids, B, T))
        return attn_fail(error, ATTN_BAD_MASK, node->pointer,
                         "%s of segments has shape %s; it holds one id per token, so it is [%s] = "
                         "[%zu] or [B, %s] = [%zu, %zu].",
                         name, shape, length_name, T, length_name, B, T);
    return ATTN_OK;
}

enum attn_status attn_mask_validate_segments(struct attn_mask_node *node,
                                             const struct attn_mask_space *space,
                                             struct attn_error *error) {
    if (!attn_mask_tensor_given(&node->tensor))
        return attn_fail(error, ATTN_BAD_MASK, node->pointer,
                         "segments needs q, the segment id of each query (and kv, those of the "
                         "keys, unless they are the same).");
    if (!attn_mask_tensor_given(&node->kv)) {
        if (space->Tq != space->Tk)
            return attn_fail(error, ATTN_BAD_MASK, node->pointer,
                             "segments has no kv: the keys share the ids of q only when there are "
                             "as many keys as queries; here Tq = %zu and Tk = %zu.",
                             space->Tq, space->Tk);
        node->kv = node->tensor;
    }
    enum attn_status status =
        validate_ids(node, &node->tensor, "q", "Tq", space->B, space->Tq, error);
    if (status == ATTN_OK)
        status = validate_ids(node, &node->kv, "kv", "Tk", space->B, space->Tk, error);
    if (status == ATTN_OK && node->tensor.dtype != node->kv.dtype &&
        (has_huge_id(&node->tensor) || has_huge_id(&node->kv)))
        return attn_fail(error, ATTN_BAD_MASK, node->pointer,
                         "q and kv of segments have dtypes %s and %s, and an id is above 2^63 - 1; "
                         "give both the dtype uint64.",
                         attn_dtype_name(node->tensor.dtype), attn_dtype_name(node->kv.dtype));
    return status;
}

/* How many of n elements from `offset` on are 0 or 1 before the first that is neither. Eight bytes
 * at a time where they lie side by side: no bit but each element's lowest may be set. */
static size_t binary_run(const struct attn_tensor *tensor, ptrdiff_t offset, size_t n) {
    const size_t size = attn_dtype_size(tensor->dtype);
    size_t i = 0;
    if (tensor->stride[3] == 1) {
        const uint64_t lowest = size == 8 ? 1 : UINT64_MAX / ((UINT64_C(1) << size * 8) - 1);
        const char *bytes = (const char *)tensor->data + offset * (ptrdiff_t)size;
        uint64_t word = 0;
        for (; i + 8 / size <= n && (word & ~lowest) == 0; i += 8 / size)
            memcpy(&word, bytes + i * size, sizeof word);
        if ((word & ~lowest) != 0)
            i -= 8 / size;
    }
    for (; i < n; i++)
        if ((attn_tensor_int_at(tensor, offset + (ptrdiff_t)i * tensor->stride[3]) & ~1) != 0)
            return i;
    return n;
}

/* Refuses an element that is neither 0 nor 1 and names where it is, in the tensor's own axes. */
static enum attn_status validate_binary(const struct attn_mask_node *node,
                                        struct attn_error *error) {
    const int rank = node->tensor.rank;
    size_t shape[ATTN_AXES] = {1, 1, 1, 1}, at[ATTN_AXES] = {0};
    memcpy(shape + ATTN_AXES - rank, node->tensor.shape, (size_t)rank * sizeof *shape);
    struct attn_tensor own;
    const bool fits = attn_tensor_broadcast(&node->tensor, shape, &own);
    assert(fits);
    (void)fits;
    for (at[0] = 0; at[0] < shape[0]; at[0]++)
        for (at[1] = 0; at[1] < shape[1]; at[1]++)
            for (at[2] = 0; at[2] < shape[2]; at[2]++) {
                const ptrdiff_t offset = attn_tensor_offset(&own, at[0], at[1], at[2], 0);
                at[3] = binary_run(&own, offset, shape[3]);
                if (at[3] == shape[3])
                    continue;
                char place[96], value[ATTN_INT_TEXT_ROOM];
                attn_shape_text(rank, at + ATTN_AXES - rank, place, sizeof place);
                const ptrdiff_t fault = attn_tensor_offset(&own, at[0], at[1], at[2], at[3]);
                return attn_fail(error, ATTN_BAD_MASK, attn_mask_member(node, "tensor").text,
                                 "%s holds %s at %s; it is true and false, or 1 and 0.",
                                 attn_mask_kind_name(node->kind),
                                 attn_tensor_int_text(&own, fault, value), place);
            }
    return ATTN_OK;
}

static enum attn_status refuse_shape(const struct attn_mask_node *node,
                                     const struct attn_mask_space *space,
                                     struct attn_error *error) {
    const size_t full[ATTN_AXES] = {space->B, space->Hq, space->Tq, space->Tk};
    const struct attn_tensor *tensor = &node->tensor;
    char shape[96], wanted[96];
    attn_shape_text(tensor->rank, tensor->shape, shape, sizeof shape);
    attn_shape_text(ATTN_AXES, full, wanted, sizeof wanted);
    return attn_fail(error, ATTN_BAD_MASK, attn_mask_member(node, "tensor").text,
                     "%s has shape %s; it must broadcast to [B, Hq, Tq, Tk] = %s: counted from the "
                     "right, each axis is 1 or that size (rank 3 is heads, queries, keys; one "
                     "mask per batch item is [B, 1, Tq, Tk]).",
                     attn_mask_kind_name(node->kind), shape, wanted);
}

static enum attn_status refuse_padding_shape(const struct attn_mask_node *node,
                                             const struct attn_mask_space *space,
                                             struct attn_error *error) {
    return attn_fail(error, ATTN_BAD_MASK, attn_mask_member(node, "tensor").text,
                     "%s has shape [%zu, %zu], which is [B, Tk] and not [Tq, Tk] = [%zu, %zu]; "
                     "a mask of real keys per batch item is {\"type\":\"padding\",\"keep\":...}, "
                     "non-zero where a key is real.",
                     attn_mask_kind_name(node->kind), space->B, space->Tk, space->Tq, space->Tk);
}

enum attn_status attn_mask_validate_allow(struct attn_mask_node *node,
                                          const struct attn_mask_space *space,
                                          struct attn_error *error) {
    const size_t full[ATTN_AXES] = {space->B, space->Hq, space->Tq, space->Tk};
    const struct attn_tensor *tensor = &node->tensor;
    struct attn_tensor view;
    if (!attn_mask_tensor_given(tensor))
        return attn_fail(error, ATTN_BAD_MASK, node->pointer,
                         "%s needs tensor, which broadcasts to [B, Hq, Tq, Tk].",
                         attn_mask_kind_name(node->kind));
    if (attn_dtype_class(tensor->dtype) == ATTN_CLASS_FLOAT)
        return attn_fail(error, ATTN_BAD_MASK, attn_mask_member(node, "tensor").text,
                         "%s has dtype %s; it is bool, or 0 and 1 in an integer type. An additive "
                         "float mask belongs in bias.",
                         attn_mask_kind_name(node->kind), attn_dtype_name(tensor->dtype));
    if (tensor->rank == 2 && tensor->shape[0] == space->B && tensor->shape[1] == space->Tk &&
        space->B != space->Tq)
        return refuse_padding_shape(node, space, error);
    if (!attn_tensor_broadcast(tensor, full, &view))
        return refuse_shape(node, space, error);
    if (attn_dtype_class(tensor->dtype) == ATTN_CLASS_INT && has_elements(tensor)) {
        const enum attn_status status = validate_binary(node, error);
        if (status != ATTN_OK)
            return status;
    }
    node->tensor = view;
    return ATTN_OK;
}

static size_t operands_of(const struct attn_mask_node *node) {
    if (attn_mask_leaf(node) != NULL)
        return 0;
    return node->kind == ATTN_MASK_NOT ? 1 : node->operands;
}

/* Gives each node its parent. The program must leave exactly one result. */
static enum attn_status find_parents(struct attn_mask *mask, struct attn_error *error) {
    size_t stack[ATTN_MASK_MAX_NODES], height = 0;
    for (size_t i = 0; i < mask->count; i++) {
        struct attn_mask_node *node = &mask->nodes[i];
        const size_t operands = operands_of(node);
        if (operands > height)
            return attn_fail(error, ATTN_BAD_MASK, node->pointer,
                             "%s takes %zu mask%s, of which only %zu came before it.",
                             attn_mask_kind_name(node->kind), operands, attn_plural(operands),
                             height);
        height -= operands;
        for (size_t k = 0; k < operands; k++) {
            struct attn_mask_place *place = &mask->nodes[stack[height + k]].place;
            place->parent = i;
            place->first = k == 0;
        }
        node->place = (struct attn_mask_place){.parent = mask->count, .first = true};
        stack[height++] = i;
    }
    if (height != 1)
        return attn_fail(error, ATTN_BAD_MASK, mask->nodes[stack[0]].pointer,
                         "The expression has %zu mask%s side by side; join them with all or any.",
                         height, attn_plural(height));
    return ATTN_OK;
}

/* A parent stands behind its operands, so one pass from the end finds every depth. */
static enum attn_status find_depths(struct attn_mask *mask, struct attn_error *error) {
    for (size_t i = mask->count; i-- > 0;) {
        struct attn_mask_place *place = &mask->nodes[i].place;
        if (place->parent < mask->count)
            place->depth = mask->nodes[place->parent].place.depth + 1;
        if (place->depth >= ATTN_MASK_MAX_DEPTH)
            return attn_fail_limit(
                error, ATTN_BAD_MASK, mask->nodes[i].pointer, ATTN_MASK_MAX_DEPTH,
                "The mask nests deeper than %d levels; flatten its all, any and not.",
                ATTN_MASK_MAX_DEPTH);
    }
    return ATTN_OK;
}

enum attn_status attn_mask_validate(struct attn_mask *mask, const struct attn_mask_space *space,
                                    struct attn_error *error) {
    if (mask->count == 0)
        return ATTN_OK;
    if (mask->count > ATTN_MASK_MAX_NODES)
        return attn_fail_limit(error, ATTN_BAD_MASK, mask->nodes[0].pointer, ATTN_MASK_MAX_NODES,
                               "The mask has %zu parts; at most %d are allowed. A mask this "
                               "irregular is an allow tensor.",
                               mask->count, ATTN_MASK_MAX_NODES);
    enum attn_status status = find_parents(mask, error);
    if (status == ATTN_OK)
        status = find_depths(mask, error);
    for (size_t i = 0; i < mask->count && status == ATTN_OK; i++) {
        const struct attn_mask_leaf *leaf = attn_mask_leaf(&mask->nodes[i]);
        if (leaf != NULL)
            status = leaf->validate(&mask->nodes[i], space, error);
    }
    return status;
}
