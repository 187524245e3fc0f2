/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Appending. All that can fail is done at the begin: the layer's table becomes its own, its last
 * page too where rows will be put beside those that are there, and new pages are taken. So a commit
 * is one sum, and an abort gives back what was taken.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "core/kv_internal.h"
#include "core/kv_write.h"

/* ---- begin ---- */

/* A page of the first `rows` rows of another. */
static struct attn_kv_page *copy_page(const struct attn_kv_model *model,
                                      const struct attn_kv_page *from, size_t rows,
                                      struct attn_error *error) {
    struct attn_kv_page *page = attn_kv_page_take(model->class, error);
    if (page == NULL)
        return NULL;
    memcpy(page->data, from->data, model->page_bytes);
    attn_kv_zero_lanes(model, page, rows, ATTN_KV_PAGE);
    page->used = true;
    return page;
}

/* Makes the page that the layer's last row lies in fit to be written to. */
static enum attn_status own_last_page(const struct attn_kv_model *model,
                                      struct attn_kv_layer *layer, struct attn_error *error) {
    const size_t rows = attn_kv_kept(layer) % ATTN_KV_PAGE;
    if (rows == 0) {
        layer->stale = false;
        return ATTN_OK;
    }
    struct attn_kv_page **page = &layer->table->pages[layer->table->count - 1];
    if (attn_kv_page_is_shared(*page)) {
        struct attn_kv_page *own = copy_page(model, *page, rows, error);
        if (own == NULL)
            return error->status;
        attn_kv_page_drop(*page);
        *page = own;
    } else if (layer->stale) {
        attn_kv_zero_lanes(model, *page, rows, ATTN_KV_PAGE);
    }
    layer->stale = false;
    return ATTN_OK;
}

static void drop_pages(struct attn_kv_table *table, size_t keep) {
    while (table->count > keep)
        attn_kv_page_drop(table->pages[--table->count]);
}

static enum attn_status take_pages(const struct attn_kv_model *model, struct attn_kv_layer *layer,
                                   size_t rows, struct attn_error *error) {
    const size_t before = attn_kv_pages_of(attn_kv_kept(layer)), after = attn_kv_pages_of(rows);
    if (!attn_kv_table_own(&layer->table, before, after))
        return attn_fail(error, ATTN_NO_MEMORY, "", "There is no memory for more session tokens.");
    if (own_last_page(model, layer, error) != ATTN_OK)
        return error->status;
    while (layer->table->count < after) {
        struct attn_kv_page *page = attn_kv_page_fresh(model, error);
        if (page == NULL) {
            drop_pages(layer->table, before);
            return error->status;
        }
        layer->table->pages[layer->table->count++] = page;
    }
    return ATTN_OK;
}

static enum attn_status open_append(struct attn_kv_cache *cache, struct attn_kv_layer *layer,
                                    size_t count, struct attn_error *error) {
    const struct attn_kv_model *model = cache->model;
    const size_t kept = attn_kv_kept(layer);
    void *scratch = attn_kv_write_open(model, count);
    if (scratch == NULL)
        return attn_fail(error, ATTN_NO_MEMORY, "", "There is no memory to append tokens with.");
    if (take_pages(model, layer, kept + count, error) != ATTN_OK) {
        free(scratch);
        return error->status;
    }
    layer->append = (struct attn_kv_append){.cache = cache,
                                            .layer = layer,
                                            .open = true,
                                            .row = kept,
                                            .count = count,
                                            .position = layer->length,
                                            .scratch = scratch};
    return ATTN_OK;
}

enum attn_status attn_kv_append_begin(struct attn_kv_cache *cache, size_t layer, size_t count,
                                      struct attn_kv_append **append, struct attn_error *error) {
    struct attn_kv_layer *at = &cache->layers[layer];
    assert(layer < cache->model->layers && !at->append.open);
    if (count > cache->model->capacity - at->length)
        return attn_fail_limit(error, ATTN_SESSION_FULL, "", (double)cache->model->capacity,
                               "Layer %zu has %zu token%s and the session a capacity of %zu; %zu "
                               "more do not fit. Truncate it, or create one of more capacity.",
                               layer, at->length, attn_plural(at->length), cache->model->capacity,
                               count);
    if (open_append(cache, at, count, error) != ATTN_OK)
        return error->status;
    *append = &at->append;
    return ATTN_OK;
}

