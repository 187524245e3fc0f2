/* SPDX-License-Identifier: Apache-2.0 */
/* A ring of steps with histograms whose bins grow by a tenth each; see latency.h. */
#include "server/latency.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/admission.h"
#include "server/captures/captures.h"
#include "server/service.h"
#include "server/sessions/session_table.h"

enum { STEPS = 90, STEP_SECONDS = 10, BINS = 192, STATUSES = 24, SLOWEST = 20 };
/* Bin n begins at so many nanoseconds, times GROWTH to the n; the last one has no end. */
#define FIRST_BIN 1e4
#define GROWTH 1.1

struct step {
    int64_t number; /* seconds since 1970 over STEP_SECONDS; 0: never used */
    uint64_t calls, rejections;
    struct {
        int code;
        uint32_t count;
    } statuses[STATUSES];
    uint32_t bins[BINS], shape_bins[LATENCY_SHAPES][BINS];
    double stage_ns[STAGE_COUNT];
    struct latency_gauges gauges;
};

struct slow {
    char id[REQUEST_ID_SIZE], capture[REQUEST_ID_SIZE];
    struct latency_call call;
    double time; /* 0: none */
};

struct latency {
    pthread_mutex_t lock;
    struct step steps[STEPS];
    struct slow slowest[SLOWEST]; /* slowest first */
};

static const char *const shape_names[LATENCY_SHAPES] = {[LATENCY_OTHER] = "other",
                                                        [LATENCY_DECODE] = "one query",
                                                        [LATENCY_KEYS_128] = "to 128 keys",
                                                        [LATENCY_KEYS_1024] = "to 1,024 keys",
                                                        [LATENCY_KEYS_8192] = "to 8,192 keys",
                                                        [LATENCY_KEYS_MORE] = "more keys"};

const char *latency_shape_name(enum latency_shape shape) {
    return shape_names[shape];
}

enum latency_shape latency_shape_of(size_t queries, size_t keys) {
    if (queries == 1)
        return LATENCY_DECODE;
    if (keys <= 128)
        return LATENCY_KEYS_128;
    if (keys <= 1024)
        return LATENCY_KEYS_1024;
    return keys <= 8192 ? LATENCY_KEYS_8192 : LATENCY_KEYS_MORE;
}

struct latency *latency_create(void) {
    struct latency *latency = calloc(1, sizeof *latency);
    if (latency != NULL)
        pthread_mutex_init(&latency->lock, NULL);
    return latency;
}

void latency_free(struct latency *latency) {
    if (latency == NULL)
        return;
    pthread_mutex_destroy(&latency->lock);
    free(latency);
}

double latency_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The step of a moment; what stood in its place is forgotten. Under the lock. */
static struct step *step_of(struct latency *latency, double seconds) {
    const int64_t number = (int64_t)(seconds / STEP_SECONDS);
    struct step *step = &latency->steps[number % STEPS];
    if (step->number != number)
        *step = (struct step){.number = number};
    return step;
}

static size_t bin_of(int64_t nanoseconds) {
    const double place = log((double)nanoseconds / FIRST_BIN) / log(GROWTH);
    if (!(place > 0))
        return 0;
    return place < BINS - 1 ? (size_t)place : BINS - 1;
}

/* The middle of a bin, by its ratio to both ends. */
static double bin_milliseconds(size_t bin) {
    return 1e-6 * FIRST_BIN * pow(GROWTH, (double)bin + 0.5);
}

static void count_status(struct step *step, int code) {
    size_t n = 0;
    while (n < STATUSES - 1 && step->statuses[n].code != code && step->statuses[n].code != 0)
        n++;
    step->statuses[n].code = code;
    step->statuses[n].count++;
}

static void count_call(struct step *step, const struct latency_call *call) {
    const size_t bin = bin_of(call->nanoseconds);
    step->calls++;
    step->rejections += call->status == 429 || call->status == 503;
    count_status(step, call->status);
    step->bins[bin]++;
    step->shape_bins[call->shape][bin]++;
    for (size_t stage = 0; stage < STAGE_COUNT; stage++)
        if (call->stage[stage] > 0)
            step->stage_ns[stage] += (double)call->stage[stage];
}

