/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET /v1/captures/{id}/map: any part of a kept map at any size. It is computed behind all calls,
 * and no longer than its client waits. Levels of detail are made on the way, of which later tiles
 * are had at once.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "server/calls/tensor_call.h"
#include "server/captures/capture_hidden.h"
#include "server/captures/capture_map.h"
#include "server/captures/capture_query.h"
#include "server/handlers.h"

enum { SAMPLES_MOST = 256, MINUS_INFINITY = 0xfc00 /* in float16 */ };
/* Where a tile in float16 comes from. */
enum source { SOURCE_MAP, SOURCE_SAMPLES, SOURCE_LEVEL, SOURCE_NEW_LEVEL };

struct map_call {
    struct tensor_call tensors;
    struct capture *capture;
    struct map_wanted wanted;
    enum source source;
    bool exact;
    struct attn_call call, shown; /* shown: as codecs see it, of one batch item */
    struct attn_plan plan;
    struct attn_heads *heads;
    size_t level_bytes;
};

/* ---- what is computed ---- */

static bool is_whole(const struct map_call *map) {
    const struct attn_call *kept = &map->capture->kept->call;
    return map->wanted.row_axis.end - map->wanted.row_axis.first == kept->Tq &&
           map->wanted.col_axis.end - map->wanted.col_axis.first == kept->Tk;
}

/* A level is of some use where it has about as many cells as the tile in its place. */
static bool is_fine_enough(const struct tile_axis *axis, size_t tokens) {
    return (axis->end - axis->first) * tile_level_cells(tokens) * 2 >= axis->cells * tokens;
}

static bool has_level(const struct map_call *map) {
    struct capture_level level;
    if (!capture_begin_level(map->capture, map->wanted.batch, map->wanted.head, &level))
        return false;
    capture_end_level(map->capture);
    return true;
}

static void choose_source(struct map_call *map) {
    const struct attn_call *kept = &map->capture->kept->call;
    const struct map_wanted *wanted = &map->wanted;
    const bool levelled = wanted->format == FORMAT_F16 && wanted->op == OP_MAX &&
                          wanted->stage == ATTN_STAGE_WEIGHTS &&
                          (kept->Tq > CAPTURE_LEVEL_SIDE || kept->Tk > CAPTURE_LEVEL_SIDE);
    const bool fits = levelled && tile_fits_level(&map->wanted.row_axis, kept->Tq) &&
                      tile_fits_level(&map->wanted.col_axis, kept->Tk);
    const bool fine = is_fine_enough(&map->wanted.row_axis, kept->Tq) &&
                      is_fine_enough(&map->wanted.col_axis, kept->Tk);
    map->exact = wanted->preview == 0 || fits;
    map->source = wanted->preview != 0 ? SOURCE_SAMPLES : SOURCE_MAP;
    if (levelled && (fits || (fine && wanted->preview != 0)) && has_level(map))
        map->source = SOURCE_LEVEL;
    else if (fits && is_whole(map) && wanted->preview == 0)
        map->source = SOURCE_NEW_LEVEL;
    else
        map->exact = wanted->preview == 0;
}

