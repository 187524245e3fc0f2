/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of finished requests and the thread that empties it; see tracing.h. */
#include "server/tracing/tracing.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/clock.h"
#include "server/tracing/trace_curl.h"

enum { QUEUE = 2048, BATCH = 128, URL_SIZE = 1024, REASON_SIZE = 200, LOADER_SIZE = 256 };
enum {
    GATHER_MS = 500,     /* how long a request waits for others to be sent with it */
    SEND_MS = 5000,      /* the longest that one POST takes */
    PAUSE_MS = 500,      /* before a batch is tried again; then twice as long */
    TRIES = 3,           /* of one batch */
    LAST_WORDS_MS = 800, /* for what is left when the daemon ends; libcurl looks once a second */
    LAST_WAIT_MS = 2000
};

struct tracing {
    struct tracing_options options;
    char url[URL_SIZE];
    struct trace_curl *curl;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;     /* there is something, there is a whole batch, or it ends */
    struct trace_record *queue; /* a ring: `count` from `first` on */
    size_t first, count;
    atomic_int_least64_t ends_at; /* from when on nothing more is sent; 0: it goes on */
    bool has_ended;               /* the thread */
    struct trace_record *batch;   /* the thread's */
    bool is_failing;              /* the log was told so */
    atomic_uint_least64_t sent, dropped;
};

/* ---- what is refused ---- */

static bool is_url(const char *text) {
    static const char *const schemes[] = {"http://", "https://"};
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        const size_t length = strlen(schemes[i]);
        if (strncmp(text, schemes[i], length) == 0)
            return text[length] != '\0' && strchr("/:", text[length]) == NULL &&
                   text[strcspn(text, " ?#@\\\"")] == '\0';
    }
    return false;
}

bool tracing_check(const char *endpoint, char *error, size_t size) {
    if (endpoint[0] == '\0')
        return true;
    if (!is_url(endpoint)) {
        snprintf(error, size,
                 "otlp_endpoint: \"%s\" is no address of a collector; write http://HOST:4318 or "
                 "https://HOST:4318, without a query or a password. Spans go to /v1/traces below "
                 "it.",
                 endpoint);
        return false;
    }
    char reason[LOADER_SIZE];
    if (trace_curl_exists(reason, sizeof reason))
        return true;
    snprintf(error, size,
             "otlp_endpoint: spans are sent by libcurl, which cannot be loaded: %s. Where there is "
             "none, install it (Debian: libcurl3-gnutls, libcurl3t64-gnutls from 13 on), or leave "
             "the option out.",
             reason);
    return false;
}

/* The path of traces below what is configured, which may have it already. */
static void write_url(struct tracing *tracing) {
    static const char path[] = "/v1/traces";
    const char *const endpoint = tracing->options.endpoint;
    size_t length = strlen(endpoint);
    while (endpoint[length - 1] == '/')
        length--;
    const bool has_path = length > sizeof path - 1 && strncmp(endpoint + length - (sizeof path - 1),
                                                              path, sizeof path - 1) == 0;
    snprintf(tracing->url, sizeof tracing->url, "%.*s%s", (int)length, endpoint,
             has_path ? "" : path);
}

/* ---- what is sent ---- */

static void count(atomic_uint_least64_t *counter, uint64_t spans) {
    atomic_fetch_add_explicit(counter, spans, memory_order_relaxed);
}

static uint64_t spans_of(const struct trace_record *records, size_t number) {
    uint64_t spans = 0;
    for (size_t i = 0; i < number; i++)
        spans += trace_record_spans(&records[i]);
    return spans;
}

/* The log hears of changes, not of every batch. */
static void tell(struct tracing *tracing, bool is_failing, const char *reason) {
    char text[URL_SIZE + REASON_SIZE + 80];
    if (tracing->is_failing == is_failing)
        return;
    tracing->is_failing = is_failing;
    snprintf(text, sizeof text, "%s %s%s%s",
             is_failing ? "spans are dropped; they cannot be sent to" : "spans are sent again to",
             tracing->url, is_failing ? ": " : "", is_failing ? reason : "");
    access_log_event(tracing->options.log, "tracing", text);
}

