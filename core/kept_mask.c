/* SPDX-License-Identifier: Apache-2.0 */
/* A kept call's queries and keys under another mask; see kept.h. */
#include <string.h>

#include "core/call_internal.h"
#include "core/kept.h"

static enum attn_status take_mask(struct attn_call *call, struct attn_request *request,
                                  const struct attn_call *kept, struct attn_error *error) {
    int64_t *const offsets = call->storage;
    for (size_t n = 0; n < kept->space.q_offset_count; n++)
        offsets[n] = kept->space.q_offset[n];
    call->space.q_offset = offsets;
    if (attn_mask_validate(&request->mask, &call->space, error) != ATTN_OK)
        return error->status;
    call->mask = request->mask;
    const enum attn_status status = attn_call_move_queries(call, request, kept->placed, error);
    return status == ATTN_OK && attn_rope_follows(kept) ? attn_call_move_rope(call, error) : status;
}

enum attn_status attn_kept_remask(const struct attn_kept *kept, struct attn_request *request,
                                  struct attn_call *call, struct attn_error *error) {
    struct attn_request whole;
    attn_request_init(&whole);
    *call = kept->call;
    call->Dv = kept->Dv;
    call->storage = NULL;
    if (attn_call_allocate(call, 0, error) != NULL &&
        take_mask(call, request, &kept->call, error) == ATTN_OK &&
        attn_call_resolve_head_lists(call, request, error) == ATTN_OK &&
        attn_call_resolve_map(call, &whole, error) == ATTN_OK)
        return ATTN_OK;
    attn_call_close(call);
    return error->status;
}
