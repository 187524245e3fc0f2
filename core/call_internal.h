/* SPDX-License-Identifier: Apache-2.0 */
/* The stages of validation, in the order attn_call_init runs them. Each fills its part of *call. */
#ifndef ATTN_CORE_CALL_INTERNAL_H
#define ATTN_CORE_CALL_INTERNAL_H

#include "core/call.h"

/* B Hq Hkv Tq Tk D Dv, operands and strides. Errors: MISSING_FIELD, BAD_DTYPE, BAD_SHAPE,
 * BAD_VALUE. */
enum attn_status attn_call_resolve_shapes(struct attn_call *call, struct attn_request *request,
                                          struct attn_error *error);

/*
 * Allocates call->storage, validates the mask and resolves the absolute position of query 0 from
 * q_offset or the causal masks' align. Errors: BAD_MASK, BAD_VALUE, AMBIGUOUS, NO_MEMORY.
 */
enum attn_status attn_call_resolve_positions(struct attn_call *call, struct attn_request *request,
                                             struct attn_error *error);

/*
 * For a call whose queries stand somewhere already, in its storage, and whose mask is another now:
 * moves them where q_offset or an align says so. Unless they were `placed` by the caller, it has
 * to. Errors: BAD_MASK, BAD_VALUE, AMBIGUOUS.
 */
enum attn_status attn_call_move_queries(struct attn_call *call, const struct attn_request *request,
                                        bool placed, struct attn_error *error);

/* Shapes and positions of a call over a cache: the request has a view, and its mask is joined by
 * what the view shows. */
enum attn_status attn_call_resolve_view_shapes(struct attn_call *call, struct attn_request *request,
                                               struct attn_error *error);
enum attn_status attn_call_resolve_view_positions(struct attn_call *call,
                                                  struct attn_request *request,
                                                  struct attn_error *error);

/* Room for B (at least one) offsets, Hq slopes and Hq sinks in one block, and for `more` bytes
 * behind them, to which it returns the pointer. Errors: NO_MEMORY, and NULL. */
void *attn_call_allocate(struct attn_call *call, size_t more, struct attn_error *error);

/* That q is a tensor that can be attended with, and that the call does not have too many rows. */
enum attn_status attn_call_check_queries(const struct attn_tensor *q, struct attn_error *error);
enum attn_status attn_call_check_rows(const struct attn_call *call, struct attn_error *error);

/* Rotary positions; the call's are known. Errors: BAD_VALUE. */
enum attn_status attn_call_resolve_rope(struct attn_call *call, struct attn_request *request,
                                        struct attn_error *error);

/* Rope turns queries by where the call has them now. Errors: BAD_VALUE. */
enum attn_status attn_call_move_rope(struct attn_call *call, struct attn_error *error);

/* ALiBi slopes and sinks, one per query head. Errors: BAD_VALUE. */
enum attn_status attn_call_resolve_head_lists(struct attn_call *call, struct attn_request *request,
                                              struct attn_error *error);

/* One value for all heads, or one per head, in [lowest, inf); never NaN. Errors: BAD_VALUE. */
enum attn_status attn_check_head_list(const struct attn_real_list *list, size_t heads,
                                      const char *pointer, double lowest, struct attn_error *error);

/* What a score is made of: the weights of an additive one. Errors: MISSING_FIELD, BAD_DTYPE,
   BAD_SHAPE, BAD_VALUE. */
enum attn_status attn_call_resolve_score(struct attn_call *call, struct attn_request *request,
                                         struct attn_error *error);

/* The additive bias: dtype, broadcast, no +inf. Errors: BAD_DTYPE, BAD_SHAPE, BAD_VALUE. */
enum attn_status attn_call_resolve_bias(struct attn_call *call, struct attn_request *request,
                                        struct attn_error *error);

/* The map's stage, heads and region, and how it is reduced. Errors: BAD_VALUE. */
enum attn_status attn_call_resolve_map(struct attn_call *call, struct attn_request *request,
                                       struct attn_error *error);

#endif
