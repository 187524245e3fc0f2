/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a head does, in numbers: statistics of its rows of weights and of its scaled scores, and
 * what each key receives, in the pass that makes the map and without one. docs/semantics.md says
 * what each number is. Rows are summed in double, row by row, and tasks in their order. A position
 * counts as visible when its masked score is not -inf.
 */
#include <math.h>
#include <string.h>

#include "core/area.h"
#include "core/convert.h"
#include "core/map_internal.h"

/* A row that begins where its largest weight is above this is saturated. */
#define SATURATED 0.99

/* A row in progress. */
struct row {
    double moments[ATTN_MOMENTS];
    double first; /* the weight of key 0 */
    bool sees_first;
};

/* Sums over rows of one head, and the spread of its scores. */
struct head {
    double rows, empty, first_rows;
    double entropy, normalized, confidence, first, unassigned, distance, saturated, health, norm;
    double spread[ATTN_SPREADS];
};

/* The slot: per head of the group its sums and per key what it received and how many rows see it;
   the rows; the piece's scores, scaled and masked; and a row. The carry is the first part of it. */
struct parts {
    struct head *heads;    /* [group] */
    double *received;      /* [group][Tk] */
    double *seen;          /* [group][Tk] */
    struct row *rows;      /* [M] */
    void *scaled, *masked; /* real [M][key_tile] */
    void *line;
};

/* Scaled scores that are not the masked ones where these are visible. */
static bool changes_scores(const struct attn_call *call) {
    return call->softcap > 0 || !attn_tensor_is_none(&call->bias) || call->alibi != NULL;
}

static size_t carry_bytes(const struct attn_call *call, const struct attn_plan *plan) {
    const size_t group = attn_call_group(call);
    size_t total = 0;
    (void)plan;
    return attn_area_add(group, 1, sizeof(struct head), &total) &&
                   attn_area_add(group, call->Tk, sizeof(double), &total) &&
                   attn_area_add(group, call->Tk, sizeof(double), &total)
               ? total
               : SIZE_MAX;
}

static size_t slot_bytes(const struct attn_call *call, const struct attn_plan *plan) {
    const size_t real = attn_kernel_real_size(plan->kernel, call);
    size_t M, total = carry_bytes(call, plan);
    return attn_mul_size(attn_call_group(call), plan->grid.row_tile, &M) && total != SIZE_MAX &&
                   attn_area_add(M, 1, sizeof(struct row), &total) &&
                   attn_area_add(M, plan->grid.key_tile, real, &total) &&
                   attn_area_add(M, plan->grid.key_tile, real, &total) &&
                   attn_area_add(1, plan->grid.key_tile, real, &total)
               ? total
               : SIZE_MAX;
}

static struct parts parts_of(const struct attn_reducer *reducer, void *memory) {
    const struct attn_map_task *at = reducer->at;
    const struct attn_grid *grid = &at->plan->grid;
    const size_t real = at->wide ? sizeof(double) : sizeof(float);
    char *cursor = memory;
    struct parts parts;
    parts.heads = attn_area_take(&cursor, attn_area_bytes(at->group, 1, sizeof(struct head)));
    parts.received =
        attn_area_take(&cursor, attn_area_bytes(at->group, at->call->Tk, sizeof(double)));
    parts.seen = attn_area_take(&cursor, attn_area_bytes(at->group, at->call->Tk, sizeof(double)));
    parts.rows =
        attn_area_take(&cursor, attn_area_bytes(at->group * grid->row_tile, 1, sizeof(struct row)));
    parts.scaled =
        attn_area_take(&cursor, attn_area_bytes(at->group * grid->row_tile, grid->key_tile, real));
    parts.masked =
        attn_area_take(&cursor, attn_area_bytes(at->group * grid->row_tile, grid->key_tile, real));
    parts.line = cursor;
    return parts;
}

static bool touches(const struct attn_reducer *reducer) {
    (void)reducer;
    return true;
}

