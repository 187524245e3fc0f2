/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a call costs: the scores in tiles that the mask may show, the arithmetic on them, and the
 * evaluation of the mask itself. An estimate that is rather too high than too low, made in a few
 * milliseconds whatever the call: where its own grid has too many tiles for that, coarser ones are
 * classified.
 */
#include "core/checked.h"
#include "core/plan_internal.h"

/* What the softmax of one score costs, in floating-point operations; the rows of D = Dv = 0 too. */
#define SOFTMAX_WORK 16.0
/* Nanoseconds of a row and of a task beside their scores: all that calls without scores cost. */
#define ROW_NANOSECONDS 40.0
#define TASK_NANOSECONDS 200.0
/* Nanoseconds to open one block of a head that is packed, be it used or not. */
#define BLOCK_NANOSECONDS 10.0
/* Nanoseconds per position of a kernel that looks at hidden ones too, to learn that they are. */
#define VISIT_NANOSECONDS 2.0
/* Floating-point operations that a worker does in a nanosecond. */
#define WORK_PER_NANOSECOND 50.0
/* And a term w tanh(q + k) of an additive score, in place of a product's two. */
#define TANH_WORK 16.0
/* What a pair of a rotary position costs, in the same operations: to make its turn, and to use it.
 */
#define TURN_WORK 100.0
#define TURNING_WORK 40.0
/* Nanoseconds that planning may spend on classifying tiles. */
#define PLANNING_NANOSECONDS 4e6
/* Rows and keys of the parts that kernels look at in a tile that is hidden in part. */
enum { PART = 64 };

/* A look at tiles that are whole multiples of the grid's. */
struct survey {
    const struct attn_call *call;
    size_t row_tile, key_tile;
    size_t batches, heads;           /* whose masks differ */
    double whole_rate, partial_rate; /* nanoseconds of the mask per position, by tile class */
    /* Of these batches and heads: positions in tiles that may show something, and nanoseconds of
       evaluating the mask once on each tile. */
    double scores, nanoseconds;
};

static double planning_time(const struct survey *survey) {
    const struct attn_call *call = survey->call;
    const double rows = (double)call->Tq / (double)survey->row_tile + 1;
    const double keys = (double)call->Tk / (double)survey->key_tile + 1;
    return (double)survey->batches * (double)survey->heads * rows * keys *
           attn_mask_classify_cost(&call->mask, survey->row_tile, survey->key_tile, false);
}

/* Nanoseconds per position of the mask on a tile of the grid, or on the whole plane if smaller. */
static double evaluation_rate(const struct attn_call *call, const struct attn_grid *grid,
                              bool partial) {
    const size_t rows = attn_min_size(grid->row_tile, call->Tq);
    const size_t keys = attn_min_size(grid->key_tile, call->Tk);
    double time = attn_mask_classify_cost(&call->mask, rows, keys, true);
    if (partial)
        time += attn_mask_fill_cost(&call->mask, rows, keys) +
                (double)rows * (double)keys / (PART * PART) *
                    attn_mask_classify_cost(&call->mask, PART, PART, true);
    return time / ((double)rows * (double)keys);
}

static void survey_row_tile(struct survey *survey, struct attn_mask_tile tile) {
    const struct attn_call *call = survey->call;
    size_t begin, end;
    attn_mask_key_range(&call->mask, &call->space, tile.b, tile.h, tile.row, tile.rows, &begin,
                        &end);
    for (size_t key = begin - begin % survey->key_tile; key < end; key += survey->key_tile) {
        tile.key = attn_max_size(key, begin);
        tile.keys = attn_min_size(key + survey->key_tile, end) - tile.key;
        const enum attn_tile_class class =
            attn_mask_classify(&call->mask, &call->space, &tile, false);
        const double positions = (double)tile.rows * (double)tile.keys;
        survey->nanoseconds +=
            positions * (class == ATTN_TILE_PARTIAL ? survey->partial_rate : survey->whole_rate);
        if (class != ATTN_TILE_EMPTY)
            survey->scores += positions;
    }
}

static void survey_tiles(struct survey *survey) {
    const size_t Tq = survey->call->Tq;
    for (size_t b = 0; b < survey->batches; b++)
        for (size_t h = 0; h < survey->heads; h++)
            for (size_t row = 0; row < Tq; row += survey->row_tile)
                survey_row_tile(survey, (struct attn_mask_tile){
                                            .b = b,
                                            .h = h,
                                            .row = row,
                                            .rows = attn_min_size(survey->row_tile, Tq - row),
                                        });
}

