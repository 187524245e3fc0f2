/* SPDX-License-Identifier: Apache-2.0 */
/* The model of a cache: a checked spec, and where a page's rows lie. */
#include <stdlib.h>
#include <string.h>

#include "core/call_internal.h"
#include "core/checked.h"
#include "core/kv_internal.h"

static enum attn_status check_size(int64_t value, int64_t least, int64_t most, const char *pointer,
                                   const char *what, struct attn_error *error) {
    if (value >= least && value <= most)
        return ATTN_OK;
    return attn_fail(error, ATTN_BAD_VALUE, pointer, "%s is %s: from %lld to %lld, got %lld.",
                     pointer + 1, what, (long long)least, (long long)most, (long long)value);
}

static enum attn_status check_sizes(const struct attn_kv_spec *spec, struct attn_error *error) {
    const struct {
        int64_t value, least, most;
        const char *pointer, *what;
    } sizes[] = {
        {spec->layers, 1, ATTN_KV_LAYERS_MOST, "/layers", "how many layers the session has"},
        {spec->Hkv, 1, ATTN_KV_HEADS_MOST, "/kv_heads", "how many key/value heads a layer has"},
        {spec->D, 1, ATTN_KV_WIDTH_MOST, "/head_dim", "the size of a key"},
        {spec->Dv, 1, ATTN_KV_WIDTH_MOST, "/value_dim", "the size of a value"},
        {spec->capacity, 1, (int64_t)ATTN_KV_CAPACITY_MOST, "/capacity",
         "how many tokens a layer may have"}};
    for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++)
        if (check_size(sizes[n].value, sizes[n].least, sizes[n].most, sizes[n].pointer,
                       sizes[n].what, error) != ATTN_OK)
            return error->status;
    if (attn_dtype_class(spec->dtype) != ATTN_CLASS_FLOAT)
        return attn_fail(error, ATTN_BAD_DTYPE, "/dtype",
                         "dtype must be float32, float64, float16 or bfloat16, got %s.",
                         attn_dtype_name(spec->dtype));
    return ATTN_OK;
}

static enum attn_status check_windows(const struct attn_kv_spec *spec, struct attn_error *error) {
    if (spec->window_count > 1 && spec->window_count != (size_t)spec->layers)
        return attn_fail(error, ATTN_BAD_VALUE, "/window",
                         "window is one for all layers or one for each of the %lld, got %zu.",
                         (long long)spec->layers, spec->window_count);
    for (size_t n = 0; n < spec->window_count; n++)
        if (spec->windows[n].given && (spec->windows[n].left < 0 || spec->windows[n].sinks < 0))
            return attn_fail(error, ATTN_BAD_VALUE, "/window",
                             "left and sinks are 0 or more, got %lld and %lld; null keeps all "
                             "tokens.",
                             (long long)spec->windows[n].left, (long long)spec->windows[n].sinks);
    return ATTN_OK;
}

/* What the options of rotary positions say of keys of D dimensions that stand at 0 and on. */
static enum attn_status resolve_rope(const struct attn_kv_spec *spec, struct attn_rope *rope,
                                     struct attn_error *error) {
    static const int64_t origin = 0;
    struct attn_request request;
    struct attn_call call = {.D = (size_t)spec->D, .space.q_offset = &origin};
    attn_request_init(&request);
    request.rope = spec->rope;
    call.space.q_offset_count = 1;
    if (spec->rope.given && spec->rope.q_offset.values != NULL)
        return attn_fail(error, ATTN_BAD_VALUE, "/rope/q_offset",
                         "A session's positions are those of its tokens; leave q_offset out.");
    if (spec->rope.given && spec->rope.k_offset != 0)
        return attn_fail(error, ATTN_BAD_VALUE, "/rope/k_offset",
                         "A session's positions are those of its tokens; leave k_offset out.");
    const enum attn_status status = attn_call_resolve_rope(&call, &request, error);
    *rope = call.rope;
    rope->q_offset = NULL;
    return status;
}

