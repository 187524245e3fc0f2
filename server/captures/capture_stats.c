/* SPDX-License-Identifier: Apache-2.0 */
/* GET /v1/captures/{id}/stats: the statistics of every head, computed once per capture. */
#include <stdlib.h>

#include "server/calls/call_work.h"
#include "server/captures/capture_query.h"
#include "server/captures/capture_text.h"
#include "server/handlers.h"

enum { NUMBER_ROOM = 32, NAME_ROOM = 64 };

struct stats_call {
    struct call_work work;
    struct capture *capture;
    uint64_t batch;
    struct attn_call call;
    struct attn_plan plan;
    struct attn_result result;
    struct attn_heads *heads;
    double *stats; /* [ATTN_STATS,B,Hq]; owned, and the capture has paid for as many */
};

static enum attn_status take_batch(void *into, const char *value, const char *pointer,
                                   struct attn_error *error) {
    return capture_query_number(value, pointer, INT32_MAX, into, error);
}

static const struct capture_argument ARGUMENTS[] = {{"batch", take_batch}};

static size_t answer_bytes(const struct attn_call *call) {
    return ATTN_STATS * (NAME_ROOM + call->Hq * NUMBER_ROOM);
}

static enum attn_status prepare(struct call_work *work) {
    struct stats_call *stats = (struct stats_call *)work;
    const struct attn_kept *kept = stats->capture->kept;
    const struct attn_kept_part part = {.returns = ATTN_RETURN_STATS};
    const size_t count = ATTN_STATS * kept->call.B * kept->call.Hq;
    if (stats->stats == NULL)
        stats->stats = calloc(count == 0 ? 1 : count, sizeof *stats->stats);
    if (stats->stats == NULL)
        return attn_fail(&work->error, ATTN_NO_MEMORY, "", "There is no memory for this now.");
    if (capture_read_stats(stats->capture, stats->stats))
        return call_work_reserve(work, answer_bytes(&kept->call));
    if (attn_kept_select(kept, &part, &stats->call, &work->error) != ATTN_OK ||
        attn_plan_make(&stats->call, &work->exchange->service->limits.call, &stats->plan,
                       &stats->result, &work->error) != ATTN_OK)
        return work->error.status;
    stats->result.tensors[ATTN_RESULT_STATS].data = stats->stats;
    work->tasks = stats->plan.tasks;
    work->tasks_wait = stats->plan.slot_bytes > 0;
    work->workspace_bytes = stats->plan.workspace_bytes;
    work->flops = stats->plan.work;
    const size_t hands = call_work_hands(work);
    work->shared_bytes = attn_heads_bytes(&stats->plan, hands);
    if (call_work_reserve(work, answer_bytes(&kept->call)) != ATTN_OK)
        return work->error.status;
    stats->heads = attn_heads_open(&stats->call, &stats->plan, hands, work->shared);
    return ATTN_OK;
}

static void compute(struct call_work *work, size_t task, void *workspace,
                    const struct attn_checkpoint *checkpoint) {
    struct stats_call *stats = (struct stats_call *)work;
    (void)task;
    attn_execute_next(&stats->call, &stats->plan, &stats->result, stats->heads, workspace,
                      checkpoint);
}

static enum attn_status encode(struct call_work *work) {
    const struct stats_call *stats = (const struct stats_call *)work;
    const struct attn_call *kept = &stats->capture->kept->call;
    struct text out = {0};
    if (stats->heads != NULL)
        capture_keep_stats(stats->capture, stats->stats);
    text_format(&out, "{\"stats\":{");
    for (size_t n = 0; n < ATTN_STATS; n++) {
        text_format(&out, "%s\"%s\":", n == 0 ? "" : ",", attn_stat_name((enum attn_stat)n));
        capture_text_numbers(&out, stats->stats + (n * kept->B + stats->batch) * kept->Hq,
                             kept->Hq);
    }
    text_format(&out, "},\"heads\":%zu}\n", kept->Hq);
    return capture_answer_take(work, &out);
}

static void close_call(struct call_work *work) {
    struct stats_call *stats = (struct stats_call *)work;
    if (stats->heads != NULL)
        attn_heads_close(stats->heads);
    free(stats->stats);
    capture_unref(stats->capture);
}

static const struct call_kind KIND = {
    .prepare = prepare,
    .compute = compute,
    .encode = encode,
    .close = close_call,
    .ask_for_less = "Ask for it when less is in flight.",
};

void capture_stats_handle(struct exchange *exchange) {
    struct attn_error error = {0};
    struct capture *capture;
    struct stats_call *stats = capture_work_create(exchange, &KIND, sizeof *stats, &capture);
    if (stats == NULL)
        return;
    stats->capture = capture;
    if (capture_query_read(exchange, ARGUMENTS, 1, &stats->batch, &error) == ATTN_OK &&
        stats->batch >= capture->kept->call.B)
        attn_fail(&error, ATTN_BAD_VALUE, "/batch", "batch must be below %zu, got %llu.",
                  capture->kept->call.B, (unsigned long long)stats->batch);
    if (error.status != ATTN_OK) {
        capture_refuse(exchange, &error);
        return;
    }
    stats->work.job.last = true;
    call_work_begin(&stats->work);
}
