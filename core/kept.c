/* SPDX-License-Identifier: Apache-2.0 */
/* A call's copy, made by one walk over its parts that either measures or copies; see kept.h. */
#include "core/kept.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/call_internal.h"
#include "core/checked.h"
#include "core/convert.h"
#include "core/executor.h"
#include "core/kernels/operand.h"

/* Memory that is given out from its beginning; with base NULL it is only measured. */
struct pile {
    char *base;
    size_t used; /* SIZE_MAX: too much */
};

static void *pile_take(struct pile *pile, size_t count, size_t element) {
    const size_t at = pile->used;
    size_t bytes;
    if (at == SIZE_MAX || !attn_mul_size(count, element, &bytes) ||
        !attn_round_up_size(bytes, 64, &bytes) || !attn_add_size(at, bytes, &pile->used)) {
        pile->used = SIZE_MAX;
        return NULL;
    }
    return pile->base == NULL ? NULL : pile->base + at;
}

/* A list's copy; NULL stays NULL, and what is only measured becomes so. */
static const void *pile_copy(struct pile *pile, const void *from, size_t count, size_t element) {
    void *copy = from == NULL ? NULL : pile_take(pile, count, element);
    if (copy != NULL && count > 0)
        memcpy(copy, from, count * element);
    return copy;
}

/* n elements, each of `stride` elements apart, widened or narrowed where the types differ. */
static void copy_run(enum attn_dtype from_dtype, const void *from, ptrdiff_t stride,
                     enum attn_dtype to_dtype, void *to, size_t n) {
    enum { CHUNK = 256 };
    const size_t size = attn_dtype_size(from_dtype);
    double reals[CHUNK];
    if (from_dtype == to_dtype && stride == 1) {
        memcpy(to, from, n * size);
        return;
    }
    for (size_t at = 0; at < n; at += CHUNK) {
        const size_t part = attn_min_size(CHUNK, n - at);
        const char *source = (const char *)from + (ptrdiff_t)at * stride * (ptrdiff_t)size;
        char *target = (char *)to + at * attn_dtype_size(to_dtype);
        if (from_dtype == to_dtype) {
            for (size_t e = 0; e < part; e++)
                memcpy(target + e * size, source + (ptrdiff_t)e * stride * (ptrdiff_t)size, size);
            continue;
        }
        attn_load_double(from_dtype, source, stride, part, reals);
        attn_store_double(to_dtype, target, 1, part, reals);
    }
}

/* Dense [B,H,T,D]. */
static void keep_operand(struct pile *pile, const size_t shape[ATTN_AXES], enum attn_dtype dtype,
                         struct attn_operand *operand) {
    const struct attn_operand from = *operand;
    const size_t D = shape[3];
    size_t rows;
    if (!attn_mul_size(shape[0], shape[1], &rows) || !attn_mul_size(rows, shape[2], &rows) ||
        !attn_mul_size(rows, D, &rows))
        rows = SIZE_MAX;
    char *to = pile_take(pile, rows, attn_dtype_size(dtype));
    const ptrdiff_t d = (ptrdiff_t)D, t = (ptrdiff_t)shape[2], h = (ptrdiff_t)shape[1];
    assert(from.pages == NULL);
    *operand = (struct attn_operand){
        .data = to, .dtype = dtype, .sb = h * t * d, .sh = t * d, .st = d, .sd = 1};
    for (size_t row = 0; to != NULL && D > 0 && row < shape[0] * shape[1] * shape[2]; row++)
        copy_run(from.dtype,
                 attn_operand_row(&from, row / shape[2] / shape[1], row / shape[2] % shape[1],
                                  row % shape[2]),
                 from.sd, dtype, to + row * D * attn_dtype_size(dtype), D);
}

/*
 * Keys of a cache, which may change after the call: whole pages, but without values. They stay in
 * pages, because kernels add a score's products up in another order where keys lie in panels.
 */