static void open(const struct attn_reducer *reducer) {
    const struct attn_map_task *at = reducer->at;
    const struct parts parts = parts_of(reducer, reducer->slot);
    memset(parts.heads, 0, carry_bytes(at->call, at->plan));
    memset(parts.rows, 0, at->group * at->task->rows * sizeof *parts.rows);
}

/* Rows of the piece, from where it stands to `copy`. */
static void keep(const struct attn_reducer *reducer, const struct attn_score_piece *piece,
                 void *copy) {
    const size_t real = reducer->at->wide ? sizeof(double) : sizeof(float);
    const size_t tile = reducer->at->plan->grid.key_tile;
    for (size_t r = 0; r < piece->rows; r++)
        memcpy((char *)copy + r * tile * real, (const char *)piece->s + r * piece->stride * real,
               piece->keys * real);
}

/* NaN stays, whatever comes behind it. */
static double larger_or_nan(double candidate, double best) {
    return candidate > best || isnan(candidate) ? candidate : best;
}

/* The same over the keys before and those that come. */
static void join_spread(double *have, const double *more) {
    const double count = have[ATTN_SPREAD_COUNT] + more[ATTN_SPREAD_COUNT];
    const double between = more[ATTN_SPREAD_MEAN] - have[ATTN_SPREAD_MEAN];
    if (more[ATTN_SPREAD_COUNT] == 0)
        return;
    have[ATTN_SPREAD_SQUARES] += more[ATTN_SPREAD_SQUARES] + between * between *
                                                                 (have[ATTN_SPREAD_COUNT] / count) *
                                                                 more[ATTN_SPREAD_COUNT];
    have[ATTN_SPREAD_MEAN] += between * (more[ATTN_SPREAD_COUNT] / count);
    have[ATTN_SPREAD_COUNT] = count;
    have[ATTN_SPREAD_LARGEST] = larger_or_nan(more[ATTN_SPREAD_LARGEST], have[ATTN_SPREAD_LARGEST]);
}

/* One row of a piece: weights, masked and scaled scores. */
struct line {
    const void *p, *masked, *scaled;
    size_t row, key, keys;
};

/* Scores that no real holds are not there to be read; ln p says what they were. */
static double score_moment(const struct line *line, double l) {
    double sum = 0;
    for (size_t j = 0; j < line->keys; j++) {
        const double p = (double)((const float *)line->p)[j];
        if (p != 0)
            sum += p * (log(p) + log(l));
    }
    return sum;
}

static void measure(const struct attn_reducer *reducer, const struct line *line, double from,
                    double moments[ATTN_MOMENTS], double spread[ATTN_SPREADS]) {
    const struct attn_map_task *at = reducer->at;
    const double m = at->m[line->row];
    if (at->wide) {
        reducer->ops->d.moments(line->p, line->masked, line->keys, m, from, moments);
        reducer->ops->d.spread(line->scaled, line->masked, line->keys, spread);
    } else {
        reducer->ops->f.moments(line->p, line->masked, line->keys, (float)m, (float)from, moments);
        reducer->ops->f.spread(line->scaled, line->masked, line->keys, spread);
    }
    if (at->wide_rows[line->row] && !at->wide)
        moments[ATTN_MOMENT_SCORE] = score_moment(line, at->l[line->row]);
}

static double real_at(const struct attn_reducer *reducer, const void *reals, size_t at) {
    return reducer->at->wide ? ((const double *)reals)[at] : (double)((const float *)reals)[at];
}

