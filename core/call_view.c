/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call over a cache: keys, values and positions are a view's (core/kv_cache.h), and what the
 * session shows of them joins the call's mask: causal, and the layer's window with its sinks.
 */
#include <string.h>

#include "core/call_internal.h"
#include "core/checked.h"
#include "core/kv_cache.h"

/* ---- shapes ---- */

static enum attn_status check_form(const struct attn_request *request, struct attn_error *error) {
    char text[96];
    const struct attn_tensor *q = &request->q;
    if (request->num_heads != 0 || request->num_kv_heads != 0)
        return attn_fail(
            error, ATTN_BAD_VALUE, request->num_heads != 0 ? "/num_heads" : "/num_kv_heads",
            "A session's tensors have their heads as an axis, [H,T,D]; leave num_heads "
            "and num_kv_heads out.");
    if (request->layout != ATTN_LAYOUT_UNSET && q->rank != 4)
        return attn_fail(error, ATTN_BAD_VALUE, "/layout",
                         "layout says how rank-4 inputs are ordered; q has rank %d. Leave it out.",
                         q->rank);
    if (q->rank == 3 || (q->rank == 4 && q->shape[0] == 1))
        return ATTN_OK;
    return attn_fail(error, ATTN_BAD_SHAPE, "/q",
                     "q of a session is [H,T,D], or of rank 4 with a batch axis of 1; got shape "
                     "%s.",
                     attn_shape_text(q->rank, q->shape, text, sizeof text));
}

static enum attn_status check_heads(const struct attn_call *call, struct attn_error *error) {
    if (call->Hq % call->Hkv != 0)
        return attn_fail(error, ATTN_BAD_SHAPE, "/q",
                         "The query heads must be a multiple of the session's key/value heads: q "
                         "has %zu and the session has %zu.",
                         call->Hq, call->Hkv);
    return attn_call_check_rows(call, error);
}

enum attn_status attn_call_resolve_view_shapes(struct attn_call *call, struct attn_request *request,
                                               struct attn_error *error) {
    const struct attn_kv_view *view = request->kv;
    const struct attn_tensor *q = &request->q;
    if (attn_call_check_queries(q, error) != ATTN_OK || check_form(request, error) != ATTN_OK)
        return error->status;
    const int first = q->rank - 3;
    call->bthd = request->layout == ATTN_LAYOUT_BTHD;
    const int h = first + (call->bthd ? 1 : 0), t = first + (call->bthd ? 0 : 1);
    if (q->shape[first + 2] != view->D)
        return attn_fail(error, ATTN_BAD_SHAPE, "/q",
                         "The session's keys have size %zu; the last axis of q is %zu.", view->D,
                         q->shape[first + 2]);
    call->B = 1;
    call->Hq = q->shape[h];
    call->Hkv = view->Hkv;
    call->Tq = q->shape[t];
    call->Tk = view->keys;
    call->D = view->D;
    call->Dv = view->Dv;
    call->q = (struct attn_operand){.data = q->data,
                                    .dtype = q->dtype,
                                    .sh = q->stride[h],
                                    .st = q->stride[t],
                                    .sd = q->stride[first + 2]};
    call->k = view->k;
    call->v = view->v;
    call->q_rank = q->rank;
    return check_heads(call, error);
}

/* ---- positions and mask ---- */

/* A mask under construction: `parts` expressions, to be joined by all. */
struct program {
    struct attn_mask_node *nodes;
    size_t count, parts;
};

enum { NODES_OF_A_VIEW = 6 }; /* causal, window, prefix, any, all, and one to spare */

static void push(struct program *program, struct attn_mask_node node) {
    strcpy(node.pointer, "/mask");
    program->nodes[program->count++] = node;
}

/* The layer's window; its sinks are a prefix of the positions. */
static void push_window(struct program *program, const struct attn_kv_view *view, int64_t *sinks) {
    push(program,
         (struct attn_mask_node){.kind = ATTN_MASK_WINDOW, .left = view->window.left, .right = -1});
    program->parts++;
    if (view->window.sinks == 0)
        return;
    *sinks = (int64_t)attn_min_size((size_t)view->window.sinks, view->keys);
    push(program, (struct attn_mask_node){.kind = ATTN_MASK_PREFIX, .lengths = {sinks, 1}});
    push(program, (struct attn_mask_node){.kind = ATTN_MASK_ANY, .operands = 2});
}

static struct attn_mask join(const struct attn_request *request, struct attn_mask_node *nodes,
                             int64_t *sinks) {
    const struct attn_mask *own = &request->mask;
    struct program program = {nodes, own->count, own->count > 0};
    if (own->count > 0)
        memcpy(nodes, own->nodes, own->count * sizeof *nodes);
    if (!request->kv_all) {
        push(&program, (struct attn_mask_node){.kind = ATTN_MASK_CAUSAL});
        program.parts++;
    }
    if (request->kv->window.given)
        push_window(&program, request->kv, sinks);
    if (program.parts > 1)
        push(&program, (struct attn_mask_node){.kind = ATTN_MASK_ALL, .operands = program.parts});
    return (struct attn_mask){program.nodes, program.count};
}

static enum attn_status check_options(const struct attn_request *request,
                                      struct attn_error *error) {
    if (request->q_offset.values != NULL)
        return attn_fail(error, ATTN_BAD_VALUE, "/q_offset",
                         "A session's queries stand where its tokens do; leave q_offset out.");
    if (request->rope.given)
        return attn_fail(error, ATTN_BAD_VALUE, "/rope",
                         "A session turns its keys as they are appended; give rope when it is "
                         "created, and leave it out of calls.");
    for (size_t n = 0; n < request->mask.count; n++)
        if (request->mask.nodes[n].kind == ATTN_MASK_CAUSAL &&
            request->mask.nodes[n].align != ATTN_ALIGN_NONE)
            return attn_fail(error, ATTN_BAD_MASK, request->mask.nodes[n].pointer,
                             "A session's queries stand where its tokens do; leave align out.");
    return ATTN_OK;
}

enum attn_status attn_call_resolve_view_positions(struct attn_call *call,
                                                  struct attn_request *request,
                                                  struct attn_error *error) {
    const struct attn_kv_view *view = request->kv;
    size_t bytes;
    if (check_options(request, error) != ATTN_OK)
        return error->status;
    /* unreached: the nodes of the call's own mask are in memory */
    if (!attn_add_size(request->mask.count, NODES_OF_A_VIEW, &bytes) ||
        !attn_mul_size(bytes, sizeof(struct attn_mask_node), &bytes) ||
        !attn_add_size(bytes, sizeof(int64_t), &bytes))
        bytes = SIZE_MAX;
    int64_t *sinks = attn_call_allocate(call, bytes, error);
    if (sinks == NULL)
        return ATTN_NO_MEMORY;
    int64_t *const position = call->storage;
    *position = view->position;
    call->placed = true;
    call->mask = join(request, (struct attn_mask_node *)(void *)(sinks + 1), sinks);
    call->space = (struct attn_mask_space){.B = 1,
                                           .Hq = call->Hq,
                                           .Tq = call->Tq,
                                           .Tk = call->Tk,
                                           .q_offset = position,
                                           .q_offset_count = 1,
                                           .gap = view->gap};
    return attn_mask_validate(&call->mask, &call->space, error);
}