static void keep_pages(struct pile *pile, const struct attn_call *call, enum attn_dtype dtype,
                       struct attn_operand *operand) {
    const struct attn_operand from = *operand;
    const size_t count = call->Tk / ATTN_KV_PAGE + (call->Tk % ATTN_KV_PAGE > 0);
    size_t head, elements;
    if (!attn_mul_size(call->D, ATTN_KV_PAGE, &head) ||
        !attn_mul_size(head, call->Hkv, &elements) || !attn_mul_size(elements, count, &elements))
        head = elements = SIZE_MAX;
    struct attn_kv_page *pages = pile_take(pile, count, sizeof *pages);
    struct attn_kv_page **list = pile_take(pile, count, sizeof(struct attn_kv_page *));
    char *to = pile_take(pile, elements, attn_dtype_size(dtype));
    *operand = (struct attn_operand){.dtype = dtype,
                                     .sh = (ptrdiff_t)head,
                                     .st = from.st,
                                     .sd = from.sd,
                                     .pages = list,
                                     .panel = from.panel};
    for (size_t n = 0; to != NULL && n < count; n++) {
        pages[n] = (struct attn_kv_page){.data = to};
        list[n] = &pages[n];
        for (size_t h = 0; h < call->Hkv; h++, to += head * attn_dtype_size(dtype))
            copy_run(from.dtype,
                     from.pages[n]->data + (from.base + (ptrdiff_t)h * from.sh) *
                                               (ptrdiff_t)attn_dtype_size(from.dtype),
                     1, dtype, to, head);
    }
}

/* A cache's have a type of their own, which only a narrower copy of the call changes. */
static enum attn_dtype dtype_of_keys(const struct attn_call *call, enum attn_dtype dtype) {
    const size_t size = attn_dtype_size(dtype);
    return size < attn_dtype_size(call->q.dtype) && size < attn_dtype_size(call->k.dtype)
               ? dtype
               : call->k.dtype;
}

static void keep_keys(struct pile *pile, const struct attn_call *call, enum attn_dtype dtype,
                      struct attn_operand *k) {
    const size_t shape[] = {call->B, call->Hkv, call->Tk, call->D};
    if (k->pages == NULL)
        keep_operand(pile, shape, dtype_of_keys(call, dtype), k);
    else
        keep_pages(pile, call, dtype_of_keys(call, dtype), k);
}

/* A tensor of rank ATTN_AXES, dense but for its broadcast axes, which stay so. */
static void keep_tensor(struct pile *pile, struct attn_tensor *tensor) {
    const struct attn_tensor from = *tensor;
    size_t own[ATTN_AXES], count = 1;
    if (attn_tensor_is_none(tensor) || tensor->data == NULL)
        return;
    assert(tensor->rank == ATTN_AXES);
    for (size_t axis = ATTN_AXES; axis-- > 0;) {
        own[axis] = from.stride[axis] == 0 ? attn_min_size(from.shape[axis], 1) : from.shape[axis];
        tensor->stride[axis] = from.stride[axis] == 0 ? 0 : (ptrdiff_t)count;
        if (!attn_mul_size(count, own[axis], &count))
            count = SIZE_MAX;
    }
    const size_t size = attn_dtype_size(from.dtype);
    char *to = pile_take(pile, count, size);
    tensor->data = to;
    for (size_t row = 0; to != NULL && count > 0 && row < own[0] * own[1] * own[2]; row++) {
        const ptrdiff_t at = attn_tensor_offset(&from, row / own[2] / own[1], row / own[2] % own[1],
                                                row % own[2], 0);
        copy_run(from.dtype, (const char *)from.data + at * (ptrdiff_t)size, from.stride[3],
                 from.dtype, to + row * own[3] * size, own[3]);
    }
}

static void keep_ints(struct pile *pile, struct attn_int_list *list) {
    list->values = pile_copy(pile, list->values, list->count, sizeof *list->values);
}

