/* SPDX-License-Identifier: Apache-2.0 */
/* What the cache's own files share: pages from the pool, tables of pages, the model of a cache. */
#ifndef ATTN_CORE_KV_INTERNAL_H
#define ATTN_CORE_KV_INTERNAL_H

#include "core/kv_cache.h"

/* ---- the pool: pages of one size ---- */

struct attn_kv_class;

/* The pages of `bytes` bytes, a multiple of 64, for one more user; NULL when there is no memory. */
struct attn_kv_class *attn_kv_class_open(struct attn_kv_pool *pool, size_t bytes);
/* Its pages have been given back. */
void attn_kv_class_close(struct attn_kv_class *class);

/* A page with one holder; `used` says whether it may hold anything but zeros. NULL, with NO_ROOM or
 * NO_MEMORY, when there is none. */
struct attn_kv_page *attn_kv_page_take(struct attn_kv_class *class, struct attn_error *error);
static inline void attn_kv_page_hold(struct attn_kv_page *page) {
    atomic_fetch_add_explicit(&page->holders, 1, memory_order_relaxed);
}
/* Gives it back when nobody holds it any more. */
void attn_kv_page_drop(struct attn_kv_page *page);
static inline bool attn_kv_page_is_shared(const struct attn_kv_page *page) {
    return atomic_load_explicit(&page->holders, memory_order_acquire) > 1;
}

/* ---- the model: what a cache, its forks and their views have in common; never changes ---- */

struct attn_kv_model {
    atomic_size_t holders;
    struct attn_kv_class *class;
    struct attn_kv_spec spec; /* resolved; the lists are the model's own */
    struct attn_rope rope;    /* of keys */
    size_t layers, Hkv, D, Dv, capacity;
    size_t element;    /* bytes of one */
    size_t page_bytes; /* Hkv * ATTN_KV_PAGE * (D + Dv) elements, in multiples of 64 bytes */
    void *lists;
};

enum attn_status attn_kv_model_create(struct attn_kv_pool *pool, const struct attn_kv_spec *spec,
                                      struct attn_kv_model **out, struct attn_error *error);
static inline struct attn_kv_model *attn_kv_model_hold(struct attn_kv_model *model) {
    atomic_fetch_add_explicit(&model->holders, 1, memory_order_relaxed);
    return model;
}
void attn_kv_model_drop(struct attn_kv_model *model);

/* The first element of a head's keys in a page; its values follow ATTN_KV_PAGE * D further on. */
static inline char *attn_kv_head(const struct attn_kv_model *model, const struct attn_kv_page *page,
                                 size_t h) {
    return page->data + h * ATTN_KV_PAGE * (model->D + model->Dv) * model->element;
}

/* Zeros the lanes of keys [from, to) of a page, which lie within it. */
void attn_kv_zero_lanes(const struct attn_kv_model *model, struct attn_kv_page *page, size_t from,
                        size_t to);
/* A page whose keys are zeros; NULL as attn_kv_page_take. */
struct attn_kv_page *attn_kv_page_fresh(const struct attn_kv_model *model,
                                        struct attn_error *error);

/* ---- tables: the pages of a layer, in order ---- */

/* Counted as pages are, and like them never changed while there is more than one holder. */
struct attn_kv_table {
    atomic_size_t holders;
    size_t count, room;
    struct attn_kv_page *pages[];
};

static inline struct attn_kv_table *attn_kv_table_hold(struct attn_kv_table *table) {
    if (table != NULL)
        atomic_fetch_add_explicit(&table->holders, 1, memory_order_relaxed);
    return table;
}
/* NULL is nobody's. */
void attn_kv_table_drop(struct attn_kv_table *table);
static inline bool attn_kv_table_is_shared(const struct attn_kv_table *table) {
    return atomic_load_explicit(&table->holders, memory_order_acquire) > 1;
}
/*
 * Makes *table the caller's alone, with the pages [0, keep) of it and room for `room`. False, and
 * nothing changed, when there is no memory.
 */
bool attn_kv_table_own(struct attn_kv_table **table, size_t keep, size_t room);

/* ---- layers ---- */

struct attn_kv_append {
    struct attn_kv_cache *cache;
    struct attn_kv_layer *layer;
    bool open;
    size_t row, count; /* its first row's number among those kept, and how many there are */
    size_t position;   /* of that row */
    struct attn_key_gap restored; /* of a layer that is being restored */
    void *scratch;                /* what writing needs */
};

struct attn_kv_layer {
    struct attn_kv_table *table; /* NULL before the first append; may hold more than is used */
    size_t length;
    struct attn_key_gap gap;
    struct attn_kv_window window;
    bool stale; /* lanes past the last key may not be zeros: its page was shared when it was cut */
    struct attn_kv_append append;
};

struct attn_kv_cache {
    struct attn_kv_model *model;
    struct attn_kv_layer layers[];
};

/* Rows that a layer keeps. */
static inline size_t attn_kv_kept(const struct attn_kv_layer *layer) {
    return layer->length - layer->gap.count;
}

static inline size_t attn_kv_pages_of(size_t rows) {
    return rows / ATTN_KV_PAGE + (rows % ATTN_KV_PAGE != 0);
}

/* True when a query at `position` sees no key that has left the layer. */
bool attn_kv_sees_all(const struct attn_kv_layer *layer, size_t position);

#endif
