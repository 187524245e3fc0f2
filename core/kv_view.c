/* SPDX-License-Identifier: Apache-2.0 */
/* What calls and snapshots see of a layer. */
#include <assert.h>
#include <string.h>

#include "core/checked.h"
#include "core/kv_internal.h"

/* Where kernels find the keys, or the values, of pages. */
static struct attn_operand operand_of(const struct attn_kv_model *model,
                                      const struct attn_kv_table *table, bool values) {
    const size_t width = values ? model->Dv : model->D;
    return (struct attn_operand){.dtype = model->spec.dtype,
                                 .sh = (ptrdiff_t)(ATTN_KV_PAGE * (model->D + model->Dv)),
                                 .st = values ? (ptrdiff_t)width : 1,
                                 .sd = values ? 1 : ATTN_KV_PANEL,
                                 .pages = table == NULL ? NULL : table->pages,
                                 .base = values ? (ptrdiff_t)(ATTN_KV_PAGE * model->D) : 0,
                                 .panel = (ptrdiff_t)(ATTN_KV_PANEL * width)};
}

enum attn_status attn_kv_view_open(const struct attn_kv_cache *cache, size_t layer,
                                   const struct attn_kv_append *append, int64_t position,
                                   struct attn_kv_view *view, struct attn_error *error) {
    const struct attn_kv_layer *at = &cache->layers[layer];
    struct attn_kv_model *model = cache->model;
    assert(append == NULL || (append == &at->append && append->open));
    if (position < ATTN_KV_NEXT)
        return attn_fail(error, ATTN_BAD_VALUE, "/position",
                         "position is that of the first query, 0 or more, got %lld.",
                         (long long)position);
    if (position == ATTN_KV_NEXT)
        position = (int64_t)at->length; /* an append's rows begin there */
    if (!attn_kv_sees_all(at, (size_t)position))
        return attn_fail_limit(
            error, ATTN_SESSION_EVICTED, "/position",
            (double)(at->gap.key + at->gap.count + (size_t)at->window.left),
            "The window of a query at %lld reaches to tokens that have left layer %zu; what can be "
            "had again begins at %zu.",
            (long long)position, layer, at->gap.key + at->gap.count + (size_t)at->window.left);
    *view = (struct attn_kv_view){.Hkv = model->Hkv,
                                  .D = model->D,
                                  .Dv = model->Dv,
                                  .keys = append == NULL ? attn_kv_kept(at)
                                                         : append->row + append->count,
                                  .k = operand_of(model, at->table, false),
                                  .v = operand_of(model, at->table, true),
                                  .position = position,
                                  .gap = at->gap,
                                  .window = at->window,
                                  .rope = model->spec.rope,
                                  .dtype = model->spec.dtype,
                                  .table = attn_kv_table_hold(at->table),
                                  .model = attn_kv_model_hold(model)};
    return ATTN_OK;
}

void attn_kv_view_close(struct attn_kv_view *view) {
    if (view->model == NULL)
        return;
    attn_kv_table_drop(view->table);
    attn_kv_model_drop(view->model);
    memset(view, 0, sizeof *view);
}

/* Rows [row, row + rows) of a head's keys in one page. */
static void export_keys(const struct attn_kv_model *model, const char *head, size_t row,
                        size_t rows, char *to) {
    const size_t element = model->element;
    for (size_t r = row; r < row + rows; r++) {
        const char *from =
            head + (r / ATTN_KV_PANEL * ATTN_KV_PANEL * model->D + r % ATTN_KV_PANEL) * element;
        for (size_t d = 0; d < model->D; d++, to += element)
            memcpy(to, from + d * ATTN_KV_PANEL * element, element);
    }
}

void attn_kv_export(const struct attn_kv_view *view, size_t first, size_t count, void *k, void *v) {
    const struct attn_kv_model *model = view->model;
    const size_t key_bytes = model->D * model->element, value_bytes = model->Dv * model->element;
    assert(first <= view->keys && count <= view->keys - first);
    for (size_t n = 0; n < count;) {
        const size_t row = (first + n) % ATTN_KV_PAGE;
        const size_t rows = attn_min_size(ATTN_KV_PAGE - row, count - n);
        const struct attn_kv_page *page = view->table->pages[(first + n) / ATTN_KV_PAGE];
        for (size_t h = 0; h < model->Hkv; h++) {
            const char *head = attn_kv_head(model, page, h);
            export_keys(model, head, row, rows, (char *)k + (h * count + n) * key_bytes);
            memcpy((char *)v + (h * count + n) * value_bytes,
                   head + ATTN_KV_PAGE * key_bytes + row * value_bytes, rows * value_bytes);
        }
        n += rows;
    }
}
