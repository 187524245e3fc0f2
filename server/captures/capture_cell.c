/* SPDX-License-Identifier: Apache-2.0 */
/* GET /v1/captures/{id}/cell: one position of a kept map at every stage, with the answer's bits,
   and the row that it stands in. */
#include <math.h>

#include "core/checked.h"
#include "server/calls/call_work.h"
#include "server/captures/capture_hidden.h"
#include "server/captures/capture_query.h"
#include "server/captures/capture_text.h"
#include "server/handlers.h"
#include "server/numbers/numbers.h"

enum { TOP_MOST = 10, ANSWER_ROOM = 4096, PARTS = ATTN_STAGE_WEIGHTS + 2, TOP = PARTS - 1 };

struct cell_call {
    struct call_work work;
    struct capture *capture;
    uint64_t batch, head, row, col;
    int64_t head_list;
    /* A part for each stage, and one for the row's largest. */
    struct {
        struct attn_call call;
        struct attn_plan plan;
        struct attn_result result;
        double values[TOP_MOST]; /* reals of the result's type */
    } parts[PARTS];
    int32_t keys[TOP_MOST];
    /* The row's maximum and sum, as they are redone or were kept. */
    double max, sum;
    bool wide;
    struct attn_rows row_found;
};

static enum attn_status take_batch(void *into, const char *value, const char *pointer,
                                   struct attn_error *error) {
    return capture_query_number(value, pointer, INT32_MAX, &((struct cell_call *)into)->batch,
                                error);
}

static enum attn_status take_head(void *into, const char *value, const char *pointer,
                                  struct attn_error *error) {
    return capture_query_number(value, pointer, INT32_MAX, &((struct cell_call *)into)->head,
                                error);
}

static enum attn_status take_row(void *into, const char *value, const char *pointer,
                                 struct attn_error *error) {
    return capture_query_number(value, pointer, INT64_MAX, &((struct cell_call *)into)->row, error);
}

static enum attn_status take_col(void *into, const char *value, const char *pointer,
                                 struct attn_error *error) {
    return capture_query_number(value, pointer, INT64_MAX, &((struct cell_call *)into)->col, error);
}

static const struct capture_argument ARGUMENTS[] = {
    {"batch", take_batch}, {"head", take_head}, {"row", take_row}, {"col", take_col}};

static enum attn_status check_place(uint64_t place, size_t size, const char *pointer,
                                    struct attn_error *error) {
    if (place < size)
        return ATTN_OK;
    return attn_fail(error, ATTN_BAD_VALUE, pointer, "%s must be below %zu, got %llu.", pointer + 1,
                     size, (unsigned long long)place);
}

static enum attn_status check_places(const struct cell_call *cell, struct attn_error *error) {
    const struct attn_call *call = &cell->capture->kept->call;
    if (check_place(cell->batch, call->B, "/batch", error) != ATTN_OK ||
        check_place(cell->head, call->Hq, "/head", error) != ATTN_OK ||
        check_place(cell->row, call->Tq, "/row", error) != ATTN_OK)
        return error->status;
    return check_place(cell->col, call->Tk, "/col", error);
}

static struct attn_kept_part part_of(const struct cell_call *cell, size_t n) {
    const int64_t row = (int64_t)cell->row, col = (int64_t)cell->col;
    struct attn_kept_part part = {.returns = ATTN_RETURN_WEIGHTS, .batch = cell->batch};
    part.map = (struct attn_map_selection){
        .stage = n == TOP ? ATTN_STAGE_WEIGHTS : (enum attn_stage)n,
        .heads = {&cell->head_list, 1},
        .rows_given = true,
        .rows = {row, row + 1},
        .cols_given = n != TOP,
        .cols = {col, col + 1},
        .top_k_given = n == TOP,
        .top_k = (int64_t)attn_min_size(TOP_MOST, cell->capture->kept->call.Tk),
    };
    return part;
}

static void choose_row(struct cell_call *cell) {
    const struct attn_kept *kept = cell->capture->kept;
    const size_t place = (cell->batch * kept->call.Hq + cell->head) * kept->call.Tq + cell->row;
    cell->row_found = (struct attn_rows){
        .m = &cell->max, .l = &cell->sum, .wide = &cell->wide, .first = place, .count = 1};
    if (kept->narrowed) {
        cell->parts[TOP].result.rows = &cell->row_found;
    } else {
        cell->max = kept->rows.m[place];
        cell->sum = kept->rows.l[place];
    }
}

