/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where query 0 stands among the keys. With Tq = Tk it stands at key 0; otherwise every library of
 * the field has another silent default, so here the caller must say: q_offset, or `align` in a
 * causal mask.
 */
#include <stdlib.h>
#include <string.h>

#include "core/call_internal.h"
#include "core/checked.h"

/* The nodes whose word counts for the whole call: the top of the expression and what `all` joins.
 */
struct aligned_nodes {
    const struct attn_mask_node *causal;  /* with an align, or NULL */
    const struct attn_mask_node *padding; /* with kv_lengths, or NULL */
};

/*
 * Marks the nodes that stand at the top or under `all` only. The program is postfix, so it is read
 * backwards: a combinator comes before its operands, and each operand inherits whether it counts.
 */
static void mark_joined(const struct attn_mask *mask, bool joined[ATTN_MASK_MAX_NODES]) {
    struct {
        size_t left;
        bool joined;
    } open[ATTN_MASK_MAX_DEPTH + 1];
    size_t depth = 0;
    for (size_t n = mask->count; n-- > 0;) {
        const struct attn_mask_node *node = &mask->nodes[n];
        joined[n] = depth == 0 || open[depth - 1].joined;
        if (depth > 0)
            open[depth - 1].left--;
        const size_t operands = node->kind == ATTN_MASK_NOT ? 1 : node->operands;
        const bool combines = node->kind == ATTN_MASK_ALL || node->kind == ATTN_MASK_ANY ||
                              node->kind == ATTN_MASK_NOT;
        if (combines && operands > 0) {
            open[depth].left = operands;
            open[depth].joined = joined[n] && node->kind == ATTN_MASK_ALL;
            depth++;
        }
        while (depth > 0 && open[depth - 1].left == 0)
            depth--;
    }
}

static enum attn_status find_aligned(const struct attn_mask *mask, struct aligned_nodes *found,
                                     struct attn_error *error) {
    bool joined[ATTN_MASK_MAX_NODES];
    mark_joined(mask, joined);
    for (size_t n = 0; n < mask->count; n++) {
        const struct attn_mask_node *node = &mask->nodes[n];
        if (node->kind == ATTN_MASK_PADDING && joined[n] && node->kv_lengths.count > 0)
            found->padding = node;
        if (node->kind != ATTN_MASK_CAUSAL || node->align == ATTN_ALIGN_NONE)
            continue;
        if (!joined[n])
            return attn_fail(error, ATTN_BAD_MASK, node->pointer,
                             "align places the whole call, so it may stand only in a causal mask "
                             "at the top or under all; here give q_offset instead.");
        if (found->causal != NULL && found->causal->align != node->align)
            return attn_fail(error, ATTN_BAD_MASK, node->pointer,
                             "Two causal masks give different aligns; a call has one.");
        found->causal = node;
    }
    return ATTN_OK;
}

static int64_t list_at(const struct attn_int_list *list, size_t b) {
    return list->values[list->count == 1 ? 0 : b];
}

/* bottom_right: the last query sees the last key. */
static void align_bottom_right(const struct attn_call *call, const struct attn_mask_node *padding,
                               int64_t *offsets, size_t count) {
    for (size_t b = 0; b < count; b++) {
        const int64_t keys = padding != NULL ? list_at(&padding->kv_lengths, b) : (int64_t)call->Tk;
        const bool has_queries = padding != NULL && padding->q_lengths.count > 0;
        const int64_t queries = has_queries ? list_at(&padding->q_lengths, b) : (int64_t)call->Tq;
        offsets[b] = attn_sub_saturating(keys, queries);
    }
}

static enum attn_status check_q_offset(const struct attn_call *call,
                                       const struct attn_request *request,
                                       const struct attn_mask_node *causal,
                                       struct attn_error *error) {
    if (request->q_offset.count != 1 && request->q_offset.count != call->B)
        return attn_fail(error, ATTN_BAD_VALUE, "/q_offset",
                         "q_offset must be one integer or one per batch item (%zu), got %zu.",
                         call->B, request->q_offset.count);
    if (causal != NULL)
        return attn_fail(error, ATTN_BAD_VALUE, "/q_offset",
                         "q_offset and the align of %s both place the queries; keep one.",
                         causal->pointer);
    return ATTN_OK;
}

static bool has_causal(const struct attn_mask *mask) {
    for (size_t n = 0; n < mask->count; n++)
        if (mask->nodes[n].kind == ATTN_MASK_CAUSAL)
            return true;
    return false;
}