static void keep_mask(struct pile *pile, struct attn_mask *mask) {
    struct attn_mask_node *nodes = pile_take(pile, mask->count, sizeof *nodes);
    for (size_t n = 0; n < mask->count; n++) {
        struct attn_mask_node node = mask->nodes[n];
        keep_ints(pile, &node.kv_lengths);
        keep_ints(pile, &node.q_lengths);
        keep_ints(pile, &node.lengths);
        keep_ints(pile, &node.tokens);
        keep_tensor(pile, &node.tensor);
        keep_tensor(pile, &node.kv);
        if (nodes != NULL)
            nodes[n] = node;
    }
    mask->nodes = nodes;
}

static void keep_lists(struct pile *pile, struct attn_call *call) {
    struct attn_rope *rope = &call->rope;
    struct attn_mask_space *space = &call->space;
    const bool follows = attn_rope_follows(call);
    space->q_offset =
        pile_copy(pile, space->q_offset, space->q_offset_count, sizeof *space->q_offset);
    call->alibi = pile_copy(pile, call->alibi, call->Hq, sizeof *call->alibi);
    call->sink = pile_copy(pile, call->sink, call->Hq, sizeof *call->sink);
    if (rope->dims == 0)
        return;
    rope->q_offset =
        follows ? space->q_offset
                : pile_copy(pile, rope->q_offset, rope->q_offset_count, sizeof *rope->q_offset);
    rope->inv_freq = pile_copy(pile, rope->inv_freq, rope->dims / 2, sizeof *rope->inv_freq);
}

static void keep_rows(struct pile *pile, const struct attn_call *call, const struct attn_plan *plan,
                      struct attn_rows *rows) {
    size_t count;
    if (!attn_mul_size(call->B, call->Hq, &count) || !attn_mul_size(count, call->Tq, &count))
        count = SIZE_MAX;
    *rows = (struct attn_rows){.m = pile_take(pile, count, sizeof *rows->m),
                               .l = pile_take(pile, count, sizeof *rows->l),
                               .wide = pile_take(pile, count, sizeof *rows->wide),
                               .count = count,
                               .row_tile = plan->grid.row_tile,
                               .key_tile = plan->grid.key_tile};
}

/* Everything, in one order, measured or copied. */
static struct attn_kept *keep(struct pile *pile, const struct attn_call *call,
                              const struct attn_plan *plan, enum attn_dtype dtype) {
    struct attn_kept kept = {.call = *call,
                             .Dv = call->Dv,
                             .given_dtype = call->q.dtype,
                             .narrowed = dtype != call->q.dtype};
    struct attn_kept *const place = pile_take(pile, 1, sizeof kept);
    keep_operand(pile, (const size_t[]){call->B, call->Hq, call->Tq, call->D}, dtype, &kept.call.q);
    keep_keys(pile, call, dtype, &kept.call.k);
    kept.call.v = kept.call.k; /* of no columns: never read */
    kept.call.Dv = 0;
    keep_tensor(pile, &kept.call.bias);
    keep_tensor(pile, &kept.call.w);
    keep_mask(pile, &kept.call.mask);
    keep_lists(pile, &kept.call);
    if (!kept.narrowed)
        keep_rows(pile, call, plan, &kept.rows);
    kept.call.kernel = plan->kernel->name;
    kept.call.preferred_kernel = NULL;
    kept.call.returns = 0;
    kept.call.map_heads = NULL;
    kept.call.storage = NULL;
    kept.call.rows = NULL;
    if (place != NULL)
        *place = kept;
    return place;
}

/* ---- whether float16 is near ---- */

/* The smallest magnitude of which it keeps eleven digits. */
#define HALF_NORMAL 0x1p-14