static void add_line(const struct attn_reducer *reducer, const struct parts *parts,
                     const struct line *line) {
    const struct attn_map_task *at = reducer->at;
    const struct attn_map_row place = attn_map_row_at(at, line->row);
    const double i = (double)place.t + (double)attn_call_q_offset(at->call, at->task->b);
    const int64_t position = attn_key_position(&at->call->space.gap, line->key);
    double moments[ATTN_MOMENTS], spread[ATTN_SPREADS];
    struct row *row = &parts->rows[line->row];
    measure(reducer, line, i - (double)position, moments, spread);
    for (size_t n = 0; n < ATTN_MOMENTS; n++)
        if (n != ATTN_MOMENT_LARGEST)
            row->moments[n] += moments[n];
    row->moments[ATTN_MOMENT_LARGEST] =
        larger_or_nan(moments[ATTN_MOMENT_LARGEST], row->moments[ATTN_MOMENT_LARGEST]);
    join_spread(parts->heads[place.g].spread, spread);
    if (position == 0 && line->keys > 0) {
        row->sees_first = real_at(reducer, line->masked, 0) != -INFINITY;
        row->first = real_at(reducer, line->p, 0);
    }
}

/* Rows [row, row + rows) of a piece, all of one head, into its sums over rows. */
static void add_columns(const struct attn_reducer *reducer, const struct parts *parts,
                        const struct attn_score_piece *piece, size_t from, size_t rows, size_t g) {
    const struct attn_map_task *at = reducer->at;
    const size_t tile = at->plan->grid.key_tile;
    double *received = parts->received + g * at->call->Tk + piece->key;
    double *seen = parts->seen + g * at->call->Tk + piece->key;
    if (at->wide)
        reducer->ops->d.rows_sum((const double *)piece->s + from * piece->stride, piece->stride,
                                 rows, piece->keys, parts->line);
    else
        reducer->ops->f.rows_sum((const float *)piece->s + from * piece->stride, piece->stride,
                                 rows, piece->keys, parts->line);
    for (size_t j = 0; j < piece->keys; j++)
        received[j] += real_at(reducer, parts->line, j);
    if (at->wide)
        reducer->ops->d.rows_seen((const double *)parts->masked + from * tile, tile, rows,
                                  piece->keys, parts->line);
    else
        reducer->ops->f.rows_seen((const float *)parts->masked + from * tile, tile, rows,
                                  piece->keys, parts->line);
    for (size_t j = 0; j < piece->keys; j++)
        seen[j] += real_at(reducer, parts->line, j);
}

static void add_weights(const struct attn_reducer *reducer, const struct parts *parts,
                        const struct attn_score_piece *piece) {
    const struct attn_map_task *at = reducer->at;
    const size_t real = at->wide ? sizeof(double) : sizeof(float);
    const size_t tile = at->plan->grid.key_tile;
    const void *scaled = changes_scores(at->call) ? parts->scaled : parts->masked;
    size_t rows;
    for (size_t r = 0; r < piece->rows; r += rows) {
        const struct attn_map_row place = attn_map_row_at(at, piece->row + r);
        rows = attn_min_size(at->task->row + at->task->rows - place.t, piece->rows - r);
        add_columns(reducer, parts, piece, r, rows, place.g);
    }
    for (size_t r = 0; r < piece->rows && (at->call->returns & ATTN_RETURN_STATS); r++) {
        const struct line line = {
            .p = (const char *)piece->s + r * piece->stride * real,
            .masked = (const char *)parts->masked + r * tile * real,
            .scaled = (const char *)scaled + r * tile * real,
            .row = piece->row + r,
            .key = piece->key,
            .keys = piece->keys,
        };
        add_line(reducer, parts, &line);
    }
}

static void piece(const struct attn_reducer *reducer, const struct attn_score_piece *piece) {
    const struct parts parts = parts_of(reducer, reducer->slot);
    if (piece->stage == ATTN_STAGE_SCALED)
        keep(reducer, piece, parts.scaled);
    else if (piece->stage == ATTN_STAGE_MASKED)
        keep(reducer, piece, parts.masked);
    else
        add_weights(reducer, &parts, piece);
}

/* What the sink took of a row; m and l have it in them. */
static double unassigned(const struct attn_reducer *reducer, size_t row) {
    const struct attn_map_task *at = reducer->at;
    const struct attn_map_row place = attn_map_row_at(at, row);
    if (at->call->sink == NULL || at->call->sink[place.h] == -INFINITY)
        return 0;
    const double sink = at->call->sink[place.h];
    return exp((at->wide ? sink : (double)(float)sink) - at->m[row]) / at->l[row];
}

