/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps in bins (core/map_bins.h), and the mean or maximum of heads. A task gathers the bins of its
 * rows in its slot, in double; bins that lie in it whole it stores itself, the ones at its ends are
 * joined with its neighbours' when parts are committed, and so are heads. Tasks of a head come from
 * its last rows to its first.
 *
 * Without a pool the bins are single elements, and the mean of heads is that of the map.
 */
#include <math.h>
#include <string.h>

#include "core/convert.h"
#include "core/map_bins.h"
#include "core/map_internal.h"

/* The most bins that rows of one task lie in. */
static size_t bins_most(const struct attn_call *call, const struct attn_plan *plan) {
    const struct axis rows = rows_of(call);
    if (rows.bins == 0)
        return 0;
    return attn_min_size(rows.bins, plan->grid.row_tile / (rows.n / rows.bins) + 2);
}

/* Bins whose rows count only where they show something: sums of scores. */
static bool counts_rows(const struct attn_reducer *reducer) {
    return reducer->at->call->pool == ATTN_POOL_MASS && reducer->stage == ATTN_STAGE_MASKED;
}

static bool has_counts(const struct attn_call *call) {
    return call->pool == ATTN_POOL_MASS &&
           (call->stage == ATTN_STAGE_MASKED || (call->returns & ATTN_RETURN_SCORES));
}

/* The slot: gathered bins [group][bins_most][pool_cols], a row, and where rows are counted as many
   counts, with the bin that each score row was counted in last. */
struct parts {
    double *sums, *counts;
    void *row;
    size_t *counted;    /* [M] its number + 1; a row comes back with the next keys of a bin */
    size_t most, first; /* bins per head, and the number of the first */
};

_Static_assert(sizeof(size_t) <= sizeof(double), "the slot is counted in doubles");

static bool count_sums(const struct attn_call *call, size_t bins, size_t *count) {
    return attn_mul_size(attn_call_group(call), bins, count) &&
           attn_mul_size(*count, call->pool_cols, count);
}

static size_t slot_bytes(const struct attn_call *call, const struct attn_plan *plan) {
    size_t count, rows = 0, bytes;
    if (count_sums(call, bins_most(call, plan), &count) &&
        attn_mul_size(count, has_counts(call) ? 2 : 1, &count) &&
        (!has_counts(call) || attn_mul_size(attn_call_group(call), plan->grid.row_tile, &rows)) &&
        attn_add_size(count, plan->grid.key_tile, &count) && attn_add_size(count, rows, &count) &&
        attn_mul_size(count, sizeof(double), &bytes))
        return bytes;
    return SIZE_MAX;
}

static size_t carry_bytes(const struct attn_call *call, const struct attn_plan *plan) {
    size_t count, bytes;
    (void)plan;
    if (count_sums(call, 2, &count) && attn_mul_size(count, sizeof(double), &bytes))
        return bytes;
    return SIZE_MAX;
}

static struct parts parts_of(const struct attn_reducer *reducer) {
    const struct attn_map_task *at = reducer->at;
    struct parts parts = {.sums = reducer->slot, .most = bins_most(at->call, at->plan)};
    const size_t count = at->group * parts.most * at->call->pool_cols;
    size_t top, bottom;
    attn_map_rows(at, &top, &bottom);
    parts.row = parts.sums + count;
    parts.counts = parts.sums + count + at->plan->grid.key_tile;
    parts.counted = (size_t *)(void *)(parts.counts + count);
    parts.first = bin_of(rows_of(at->call), top - at->call->map_row);
    return parts;
}

static size_t place_of(const struct attn_reducer *reducer, const struct parts *parts, size_t g,
                       size_t bin) {
    return (g * parts->most + (bin - parts->first)) * reducer->at->call->pool_cols;
}

static bool touches(const struct attn_reducer *reducer) {
    return reducer->at->call->map_cols > 0 && attn_map_has_part(reducer);
}

