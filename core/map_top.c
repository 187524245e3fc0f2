/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The largest n of each row, kept in the answer itself as a heap whose root is the worst of them,
 * and sorted at the end. What pads a row stands there from the beginning: weight 0, or score -inf,
 * with the index -1; so what weighs 0 or is hidden is not listed. NaN is larger than any number,
 * and of equals the lower key is the larger.
 */
#include <assert.h>
#include <math.h>

#include "core/convert.h"
#include "core/map_internal.h"

/* The list of one row of one head's place. */
struct list {
    size_t n;
    float *f; /* one of the two */
    double *d;
    int32_t *keys;
};

struct entry {
    double value;
    int32_t key;
};

static struct list list_of(const struct attn_reducer *reducer, size_t place, size_t t) {
    const struct attn_call *call = reducer->at->call;
    const struct attn_result_tensor *values = &reducer->at->result->tensors[reducer->name];
    const struct attn_result_tensor *keys =
        &reducer->at->result->tensors[ATTN_RESULT_TOP_K_INDICES];
    const size_t plane = attn_map_plane(reducer->at, call->map_head_count, place);
    const size_t first = (plane * call->map_rows + (t - call->map_row)) * call->top_k;
    const bool wide = values->dtype == ATTN_FLOAT64;
    return (struct list){.n = call->top_k,
                         .f = wide ? NULL : (float *)values->data + first,
                         .d = wide ? (double *)values->data + first : NULL,
                         .keys = (int32_t *)keys->data + first};
}

static struct entry get(const struct list *list, size_t at) {
    assert(list->d != NULL || list->f != NULL);
    return (struct entry){list->d != NULL ? list->d[at] : (double)list->f[at], list->keys[at]};
}

static void put(const struct list *list, size_t at, struct entry entry) {
    if (list->d != NULL)
        list->d[at] = entry.value;
    else
        list->f[at] = (float)entry.value;
    list->keys[at] = entry.key;
}

/* -1 is the last of all keys. */
static bool is_worse(struct entry a, struct entry b) {
    if (isnan(a.value) != isnan(b.value))
        return isnan(b.value);
    if (a.value != b.value && !isnan(a.value))
        return a.value < b.value;
    return (uint32_t)a.key > (uint32_t)b.key;
}

/* Lets `entry` sink from the root of the heap that the first n of the list are. */
static void sink(const struct list *list, size_t n, struct entry entry) {
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= n)
            break;
        if (child + 1 < n && is_worse(get(list, child + 1), get(list, child)))
            child++;
        if (!is_worse(get(list, child), entry))
            break;
        put(list, at, get(list, child));
        at = child;
    }
    put(list, at, entry);
}

static void sort(const struct list *list) {
    for (size_t n = list->n; n > 1; n--) {
        const struct entry last = get(list, n - 1);
        put(list, n - 1, get(list, 0));
        sink(list, n - 1, last);
    }
}

/* The first of s[from .. n) that might come into the list; n when there is none. */
static size_t find(const struct attn_reducer *reducer, const struct list *list, const void *s,
                   size_t from, size_t n) {
    const double worst = get(list, 0).value;
    if (isnan(worst))
        return n;
    return reducer->at->wide ? reducer->ops->d.find_above(s, from, n, worst)
                             : reducer->ops->f.find_above(s, from, n, (float)worst);
}

static double value_at(const struct attn_reducer *reducer, const struct list *list, const void *s,
                       size_t at) {
    const double value =
        reducer->at->wide ? ((const double *)s)[at] : (double)((const float *)s)[at];
    return list->d != NULL ? value : (double)(float)value;
}

/* Elements [from, n) of a row of which the first is key `key`. */
static void take(const struct attn_reducer *reducer, const struct list *list, const void *s,
                 size_t from, size_t n, size_t key) {
    for (size_t at = find(reducer, list, s, from, n); at < n;
         at = find(reducer, list, s, at + 1, n)) {
        const struct entry entry = {value_at(reducer, list, s, at), (int32_t)(key + at)};
        if (isnan(entry.value) || entry.value > get(list, 0).value)
            sink(list, list->n, entry);
    }
}

typedef void visit(const struct attn_reducer *reducer, const struct list *list);

static void pad(const struct attn_reducer *reducer, const struct list *list) {
    const double value = reducer->stage == ATTN_STAGE_WEIGHTS ? 0 : -INFINITY;
    for (size_t at = 0; at < list->n; at++)
        put(list, at, (struct entry){value, -1});
}

static void finish(const struct attn_reducer *reducer, const struct list *list) {
    (void)reducer;
    sort(list);
}

static void each_list(const struct attn_reducer *reducer, visit *visited) {
    const struct attn_map_task *at = reducer->at;
    const size_t head = at->task->hkv * at->group;
    size_t top, bottom;
    attn_map_rows(at, &top, &bottom);
    for (size_t place = 0; place < at->call->map_head_count; place++) {
        const size_t h = attn_call_map_head(at->call, place);
        for (size_t t = top; t < bottom && h >= head && h < head + at->group; t++) {
            const struct list list = list_of(reducer, place, t);
            visited(reducer, &list);
        }
    }
}

static void open(const struct attn_reducer *reducer) {
    each_list(reducer, pad);
}

static void close(const struct attn_reducer *reducer) {
    each_list(reducer, finish);
}

static void piece(const struct attn_reducer *reducer, const struct attn_score_piece *piece) {
    const struct attn_map_task *at = reducer->at;
    const size_t real = at->wide ? sizeof(double) : sizeof(float);
    size_t first, last, top, bottom;
    if (!attn_map_keys(at->call, piece->key, piece->keys, &first, &last) ||
        !attn_map_rows(at, &top, &bottom))
        return;
    for (size_t r = 0; r < piece->rows; r++) {
        const struct attn_map_row row = attn_map_row_at(at, piece->row + r);
        const char *s = (const char *)piece->s + r * piece->stride * real;
        for (size_t place = 0; place < at->call->map_head_count; place++) {
            if (attn_call_map_head(at->call, place) != row.h || row.t < top || row.t >= bottom)
                continue;
            const struct list list = list_of(reducer, place, row.t);
            take(reducer, &list, s, first - piece->key, last - piece->key, piece->key);
        }
    }
}

const struct attn_reducer_kind attn_map_top = {
    .touches = attn_map_has_part, .open = open, .piece = piece, .close = close};