size_t attn_kv_append_position(const struct attn_kv_append *append) {
    return append->position;
}

/* ---- write ---- */

bool attn_kv_append_write(struct attn_kv_append *append, const struct attn_kv_rows *rows,
                          const struct attn_checkpoint *checkpoint) {
    const struct attn_kv_target target = {.model = append->cache->model,
                                          .pages = append->layer->table->pages,
                                          .row = append->row,
                                          .count = append->count,
                                          .position = append->position};
    return attn_kv_write(&target, rows, append->scratch, checkpoint);
}

/* ---- end ---- */

static void close_append(struct attn_kv_append *append) {
    free(append->scratch);
    append->scratch = NULL;
    append->open = false;
}

/*
 * What queries from the append's first row on do not see, page by page: all but the pages of the
 * sinks and those from the window's begin on. Where the table cannot be had alone, nothing yet.
 */
static void evict(struct attn_kv_layer *layer, size_t first_query) {
    const size_t left = (size_t)layer->window.left;
    const size_t sinks = attn_min_size((size_t)layer->window.sinks, layer->length);
    const size_t lead =
        (sinks + ATTN_KV_GAP_ALIGN - 1) / ATTN_KV_GAP_ALIGN * ATTN_KV_GAP_ALIGN / ATTN_KV_PAGE;
    if (!layer->window.given || first_query < left)
        return;
    const size_t gone = layer->gap.count / ATTN_KV_PAGE;
    const size_t begin = (first_query - left) / ATTN_KV_PAGE; /* the first page that is seen */
    if (begin <= lead + gone ||
        !attn_kv_table_own(&layer->table, layer->table->count, layer->table->count))
        return;
    struct attn_kv_table *table = layer->table;
    const size_t drop = begin - lead - gone;
    for (size_t n = lead; n < lead + drop; n++)
        attn_kv_page_drop(table->pages[n]);
    memmove(table->pages + lead, table->pages + lead + drop,
            (table->count - lead - drop) * sizeof(struct attn_kv_page *));
    table->count -= drop;
    layer->gap = (struct attn_key_gap){lead * ATTN_KV_PAGE, (gone + drop) * ATTN_KV_PAGE};
}

void attn_kv_append_commit(struct attn_kv_append *append) {
    struct attn_kv_layer *layer = append->layer;
    const struct attn_key_gap restored = append->restored;
    layer->length = append->position + append->count + restored.count;
    close_append(append);
    if (restored.count > 0)
        layer->gap = restored;
    else
        evict(layer, append->position);
}

/* Rows that were put into the last page of those that stay leave zeros there. */
void attn_kv_append_abort(struct attn_kv_append *append) {
    struct attn_kv_layer *layer = append->layer;
    const size_t keep = attn_kv_pages_of(append->row), rows = append->row % ATTN_KV_PAGE;
    drop_pages(layer->table, keep);
    if (rows > 0)
        attn_kv_zero_lanes(append->cache->model, layer->table->pages[keep - 1], rows,
                           attn_min_size(rows + append->count, ATTN_KV_PAGE));
    close_append(append);
}

/* ---- restore ---- */

static bool is_gap(const struct attn_kv_layer *layer, size_t length,
                   const struct attn_key_gap *gap) {
    if (gap->count == 0)
        return gap->key == 0;
    return layer->window.given && gap->key % ATTN_KV_GAP_ALIGN == 0 &&
           gap->count % ATTN_KV_PAGE == 0 && gap->key <= length && gap->count <= length - gap->key;
}

enum attn_status attn_kv_restore_begin(struct attn_kv_cache *cache, size_t layer, size_t length,
                                       struct attn_key_gap gap, struct attn_kv_append **append,
                                       struct attn_error *error) {
    struct attn_kv_layer *at = &cache->layers[layer];
    if (at->length != 0 || !is_gap(at, length, &gap))
        return attn_fail(error, ATTN_BAD_VALUE, "",
                         "Layer %zu cannot have %zu tokens of which %zu behind the first %zu are "
                         "missing: the snapshot is not of a session with these options.",
                         layer, length, gap.count, gap.key);
    if (length > cache->model->capacity)
        return attn_kv_append_begin(cache, layer, length, append, error); /* which refuses it */
    if (open_append(cache, at, length - gap.count, error) != ATTN_OK)
        return error->status;
    at->append.restored = gap;
    *append = &at->append;
    return ATTN_OK;
}