/* Hidden weights are 0 and count; scores begin at nothing. */
static void open(const struct attn_reducer *reducer) {
    const struct attn_call *call = reducer->at->call;
    const struct parts parts = parts_of(reducer);
    const size_t count = reducer->at->group * parts.most * call->pool_cols;
    const bool zero = call->pool == ATTN_POOL_MASS || reducer->stage == ATTN_STAGE_WEIGHTS;
    for (size_t n = 0; n < count; n++)
        parts.sums[n] = zero ? 0 : -INFINITY;
    if (!counts_rows(reducer))
        return;
    memset(parts.counts, 0, count * sizeof *parts.counts);
    memset(parts.counted, 0, reducer->at->group * reducer->at->task->rows * sizeof *parts.counted);
}

static double join(enum attn_pool pool, double have, double more) {
    if (pool == ATTN_POOL_MASS)
        return have + more;
    return more > have || isnan(more) ? more : have;
}

/* One row of what some rows of a piece have in common, keys [first, last) of the region. */
struct line {
    const void *s; /* real `first` stands here */
    size_t first, last;
    double *sums, *counts;
    size_t *counted;
};

static double line_at(const struct attn_reducer *reducer, const struct line *line, size_t key) {
    const size_t at = key - line->first;
    return reducer->at->wide ? ((const double *)line->s)[at] : (double)((const float *)line->s)[at];
}

/* What keys [key, end) of a line have together. */
static double reduce_keys(const struct attn_reducer *reducer, const struct line *line, size_t key,
                          size_t end) {
    const bool mass = reducer->at->call->pool == ATTN_POOL_MASS;
    if (end - key == 1)
        return line_at(reducer, line, key);
    if (reducer->at->wide) {
        const double *s = (const double *)line->s + (key - line->first);
        return mass ? reducer->ops->d.sum(s, end - key) : reducer->ops->d.largest(s, end - key);
    }
    const float *s = (const float *)line->s + (key - line->first);
    return (double)(mass ? reducer->ops->f.sum(s, end - key)
                         : reducer->ops->f.largest(s, end - key));
}

/* The visible ones' sum. */
static void add_visible(const struct attn_reducer *reducer, const struct line *line, size_t bin,
                        size_t key, size_t end) {
    double sum = 0;
    bool any = false;
    for (; key < end; key++) {
        const double s = line_at(reducer, line, key);
        if (s == -INFINITY)
            continue;
        sum += s;
        any = true;
    }
    line->sums[bin] += sum;
    line->counts[bin] += any && *line->counted != bin + 1;
    if (any)
        *line->counted = bin + 1;
}

static void add_line(const struct attn_reducer *reducer, const struct line *line) {
    const struct attn_call *call = reducer->at->call;
    const struct axis keys = keys_of(call);
    const size_t whole = keys.n / keys.bins, rest = keys.n % keys.bins;
    size_t bin = bin_of(keys, line->first);
    /* Where bins end, without a division for each: rest/bins more than a whole number every time.
     */
    size_t end = bin_begin(keys, bin), part = rest == 0 ? 0 : bin * rest % keys.bins;
    for (size_t key = line->first; key < line->last; bin++) {
        part += rest;
        end += whole + (part >= keys.bins);
        part -= part >= keys.bins ? keys.bins : 0;
        const size_t until = attn_min_size(end, line->last);
        if (counts_rows(reducer))
            add_visible(reducer, line, bin, key, until);
        else
            line->sums[bin] =
                join(call->pool, line->sums[bin], reduce_keys(reducer, line, key, until));
        key = until;
    }
}

/* Rows [row, row + rows) of a piece, of one head and bin. */
static void add_rows(const struct attn_reducer *reducer, const struct parts *parts,
                     const struct attn_score_piece *piece, size_t row, size_t rows,
                     struct line line) {
    const size_t from = row * piece->stride + line.first + reducer->at->call->map_col - piece->key;
    const size_t n = line.last - line.first;
    const bool mass = reducer->at->call->pool == ATTN_POOL_MASS;
    const float *f = (const float *)piece->s + from;
    const double *d = (const double *)piece->s + from;
    line.s = reducer->at->wide ? (const void *)d : (const void *)f;
    if (rows > 1) {
        line.s = parts->row;
        if (reducer->at->wide)
            (mass ? reducer->ops->d.rows_sum : reducer->ops->d.rows_largest)(d, piece->stride, rows,
                                                                             n, parts->row);
        else
            (mass ? reducer->ops->f.rows_sum : reducer->ops->f.rows_largest)(f, piece->stride, rows,
                                                                             n, parts->row);
    }
    add_line(reducer, &line);
}