static struct attn_kept_part part_of(const struct map_call *map) {
    const struct attn_call *kept = &map->capture->kept->call;
    const struct map_wanted *wanted = &map->wanted;
    struct attn_kept_part part = {.returns = ATTN_RETURN_WEIGHTS, .batch = wanted->batch};
    struct attn_map_selection *selection = &part.map;
    if (wanted->format == FORMAT_F16 && wanted->stage == ATTN_STAGE_WEIGHTS &&
        capture_may_hide(kept))
        part.returns |= ATTN_RETURN_SCORES;
    selection->stage = wanted->stage;
    if (wanted->head >= 0)
        selection->heads = (struct attn_int_list){&wanted->head, 1};
    else
        selection->over_heads =
            wanted->head == CAPTURE_HEADS_MEAN ? ATTN_HEADS_MEAN : ATTN_HEADS_MAX;
    selection->rows_given = selection->cols_given = selection->pool_given = true;
    memcpy(selection->rows, wanted->rows, sizeof selection->rows);
    memcpy(selection->cols, wanted->cols, sizeof selection->cols);
    selection->pool = wanted->op == OP_MASS ? ATTN_POOL_MASS : ATTN_POOL_MAX;
    selection->pool_rows = (int64_t)map->wanted.row_axis.cells;
    selection->pool_cols = (int64_t)map->wanted.col_axis.cells;
    part.sampled = map->source == SOURCE_SAMPLES;
    if (part.sampled)
        selection->pool_rows = (int64_t)attn_min_size(map->wanted.row_axis.cells, SAMPLES_MOST);
    if (map->source == SOURCE_NEW_LEVEL) {
        selection->pool_rows = (int64_t)tile_level_cells(kept->Tq);
        selection->pool_cols = (int64_t)tile_level_cells(kept->Tk);
    }
    return part;
}

static enum attn_status select_part(struct map_call *map, struct attn_error *error) {
    const struct attn_kept_part part = part_of(map);
    const enum attn_status status = attn_kept_select(map->capture->kept, &part, &map->call, error);
    if (status != ATTN_OK) {
        if (strcmp(error->pointer, "/weights/heads") == 0)
            snprintf(error->pointer, sizeof error->pointer, "/head");
        return status;
    }
    map->call.q_rank = 2; /* one plane: its map has no other axes */
    map->call.split_heads = map->call.bthd = false;
    return map->tensors.out != NULL && map->tensors.out->select != NULL
               ? map->tensors.out->select(&map->call, error)
               : ATTN_OK;
}

static void lend_labels(const struct map_call *map, struct codec_request *request) {
    struct codec_labels *const to[] = {&request->q_labels, &request->k_labels};
    const struct codec_labels *const from[] = {&map->capture->q_labels, &map->capture->k_labels};
    for (size_t n = 0; n < 2; n++) {
        *to[n] = *from[n];
        if (from[n]->lists > 1) {
            to[n]->labels += map->wanted.batch * from[n]->count;
            to[n]->lists = 1;
        }
    }
}

/* A tile's bytes, and the results that it is made of as scratch. */
static enum attn_status lay_out_tile(struct map_call *map) {
    struct call_work *work = &map->tensors.work;
    struct codec_answer *answer = &work->answer;
    size_t bytes = map->wanted.row_axis.cells * map->wanted.col_axis.cells * sizeof(uint16_t), room;
    answer->media_type = "application/octet-stream";
    answer->capacity = bytes;
    answer->scratch_bytes = 0;
    for (size_t n = 0; n < ATTN_RESULT_COUNT; n++)
        if (map->tensors.result.tensors[n].wanted &&
            (!attn_round_up_size(map->tensors.result.tensors[n].bytes, CODEC_ALIGNMENT, &room) ||
             !attn_add_size(answer->scratch_bytes, room, &answer->scratch_bytes)))
            return attn_fail(&work->error, ATTN_RESULT_TOO_LARGE, "", "The map is too large.");
    if (map->source == SOURCE_NEW_LEVEL || map->source == SOURCE_SAMPLES)
        map->level_bytes = map->call.pool_rows * map->call.pool_cols * sizeof(uint16_t);
    if (!attn_add_size(bytes, answer->scratch_bytes, &bytes) ||
        !attn_add_size(bytes, map->level_bytes, &bytes))
        bytes = SIZE_MAX;
    if (call_work_reserve(work, bytes) != ATTN_OK)
        return work->error.status;
    return codec_answer_take(answer, &map->tensors.result, &work->error);
}