/* Of a row that sees so many keys: from 0 to their logarithm, whatever was rounded on the way. With
   a sink weights sum up to less than 1, and may have more. */
static double bounded_entropy(const struct attn_call *call, double entropy, double seen) {
    const double most = call->sink == NULL ? log(seen) : INFINITY;
    return isnan(entropy) ? entropy : fmin(fmax(entropy, 0), most);
}

/* A finished row into its head's sums. */
static void close_row(const struct attn_reducer *reducer, const struct parts *parts, size_t index) {
    const struct attn_map_task *at = reducer->at;
    const struct row *row = &parts->rows[index];
    struct head *head = &parts->heads[attn_map_row_at(at, index).g];
    const double sum = row->moments[ATTN_MOMENT_SUM], square = row->moments[ATTN_MOMENT_SQUARE];
    const double seen = row->moments[ATTN_MOMENT_SEEN];
    if (seen == 0) {
        head->empty++;
        return;
    }
    /* -sum of p ln p, ln p being s - m - ln l. */
    const double entropy =
        bounded_entropy(at->call, log(at->l[index]) * sum - row->moments[ATTN_MOMENT_SCORE], seen);
    const double norm = square - 2 * row->moments[ATTN_MOMENT_CUBE] + square * square;
    head->rows++;
    head->entropy += entropy;
    head->normalized += seen == 1 ? 0 : entropy / log(seen);
    head->confidence += row->moments[ATTN_MOMENT_LARGEST];
    head->first_rows += row->sees_first;
    head->first += row->sees_first ? row->first : 0;
    head->unassigned += unassigned(reducer, index);
    head->distance += row->moments[ATTN_MOMENT_DISTANCE];
    head->saturated += row->moments[ATTN_MOMENT_LARGEST] > SATURATED;
    head->health += 1 - square;
    head->norm += isnan(norm) ? norm : sqrt(fmax(norm, 0));
}

static void close(const struct attn_reducer *reducer) {
    const struct parts parts = parts_of(reducer, reducer->slot);
    const bool stats = reducer->at->call->returns & ATTN_RETURN_STATS;
    for (size_t row = 0; row < reducer->at->group * reducer->at->task->rows && stats; row++)
        close_row(reducer, &parts, row);
}

static void join_head(struct head *have, const struct head *more) {
    have->rows += more->rows;
    have->empty += more->empty;
    have->first_rows += more->first_rows;
    have->entropy += more->entropy;
    have->normalized += more->normalized;
    have->confidence += more->confidence;
    have->first += more->first;
    have->unassigned += more->unassigned;
    have->distance += more->distance;
    have->saturated += more->saturated;
    have->health += more->health;
    have->norm += more->norm;
    join_spread(have->spread, more->spread);
}

static void store_columns(const struct attn_reducer *reducer, size_t h, const double *received,
                          const double *seen) {
    const struct attn_map_task *at = reducer->at;
    const struct attn_result_tensor *sums = &at->result->tensors[ATTN_RESULT_COL_SUMS];
    const struct attn_result_tensor *means = &at->result->tensors[ATTN_RESULT_COL_MEANS];
    const size_t Tk = at->call->Tk, first = (at->task->b * at->call->Hq + h) * Tk;
    for (size_t j = 0; j < Tk && sums->wanted; j++) {
        const size_t to = (first + j) * attn_dtype_size(sums->dtype);
        const double mean = seen[j] == 0 ? 0 : received[j] / seen[j];
        attn_store_double(sums->dtype, (char *)sums->data + to, 1, 1, &received[j]);
        attn_store_double(means->dtype, (char *)means->data + to, 1, 1, &mean);
    }
}