static bool is_near(enum attn_dtype dtype, const void *row, ptrdiff_t stride, size_t n) {
    enum { CHUNK = 256 };
    const double overflow = attn_overflow_threshold(ATTN_FLOAT16);
    double reals[CHUNK], largest = 0;
    for (size_t at = 0; at < n; at += CHUNK) {
        const size_t part = attn_min_size(CHUNK, n - at);
        const ptrdiff_t skipped = (ptrdiff_t)at * stride * (ptrdiff_t)attn_dtype_size(dtype);
        attn_load_double(dtype, (const char *)row + skipped, stride, part, reals);
        for (size_t d = 0; d < part; d++)
            if (isfinite(reals[d]))
                largest = fmax(largest, fabs(reals[d]));
    }
    return largest == 0 || (largest >= HALF_NORMAL && largest < overflow);
}

static bool all_near(const struct attn_operand *operand, const size_t shape[ATTN_AXES]) {
    bool near = true;
    for (size_t row = 0; near && row < shape[0] * shape[1] * shape[2]; row++)
        near = is_near(operand->dtype,
                       attn_operand_row(operand, row / shape[2] / shape[1],
                                        row / shape[2] % shape[1], row % shape[2]),
                       operand->sd, shape[3]);
    return near;
}

enum attn_dtype attn_kept_half(const struct attn_call *call) {
    const size_t q[] = {call->B, call->Hq, call->Tq, call->D};
    const size_t k[] = {call->B, call->Hkv, call->Tk, call->D};
    const bool narrows = attn_dtype_size(ATTN_FLOAT16) < attn_dtype_size(call->q.dtype);
    if (!narrows || !all_near(&call->q, q) ||
        (dtype_of_keys(call, ATTN_FLOAT16) != call->k.dtype && !all_near(&call->k, k)))
        return call->q.dtype;
    return ATTN_FLOAT16;
}

/* ---- what kept.h says ---- */

size_t attn_kept_bytes(const struct attn_call *call, const struct attn_plan *plan,
                       enum attn_dtype dtype) {
    struct pile pile = {NULL, 0};
    keep(&pile, call, plan, dtype);
    return pile.used;
}

struct attn_kept *attn_kept_make(const struct attn_call *call, const struct attn_plan *plan,
                                 enum attn_dtype dtype, void *memory) {
    struct pile pile = {memory, 0};
    return keep(&pile, call, plan, dtype);
}

enum attn_status attn_kept_select(const struct attn_kept *kept, const struct attn_kept_part *part,
                                  struct attn_call *call, struct attn_error *error) {
    struct attn_request request;
    attn_request_init(&request);
    request.map = part->map;
    *call = kept->call;
    call->returns = part->returns;
    call->rows = kept->narrowed ? NULL : &kept->rows;
    if (part->batch >= call->B)
        return attn_fail(error, ATTN_BAD_VALUE, "/batch",
                         "batch must name a batch item by number, from 0 and below B = %zu; got "
                         "%zu.",
                         call->B, part->batch);
    if (attn_call_resolve_map(call, &request, error) != ATTN_OK)
        return error->status;
    call->map_batch = part->batch;
    call->map_batches = 1;
    call->sampled = part->sampled && call->pooled;
    return ATTN_OK;
}

size_t attn_kept_redo_bytes(const struct attn_plan *plan) {
    size_t bytes;
    if (attn_round_up_size(attn_heads_bytes(plan, 1), 64, &bytes) &&
        attn_add_size(bytes, plan->workspace_bytes, &bytes))
        return bytes;
    return SIZE_MAX;
}

bool attn_kept_redo(const struct attn_call *call, const struct attn_plan *plan,
                    struct attn_result *result, void *memory,
                    const struct attn_checkpoint *checkpoint) {
    struct attn_heads *heads = attn_heads_open(call, plan, 1, memory);
    char *workspace = (char *)memory + attn_kept_redo_bytes(plan) - plan->workspace_bytes;
    for (size_t task = 0; task < plan->tasks && !attn_checkpoint_stops(checkpoint); task++)
        attn_execute_task(call, plan, result, heads, task, workspace, checkpoint);
    attn_heads_close(heads);
    return !attn_checkpoint_is_cancelled(checkpoint);
}