/* Whether the one in the list may go for a call of this moment. */
static bool gives_way(const struct slow *slow, const struct latency_call *call, double seconds) {
    return slow->time < seconds - STEPS * STEP_SECONDS ||
           slow->call.nanoseconds < call->nanoseconds;
}

/* The place of an old one, else of the fastest. */
static void note_slow(struct latency *latency, const struct latency_call *call, double seconds) {
    struct slow *place = &latency->slowest[0];
    for (size_t n = 0; n < SLOWEST; n++) {
        struct slow *slow = &latency->slowest[n];
        const bool is_old = slow->time < seconds - STEPS * STEP_SECONDS;
        if (is_old || slow->call.nanoseconds < place->call.nanoseconds)
            place = slow;
        if (is_old)
            break;
    }
    if (!gives_way(place, call, seconds))
        return;
    *place = (struct slow){.call = *call, .time = seconds};
    strncpy(place->id, call->id, sizeof place->id - 1);
    strncpy(place->capture, call->capture, sizeof place->capture - 1);
}

void latency_note(struct latency *latency, const struct latency_call *call, double seconds) {
    pthread_mutex_lock(&latency->lock);
    count_call(step_of(latency, seconds), call);
    note_slow(latency, call, seconds);
    pthread_mutex_unlock(&latency->lock);
}

static void take_largest(size_t *have, size_t more) {
    *have = more > *have ? more : *have;
}

void latency_gauge(struct latency *latency, const struct latency_gauges *gauges, double seconds) {
    pthread_mutex_lock(&latency->lock);
    struct latency_gauges *have = &step_of(latency, seconds)->gauges;
    take_largest(&have->queue_depth, gauges->queue_depth);
    take_largest(&have->in_flight, gauges->in_flight);
    have->kv_cache_bytes = gauges->kv_cache_bytes;
    have->capture_bytes = gauges->capture_bytes;
    pthread_mutex_unlock(&latency->lock);
}

void latency_look(const struct service *service, int64_t looking) {
    struct session_counts sessions;
    const int64_t in_flight = metrics_in_flight(service->metrics) - looking;
    session_table_read(service->sessions, &sessions);
    const struct latency_gauges gauges = {
        .queue_depth = admission_queue_depth(service->admission),
        .in_flight = in_flight > 0 ? (size_t)in_flight : 0,
        .kv_cache_bytes = sessions.bytes,
        .capture_bytes = captures_count(service->captures).bytes,
    };
    latency_gauge(service->latency, &gauges, latency_now());
}

/* ---- the document ---- */

/* Milliseconds below which a share of the bins' calls lies. */
static double quantile(const uint32_t bins[BINS], uint64_t calls, double share) {
    uint64_t seen = 0;
    size_t bin = 0;
    for (; bin < BINS - 1; bin++) {
        seen += bins[bin];
        if ((double)seen >= share * (double)calls)
            break;
    }
    return bin_milliseconds(bin);
}

static void write_statuses(struct text *out, const struct step *step) {
    text_format(out, ",\"statuses\":{");
    for (size_t n = 0; n < STATUSES && step->statuses[n].code != 0; n++)
        text_format(out, "%s\"%d\":%u", n == 0 ? "" : ",", step->statuses[n].code,
                    step->statuses[n].count);
    text_add(out, "}", 1);
}

static void write_times(struct text *out, const struct step *step) {
    if (step->calls == 0) {
        text_format(out, ",\"total_ms\":null,\"stages_ms\":null");
        return;
    }
    text_format(out, ",\"total_ms\":{\"p50\":%.4g,\"p95\":%.4g,\"p99\":%.4g},\"stages_ms\":{",
                quantile(step->bins, step->calls, 0.5), quantile(step->bins, step->calls, 0.95),
                quantile(step->bins, step->calls, 0.99));
    for (size_t n = 0; n < STAGE_COUNT; n++)
        text_format(out, "%s\"%s\":%.4g", n == 0 ? "" : ",",
                    metrics_stage_name((enum metrics_stage)n),
                    1e-6 * step->stage_ns[n] / (double)step->calls);
    text_add(out, "}", 1);
}