/* Until the condition is signalled, or the moment of clock_now(); 0 is never. */
static void wait(struct tracing *tracing, int64_t until) {
    const struct timespec moment = {.tv_sec = (time_t)(until / CLOCK_SECOND),
                                    .tv_nsec = (long)(until % CLOCK_SECOND)};
    if (until == 0)
        pthread_cond_wait(&tracing->changed, &tracing->lock);
    else
        pthread_cond_timedwait(&tracing->changed, &tracing->lock, &moment);
}

static bool is_over(void *context) {
    const struct tracing *const tracing = context;
    const int64_t ends_at = atomic_load(&tracing->ends_at);
    return ends_at != 0 && clock_now() >= ends_at;
}

/* Whether the daemon still runs after that. */
static bool pause_for(struct tracing *tracing, int64_t ms) {
    const int64_t until = clock_now() + ms * CLOCK_MS;
    pthread_mutex_lock(&tracing->lock);
    while (tracing->ends_at == 0 && clock_now() < until)
        wait(tracing, until);
    const bool goes_on = tracing->ends_at == 0;
    pthread_mutex_unlock(&tracing->lock);
    return goes_on;
}

/* Within the time of one POST, or what is left of all. */
static enum trace_outcome post(struct tracing *tracing, const char *json) {
    char reason[REASON_SIZE] = "there is no memory";
    const enum trace_outcome outcome = json == NULL || is_over(tracing)
                                           ? TRACE_REFUSED
                                           : trace_curl_post(tracing->curl, json, SEND_MS, is_over,
                                                             tracing, reason, sizeof reason);
    if (!is_over(tracing))
        tell(tracing, outcome != TRACE_SENT, reason);
    return outcome;
}

static void send_batch(struct tracing *tracing, size_t number) {
    uint64_t made = 0;
    char *const json = trace_json_write(tracing->batch, number, &made);
    enum trace_outcome outcome = post(tracing, json);
    int64_t ms = PAUSE_MS;
    for (int tries = 1; outcome == TRACE_BUSY && tries < TRIES && pause_for(tracing, ms); tries++) {
        outcome = post(tracing, json);
        ms *= 2;
    }
    const uint64_t sent = outcome == TRACE_SENT ? made : 0;
    count(&tracing->sent, sent);
    count(&tracing->dropped, spans_of(tracing->batch, number) - sent);
    free(json);
}

/* Waits for requests and moves them out of the queue; how many: 0 at the end. */
static size_t take(struct tracing *tracing) {
    pthread_mutex_lock(&tracing->lock);
    while (tracing->count == 0 && tracing->ends_at == 0)
        wait(tracing, 0);
    const int64_t until = clock_now() + GATHER_MS * CLOCK_MS;
    while (tracing->count < BATCH && tracing->ends_at == 0 && clock_now() < until)
        wait(tracing, until);
    const size_t number = tracing->count < BATCH ? tracing->count : BATCH;
    for (size_t i = 0; i < number; i++)
        tracing->batch[i] = tracing->queue[(tracing->first + i) % QUEUE];
    tracing->first = (tracing->first + number) % QUEUE;
    tracing->count -= number;
    pthread_mutex_unlock(&tracing->lock);
    return number;
}

static void *run(void *context) {
    struct tracing *const tracing = context;
    for (size_t number; (number = take(tracing)) > 0;)
        send_batch(tracing, number);
    pthread_mutex_lock(&tracing->lock);
    tracing->has_ended = true;
    pthread_cond_signal(&tracing->changed);
    pthread_mutex_unlock(&tracing->lock);
    return NULL;
}

/* ---- for requests ---- */

