/* SPDX-License-Identifier: Apache-2.0 */
/* Checking new rows, and putting them into pages panel by panel. */
#include "core/kv_write.h"

#include <stdlib.h>
#include <string.h>

#include "core/area.h"
#include "core/convert.h"
#include "core/kernels/rowops.h"
#include "core/rope.h"

/* Rows whose turns are made at once: many, for the frequencies' first turns are made each time. */
enum { CHUNK = 1024 };

/* Rows on their way: `turns` are of those from `first` on. */
struct source {
    const struct attn_kv_model *model;
    struct attn_operand k, v;
    const struct attn_rotation *turns; /* NULL: none */
    size_t first;
    bool as_it_is; /* neither converted nor turned */
    void *row;     /* one of D or Dv reals, and behind a key's a panel of them */
};

/* ---- checking ---- */

static enum attn_status check_tensor(const struct attn_tensor *tensor, const char *pointer,
                                     const size_t shape[3], bool bthd, struct attn_error *error) {
    char got[96], want[96];
    if (attn_tensor_is_none(tensor))
        return attn_fail(error, ATTN_MISSING_FIELD, pointer,
                         "The tensor %s is missing; new tokens have k and v.", pointer + 1);
    if (attn_dtype_class(tensor->dtype) != ATTN_CLASS_FLOAT)
        return attn_fail(error, ATTN_BAD_DTYPE, pointer,
                         "%s must be float32, float64, float16 or bfloat16, got %s; convert it.",
                         pointer + 1, attn_dtype_name(tensor->dtype));
    const size_t whole[4] = {1, shape[bthd ? 1 : 0], shape[bthd ? 0 : 1], shape[2]};
    const size_t *wanted = tensor->rank == 4 ? whole : shape;
    bool fits = tensor->rank == 4 || (tensor->rank == 3 && !bthd);
    for (int axis = 0; axis < tensor->rank && fits; axis++)
        fits = tensor->shape[axis] == wanted[axis];
    if (fits)
        return ATTN_OK;
    return attn_fail(
        error, ATTN_BAD_SHAPE, pointer,
        "%s has shape %s; the session's is [kv_heads, tokens, size] = %s, or that with "
        "a batch axis of 1.",
        pointer + 1, attn_shape_text(tensor->rank, tensor->shape, got, sizeof got),
        attn_shape_text(3, shape, want, sizeof want));
}

/* The tokens that k has, whatever its other axes are. */
static size_t tokens_of(const struct attn_kv_rows *rows) {
    if (rows->k.rank == 4)
        return rows->k.shape[rows->layout == ATTN_LAYOUT_BTHD ? 1 : 2];
    return rows->k.rank == 3 ? rows->k.shape[1] : 0;
}

enum attn_status attn_kv_rows_check(const struct attn_kv_cache *cache,
                                    const struct attn_kv_rows *rows, size_t *count,
                                    struct attn_error *error) {
    const struct attn_kv_model *model = cache->model;
    const bool bthd = rows->layout == ATTN_LAYOUT_BTHD;
    const size_t n = tokens_of(rows);
    const size_t k[3] = {model->Hkv, n, model->D}, v[3] = {model->Hkv, n, model->Dv};
    if (check_tensor(&rows->k, "/k", k, bthd, error) != ATTN_OK ||
        check_tensor(&rows->v, "/v", v, bthd, error) != ATTN_OK)
        return error->status;
    if (rows->k.dtype != rows->v.dtype)
        return attn_fail(error, ATTN_BAD_DTYPE, "/v",
                         "k and v must share one dtype; got %s and %s.",
                         attn_dtype_name(rows->k.dtype), attn_dtype_name(rows->v.dtype));
    *count = n;
    return ATTN_OK;
}

/* ---- writing ---- */

static struct attn_operand operand_of(const struct attn_tensor *tensor, enum attn_layout layout) {
    const int first = tensor->rank - 3;
    const bool bthd = layout == ATTN_LAYOUT_BTHD;
    return (struct attn_operand){.data = tensor->data,
                                 .dtype = tensor->dtype,
                                 .sh = tensor->stride[first + (bthd ? 1 : 0)],
                                 .st = tensor->stride[first + (bthd ? 0 : 1)],
                                 .sd = tensor->stride[first + 2]};
}

static const char *row_of(const struct attn_operand *operand, size_t h, size_t t) {
    const ptrdiff_t at = (ptrdiff_t)h * operand->sh + (ptrdiff_t)t * operand->st;
    return (const char *)operand->data + at * (ptrdiff_t)attn_dtype_size(operand->dtype);
}

#define KV_PASTE2(a, b) a##b
#define KV_PASTE(a, b) KV_PASTE2(a, b)

#define REAL float
#define SUFFIX _float
#define LOAD attn_load_float
#define STORE attn_store_float
#define ROWOPS f
#include "core/kv_write_rows.h"

#define REAL double
#define SUFFIX _double
#define LOAD attn_load_double
#define STORE attn_store_double
#define ROWOPS d
#include "core/kv_write_rows.h"

/* The type that rows go through: what is kept is rounded once. */
static size_t real_of(const struct attn_kv_model *model) {
    return model->spec.dtype == ATTN_FLOAT64 ? sizeof(double) : sizeof(float);
}

