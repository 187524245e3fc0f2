/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answers of all parts as one tensor each. Outputs and lse lie in it from the beginning. Maps
 * are as long as their sessions: each is computed in a place of its own, and copied behind the
 * others' when all are there, with what is no key behind its end.
 */
#include "server/sessions/session_steps.h"

#include <math.h>
#include <string.h>

#include "core/checked.h"

static bool lies_in_place(int name) {
    return name == ATTN_RESULT_OUTPUT || name == ATTN_RESULT_LSE;
}

/* Whether the last axis is of keys, and so differs from part to part. */
static bool has_keys(int name) {
    return name == ATTN_RESULT_WEIGHTS || name == ATTN_RESULT_SCORES ||
           name == ATTN_RESULT_COL_SUMS || name == ATTN_RESULT_COL_MEANS;
}

/* Of sessions. */
static int axis_of(int name) {
    return name == ATTN_RESULT_STATS ? 1 : 0;
}

static bool fits(const struct attn_result_tensor *all, const struct attn_result_tensor *one,
                 int name) {
    bool same = all->rank == one->rank && all->dtype == one->dtype;
    for (int i = 0; i < all->rank && same; i++)
        same = i == axis_of(name) || (i == all->rank - 1 && has_keys(name)) ||
               all->shape[i] == one->shape[i];
    return same;
}

static enum attn_status too_large(struct attn_error *error) {
    return attn_fail(error, ATTN_RESULT_TOO_LARGE, "/sessions",
                     "The answer would be larger than allowed. Step fewer sessions at once, or ask "
                     "for a pool or top_k of the map.");
}

static enum attn_status join(struct steps_call *call, int name, size_t *bytes) {
    struct attn_error *error = &call->tensors.work.error;
    struct attn_result_tensor *all = &call->tensors.result.tensors[name];
    *all = call->parts[0].result.tensors[name];
    if (!all->wanted)
        return ATTN_OK;
    size_t *const last = &all->shape[all->rank - 1];
    all->shape[axis_of(name)] = call->count;
    for (size_t n = 1; n < call->count; n++) {
        const struct attn_result_tensor *one = &call->parts[n].result.tensors[name];
        if (!fits(all, one, name))
            return attn_fail(error, ATTN_BAD_SHAPE, "/sessions",
                             "Sessions of one step have answers of one shape and dtype; those of "
                             "\"%s\" and \"%s\" differ.",
                             call->parts[0].session->id, call->parts[n].session->id);
        if (has_keys(name))
            *last = attn_max_size(*last, one->shape[one->rank - 1]);
    }
    if (!attn_shape_bytes(all->dtype, all->rank, all->shape, &all->bytes) ||
        !attn_add_size(*bytes, all->bytes, bytes) ||
        *bytes > call->tensors.work.exchange->service->limits.call.result_bytes)
        return too_large(error);
    return ATTN_OK;
}

/* Where keys have left between those that stay, maps say where each stands: [N,Tk]. */
static enum attn_status want_positions(struct steps_call *call, size_t *bytes) {
    const unsigned maps = ATTN_RETURN_WEIGHTS | ATTN_RETURN_SCORES | ATTN_RETURN_COL_SUMS;
    struct attn_result_tensor *all = &call->tensors.result.tensors[ATTN_RESULT_K_POSITIONS];
    size_t most = 0;
    bool has_gap = false;
    for (size_t n = 0; n < call->count; n++) {
        const struct attn_kv_view *view = &call->parts[n].step.view;
        most = attn_max_size(most, view->keys);
        has_gap |= view->gap.count > 0;
    }
    *all =
        (struct attn_result_tensor){.dtype = ATTN_INT32, .rank = 2, .shape = {call->count, most}};
    all->wanted = has_gap && call->tensors.out != codec_find("npy") &&
                  (call->parts[0].call.returns & maps) != 0;
    if (!all->wanted)
        return ATTN_OK;
    if (!attn_shape_bytes(all->dtype, all->rank, all->shape, &all->bytes) ||
        !attn_add_size(*bytes, all->bytes, bytes))
        return too_large(&call->tensors.work.error);
    return ATTN_OK;
}