static void write_shapes(struct text *out, const struct step *step) {
    bool any = false;
    text_format(out, ",\"shapes\":{");
    for (size_t shape = 0; shape < LATENCY_SHAPES; shape++) {
        uint64_t calls = 0;
        for (size_t bin = 0; bin < BINS; bin++)
            calls += step->shape_bins[shape][bin];
        if (calls == 0)
            continue;
        text_format(out, "%s\"%s\":%.4g", any ? "," : "", shape_names[shape],
                    quantile(step->shape_bins[shape], calls, 0.95));
        any = true;
    }
    text_add(out, "}", 1);
}

static void write_step(struct text *out, const struct step *step) {
    text_format(out, "{\"time\":%lld", (long long)step->number * STEP_SECONDS);
    write_statuses(out, step);
    write_times(out, step);
    write_shapes(out, step);
    text_format(out,
                ",\"queue_depth\":%zu,\"in_flight\":%zu,\"rejections\":%llu,"
                "\"kv_cache_bytes\":%zu,\"capture_bytes\":%zu}",
                step->gauges.queue_depth, step->gauges.in_flight,
                (unsigned long long)step->rejections, step->gauges.kv_cache_bytes,
                step->gauges.capture_bytes);
}

static int slower_first(const void *a, const void *b) {
    const int64_t x = ((const struct slow *)a)->call.nanoseconds;
    const int64_t y = ((const struct slow *)b)->call.nanoseconds;
    return (x < y) - (x > y);
}

static void write_slow(struct text *out, const struct slow *slow) {
    bool any = false;
    text_format(out, "{\"id\":");
    text_json(out, slow->id);
    text_format(out, ",\"time\":%.3f,\"total_ms\":%.6g,\"stages_ms\":{", slow->time,
                1e-6 * (double)slow->call.nanoseconds);
    for (size_t n = 0; n < STAGE_COUNT; n++) {
        if (slow->call.stage[n] < 0)
            continue;
        text_format(out, "%s\"%s\":%.6g", any ? "," : "", metrics_stage_name((enum metrics_stage)n),
                    1e-6 * (double)slow->call.stage[n]);
        any = true;
    }
    text_format(out, "},\"shape\":\"%s\",\"status\":%d,\"capture\":", shape_names[slow->call.shape],
                slow->call.status);
    if (slow->capture[0] == '\0')
        text_format(out, "null}");
    else
        text_format(out, "\"%s\"}", slow->capture);
}

static void write_slowest(struct latency *latency, double seconds, struct text *out) {
    bool any = false;
    qsort(latency->slowest, SLOWEST, sizeof *latency->slowest, slower_first);
    for (size_t n = 0; n < SLOWEST; n++) {
        if (latency->slowest[n].time < seconds - STEPS * STEP_SECONDS)
            continue;
        if (any)
            text_add(out, ",", 1);
        write_slow(out, &latency->slowest[n]);
        any = true;
    }
}

void latency_write(struct latency *latency, size_t queue_limit, double seconds, struct text *out) {
    const int64_t last = (int64_t)(seconds / STEP_SECONDS);
    bool any = false;
    text_format(out,
                "{\"step_seconds\":%d,\"queue_limit\":%zu,\"quantile_error\":%.3g,\"buckets\":[",
                STEP_SECONDS, queue_limit, sqrt(GROWTH) - 1);
    pthread_mutex_lock(&latency->lock);
    for (int64_t number = last - STEPS + 1; number <= last; number++) {
        const struct step *step = &latency->steps[number % STEPS];
        if (step->number != number)
            continue;
        if (any)
            text_add(out, ",", 1);
        write_step(out, step);
        any = true;
    }
    text_format(out, "],\"slowest\":[");
    write_slowest(latency, seconds, out);
    pthread_mutex_unlock(&latency->lock);
    text_format(out, "]}\n");
}