/* A call that has nothing but `count` keys from `position` on: whose turns are theirs. */
static struct attn_call call_of(const struct attn_kv_model *model, size_t position, size_t count) {
    static const int64_t origin = 0;
    struct attn_call call = {.Tk = count, .D = model->D, .rope = model->rope};
    call.rope.q_offset = &origin;
    call.rope.q_offset_count = 1;
    call.rope.k_offset = (int64_t)position;
    return call;
}

static size_t row_bytes(const struct attn_kv_model *model) {
    return attn_area_bytes(1, attn_max_size(model->D * (ATTN_KV_PANEL + 1), model->Dv),
                           real_of(model));
}

static size_t turn_bytes(const struct attn_kv_model *model, size_t count) {
    const struct attn_call call = call_of(model, 0, attn_min_size(count, CHUNK));
    return model->rope.dims == 0 ? 0 : attn_rotation_bytes(&call, real_of(model));
}

void *attn_kv_write_open(const struct attn_kv_model *model, size_t count) {
    size_t bytes;
    if (!attn_add_size(row_bytes(model), turn_bytes(model, count), &bytes) ||
        !attn_round_up_size(bytes, 64, &bytes))
        return NULL;
    return aligned_alloc(64, bytes);
}

#define PUT_LANES(name, type)                                                \
    static void name(const char *from, ptrdiff_t step, size_t n, char *to) { \
        const type *const source = (const void *)from;                       \
        type *const lane = (void *)to;                                       \
        for (size_t d = 0; d < n; d++)                                       \
            lane[d * ATTN_KV_PANEL] = source[(ptrdiff_t)d * step];           \
    }
PUT_LANES(put_lane_16, uint16_t)
PUT_LANES(put_lane_32, uint32_t)
PUT_LANES(put_lane_64, uint64_t)

/* Rows of the cache's own type that nothing turns keep their bits. */
static void copy_rows(const struct source *source, size_t h, size_t t, size_t count, char *lane,
                      char *values) {
    const struct attn_kv_model *model = source->model;
    const size_t element = model->element, width = model->Dv * element;
    for (size_t r = 0; r < count; r++, lane += element, values += width) {
        const char *const k = row_of(&source->k, h, t + r), *const v = row_of(&source->v, h, t + r);
        if (element == sizeof(uint16_t))
            put_lane_16(k, source->k.sd, model->D, lane);
        else if (element == sizeof(uint32_t))
            put_lane_32(k, source->k.sd, model->D, lane);
        else
            put_lane_64(k, source->k.sd, model->D, lane);
        memcpy(values, v, width);
    }
}

/* Rows [t, t + count), which lie in one panel. */
static void put(const struct attn_kv_target *target, const struct source *source, size_t t,
                size_t count) {
    const struct attn_kv_model *model = target->model;
    const size_t row = target->row + t, place = row % ATTN_KV_PAGE;
    const struct attn_kv_page *page = target->pages[row / ATTN_KV_PAGE];
    for (size_t h = 0; h < model->Hkv; h++) {
        char *keys = attn_kv_head(model, page, h);
        char *values = keys + ATTN_KV_PAGE * model->D * model->element;
        char *panel = keys + place / ATTN_KV_PANEL * ATTN_KV_PANEL * model->D * model->element;
        char *to = values + place * model->Dv * model->element;
        if (source->as_it_is) {
            copy_rows(source, h, t, count, panel + place % ATTN_KV_PANEL * model->element, to);
        } else if (real_of(model) == sizeof(double)) {
            put_keys_double(source, h, t, count, place % ATTN_KV_PANEL, panel);
            put_values_double(source, h, t, count, to);
        } else {
            put_keys_float(source, h, t, count, place % ATTN_KV_PANEL, panel);
            put_values_float(source, h, t, count, to);
        }
    }
}

bool attn_kv_write(const struct attn_kv_target *target, const struct attn_kv_rows *rows,
                   void *scratch, const struct attn_checkpoint *checkpoint) {
    const struct attn_kv_model *model = target->model;
    const bool turns = model->rope.dims > 0 && !rows->rotated;
    struct attn_rotation rotation = {0};
    struct source source = {.model = model,
                            .k = operand_of(&rows->k, rows->layout),
                            .v = operand_of(&rows->v, rows->layout),
                            .turns = turns ? &rotation : NULL,
                            .row = scratch};
    source.as_it_is = !turns && source.k.dtype == model->spec.dtype && source.v.sd == 1;
    for (size_t t = 0; t < target->count;) {
        if (attn_checkpoint_stops(checkpoint))
            return false;
        const size_t lane = (target->row + t) % ATTN_KV_PANEL;
        if (t % CHUNK == 0)
            source.first = t;
        const size_t left = target->count - t;
        if (turns && t == source.first) {
            const struct attn_call call =
                call_of(model, target->position + t, attn_min_size(left, CHUNK));
            rotation =
                attn_rotation_make(&call, real_of(model), (char *)scratch + row_bytes(model));
        }
        const size_t whole = attn_min_size(ATTN_KV_PANEL - lane, left);
        const size_t count = attn_min_size(whole, source.first + CHUNK - t);
        put(target, &source, t, count);
        t += count;
    }
    return true;
}
