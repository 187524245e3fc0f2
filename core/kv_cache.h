/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys and values that stay from call to call: the cache that decoding appends to and attends over.
 *
 * A cache has layers, and each layer a length of its own. Its rows lie in pages of ATTN_KV_PAGE
 * tokens, all key/value heads of a layer together, in the form that kernels read in place
 * (core/kv_page.h). Pages are counted, so a fork shares them all and copies one only when it is
 * about to write into it, and a view keeps what it shows whatever becomes of the cache.
 *
 * The way of a step: attn_kv_rows_check -> attn_kv_append_begin takes the pages -> attn_kv_append_
 * write converts and rotates -> attn_kv_view_open with the append -> a call over the view (struct
 * attn_request's kv) -> attn_kv_view_close -> attn_kv_append_commit, or _abort, after which nothing
 * of it is left.
 *
 * Threads: the pool is safe for all. A cache is not locked: what changes it (append, commit, abort,
 * truncate, fork, free) and what looks at it (view_open, length, bytes) has one order, which is its
 * owner's. Views that are open, appends of other layers and everything of other caches, forks of
 * this one included, may go on meanwhile on any thread.
 */
#ifndef ATTN_CORE_KV_CACHE_H
#define ATTN_CORE_KV_CACHE_H

#include "core/call.h"
#include "core/checkpoint.h"
#include "core/kv_page.h"
#include "core/request.h"
#include "core/status.h"

struct attn_kv_pool;
struct attn_kv_cache;
struct attn_kv_append;
struct attn_kv_model;
struct attn_kv_table;

enum {
    ATTN_KV_LAYERS_MOST = 1024,
    ATTN_KV_HEADS_MOST = 1024,
    ATTN_KV_WIDTH_MOST = 4096, /* of D and of Dv */
};
#define ATTN_KV_CAPACITY_MOST ((size_t)1 << 31)

/* ---- all pages of the process ---- */

struct attn_kv_pool_stats {
    size_t budget, used; /* bytes; used: had from the system, free pages included */
    size_t pages;        /* that caches and views hold, each counted once */
};

/*
 * A pool that holds at most `budget` bytes of pages. It takes memory as it is needed and gives it
 * back. Errors: NO_MEMORY.
 */
enum attn_status attn_kv_pool_create(size_t budget, struct attn_kv_pool **out,
                                     struct attn_error *error);
/* Its caches must have been freed and its views closed. Clears *handle. */
void attn_kv_pool_free(struct attn_kv_pool **handle);
struct attn_kv_pool_stats attn_kv_pool_read(struct attn_kv_pool *pool);

/* ---- a cache ---- */

/* What a layer keeps: all tokens, or the last ones and the first ones. */
struct attn_kv_window {
    bool given;    /* false: all */
    int64_t left;  /* a query at i sees the keys from i - left on, 0 or more, ... */
    int64_t sinks; /* ... and the first `sinks` ones of all, 0 or more */
};

/* Borrows its lists. */
struct attn_kv_spec {
    int64_t layers, Hkv, D, Dv;
    enum attn_dtype dtype; /* of what is kept: any float type */
    int64_t capacity;      /* most tokens of a layer, evicted ones included */
    const struct attn_kv_window *windows;
    size_t window_count; /* 0: none; 1: the same for all layers; or one per layer */
    /* Keys are turned once, as they are appended, and queries as they attend. Positions are the
       layer's own: q_offset is not given and k_offset 0. */
    struct attn_rope_request rope;
};

/*
 * An empty cache; copies the spec's lists and borrows the pool. Errors: BAD_VALUE and BAD_DTYPE
 * with the pointer of the option as sessions spell it (/layers, /kv_heads, /head_dim, /value_dim,
 * /dtype, /capacity, /window, /rope/...), NO_MEMORY.
 */
enum attn_status attn_kv_cache_create(struct attn_kv_pool *pool, const struct attn_kv_spec *spec,
                                      struct attn_kv_cache **out, struct attn_error *error);
/* Aborts appends that are open. Clears *handle. */
void attn_kv_cache_free(struct attn_kv_cache **handle);

/* The spec as it was resolved: Dv is there, windows are one per layer, rope has its dims and
 * either theta or inv_freq. Borrowed from the cache. */
const struct attn_kv_spec *attn_kv_cache_spec(const struct attn_kv_cache *cache);

/* Tokens that were appended to a layer so far: the position of the next one. */
size_t attn_kv_length(const struct attn_kv_cache *cache, size_t layer);

/* Bytes of the pages that the cache holds, those it shares with forks counted in full; what it
 * would weigh alone. And how many they are. Pages of open appends count. */
size_t attn_kv_cache_bytes(const struct attn_kv_cache *cache);
size_t attn_kv_cache_pages(const struct attn_kv_cache *cache);

/* The bytes of the pages that appending `rows` rows to a layer takes from the pool: what
 * attn_kv_cache_bytes grows by at most. SIZE_MAX when they do not fit. */
size_t attn_kv_append_bytes(const struct attn_kv_cache *cache, size_t layer, size_t rows);

/*
 * A second cache with the same rows, in the same pool, which shares all pages; costs one step per
 * layer, whatever the length. No append may be open. Errors: NO_MEMORY.
 */
enum attn_status attn_kv_fork(const struct attn_kv_cache *cache, struct attn_kv_cache **out,
                              struct attn_error *error);

/*
 * Cuts every layer to `length` tokens. No append may be open. On failure nothing has changed.
 * Errors: SESSION_LENGTH when a layer is shorter, SESSION_EVICTED when rows that a query at
 * `length` may see have left a layer's window; the error's limit is the most, or the least, length
 * that would do.
 */
enum attn_status attn_kv_truncate(struct attn_kv_cache *cache, size_t length,
                                  struct attn_error *error);

/* ---- appending ---- */

/* New rows. Borrows k [Hkv,n,D] and v [Hkv,n,Dv], or of rank 4 with B = 1, in either layout. */
struct attn_kv_rows {
    struct attn_tensor k, v;
    enum attn_layout layout; /* of rank 4 */
    bool rotated;            /* k has been turned already: it was exported */
};

/*
 * Checks shapes and dtypes against the cache's (any float dtype will do; k and v share theirs) and
 * gives the number of rows. Errors: MISSING_FIELD, BAD_DTYPE, BAD_SHAPE with pointers /k and /v.
 */
enum attn_status attn_kv_rows_check(const struct attn_kv_cache *cache,
                                    const struct attn_kv_rows *rows, size_t *count,
                                    struct attn_error *error);

/*
 * Takes the pages for `count` more rows of a layer; nothing is visible yet. One append of a layer
 * may be open at a time. It ends with commit or abort. On failure nothing has changed. Errors:
 * SESSION_FULL beyond the capacity (its limit is the error's), NO_ROOM when the pool's budget is
 * used up, NO_MEMORY when the system has none.
 */
enum attn_status attn_kv_append_begin(struct attn_kv_cache *cache, size_t layer, size_t count,
                                      struct attn_kv_append **append, struct attn_error *error);

/*
 * Puts the rows, which were checked and are as many as were begun, into their places: converted to
 * the cache's dtype, keys turned by their positions. Once per append, before any view of it. False
 * when `checkpoint` (or NULL) stopped it; then only abort is left. May run on any thread.
 */
bool attn_kv_append_write(struct attn_kv_append *append, const struct attn_kv_rows *rows,
                          const struct attn_checkpoint *checkpoint);

/* The rows count from here on; views of the append are best closed before. Pages that no later
 * query of the layer can see are dropped; those that the append's own rows see stay until the next
 * one, so that its call can be had again. */
void attn_kv_append_commit(struct attn_kv_append *append);
/* Nothing of them is left. Views of the append have been closed. */
void attn_kv_append_abort(struct attn_kv_append *append);

/* Position of the append's first row. */
size_t attn_kv_append_position(const struct attn_kv_append *append);

/* ---- looking ---- */

/* Where a call's first query stands when nothing else is said: at the append's first row, or
 * without an append behind the last one. */
#define ATTN_KV_NEXT ((int64_t)-1)

/*
 * The keys and values of one layer as operands of a call: keys are numbered as they are kept, from
 * 0 to `keys`, and stand at the positions that attn_kv_view_position gives.
 */
struct attn_kv_view {
    size_t Hkv, D, Dv, keys;
    struct attn_operand k, v; /* paged */
    int64_t position;         /* of the call's first query */
    struct attn_key_gap gap;  /* what was evicted between them */
    struct attn_kv_window window;
    struct attn_rope_request rope; /* borrowed from the model */
    enum attn_dtype dtype;
    struct attn_kv_table *table; /* the view's own */
    struct attn_kv_model *model;
};

/*
 * Shows a layer with an open append's rows, or without (append NULL), to a call whose first query
 * stands at `position` (0 or more, or ATTN_KV_NEXT). It holds the pages until it is closed. Errors:
 * SESSION_EVICTED when that query may see rows that have left the window; BAD_VALUE for another
 * negative position.
 */
enum attn_status attn_kv_view_open(const struct attn_kv_cache *cache, size_t layer,
                                   const struct attn_kv_append *append, int64_t position,
                                   struct attn_kv_view *view, struct attn_error *error);
void attn_kv_view_close(struct attn_kv_view *view);

/* The position of the view's key j. */
static inline int64_t attn_kv_view_position(const struct attn_kv_view *view, size_t j) {
    return attn_key_position(&view->gap, j);
}

/* ---- snapshots ---- */

/*
 * Writes the view's keys [first, first + count) as they are kept, dense, in the cache's dtype:
 * [Hkv,count,D] to k and [Hkv,count,Dv] to v.
 */
void attn_kv_export(const struct attn_kv_view *view, size_t first, size_t count, void *k, void *v);

/*
 * Begins an append that makes an empty layer what a view showed: of `length` tokens, with the
 * view's gap. Its rows are those that are kept, length - gap.count. Errors: BAD_VALUE when the
 * layer is not empty or has no such gap, and those of attn_kv_append_begin.
 */
enum attn_status attn_kv_restore_begin(struct attn_kv_cache *cache, size_t layer, size_t length,
                                       struct attn_key_gap gap, struct attn_kv_append **append,
                                       struct attn_error *error);

#endif
