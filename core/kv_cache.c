/* SPDX-License-Identifier: Apache-2.0 */
/* A cache's layers: made, shared with a fork, cut, counted. */
#include <stdlib.h>

#include "core/checked.h"
#include "core/kv_internal.h"

static struct attn_kv_cache *allocate(size_t layers) {
    return calloc(1, sizeof(struct attn_kv_cache) + layers * sizeof(struct attn_kv_layer));
}

enum attn_status attn_kv_cache_create(struct attn_kv_pool *pool, const struct attn_kv_spec *spec,
                                      struct attn_kv_cache **out, struct attn_error *error) {
    struct attn_kv_model *model;
    if (attn_kv_model_create(pool, spec, &model, error) != ATTN_OK)
        return error->status;
    struct attn_kv_cache *cache = allocate(model->layers);
    if (cache == NULL) {
        attn_kv_model_drop(model);
        return attn_fail(error, ATTN_NO_MEMORY, "", "There is no memory for another session.");
    }
    cache->model = model;
    for (size_t n = 0; n < model->layers; n++)
        cache->layers[n].window = model->spec.windows[n];
    *out = cache;
    return ATTN_OK;
}

void attn_kv_cache_free(struct attn_kv_cache **handle) {
    struct attn_kv_cache *cache = *handle;
    if (cache == NULL)
        return;
    for (size_t n = 0; n < cache->model->layers; n++) {
        if (cache->layers[n].append.open)
            attn_kv_append_abort(&cache->layers[n].append);
        attn_kv_table_drop(cache->layers[n].table);
    }
    attn_kv_model_drop(cache->model);
    free(cache);
    *handle = NULL;
}

const struct attn_kv_spec *attn_kv_cache_spec(const struct attn_kv_cache *cache) {
    return &cache->model->spec;
}

size_t attn_kv_length(const struct attn_kv_cache *cache, size_t layer) {
    return cache->layers[layer].length;
}

size_t attn_kv_cache_pages(const struct attn_kv_cache *cache) {
    size_t pages = 0;
    for (size_t n = 0; n < cache->model->layers; n++) {
        const struct attn_kv_layer *layer = &cache->layers[n];
        pages += attn_kv_pages_of(layer->append.open ? layer->append.row + layer->append.count
                                                     : attn_kv_kept(layer));
    }
    return pages;
}

size_t attn_kv_cache_bytes(const struct attn_kv_cache *cache) {
    return attn_kv_cache_pages(cache) * cache->model->page_bytes;
}

size_t attn_kv_append_bytes(const struct attn_kv_cache *cache, size_t layer, size_t rows) {
    const size_t kept = attn_kv_kept(&cache->layers[layer]);
    size_t after, bytes;
    if (!attn_add_size(kept, rows, &after) ||
        !attn_mul_size(attn_kv_pages_of(after) - attn_kv_pages_of(kept), cache->model->page_bytes,
                       &bytes))
        return SIZE_MAX;
    return bytes;
}

enum attn_status attn_kv_fork(const struct attn_kv_cache *cache, struct attn_kv_cache **out,
                              struct attn_error *error) {
    struct attn_kv_cache *fork = allocate(cache->model->layers);
    if (fork == NULL)
        return attn_fail(error, ATTN_NO_MEMORY, "", "There is no memory for another session.");
    fork->model = attn_kv_model_hold(cache->model);
    for (size_t n = 0; n < cache->model->layers; n++) {
        fork->layers[n] = cache->layers[n];
        fork->layers[n].append = (struct attn_kv_append){0};
        attn_kv_table_hold(fork->layers[n].table);
    }
    *out = fork;
    return ATTN_OK;
}

/* Before the gap nothing is lost; behind it the window must not reach into it. */
bool attn_kv_sees_all(const struct attn_kv_layer *layer, size_t position) {
    const size_t left = (size_t)layer->window.left;
    return layer->gap.count == 0 || position <= layer->gap.key ||
           (position >= left && position - left >= layer->gap.key + layer->gap.count);
}

static enum attn_status check_cut(const struct attn_kv_cache *cache, size_t length,
                                  struct attn_error *error) {
    for (size_t n = 0; n < cache->model->layers; n++) {
        const struct attn_kv_layer *layer = &cache->layers[n];
        if (length > layer->length)
            return attn_fail_limit(error, ATTN_SESSION_LENGTH, "/length", (double)layer->length,
                                   "Layer %zu has %zu token%s, fewer than the %zu to be kept.", n,
                                   layer->length, attn_plural(layer->length), length);
        if (length < layer->length && !attn_kv_sees_all(layer, length))
            return attn_fail_limit(
                error, ATTN_SESSION_EVICTED, "/length",
                (double)(layer->gap.key + layer->gap.count + (size_t)layer->window.left),
                "Behind %zu tokens the window of layer %zu reaches to ones that have left it; keep "
                "%zu or more.",
                length, n, layer->gap.key + layer->gap.count + (size_t)layer->window.left);
    }
    return ATTN_OK;
}

static void cut(const struct attn_kv_model *model, struct attn_kv_layer *layer, size_t length) {
    const size_t before = attn_kv_kept(layer);
    layer->length = length;
    if (length <= layer->gap.key)
        layer->gap = (struct attn_key_gap){0};
    const size_t rows = attn_kv_kept(layer), pages = attn_kv_pages_of(rows);
    if (layer->table == NULL || rows == before)
        return;
    layer->stale = true;
    if (attn_kv_table_is_shared(layer->table))
        return;
    while (layer->table->count > pages)
        attn_kv_page_drop(layer->table->pages[--layer->table->count]);
    if (rows % ATTN_KV_PAGE == 0) {
        layer->stale = false;
    } else if (!attn_kv_page_is_shared(layer->table->pages[pages - 1])) {
        attn_kv_zero_lanes(model, layer->table->pages[pages - 1], rows % ATTN_KV_PAGE,
                           ATTN_KV_PAGE);
        layer->stale = false;
    }
}

enum attn_status attn_kv_truncate(struct attn_kv_cache *cache, size_t length,
                                  struct attn_error *error) {
    if (check_cut(cache, length, error) != ATTN_OK)
        return error->status;
    for (size_t n = 0; n < cache->model->layers; n++)
        cut(cache->model, &cache->layers[n], length);
    return ATTN_OK;
}