static bool wants_head(const struct attn_call *call, size_t h) {
    for (size_t place = 0; place < call->map_head_count; place++)
        if (attn_call_map_head(call, place) == h)
            return true;
    return false;
}

/* Rows of a piece from `from` on that have one head and bin in common; at least one. */
static size_t rows_alike(const struct attn_reducer *reducer, const struct attn_score_piece *piece,
                         size_t from, size_t bin) {
    const struct attn_map_task *at = reducer->at;
    const struct attn_map_row row = attn_map_row_at(at, piece->row + from);
    const size_t end = at->call->map_row + bin_begin(rows_of(at->call), bin + 1);
    const size_t last = attn_min_size(end, at->task->row + at->task->rows);
    const bool alone = counts_rows(reducer) || at->call->sampled;
    return alone ? 1 : attn_min_size(last - row.t, piece->rows - from);
}

static void piece(const struct attn_reducer *reducer, const struct attn_score_piece *piece) {
    const struct attn_map_task *at = reducer->at;
    const struct parts parts = parts_of(reducer);
    size_t first, last, top, bottom, rows;
    if (!attn_map_keys(at->call, piece->key, piece->keys, &first, &last) ||
        !attn_map_rows(at, &top, &bottom))
        return;
    struct line line = {.first = first - at->call->map_col, .last = last - at->call->map_col};
    for (size_t r = 0; r < piece->rows; r += rows) {
        const struct attn_map_row row = attn_map_row_at(at, piece->row + r);
        rows = 1;
        if (row.t < top || row.t >= bottom || !row_counts(at->call, row.t))
            continue;
        const size_t bin = bin_of(rows_of(at->call), row.t - at->call->map_row);
        const size_t place = place_of(reducer, &parts, row.g, bin);
        rows = rows_alike(reducer, piece, r, bin);
        line.sums = parts.sums + place;
        line.counts = parts.counts + place;
        line.counted = parts.counted + piece->row + r;
        if (wants_head(at->call, row.h))
            add_rows(reducer, &parts, piece, r, rows, line);
    }
}

/* From what was gathered of a bin's rows to its values. */
static void finish(const struct attn_reducer *reducer, size_t bin, double *sums,
                   const double *counts) {
    const struct attn_call *call = reducer->at->call;
    const struct axis rows = rows_of(call);
    const double height =
        call->sampled ? 1 : (double)(bin_begin(rows, bin + 1) - bin_begin(rows, bin));
    if (call->pool != ATTN_POOL_MASS)
        return;
    for (size_t n = 0; n < call->pool_cols; n++) {
        if (counts_rows(reducer))
            sums[n] = counts[n] == 0 ? -INFINITY : sums[n] / counts[n];
        else
            sums[n] /= height;
    }
}

/* Adds a head's row to that of the heads before it, in the answer itself. */
static void join_heads(const struct attn_reducer *reducer, size_t h, double *row,
                       const void *have) {
    const struct attn_call *call = reducer->at->call;
    const enum attn_dtype dtype = reducer->at->result->tensors[reducer->name].dtype;
    const bool mean = call->map_over_heads == ATTN_HEADS_MEAN;
    for (size_t n = 0; n < call->pool_cols; n++) {
        double before = 0;
        attn_load_double(dtype, (const char *)have + n * attn_dtype_size(dtype), 1, 1, &before);
        if (h > 0)
            row[n] = join(mean ? ATTN_POOL_MASS : ATTN_POOL_MAX, before, row[n]);
        if (mean && h + 1 == call->Hq)
            row[n] /= (double)call->Hq;
    }
}

