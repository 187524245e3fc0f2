/* SPDX-License-Identifier: Apache-2.0 */
/* What is kept of a call, and where it lies; see capture_call.h. */
#include "server/captures/capture_call.h"

#include <string.h>

#include "core/checked.h"

/* Bytes of what lies behind one another in a capture's memory. */
struct sizes {
    size_t call, q_labels, k_labels, name, run, stats, all;
};

static bool add(size_t bytes, size_t *all) {
    return attn_round_up_size(bytes, 64, &bytes) && attn_add_size(*all, bytes, all);
}

static size_t label_bytes(const struct codec_labels *labels) {
    return labels->lists * labels->count * sizeof *labels->labels; /* they are in memory already */
}

static size_t text_bytes(const char *text) {
    return text == NULL ? 0 : strlen(text) + 1;
}

static bool measure(const struct codec_request *request, const struct attn_call *call,
                    const struct attn_plan *plan, enum attn_dtype dtype, struct sizes *sizes) {
    sizes->call = attn_kept_bytes(call, plan, dtype);
    sizes->q_labels = label_bytes(&request->q_labels);
    sizes->k_labels = label_bytes(&request->k_labels);
    sizes->name = text_bytes(request->capture.name);
    sizes->run = text_bytes(request->capture.run);
    sizes->all = 0;
    return attn_mul_size(call->B * ATTN_STATS * sizeof(double), call->Hq, &sizes->stats) &&
           add(sizes->call, &sizes->all) && add(sizes->q_labels, &sizes->all) &&
           add(sizes->k_labels, &sizes->all) && add(sizes->name, &sizes->all) &&
           add(sizes->run, &sizes->all) && add(sizes->stats, &sizes->all);
}

static const void *copy(char **cursor, const void *from, size_t bytes) {
    void *to = *cursor;
    if (from == NULL)
        return NULL;
    if (bytes > 0)
        memcpy(to, from, bytes);
    *cursor += (bytes + 63) / 64 * 64;
    return to;
}

static void fill(struct capture *capture, const struct codec_request *request,
                 const struct attn_call *call, const struct attn_plan *plan, enum attn_dtype dtype,
                 const struct sizes *sizes) {
    char *cursor = capture->memory;
    capture->kept = attn_kept_make(call, plan, dtype, cursor);
    cursor += (sizes->call + 63) / 64 * 64;
    capture->q_labels = request->q_labels;
    capture->q_labels.labels = copy(&cursor, request->q_labels.labels, sizes->q_labels);
    capture->k_labels = request->k_labels;
    capture->k_labels.labels = copy(&cursor, request->k_labels.labels, sizes->k_labels);
    capture->about = request->capture;
    capture->about.name = copy(&cursor, request->capture.name, sizes->name);
    capture->about.run = copy(&cursor, request->capture.run, sizes->run);
}

static enum attn_status check_grid(const size_t grid[2], size_t tokens, char side,
                                   struct attn_error *error) {
    char pointer[] = "/capture/?_grid";
    size_t places;
    pointer[sizeof "/capture/" - 1] = side;
    if (attn_mul_size(grid[0], grid[1], &places) && places <= tokens)
        return ATTN_OK;
    return attn_fail(error, ATTN_BAD_VALUE, pointer,
                     "A grid of %zu x %zu has more places than the T%c = %zu tokens, the last of "
                     "which lie on it.",
                     grid[0], grid[1], side, tokens);
}

/* NULL when a call of this exchange may be kept. */
static const char *forbidden(const struct exchange *exchange) {
    const struct key *key = exchange->pass.key;
    if (!captures_options(exchange->service->captures)->on)
        return "captures are off here; the option captures turns them on";
    if (key != NULL && (key->scopes & 1U << ACCESS_CAPTURES) == 0)
        return "the key does not have the scope captures";
    return NULL;
}

enum attn_status capture_call_begin(struct capture_call *keeping, const struct exchange *exchange,
                                    const struct codec_request *request,
                                    const struct attn_call *call, const struct attn_plan *plan,
                                    struct attn_result *result, struct attn_error *error) {
    struct captures *captures = exchange->service->captures;
    const struct codec_capture *about = &request->capture;
    struct sizes sizes;
    if (!about->given)
        return ATTN_OK;
    if (check_grid(about->q_grid, call->Tq, 'q', error) != ATTN_OK ||
        check_grid(about->k_grid, call->Tk, 'k', error) != ATTN_OK)
        return error->status;
    keeping->refusal = forbidden(exchange);
    if (keeping->refusal != NULL)
        return ATTN_OK;
    const enum attn_dtype dtype =
        captures_options(captures)->half ? attn_kept_half(call) : call->q.dtype;
    if (!measure(request, call, plan, dtype, &sizes))
        sizes.all = SIZE_MAX;
    keeping->capture =
        captures_begin(captures, exchange_account(exchange), sizes.all, &keeping->refusal);
    if (keeping->capture == NULL)
        return ATTN_OK;
    fill(keeping->capture, request, call, plan, dtype, &sizes);
    if (!keeping->capture->kept->narrowed)
        result->rows = &keeping->capture->kept->rows;
    return ATTN_OK;
}

void capture_call_report(const struct capture_call *keeping, struct codec_report *report) {
    report->capture_refusal = keeping->refusal;
    if (keeping->capture != NULL)
        report->capture_id = keeping->capture->id;
}

void capture_call_settle(struct capture_call *keeping, bool succeeded) {
    if (succeeded && keeping->capture != NULL)
        captures_publish(keeping->capture);
}

void capture_call_close(struct capture_call *keeping) {
    if (keeping->capture != NULL)
        capture_unref(keeping->capture);
    keeping->capture = NULL;
}
