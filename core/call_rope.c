/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rotary positions of a call: how many dimensions turn, how fast, and where the rows stand. The
 * call's own positions are resolved already.
 */
#include <math.h>

#include "core/call_internal.h"
#include "core/kv_cache.h"
#include "core/rope.h"

/* Radians per position: far above any model's 1, and small enough that no angle overflows. */
#define FASTEST 1e9
#define DEFAULT_THETA 10000.0

static enum attn_status resolve_dims(struct attn_call *call, const struct attn_rope_request *rope,
                                     struct attn_error *error) {
    const size_t D = call->D;
    if (D < 2)
        return attn_fail(error, ATTN_BAD_VALUE, "/rope",
                         "rope turns dimensions in pairs; heads of D = %zu have none. Leave it "
                         "out.",
                         D);
    if (!rope->dims_given && D % 2 != 0)
        return attn_fail(error, ATTN_BAD_VALUE, "/rope",
                         "rope turns dimensions in pairs, and D = %zu is odd. Give dims, an even "
                         "number of leading dimensions to turn.",
                         D);
    if (rope->dims_given && (rope->dims < 2 || rope->dims % 2 != 0 || (uint64_t)rope->dims > D))
        return attn_fail(error, ATTN_BAD_VALUE, "/rope/dims",
                         "dims must be an even number from 2 to D = %zu, got %lld; leave it out to "
                         "turn all.",
                         D, (long long)rope->dims);
    call->rope.dims = rope->dims_given ? (size_t)rope->dims : D;
    call->rope.interleaved = rope->interleaved;
    return ATTN_OK;
}

static enum attn_status check_inv_freq(const struct attn_call *call,
                                       const struct attn_real_list *inv_freq,
                                       struct attn_error *error) {
    const size_t pairs = call->rope.dims / 2;
    if (inv_freq->count != pairs)
        return attn_fail(
            error, ATTN_BAD_VALUE, "/rope/inv_freq",
            "inv_freq must have a frequency per pair, dims / 2 = %zu, got %zu. dims is "
            "how many dimensions turn, D unless given.",
            pairs, inv_freq->count);
    for (size_t n = 0; n < pairs; n++)
        if (!(fabs(inv_freq->values[n]) <= FASTEST))
            return attn_fail(error, ATTN_BAD_VALUE, "/rope/inv_freq",
                             "inv_freq is in radians per position, finite and at most %g; entry "
                             "%zu is %g.",
                             FASTEST, n, inv_freq->values[n]);
    return ATTN_OK;
}

static enum attn_status resolve_frequencies(struct attn_call *call,
                                            const struct attn_rope_request *rope,
                                            struct attn_error *error) {
    if (rope->theta_given && rope->inv_freq.values != NULL)
        return attn_fail(error, ATTN_BAD_VALUE, "/rope",
                         "theta and inv_freq both give the frequencies; keep one.");
    if (rope->inv_freq.values != NULL) {
        call->rope.inv_freq = rope->inv_freq.values;
        return check_inv_freq(call, &rope->inv_freq, error);
    }
    if (rope->theta_given && !(rope->theta >= 1 / FASTEST && rope->theta < INFINITY))
        return attn_fail(error, ATTN_BAD_VALUE, "/rope/theta",
                         "theta must be a finite number of at least %g, got %g; models have 10000 "
                         "or more, and 10000 is the default.",
                         1 / FASTEST, rope->theta);
    call->rope.theta = rope->theta_given ? rope->theta : DEFAULT_THETA;
    return ATTN_OK;
}

/* Rows from `offset` on must stand where double knows every position. */
static enum attn_status check_reach(int64_t offset, size_t rows, const char *pointer,
                                    struct attn_error *error) {
    const int64_t last = ATTN_ROPE_FURTHEST - (rows == 0 ? 0 : (int64_t)rows - 1);
    if (offset >= -ATTN_ROPE_FURTHEST && offset <= last)
        return ATTN_OK;
    return attn_fail(error, ATTN_BAD_VALUE, pointer,
                     "Rotary positions lie between -2^53 and 2^53; %zu rows from %lld on do not. "
                     "Take the same number off q_offset and k_offset, which changes no score.",
                     rows, (long long)offset);
}

static enum attn_status check_queries(const struct attn_call *call, const char *pointer,
                                      struct attn_error *error) {
    for (size_t b = 0; b < call->rope.q_offset_count; b++)
        if (check_reach(call->rope.q_offset[b], call->Tq, pointer, error) != ATTN_OK)
            return error->status;
    return ATTN_OK;
}

enum attn_status attn_call_move_rope(struct attn_call *call, struct attn_error *error) {
    call->rope.q_offset = call->space.q_offset;
    call->rope.q_offset_count = call->space.q_offset_count;
    return check_queries(call, "/q_offset", error);
}

static enum attn_status place_rows(struct attn_call *call, const struct attn_rope_request *rope,
                                   struct attn_error *error) {
    const bool own = rope->q_offset.values != NULL;
    if (own && rope->q_offset.count != 1 && rope->q_offset.count != call->B)
        return attn_fail(error, ATTN_BAD_VALUE, "/rope/q_offset",
                         "q_offset must be one integer or one per batch item (%zu), got %zu.",
                         call->B, rope->q_offset.count);
    call->rope.q_offset = own ? rope->q_offset.values : call->space.q_offset;
    call->rope.q_offset_count = own ? rope->q_offset.count : call->space.q_offset_count;
    call->rope.k_offset = rope->k_offset;
    if (check_queries(call, own ? "/rope/q_offset" : "/q_offset", error) != ATTN_OK)
        return error->status;
    return check_reach(rope->k_offset, call->Tk, "/rope/k_offset", error);
}

enum attn_status attn_call_resolve_rope(struct attn_call *call, struct attn_request *request,
                                        struct attn_error *error) {
    const struct attn_rope_request *rope =
        request->kv == NULL ? &request->rope : &request->kv->rope;
    call->rope.q_only = request->kv != NULL;
    if (!rope->given)
        return ATTN_OK;
    if (resolve_dims(call, rope, error) != ATTN_OK ||
        resolve_frequencies(call, rope, error) != ATTN_OK)
        return error->status;
    return place_rows(call, rope, error);
}