static enum attn_status prepare(struct call_work *work) {
    struct map_call *map = (struct map_call *)work;
    struct tensor_call *tensors = &map->tensors;
    const struct service *service = work->exchange->service;
    if (call_work_take_deadline(work, (int64_t)map->wanted.timeout_ms) != ATTN_OK)
        return work->error.status;
    if (map->source == SOURCE_LEVEL)
        return lay_out_tile(map);
    if (select_part(map, &work->error) != ATTN_OK ||
        attn_plan_make(&map->call, &service->limits.call, &map->plan, &tensors->result,
                       &work->error) != ATTN_OK)
        return work->error.status;
    work->tasks = map->plan.tasks;
    work->tasks_wait = map->plan.slot_bytes > 0;
    work->workspace_bytes = map->plan.workspace_bytes;
    work->flops = map->plan.work;
    const size_t hands = call_work_hands(work);
    work->shared_bytes = attn_heads_bytes(&map->plan, hands);
    map->shown = map->call;
    map->shown.B = 1;
    lend_labels(map, &tensors->request);
    tensors->request.encoding = CODEC_NESTED;
    if ((tensors->out == NULL ? lay_out_tile(map) : tensor_call_lay_out(tensors, &map->shown)) !=
        ATTN_OK)
        return work->error.status;
    map->heads = attn_heads_open(&map->call, &map->plan, hands, work->shared);
    return ATTN_OK;
}

static void compute(struct call_work *work, size_t task, void *workspace,
                    const struct attn_checkpoint *checkpoint) {
    struct map_call *map = (struct map_call *)work;
    (void)task;
    attn_execute_next(&map->call, &map->plan, &map->tensors.result, map->heads, workspace,
                      checkpoint);
}

/* ---- the answer ---- */

static void convert(const struct map_call *map, uint16_t *bins) {
    const struct attn_result_tensor *tensors = map->tensors.result.tensors;
    const struct attn_result_tensor *scores = &tensors[ATTN_RESULT_SCORES];
    tile_convert(map->wanted.stage, &tensors[ATTN_RESULT_WEIGHTS], scores->wanted ? scores : NULL,
                 map->call.pool_rows * map->call.pool_cols, bins);
    capture_show_seen(&map->call, map->wanted.stage == ATTN_STAGE_MASKED ? MINUS_INFINITY : 0,
                      bins);
}

static enum attn_status encode_new_level(struct map_call *map, uint16_t *bins) {
    const struct attn_call *call = &map->call;
    struct capture_level level = {.batch = map->wanted.batch,
                                  .head = map->wanted.head,
                                  .rows = call->pool_rows,
                                  .cols = call->pool_cols,
                                  .bins = malloc(map->level_bytes)};
    if (level.bins == NULL)
        return attn_fail(&map->tensors.work.error, ATTN_NO_MEMORY, "",
                         "There is no memory for this map now.");
    convert(map, level.bins);
    tile_from_level(&level, call->Tq, call->Tk, &map->wanted.row_axis, &map->wanted.col_axis, bins);
    capture_keep_level(map->capture, &level);
    return ATTN_OK;
}

static enum attn_status encode_samples(struct map_call *map, uint16_t *bins) {
    uint16_t *samples = malloc(map->level_bytes);
    if (samples == NULL)
        return attn_fail(&map->tensors.work.error, ATTN_NO_MEMORY, "",
                         "There is no memory for this map now.");
    convert(map, samples);
    tile_stretch(samples, map->call.pool_rows, map->call.pool_cols, map->wanted.row_axis.cells,
                 bins);
    free(samples);
    return ATTN_OK;
}

static enum attn_status encode_old_level(struct map_call *map, uint16_t *bins) {
    const struct attn_call *kept = &map->capture->kept->call;
    struct capture_level level;
    if (!capture_begin_level(map->capture, map->wanted.batch, map->wanted.head, &level))
        return attn_fail(&map->tensors.work.error, ATTN_OVERLOADED, "",
                         "The overview made room for others just now; ask again.");
    tile_from_level(&level, kept->Tq, kept->Tk, &map->wanted.row_axis, &map->wanted.col_axis, bins);
    capture_end_level(map->capture);
    return ATTN_OK;
}