/* Windows, one per layer, and frequencies. */
static bool copy_lists(struct attn_kv_model *model, const struct attn_kv_spec *spec) {
    const size_t pairs = model->rope.inv_freq == NULL ? 0 : model->rope.dims / 2;
    model->lists = malloc(model->layers * sizeof(struct attn_kv_window) + pairs * sizeof(double));
    if (model->lists == NULL)
        return false;
    struct attn_kv_window *windows = model->lists;
    double *frequencies = (double *)(void *)(windows + model->layers);
    memset(windows, 0, model->layers * sizeof *windows); /* none */
    for (size_t n = 0; n < model->layers && spec->window_count > 0; n++)
        windows[n] = spec->windows[spec->window_count == 1 ? 0 : n];
    if (pairs > 0) {
        memcpy(frequencies, model->rope.inv_freq, pairs * sizeof *frequencies);
        model->rope.inv_freq = frequencies;
    }
    model->spec.windows = windows;
    model->spec.window_count = model->layers;
    return true;
}

static void set_rope_request(struct attn_kv_model *model) {
    const struct attn_rope *rope = &model->rope;
    const bool listed = rope->inv_freq != NULL;
    if (rope->dims == 0)
        return;
    model->spec.rope =
        (struct attn_rope_request){.given = true,
                                   .theta_given = !listed,
                                   .theta = listed ? 0 : rope->theta,
                                   .inv_freq = {rope->inv_freq, listed ? rope->dims / 2 : 0},
                                   .interleaved = rope->interleaved,
                                   .dims_given = true,
                                   .dims = (int64_t)rope->dims};
}

static void set_sizes(struct attn_kv_model *model, const struct attn_kv_spec *spec) {
    model->spec = *spec;
    model->layers = (size_t)spec->layers;
    model->Hkv = (size_t)spec->Hkv;
    model->D = (size_t)spec->D;
    model->Dv = (size_t)spec->Dv;
    model->capacity = (size_t)spec->capacity;
    model->element = attn_dtype_size(spec->dtype);
    model->page_bytes = model->Hkv * ATTN_KV_PAGE * (model->D + model->Dv) * model->element;
}

enum attn_status attn_kv_model_create(struct attn_kv_pool *pool, const struct attn_kv_spec *spec,
                                      struct attn_kv_model **out, struct attn_error *error) {
    struct attn_rope rope;
    if (check_sizes(spec, error) != ATTN_OK || check_windows(spec, error) != ATTN_OK ||
        resolve_rope(spec, &rope, error) != ATTN_OK)
        return error->status;
    struct attn_kv_model *model = calloc(1, sizeof *model);
    if (model != NULL) {
        set_sizes(model, spec);
        model->rope = rope;
        if (copy_lists(model, spec))
            model->class = attn_kv_class_open(pool, model->page_bytes);
    }
    if (model == NULL || model->class == NULL) {
        free(model == NULL ? NULL : model->lists);
        free(model);
        return attn_fail(error, ATTN_NO_MEMORY, "", "There is no memory for another session.");
    }
    set_rope_request(model);
    atomic_init(&model->holders, 1);
    *out = model;
    return ATTN_OK;
}

void attn_kv_model_drop(struct attn_kv_model *model) {
    if (atomic_fetch_sub_explicit(&model->holders, 1, memory_order_acq_rel) != 1)
        return;
    attn_kv_class_close(model->class);
    free(model->lists);
    free(model);
}

void attn_kv_zero_lanes(const struct attn_kv_model *model, struct attn_kv_page *page, size_t from,
                        size_t to) {
    const size_t lane_bytes = model->element;
    for (size_t h = 0; h < model->Hkv; h++)
        for (size_t key = from; key < to;) {
            const size_t lane = key % ATTN_KV_PANEL;
            const size_t lanes = attn_min_size(ATTN_KV_PANEL - lane, to - key);
            char *panel = attn_kv_head(model, page, h) +
                          key / ATTN_KV_PANEL * ATTN_KV_PANEL * model->D * lane_bytes;
            for (size_t d = 0; d < model->D; d++)
                memset(panel + (d * ATTN_KV_PANEL + lane) * lane_bytes, 0, lanes * lane_bytes);
            key += lanes;
        }
}

struct attn_kv_page *attn_kv_page_fresh(const struct attn_kv_model *model,
                                        struct attn_error *error) {
    struct attn_kv_page *page = attn_kv_page_take(model->class, error);
    if (page == NULL)
        return NULL;
    for (size_t h = 0; h < model->Hkv && page->used; h++)
        memset(attn_kv_head(model, page, h), 0, ATTN_KV_PAGE * model->D * model->element);
    page->used = true;
    return page;
}
