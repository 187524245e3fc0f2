/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call that is kept after its answer, so that any part of its map can be had later: copies of q,
 * k, the mask and all else that makes a score, and what attend found of each row. No V, and never
 * a score: O(T D) memory, but for a mask or bias that was given as a whole plane.
 *
 * A weight that is redone has the bits of the answer's, unless operands were kept in a narrower
 * type: then rows are redone with what is looked at, so that weights sum up to 1 all the same. Keys
 * of a cache are copied in pages, whole ones.
 */
#ifndef ATTN_CORE_KEPT_H
#define ATTN_CORE_KEPT_H

#include "core/plan.h"

struct attn_kept {
    struct attn_call call;       /* of copies; it returns nothing, and has Dv = 0 */
    struct attn_rows rows;       /* where the kept call's tasks leave theirs: attn_result.rows; none
                                    where it is narrowed */
    size_t Dv;                   /* of the call that was kept */
    enum attn_dtype given_dtype; /* of its q and k */
    bool narrowed;               /* they are kept in another */
};

/*
 * FLOAT16, or the call's own type where that has no more bytes or float16 is not near: where a
 * value of q or k overflows, or a whole row of them is so small that it loses digits. Whatever else
 * a row has then is rounded by no more than 2^-11 of its largest value.
 */
enum attn_dtype attn_kept_half(const struct attn_call *call);

/* Bytes to keep a planned call with q and k as `dtype`, a float type; SIZE_MAX when they do not
   fit. That is the call's own, or what attn_kept_half() gives. */
size_t attn_kept_bytes(const struct attn_call *call, const struct attn_plan *plan,
                       enum attn_dtype dtype);
/* Copies the call into `memory` of that size, aligned to 64, which stays the caller's and holds
   what is returned. The rows are still to be filled in. Borrows nothing of the call. */
struct attn_kept *attn_kept_make(const struct attn_call *call, const struct attn_plan *plan,
                                 enum attn_dtype dtype, void *memory);

/* What is redone: `returns` of WEIGHTS, SCORES and STATS; the map's part, of batch item `batch`
   alone. */
struct attn_kept_part {
    unsigned returns;
    size_t batch;
    struct attn_map_selection map;
    bool sampled; /* of each bin of a pool its middle row alone */
};

/*
 * The call that redoes a part, ready to be planned and executed; borrows the kept call and the
 * part's list of heads, and is not to be closed. Errors: BAD_VALUE, as for the option `weights`.
 */
enum attn_status attn_kept_select(const struct attn_kept *kept, const struct attn_kept_part *part,
                                  struct attn_call *call, struct attn_error *error);

/*
 * The kept call under the request's mask, for a capture of its own: of the request the mask, its
 * q_offset and its slopes are read, and what is not given stays; rope follows the queries, unless
 * it has positions of its own. Borrows both, and is to be closed. It is planned as it is, with the
 * kept call's Dv, so that its rows have the bits of a whole call's; there is no V, and it is
 * executed with Dv = 0. Errors: as attn_call_init, for these options.
 */
enum attn_status attn_kept_remask(const struct attn_kept *kept, struct attn_request *request,
                                  struct attn_call *call, struct attn_error *error);

/*
 * Executes a planned call at once on the calling thread, for parts of a few rows; the wanted
 * tensors have their memory. `memory`: attn_kept_redo_bytes(plan) bytes, aligned to 64. False when
 * the checkpoint (or NULL) stopped it.
 */
bool attn_kept_redo(const struct attn_call *call, const struct attn_plan *plan,
                    struct attn_result *result, void *memory,
                    const struct attn_checkpoint *checkpoint);
/* SIZE_MAX when they do not fit. */
size_t attn_kept_redo_bytes(const struct attn_plan *plan);

#endif