enum attn_status steps_join(struct steps_call *call) {
    size_t bytes = 0;
    for (int name = 0; name < ATTN_RESULT_COUNT; name++)
        if (join(call, name, &bytes) != ATTN_OK)
            return call->tensors.work.error.status;
    return want_positions(call, &bytes);
}

bool steps_scratch(const struct steps_part *part, size_t *bytes) {
    for (int name = 0; name < ATTN_RESULT_COUNT; name++) {
        const struct attn_result_tensor *one = &part->result.tensors[name];
        size_t rounded;
        if (one->wanted && !lies_in_place(name) &&
            (!attn_round_up_size(one->bytes, 64, &rounded) ||
             !attn_add_size(*bytes, rounded, bytes)))
            return false;
    }
    return true;
}

char *steps_place(struct steps_call *call, size_t n, char *scratch) {
    for (int name = 0; name < ATTN_RESULT_COUNT; name++) {
        struct attn_result_tensor *one = &call->parts[n].result.tensors[name];
        size_t rounded = 0;
        if (!one->wanted)
            continue;
        if (lies_in_place(name)) {
            one->data = (char *)call->tensors.result.tensors[name].data + n * one->bytes;
        } else if (attn_round_up_size(one->bytes, 64, &rounded)) {
            one->data = scratch;
            scratch += rounded;
        }
    }
    return scratch;
}

/* ---- copying ---- */

/* What stands where a session has no key: no weight, or a hidden score. */
static void pad(char *at, size_t count, enum attn_dtype dtype, bool is_score) {
    memset(at, 0, count * attn_dtype_size(dtype));
    for (size_t i = 0; i < count && is_score; i++)
        if (dtype == ATTN_FLOAT64)
            ((double *)(void *)at)[i] = -INFINITY;
        else
            ((float *)(void *)at)[i] = -INFINITY;
}

static size_t product(const struct attn_result_tensor *tensor, int first, int end) {
    size_t count = 1;
    for (int i = first; i < end; i++)
        count *= tensor->shape[i];
    return count;
}

static void gather_part(const struct steps_call *call, int name, size_t n, bool is_score) {
    const struct attn_result_tensor *all = &call->tensors.result.tensors[name];
    const struct attn_result_tensor *one = &call->parts[n].result.tensors[name];
    const int axis = axis_of(name), last = all->rank - 1;
    const size_t size = attn_dtype_size(all->dtype), outer = product(all, 0, axis);
    const size_t rows = product(all, axis + 1, last);
    const size_t width = all->shape[last], own = one->shape[last];
    for (size_t o = 0; o < outer; o++)
        for (size_t row = 0; row < rows; row++) {
            char *const to =
                (char *)all->data + ((o * call->count + n) * rows + row) * width * size;
            memcpy(to, (const char *)one->data + (o * rows + row) * own * size, own * size);
            pad(to + own * size, width - own, all->dtype, is_score);
        }
}

static void fill_positions(const struct steps_call *call) {
    const struct attn_result_tensor *all = &call->tensors.result.tensors[ATTN_RESULT_K_POSITIONS];
    int32_t *at = all->data;
    for (size_t n = 0; all->wanted && n < call->count; n++) {
        const struct attn_kv_view *view = &call->parts[n].step.view;
        for (size_t j = 0; j < all->shape[1]; j++)
            *at++ = j < view->keys ? (int32_t)attn_kv_view_position(view, j) : -1;
    }
}

void steps_gather(struct steps_call *call) {
    const bool scores = call->parts[0].call.stage != ATTN_STAGE_WEIGHTS;
    for (int name = 0; name < ATTN_RESULT_COUNT; name++) {
        const bool is_score = name == ATTN_RESULT_SCORES || (name == ATTN_RESULT_WEIGHTS && scores);
        if (!call->parts[0].result.tensors[name].wanted || lies_in_place(name))
            continue;
        for (size_t n = 0; n < call->count; n++)
            gather_part(call, name, n, is_score);
    }
    fill_positions(call);
}
