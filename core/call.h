/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A validated call: what plan, kernels and codecs read. Every default is resolved, every size has
 * been checked, every operand is strides over [B,H,T,D]. Nothing behind it refuses a request's
 * meaning any more.
 */
#ifndef ATTN_CORE_CALL_H
#define ATTN_CORE_CALL_H

#include "core/kv_page.h"
#include "core/request.h"
#include "core/status.h"

/* An operand read in place: element (b,h,t,d) is at data + (b*sb + h*sh + t*st + d*sd) elements. */
struct attn_operand {
    const void *data;
    enum attn_dtype dtype;
    ptrdiff_t sb, sh, st, sd;
    /* Or of a cache (core/kv_page.h), B = 1; NULL: data. Row t lies in page t / ATTN_KV_PAGE, at
       element base + h*sh + (row / 16)*panel + (row % 16)*st + d*sd, row being its place there. */
    struct attn_kv_page *const *pages;
    ptrdiff_t base, panel;
};

/* How q and k are turned by their positions before they meet; see core/rope.h. */
struct attn_rope {
    size_t dims; /* leading dimensions that turn, even; 0: none */
    bool interleaved;
    double theta;            /* where inv_freq is NULL */
    const double *inv_freq;  /* [dims / 2], borrowed, or NULL */
    const int64_t *q_offset; /* position of query 0: one, or one per batch item */
    size_t q_offset_count;
    int64_t k_offset; /* position of key 0 */
    bool q_only;      /* keys have been turned already */
};

/* What attend finds of rows, elements [first, first + count) of [B,Hq,Tq]: as in struct
   attn_score_block, the sink's part included. And the tiles that it was found on. */
struct attn_rows {
    double *m, *l;
    bool *wide;
    size_t first, count;
    size_t row_tile, key_tile;
};

struct attn_call {
    size_t B, Hq, Hkv, Tq, Tk, D, Dv;
    struct attn_operand q, k, v;
    struct attn_tensor bias; /* none, or broadcast to [B,Hq,Tq,Tk] */
    struct attn_rope rope;
    enum attn_score score;
    struct attn_tensor w; /* of an additive score, broadcast to [1,1,Hq,D]; else none */
    double scale;
    double softcap;                /* 0: none */
    struct attn_mask mask;         /* validated; borrows the request's nodes, or storage has them */
    struct attn_mask_space space;  /* what the mask is evaluated against */
    bool placed;                   /* where query 0 stands was said, or is plain as Tq = Tk */
    const double *alibi;           /* Hq slopes, or NULL */
    const double *sink;            /* Hq logits, or NULL */
    enum attn_precision precision; /* FLOAT32 or FLOAT64 */
    enum attn_dtype output_dtype;
    unsigned returns;
    enum attn_stage stage;
    const int64_t *map_heads; /* map_head_count query heads, in the caller's order; NULL: all */
    size_t map_head_count;
    size_t map_batch, map_batches;               /* batch items of the map */
    size_t map_row, map_rows, map_col, map_cols; /* its region */
    enum attn_map_heads map_over_heads;
    size_t pool_rows, pool_cols; /* bins of the region; as many as it has rows and keys: none */
    enum attn_pool pool;
    bool pooled;
    bool sampled; /* the pool's bins are of one row each, the middle one of theirs */
    size_t top_k; /* 0: not asked for */
    const char *kernel, *preferred_kernel; /* NULL: chosen */
    const struct attn_rows
        *rows; /* known already, and only scores are redone: core/kept.h; or NULL */
    /* How the caller wrote q, for shaping answers: its rank, layout, and whether heads were split.
     */
    int q_rank;
    bool bthd;        /* rank 4 with tokens before heads */
    bool split_heads; /* rank 3 [B,T,H*D] */
    const char *note; /* NULL, or a remark for meta.notes (static text) */
    void *storage;    /* owned memory behind the lists above */
};

/* Query heads that share one key/value head. */
static inline size_t attn_call_group(const struct attn_call *call) {
    return call->Hkv == 0 ? 0 : call->Hq / call->Hkv;
}

/* Whether rope turns queries by where the call has them, and not by positions of its own. */
static inline bool attn_rope_follows(const struct attn_call *call) {
    return call->rope.dims > 0 && call->rope.q_offset == call->space.q_offset;
}

/* True when statistics or sums over rows come back. */
static inline bool attn_call_has_stats(const struct attn_call *call) {
    return call->returns & (ATTN_RETURN_STATS | ATTN_RETURN_COL_SUMS);
}

/* Heads that a map of the answer has: their mean or maximum is one, of none there is none. */
static inline size_t attn_call_map_planes(const struct attn_call *call) {
    if (call->map_over_heads == ATTN_HEADS_EACH)
        return call->map_head_count;
    return call->Hq > 0;
}

/* The head at a place of the map's selection. */
static inline size_t attn_call_map_head(const struct attn_call *call, size_t place) {
    return call->map_heads == NULL ? place : (size_t)call->map_heads[place];
}

/* Absolute position of query 0 of batch item b. */
static inline int64_t attn_call_q_offset(const struct attn_call *call, size_t b) {
    return call->space.q_offset[call->space.q_offset_count == 1 ? 0 : b];
}

/*
 * Validates `request` and resolves it into *call. Borrows the request's tensors, lists and mask
 * nodes, which must outlive the call. On failure returns the error's status (fault classes INVALID,
 * OVERLOAD for memory) and leaves *call closed.
 */
enum attn_status attn_call_init(struct attn_call *call, struct attn_request *request,
                                struct attn_error *error);
void attn_call_close(struct attn_call *call);

/*
 * Where the map's region has more than `most` rows, or keys, pools it by their largest: as many
 * rows, or keys, go into one bin as it takes. Keeps a pool that was asked for. Errors: BAD_VALUE
 * for a region that is too large to be pooled.
 */
enum attn_status attn_call_fit_map(struct attn_call *call, size_t most, struct attn_error *error);

#endif