static void store_bin(const struct attn_reducer *reducer, size_t h, size_t bin, double *row) {
    const struct attn_call *call = reducer->at->call;
    const struct attn_result_tensor *map = &reducer->at->result->tensors[reducer->name];
    const size_t planes = attn_call_map_planes(call);
    const size_t bytes = call->pool_cols * attn_dtype_size(map->dtype);
    for (size_t place = 0; place < planes; place++) {
        const bool joined = call->map_over_heads != ATTN_HEADS_EACH;
        if (!joined && attn_call_map_head(call, place) != h)
            continue;
        const size_t at = attn_map_plane(reducer->at, planes, place) * call->pool_rows + bin;
        char *to = (char *)map->data + at * bytes;
        if (joined)
            join_heads(reducer, h, row, to);
        attn_store_double(map->dtype, to, 1, call->pool_cols, row);
    }
}

/* Where a bin lies to the rows of the task. */
struct reach {
    bool above, below; /* it has rows of tasks before and behind it */
};

static struct reach reach_of(const struct attn_reducer *reducer, size_t bin) {
    const struct attn_map_task *at = reducer->at;
    const struct axis rows = rows_of(at->call);
    return (struct reach){at->call->map_row + bin_begin(rows, bin) < at->task->row,
                          at->call->map_row + bin_begin(rows, bin + 1) >
                              at->task->row + at->task->rows};
}

typedef void visit(const struct attn_reducer *reducer, const struct parts *parts, size_t g,
                   size_t bin);

/* The task's bins, of each wanted head from its last to its first. */
static void each_bin(const struct attn_reducer *reducer, visit *visited) {
    const struct attn_map_task *at = reducer->at;
    const struct parts parts = parts_of(reducer);
    size_t top, bottom;
    attn_map_rows(at, &top, &bottom);
    const size_t last = bin_of(rows_of(at->call), bottom - 1 - at->call->map_row);
    for (size_t g = 0; g < at->group; g++)
        for (size_t bin = last + 1; bin-- > parts.first;)
            if (wants_head(at->call, at->task->hkv * at->group + g))
                visited(reducer, &parts, g, bin);
}

static bool is_own(const struct attn_reducer *reducer, size_t bin) {
    const struct reach reach = reach_of(reducer, bin);
    return !reach.above && !reach.below && reducer->at->call->map_over_heads == ATTN_HEADS_EACH;
}

static void finish_and_store(const struct attn_reducer *reducer, size_t g, size_t bin, double *sums,
                             const double *counts) {
    finish(reducer, bin, sums, counts);
    store_bin(reducer, reducer->at->task->hkv * reducer->at->group + g, bin, sums);
}

static void store_own(const struct attn_reducer *reducer, const struct parts *parts, size_t g,
                      size_t bin) {
    const size_t place = place_of(reducer, parts, g, bin);
    if (is_own(reducer, bin))
        finish_and_store(reducer, g, bin, parts->sums + place, parts->counts + place);
}

static void commit_bin(const struct attn_reducer *reducer, const struct parts *parts, size_t g,
                       size_t bin) {
    const struct attn_call *call = reducer->at->call;
    const struct reach reach = reach_of(reducer, bin);
    const size_t w = call->pool_cols;
    double *sums = parts->sums + place_of(reducer, parts, g, bin);
    double *counts = parts->counts + place_of(reducer, parts, g, bin);
    double *carry = (double *)reducer->carry + g * 2 * w;
    if (is_own(reducer, bin))
        return;
    for (size_t n = 0; n < w && reach.below; n++) {
        sums[n] = join(call->pool, carry[n], sums[n]);
        if (counts_rows(reducer))
            counts[n] += carry[w + n];
    }
    if (!reach.above) {
        finish_and_store(reducer, g, bin, sums, counts);
        return;
    }
    memcpy(carry, sums, w * sizeof *carry);
    if (counts_rows(reducer))
        memcpy(carry + w, counts, w * sizeof *carry);
}

static void close(const struct attn_reducer *reducer) {
    each_bin(reducer, store_own);
}

static void commit(const struct attn_reducer *reducer) {
    each_bin(reducer, commit_bin);
}

const struct attn_reducer_kind attn_map_pool = {.slot_bytes = slot_bytes,
                                                .carry_bytes = carry_bytes,
                                                .touches = touches,
                                                .open = open,
                                                .piece = piece,
                                                .close = close,
                                                .commit = commit};