void tracing_note(struct tracing *tracing, const struct trace_record *record) {
    pthread_mutex_lock(&tracing->lock);
    const bool fits = tracing->count < QUEUE;
    if (fits)
        tracing->queue[(tracing->first + tracing->count++) % QUEUE] = *record;
    const bool is_news = fits && (tracing->count == 1 || tracing->count == BATCH);
    pthread_mutex_unlock(&tracing->lock);
    if (is_news)
        pthread_cond_signal(&tracing->changed);
    if (!fits)
        count(&tracing->dropped, trace_record_spans(record));
}

/* By the id's last digits, which every sampler of OpenTelemetry's takes. */
bool tracing_samples(const struct tracing *tracing, const struct trace_context *context) {
    enum { DIGITS = 8, ALL = 100 };
    const unsigned long last = strtoul(context->trace_id + TRACE_ID_SIZE - 1 - DIGITS, NULL, 16);
    return last % ALL < tracing->options.percent;
}

struct tracing_counts tracing_count(const struct tracing *tracing) {
    if (tracing == NULL)
        return (struct tracing_counts){0, 0};
    return (struct tracing_counts){atomic_load_explicit(&tracing->sent, memory_order_relaxed),
                                   atomic_load_explicit(&tracing->dropped, memory_order_relaxed)};
}

/* ---- start and end ---- */

static void release(struct tracing *tracing) {
    trace_curl_close(tracing->curl);
    free(tracing->queue);
    free(tracing->batch);
    pthread_mutex_destroy(&tracing->lock);
    pthread_cond_destroy(&tracing->changed);
    free(tracing);
}

static void init_condition(pthread_cond_t *condition) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

struct tracing *tracing_start(const struct tracing_options *options) {
    struct tracing *const tracing = calloc(1, sizeof *tracing);
    if (tracing == NULL)
        return NULL;
    tracing->options = *options;
    write_url(tracing);
    pthread_mutex_init(&tracing->lock, NULL);
    init_condition(&tracing->changed);
    tracing->queue = calloc(QUEUE, sizeof *tracing->queue);
    tracing->batch = calloc(BATCH, sizeof *tracing->batch);
    tracing->curl = trace_curl_open(tracing->url);
    if (tracing->queue != NULL && tracing->batch != NULL && tracing->curl != NULL &&
        pthread_create(&tracing->thread, NULL, run, tracing) == 0)
        return tracing;
    release(tracing);
    return NULL;
}

/* Whether the thread has ended within the time. */
static bool await_end(struct tracing *tracing, int64_t until) {
    pthread_mutex_lock(&tracing->lock);
    while (!tracing->has_ended && clock_now() < until)
        wait(tracing, until);
    const bool has_ended = tracing->has_ended;
    pthread_mutex_unlock(&tracing->lock);
    return has_ended;
}

/* Of what there was: a start that failed ends with why it did. */
static void tell_counts(const struct tracing *tracing) {
    const struct tracing_counts counts = tracing_count(tracing);
    char text[120];
    if (counts.sent + counts.dropped == 0)
        return;
    snprintf(text, sizeof text, "%llu spans were sent, %llu dropped",
             (unsigned long long)counts.sent, (unsigned long long)counts.dropped);
    access_log_event(tracing->options.log, "tracing", text);
}

/* A resolver of names that hangs is not waited for: then the thread keeps its memory, for the
   process ends. */
void tracing_stop(struct tracing *tracing) {
    if (tracing == NULL)
        return;
    const int64_t now = clock_now();
    pthread_mutex_lock(&tracing->lock);
    atomic_store(&tracing->ends_at, now + LAST_WORDS_MS * CLOCK_MS);
    pthread_mutex_unlock(&tracing->lock);
    pthread_cond_signal(&tracing->changed);
    if (!await_end(tracing, now + LAST_WAIT_MS * CLOCK_MS))
        return;
    pthread_join(tracing->thread, NULL);
    tell_counts(tracing);
    release(tracing);
}