/* Without a causal mask no align is proposed: adding one would hide what lies ahead. */
static enum attn_status need_alignment(const struct attn_call *call,
                                       const struct attn_request *request,
                                       struct attn_error *error) {
    const bool by_mask = attn_mask_uses_positions(&request->mask);
    const bool by_alibi = request->alibi || request->alibi_slopes.values != NULL;
    const bool by_rope = request->rope.given && request->rope.q_offset.values == NULL;
    if (call->Tq == call->Tk || (!by_mask && !by_alibi && !by_rope))
        return ATTN_OK;
    if (!has_causal(&request->mask))
        return attn_fail(error, ATTN_AMBIGUOUS,
                         by_mask    ? "/mask"
                         : by_alibi ? "/alibi"
                                    : "/rope",
                         "With Tq = %zu and Tk = %zu it is not clear which key query 0 stands "
                         "at. Give q_offset, its position: 0 when it stands at key 0, Tk - Tq = "
                         "%lld when the last query stands at the last key.",
                         call->Tq, call->Tk, (long long)call->Tk - (long long)call->Tq);
    return attn_fail(error, ATTN_AMBIGUOUS, "/mask",
                     "With Tq = %zu and Tk = %zu it is not clear which key query 0 stands at. "
                     "Say {\"type\":\"causal\",\"align\":\"top_left\"} (query 0 at key 0) or "
                     "\"bottom_right\" (last query at last key), or give q_offset.",
                     call->Tq, call->Tk);
}

static enum attn_status place_queries(struct attn_call *call, const struct attn_request *request,
                                      int64_t *offsets, struct attn_error *error) {
    struct aligned_nodes nodes = {NULL, NULL};
    if (find_aligned(&request->mask, &nodes, error) != ATTN_OK)
        return error->status;
    call->placed = call->Tq == call->Tk || nodes.causal != NULL || request->q_offset.values != NULL;
    call->space.q_offset_count = 1;
    offsets[0] = 0;
    if (request->q_offset.values != NULL) {
        if (check_q_offset(call, request, nodes.causal, error) != ATTN_OK)
            return error->status;
        call->space.q_offset_count = request->q_offset.count;
        memcpy(offsets, request->q_offset.values, request->q_offset.count * sizeof *offsets);
        return ATTN_OK;
    }
    if (nodes.causal == NULL)
        return need_alignment(call, request, error);
    if (nodes.causal->align == ATTN_ALIGN_BOTTOM_RIGHT) {
        const bool each = nodes.padding != NULL && (nodes.padding->kv_lengths.count > 1 ||
                                                    nodes.padding->q_lengths.count > 1);
        call->space.q_offset_count = each ? call->B : 1;
        if (call->B > 0)
            align_bottom_right(call, nodes.padding, offsets, call->space.q_offset_count);
    }
    return ATTN_OK;
}

enum attn_status attn_call_move_queries(struct attn_call *call, const struct attn_request *request,
                                        bool placed, struct attn_error *error) {
    struct aligned_nodes nodes = {NULL, NULL};
    if (find_aligned(&request->mask, &nodes, error) != ATTN_OK)
        return error->status;
    if (placed && nodes.causal == NULL && request->q_offset.values == NULL)
        return ATTN_OK;
    return place_queries(call, request, call->storage, error);
}

void *attn_call_allocate(struct attn_call *call, size_t more, struct attn_error *error) {
    size_t count, bytes, lists = 0;
    /* unreached: rows are limited, and with them heads and items; `more` is as large as a mask */
    const bool fits = attn_mul_size(call->Hq, 2, &count) && attn_add_size(count, call->B, &count) &&
                      attn_add_size(count, 1, &count) &&
                      attn_mul_size(count, sizeof(double), &lists) &&
                      attn_add_size(lists, more, &bytes) && (call->storage = malloc(bytes)) != NULL;
    if (!fits) {
        attn_fail(error, ATTN_NO_MEMORY, "", "There is no memory for the call's lists.");
        return NULL;
    }
    return (char *)call->storage + lists;
}

enum attn_status attn_call_resolve_positions(struct attn_call *call, struct attn_request *request,
                                             struct attn_error *error) {
    if (request->kv != NULL)
        return attn_call_resolve_view_positions(call, request, error);
    if (attn_call_allocate(call, 0, error) == NULL)
        return ATTN_NO_MEMORY;
    int64_t *offsets = call->storage;
    offsets[0] = 0;
    call->space = (struct attn_mask_space){.B = call->B,
                                           .Hq = call->Hq,
                                           .Tq = call->Tq,
                                           .Tk = call->Tk,
                                           .q_offset = offsets,
                                           .q_offset_count = 1};
    if (attn_mask_validate(&request->mask, &call->space, error) != ATTN_OK)
        return error->status;
    call->mask = request->mask;
    return place_queries(call, request, offsets, error);
}