static enum attn_status prepare(struct call_work *work) {
    struct cell_call *cell = (struct cell_call *)work;
    const struct attn_limits *limits = &work->exchange->service->limits.call;
    work->tasks = 1;
    cell->head_list = (int64_t)cell->head;
    for (size_t n = 0; n < PARTS; n++) {
        const struct attn_kept_part part = part_of(cell, n);
        struct attn_result *result = &cell->parts[n].result;
        if (attn_kept_select(cell->capture->kept, &part, &cell->parts[n].call, &work->error) !=
                ATTN_OK ||
            attn_plan_make(&cell->parts[n].call, limits, &cell->parts[n].plan, result,
                           &work->error) != ATTN_OK)
            return work->error.status;
        const enum attn_result_name name =
            n == TOP ? ATTN_RESULT_TOP_K_WEIGHTS : ATTN_RESULT_WEIGHTS;
        result->tensors[name].data = cell->parts[n].values;
        result->tensors[ATTN_RESULT_TOP_K_INDICES].data = cell->keys;
        work->flops += cell->parts[n].plan.work;
        work->workspace_bytes =
            attn_max_size(work->workspace_bytes, attn_kept_redo_bytes(&cell->parts[n].plan));
    }
    choose_row(cell);
    return call_work_reserve(work, ANSWER_ROOM);
}

static void compute(struct call_work *work, size_t task, void *workspace,
                    const struct attn_checkpoint *checkpoint) {
    struct cell_call *cell = (struct cell_call *)work;
    (void)task;
    for (size_t n = 0; n < PARTS; n++)
        if (!attn_kept_redo(&cell->parts[n].call, &cell->parts[n].plan, &cell->parts[n].result,
                            workspace, checkpoint))
            return;
}

/* Number `index` of a part's results, as their type prints it. */
static void write_real(struct text *out, const struct cell_call *cell, size_t n, size_t index) {
    const enum attn_result_name name = n == TOP ? ATTN_RESULT_TOP_K_WEIGHTS : ATTN_RESULT_WEIGHTS;
    const void *values = cell->parts[n].values;
    char text[NUMBER_TEXT_ROOM];
    if (cell->parts[n].result.tensors[name].dtype == ATTN_FLOAT64) {
        capture_text_number(out, ((const double *)values)[index]);
        return;
    }
    const float value = ((const float *)values)[index];
    if (isfinite(value))
        text_add(out, text, number_print_f32(value, text));
    else
        capture_text_number(out, (double)value);
}

static bool is_hidden(const struct cell_call *cell) {
    return capture_hidden_keys(&cell->parts[ATTN_STAGE_MASKED].call, cell->row, cell->col, 1) & 1;
}

static void write_row(struct text *out, const struct cell_call *cell) {
    const double m = cell->max, l = cell->sum;
    text_format(out, ",\"row\":{\"max\":");
    capture_text_number(out, m);
    text_format(out, ",\"sum\":");
    capture_text_number(out, l);
    text_format(out, ",\"lse\":");
    capture_text_number(out, m == -INFINITY ? m : m + log(l));
    text_format(out, "},\"top\":[");
    for (size_t n = 0; n < cell->parts[TOP].call.top_k && cell->keys[n] >= 0; n++) {
        text_format(out, "%s{\"key\":%d,\"weight\":", n == 0 ? "" : ",", cell->keys[n]);
        write_real(out, cell, TOP, n);
        text_add(out, "}", 1);
    }
    text_format(out, "]}\n");
}

static enum attn_status encode(struct call_work *work) {
    static const char *const names[] = {"raw", "scaled", "capped", "masked", "weight"};
    const struct cell_call *cell = (const struct cell_call *)work;
    struct text out = {0};
    for (size_t n = 0; n < TOP; n++) {
        text_format(&out, "%s\"%s\":", n == 0 ? "{" : ",", names[n]);
        write_real(&out, cell, n, 0);
    }
    text_format(&out, ",\"hidden\":%s", is_hidden(cell) ? "true" : "false");
    write_row(&out, cell);
    return capture_answer_take(work, &out);
}

static void close_call(struct call_work *work) {
    capture_unref(((struct cell_call *)work)->capture);
}

static const struct call_kind KIND = {
    .prepare = prepare,
    .compute = compute,
    .encode = encode,
    .close = close_call,
    .ask_for_less = "Ask for it when less is in flight.",
};

void capture_cell_handle(struct exchange *exchange) {
    struct attn_error error = {0};
    struct capture *capture;
    struct cell_call *cell = capture_work_create(exchange, &KIND, sizeof *cell, &capture);
    if (cell == NULL)
        return;
    cell->capture = capture;
    if (capture_query_read(exchange, ARGUMENTS, sizeof ARGUMENTS / sizeof *ARGUMENTS, cell,
                           &error) != ATTN_OK ||
        check_places(cell, &error) != ATTN_OK) {
        capture_refuse(exchange, &error);
        return;
    }
    cell->work.job.last = true;
    call_work_begin(&cell->work);
}
