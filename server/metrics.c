/* SPDX-License-Identifier: Apache-2.0 */
/* Counting; see metrics.h. The text is written by metrics_write.c. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/attention.h"
#include "server/codecs/codec_oip.h"
#include "server/codings/coding.h"
#include "server/metrics_internal.h"

const double metrics_bounds[BUCKET_COUNT] = {0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01,
                                             0.02,   0.05,   0.1,    0.2,   0.5,   1,     2,
                                             5,      10,     20,     50,    60};

const struct metrics_size metrics_sizes[SIZE_COUNT] = {
    {"4KiB", 4 << 10}, {"256KiB", 256 << 10}, {"16MiB", 16 << 20}, {"more", UINT64_MAX}};

const int metrics_codes[CODE_COUNT] = {
#define X(code) code,
    METRICS_CODES(X)
#undef X
};

static const char *const stage_names[STAGE_COUNT] = {"read",    "decode", "queue",
                                                     "compute", "encode", "write"};

const char *metrics_stage_name(enum metrics_stage stage) {
    return stage_names[stage];
}

static double now_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

struct metrics *metrics_create(void) {
    assert(route_count() < ROUTE_ROOM && oip_model_at(MODEL_ROOM) == NULL);
    assert(coding_at(CODING_ROOM) == NULL);
    struct metrics *metrics = calloc(1, sizeof *metrics);
    if (metrics == NULL)
        return NULL;
    metrics->started_at = now_seconds();
    metrics_reloaded(metrics, true);
    return metrics;
}

void metrics_free(struct metrics *metrics) {
    free(metrics);
}

static void add(metrics_counter *counter, uint64_t count) {
    atomic_fetch_add_explicit(counter, count, memory_order_relaxed);
}

static void observe(struct histogram *histogram, int64_t nanoseconds) {
    const double seconds = (double)nanoseconds / 1e9; /* a product would miss whole bounds */
    size_t bucket = 0;
    while (bucket < BUCKET_COUNT && seconds > metrics_bounds[bucket])
        bucket++;
    add(&histogram->buckets[bucket], 1);
    add(&histogram->nanoseconds, (uint64_t)nanoseconds);
}

static size_t code_index(int code) {
    size_t index = 0;
    while (index < CODE_COUNT - 1 && metrics_codes[index] != code)
        index++;
    return index;
}

/* "2xx" (and 304, which is no failure either), "4xx", "5xx": the daemon sends no others. */
static size_t class_index(int code) {
    return code < 400 ? 0 : code < 500 ? 1 : 2;
}

static size_t size_index(uint64_t bytes) {
    size_t index = 0;
    while (bytes > metrics_sizes[index].largest)
        index++;
    return index;
}

void metrics_begin_request(struct metrics *metrics) {
    atomic_fetch_add(&metrics->in_flight, 1);
}

static void count_inference(struct model_counters *model, const struct metrics_request *request) {
    if (request->code != 200) {
        add(&model->failures, 1);
        add(&model->failure_ns, (uint64_t)request->nanoseconds);
        return;
    }
    add(&model->successes, 1);
    add(&model->success_ns, (uint64_t)request->nanoseconds);
    for (size_t stage = 0; stage < STAGE_COUNT; stage++)
        if (request->stage[stage] > 0)
            add(&model->stage_ns[stage], (uint64_t)request->stage[stage]);
    atomic_store(&model->last_ms, (uint64_t)(1e3 * now_seconds()));
}

void metrics_read_model(const struct metrics *metrics, size_t model, struct metrics_model *out) {
    const struct model_counters *counters = &metrics->models[model];
    *out = (struct metrics_model){
        .successes = metrics_read(&counters->successes),
        .failures = metrics_read(&counters->failures),
        .success_ns = metrics_read(&counters->success_ns),
        .failure_ns = metrics_read(&counters->failure_ns),
        .last_ms = metrics_read(&counters->last_ms),
    };
    for (size_t stage = 0; stage < STAGE_COUNT; stage++)
        out->stage_ns[stage] = metrics_read(&counters->stage_ns[stage]);
}

void metrics_end_request(struct metrics *metrics, const struct metrics_request *request) {
    add(&metrics->requests[request->route][request->method][code_index(request->code)], 1);
    observe(&metrics->durations[request->route][class_index(request->code)]
                               [size_index(request->body_bytes)],
            request->nanoseconds);
    for (size_t stage = 0; stage < STAGE_COUNT; stage++)
        if (request->stage[stage] >= 0)
            observe(&metrics->stages[stage], request->stage[stage]);
    if (request->model > 0)
        count_inference(&metrics->models[request->model - 1], request);
    atomic_fetch_sub(&metrics->in_flight, 1);
}

void metrics_count_call(struct metrics *metrics, const struct metrics_call *call) {
    const struct attn_kernel *kernel;
    add(&metrics->flops, (uint64_t)call->flops);
    add(&metrics->scores_computed, (uint64_t)call->scores_computed);
    add(&metrics->scores_skipped, (uint64_t)call->scores_skipped);
    for (size_t i = 0; i < KERNEL_ROOM && (kernel = attn_kernel_at(i)) != NULL; i++)
        if (strcmp(kernel->name, call->kernel) == 0)
            add(&metrics->kernels[i], 1);
}

void metrics_count_step(struct metrics *metrics, size_t rows, int64_t nanoseconds) {
    add(&metrics->session_rows, rows);
    observe(&metrics->steps[rows > 0], nanoseconds);
}

void metrics_count_packed(struct metrics *metrics, size_t coding,
                          enum metrics_direction direction) {
    add(&metrics->packed[coding][direction], 1);
}

void metrics_count_rejection(struct metrics *metrics, int code) {
    add(&metrics->rejections[code], 1);
}

void metrics_reloaded(struct metrics *metrics, bool successful) {
    atomic_store(&metrics->reload_successful, successful);
    if (successful)
        atomic_store(&metrics->reloaded_at, now_seconds());
}

void metrics_certificate(struct metrics *metrics, double expires) {
    atomic_store(&metrics->certificate_expires, expires);
}

void metrics_connection(struct metrics *metrics, int change) {
    atomic_fetch_add_explicit(&metrics->connections, change, memory_order_relaxed);
}

int64_t metrics_in_flight(struct metrics *metrics) {
    return atomic_load(&metrics->in_flight);
}