static void store_stats(const struct attn_reducer *reducer, size_t h, const struct head *head,
                        const double *received) {
    const struct attn_map_task *at = reducer->at;
    const struct attn_result_tensor *tensor = &at->result->tensors[ATTN_RESULT_STATS];
    const double rows = head->rows == 0 ? 1 : head->rows;
    const double first_rows = head->first_rows == 0 ? 1 : head->first_rows;
    const double scores = head->spread[ATTN_SPREAD_COUNT];
    size_t top = 0;
    if (!tensor->wanted)
        return;
    double stats[ATTN_STATS];
    for (size_t j = 1; j < at->call->Tk && head->rows > 0; j++)
        if (received[j] > received[top] || (isnan(received[j]) && !isnan(received[top])))
            top = j;
    stats[ATTN_STAT_ROWS] = head->rows;
    stats[ATTN_STAT_EMPTY_ROWS] = head->empty;
    stats[ATTN_STAT_ENTROPY] = head->entropy / rows;
    stats[ATTN_STAT_NORMALIZED_ENTROPY] = head->normalized / rows;
    stats[ATTN_STAT_CONFIDENCE] = head->confidence / rows;
    stats[ATTN_STAT_SATURATED_SHARE] = head->saturated / rows;
    stats[ATTN_STAT_GRADIENT_HEALTH] = head->health / rows;
    stats[ATTN_STAT_JACOBIAN_NORM] = head->norm / rows;
    stats[ATTN_STAT_MEAN_DISTANCE] = head->distance / rows;
    stats[ATTN_STAT_UNASSIGNED_MASS] = head->unassigned / rows;
    stats[ATTN_STAT_FIRST_KEY_SHARE] = head->first / first_rows;
    stats[ATTN_STAT_TOP_KEY] = head->rows == 0 ? -1 : (double)top;
    stats[ATTN_STAT_TOP_KEY_SHARE] = head->rows == 0 ? 0 : received[top] / rows;
    stats[ATTN_STAT_LARGEST_SCORE] = head->spread[ATTN_SPREAD_LARGEST];
    stats[ATTN_STAT_MEAN_SCORE] = head->spread[ATTN_SPREAD_MEAN];
    stats[ATTN_STAT_SCORE_VARIANCE] = scores == 0 ? 0 : head->spread[ATTN_SPREAD_SQUARES] / scores;
    for (size_t n = 0; n < ATTN_STATS; n++)
        ((double *)tensor->data)[(n * at->call->B + at->task->b) * at->call->Hq + h] = stats[n];
}

/* A head's tasks come from its last rows to its first. */
static void commit(const struct attn_reducer *reducer) {
    const struct attn_map_task *at = reducer->at;
    const struct parts part = parts_of(reducer, reducer->slot);
    const struct parts sum = parts_of(reducer, reducer->carry);
    const size_t keys = at->group * at->call->Tk;
    if (at->task->row + at->task->rows == at->call->Tq)
        memset(sum.heads, 0, carry_bytes(at->call, at->plan));
    for (size_t g = 0; g < at->group; g++)
        join_head(&sum.heads[g], &part.heads[g]);
    for (size_t n = 0; n < keys; n++) {
        sum.received[n] += part.received[n];
        sum.seen[n] += part.seen[n];
    }
    for (size_t g = 0; g < at->group && at->task->row == 0; g++) {
        const size_t h = at->task->hkv * at->group + g;
        const double *received = sum.received + g * at->call->Tk;
        store_columns(reducer, h, received, sum.seen + g * at->call->Tk);
        store_stats(reducer, h, &sum.heads[g], received);
    }
}

const struct attn_reducer_kind attn_map_stats = {.slot_bytes = slot_bytes,
                                                 .carry_bytes = carry_bytes,
                                                 .touches = touches,
                                                 .open = open,
                                                 .piece = piece,
                                                 .close = close,
                                                 .commit = commit};

unsigned attn_map_stats_stages(const struct attn_call *call) {
    return 1u << ATTN_STAGE_MASKED | 1u << ATTN_STAGE_WEIGHTS |
           (changes_scores(call) ? 1u << ATTN_STAGE_SCALED : 0);
}