/* Scores planned, and nanoseconds of the mask over all tasks; the call has scores. */
static void survey_mask(const struct attn_call *call, struct attn_plan *plan, double *time) {
    const bool by_head = attn_mask_varies_by_head(&call->mask);
    const bool by_batch = attn_mask_varies_by_batch(&call->mask) || call->space.q_offset_count > 1;
    struct survey survey = {.call = call,
                            .row_tile = plan->grid.row_tile,
                            .key_tile = plan->grid.key_tile,
                            .batches = by_batch ? call->B : 1,
                            .heads = by_head ? call->Hq : 1,
                            .whole_rate = evaluation_rate(call, &plan->grid, false),
                            .partial_rate = evaluation_rate(call, &plan->grid, true)};
    while (planning_time(&survey) > PLANNING_NANOSECONDS &&
           (survey.row_tile < call->Tq || survey.key_tile < call->Tk)) {
        survey.row_tile *= 2;
        survey.key_tile *= 2;
    }
    const double batches = (double)call->B / (double)survey.batches;
    if (planning_time(&survey) <= PLANNING_NANOSECONDS) {
        survey_tiles(&survey);
        plan->scores_planned = survey.scores * batches * ((double)call->Hq / (double)survey.heads);
    } else {
        survey.nanoseconds = (double)survey.batches * (double)survey.heads * (double)call->Tq *
                             (double)call->Tk * survey.partial_rate;
    }
    *time = survey.nanoseconds * batches * (by_head ? 1.0 : (double)call->Hkv);
}

/* The part of all scores that the maps hold, each for itself, and statistics. */
static double mapped_share(const struct attn_call *call) {
    const unsigned both = ATTN_RETURN_WEIGHTS | ATTN_RETURN_SCORES;
    const double maps = (call->returns & both) == both ? 2 : (call->returns & both) != 0;
    return attn_call_has_stats(call) + maps * ((double)call->map_head_count / (double)call->Hq) *
                                           ((double)call->map_batches / (double)call->B) *
                                           ((double)call->map_rows / (double)call->Tq) *
                                           ((double)call->map_cols / (double)call->Tk);
}

/* Tables, and the rows that are turned: every query once, every key at most once per task. */
static double rotation_work(const struct attn_call *call, const struct attn_plan *plan) {
    const double items = (double)call->B, Tq = (double)call->Tq;
    const double Tk = call->rope.q_only ? 0 : (double)call->Tk;
    const double made = (double)call->rope.q_offset_count * Tq + Tk;
    const double turned =
        items * ((double)call->Hq * Tq + (double)call->Hkv * Tk * (double)plan->row_tiles);
    if (plan->tasks == 0)
        return 0;
    return 0.5 * (double)call->rope.dims * (TURN_WORK * made + TURNING_WORK * turned);
}

/* Nanoseconds that are spent whatever is visible, so that many rows of nothing are work too. */
static double fixed_time(const struct attn_call *call, const struct attn_plan *plan) {
    const double rows = (double)call->B * (double)call->Hq * (double)call->Tq;
    const double blocks =
        (double)call->B * (double)call->Hkv * ((double)call->Tk / (double)plan->grid.key_tile + 1);
    double per_task = TASK_NANOSECONDS;
    if (plan->scores_total == 0 && call->mask.count != 0)
        per_task +=
            attn_mask_classify_cost(&call->mask, plan->grid.row_tile, plan->grid.key_tile, true);
    return ROW_NANOSECONDS * rows + per_task * (double)plan->tasks +
           (plan->packed_bytes > 0 ? BLOCK_NANOSECONDS * blocks : 0) +
           (plan->kernel->visits_hidden ? VISIT_NANOSECONDS * plan->scores_total : 0);
}

/* What the terms of additive scores cost beside the two operations that flops counts of each. */
static double additive_work(const struct attn_call *call, const struct attn_plan *plan) {
    if (call->score != ATTN_SCORE_ADDITIVE)
        return 0;
    return (TANH_WORK / 2 - 1) * (plan->flops - 2.0 * (double)call->Dv * plan->scores_planned);
}

/* Scores that are computed to be attended with: none where the rows are known. */
static double attended_share(const struct attn_call *call) {
    return call->rows == NULL ? 1 : 0;
}

void attn_plan_cost(const struct attn_call *call, struct attn_plan *plan) {
    const double attended = attended_share(call);
    double mask_time = 0, share = attended;
    plan->scores_total = (double)call->B * (double)call->Hq * (double)call->Tq * (double)call->Tk;
    plan->scores_planned = plan->scores_total;
    if (plan->scores_total > 0)
        share += mapped_share(call);
    if (call->mask.count != 0 && plan->scores_total > 0) {
        survey_mask(call, plan, &mask_time);
        mask_time *= share;
    }
    plan->flops = attended * 2.0 * ((double)call->D + (double)call->Dv) * plan->scores_planned;
    if (call->returns & (ATTN_RETURN_WEIGHTS | ATTN_RETURN_SCORES))
        plan->flops += 2.0 * (double)call->D * (double)call->map_batches *
                       (double)call->map_head_count * (double)call->map_rows *
                       (double)call->map_cols;
    if (attn_call_has_stats(call))
        plan->flops += 2.0 * (double)call->D * plan->scores_planned;
    if (call->rows != NULL)
        plan->scores_planned *= share;
    plan->work = plan->flops +
                 SOFTMAX_WORK * plan->scores_planned * (attn_call_has_stats(call) ? 3 : 1) +
                 WORK_PER_NANOSECOND * (mask_time + fixed_time(call, plan)) +
                 rotation_work(call, plan) + additive_work(call, plan);
}