static enum attn_status encode_tile(struct map_call *map) {
    struct codec_answer *answer = &map->tensors.work.answer;
    uint16_t *bins = answer->buffer;
    enum attn_status status = ATTN_OK;
    answer->length = answer->capacity;
    if (map->source == SOURCE_LEVEL)
        status = encode_old_level(map, bins);
    else if (map->source == SOURCE_NEW_LEVEL)
        status = encode_new_level(map, bins);
    else if (map->source == SOURCE_SAMPLES)
        status = encode_samples(map, bins);
    else
        convert(map, bins);
    return status;
}

static enum attn_status encode(struct call_work *work) {
    struct map_call *map = (struct map_call *)work;
    struct codec_report report = {
        .call = &map->shown, .kernel = map->capture->kept->call.kernel, .flops = map->plan.flops};
    return map->tensors.out == NULL ? encode_tile(map) : tensor_call_encode(&map->tensors, &report);
}

static void add_header(struct exchange *exchange, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void add_header(struct exchange *exchange, const char *name, const char *format, ...) {
    struct exchange_header *header = &exchange->answer.headers[exchange->answer.header_count++];
    va_list arguments;
    header->name = name;
    va_start(arguments, format);
    vsnprintf(header->value, sizeof header->value, format, arguments);
    va_end(arguments);
}

static void count(const struct call_work *work, struct exchange *exchange) {
    const struct map_call *map = (const struct map_call *)work;
    const struct tile_axis *rows = &map->wanted.row_axis, *cols = &map->wanted.col_axis;
    const bool is_tile = map->tensors.out == NULL;
    add_header(exchange, "X-Map-Shape", "%zu,%zu", is_tile ? rows->cells : map->call.pool_rows,
               is_tile ? cols->cells : map->call.pool_cols);
    add_header(exchange, "X-Map-Rows", "%zu:%zu", rows->first, rows->end);
    add_header(exchange, "X-Map-Cols", "%zu:%zu", cols->first, cols->end);
    add_header(exchange, "X-Map-Exact", "%d", map->exact);
    if (!is_tile)
        return;
    const double largest = tile_largest(work->answer.buffer, rows->cells * cols->cells);
    if (isnan(largest))
        add_header(exchange, "X-Map-Max", "NaN");
    else
        add_header(exchange, "X-Map-Max", "%.9g", largest);
}

static void close_call(struct call_work *work) {
    struct map_call *map = (struct map_call *)work;
    if (map->heads != NULL)
        attn_heads_close(map->heads);
    capture_unref(map->capture);
}

static const struct call_kind KIND = {
    .prepare = prepare,
    .compute = compute,
    .encode = encode,
    .count = count,
    .close = close_call,
    .ask_for_less = "Ask for fewer rows and cols, or a smaller width and height.",
};

void capture_map_handle(struct exchange *exchange) {
    static const char *const codecs[] = {
        [FORMAT_JSON] = "json", [FORMAT_PNG] = "png", [FORMAT_NPY] = "npy"};
    struct attn_error error = {0};
    struct capture *capture;
    struct map_call *map = capture_work_create(exchange, &KIND, sizeof *map, &capture);
    if (map == NULL)
        return;
    map->capture = capture;
    if (map_wanted_read(exchange, capture, &map->wanted, &error) != ATTN_OK) {
        capture_refuse(exchange, &error);
        return;
    }
    if (map->wanted.format != FORMAT_F16)
        map->tensors.out = codec_find(codecs[map->wanted.format]);
    tensor_call_set_deadline(exchange);
    choose_source(map);
    map->tensors.work.job.last = map->source != SOURCE_LEVEL;
    call_work_begin(&map->tensors.work);
}
