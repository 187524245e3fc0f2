/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoding over the key/value cache: one query of eight heads over a session's pages, by the
 * default kernel on two threads, in turn with a plain vectorised read of as many bytes; a step of
 * many sessions at once; and what a fork costs. Sessions together are larger than any cache.
 *
 *   make bench BENCH=sessions: decoding over sessions against read bandwidth, a quarter of a minute
 *   build/release/bench/sessions [rounds [rows [cpu]]]: rows as "G=1 f16"; and both by one thread's
 *   processor time, for machines that others use
 */
#include "bench/bare_call.h"
#include "bench/figure.h"
#include "bench/peak.h"
#include "bench/yardstick.h"

#include "core/convert.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { KV_HEADS = 8, D = 128, KEYS = 16384, ROUNDS = 15, PIECE = 1024, MANY = 32 };
#define HUGE_PAGE ((size_t)2 << 20)
#define BUDGET ((size_t)4 << 30)
#define LEAST_READ ((size_t)128 << 20) /* for starting threads must not be seen in it */

static void fail(const struct attn_error *error) {
    fprintf(stderr, "bench/sessions: %s\n", error->detail);
    exit(1);
}

static struct attn_kv_cache *fill(struct attn_kv_pool *pool, enum attn_dtype dtype, size_t keys) {
    const struct attn_kv_spec spec = {
        .layers = 1, .Hkv = KV_HEADS, .D = D, .Dv = D, .dtype = dtype, .capacity = 1 << 20};
    static float *values = NULL;
    struct attn_kv_cache *cache;
    struct attn_error error = {0};
    if (values == NULL)
        values = bare_random((size_t)KV_HEADS * PIECE * D);
    if (attn_kv_cache_create(pool, &spec, &cache, &error) != ATTN_OK)
        fail(&error);
    const size_t shape[] = {KV_HEADS, PIECE, D};
    const struct attn_kv_rows rows = {.k = attn_tensor_view(values, ATTN_FLOAT32, 3, shape),
                                      .v = attn_tensor_view(values, ATTN_FLOAT32, 3, shape)};
    for (size_t at = 0; at < keys; at += PIECE) {
        struct attn_kv_append *append;
        if (attn_kv_append_begin(cache, 0, PIECE, &append, &error) != ATTN_OK)
            fail(&error);
        attn_kv_append_write(append, &rows, NULL);
        attn_kv_append_commit(append);
    }
    return cache;
}

/* ---- the plain read ---- */

struct reader {
    const char *from;
    size_t bytes;
    float sum;
};

static void *read_part(void *argument) {
    struct reader *reader = argument;
    peak_read(reader->from, reader->bytes, &reader->sum);
    return NULL;
}

static char *make_plain(size_t bytes) {
    char *plain = aligned_alloc(HUGE_PAGE, (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
    if (plain == NULL)
        exit(1);
    madvise(plain, bytes, MADV_HUGEPAGE);
    memset(plain, 0, bytes);
    return plain;
}

/* Seconds that go on, or those of this thread alone. */
static double now(bool cpu) {
    struct timespec time;
    clock_gettime(cpu ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Bytes per second of all threads. */
static double time_read(const char *plain, size_t bytes, bool cpu, float *sink) {
    if (cpu) {
        const double begin = now(true);
        peak_read(plain, bytes / 512 * 512, sink);
        return (double)bytes / (now(true) - begin);
    }
    struct reader readers[YARDSTICK_THREADS];
    pthread_t threads[YARDSTICK_THREADS];
    const size_t part = bytes / YARDSTICK_THREADS / 512 * 512;
    const double begin = now(false);
    for (size_t t = 0; t < YARDSTICK_THREADS; t++) {
        readers[t] = (struct reader){.from = plain + t * part, .bytes = part};
        if (pthread_create(&threads[t], NULL, read_part, &readers[t]) != 0)
            abort();
    }
    for (size_t t = 0; t < YARDSTICK_THREADS; t++) {
        pthread_join(threads[t], NULL);
        *sink += readers[t].sum;
    }
    return (double)(part * YARDSTICK_THREADS) / (now(false) - begin);
}

/* ---- many sessions in one job ---- */

/* A bare call that runs the tasks of all. */
struct many {
    struct attn_job job;
    struct bare_call *calls;
    struct attn_batch batch;
    struct attn_batch_item items[MANY];
    struct attn_scheduler *scheduler; /* NULL: one thread */
    void *workspace;
    atomic_bool done;
};

static void step(struct attn_job *job, size_t index, void *workspace,
                 const struct attn_checkpoint *checkpoint) {
    attn_batch_step(&((struct many *)job)->batch, index, workspace, checkpoint);
}

static bool finished(struct attn_job *job) {
    atomic_store(&((struct many *)job)->done, true);
    return false;
}

static void run_many(struct many *many) {
    for (size_t n = 0; n < many->batch.count; n++)
        attn_heads_reset(many->calls[n].heads);
    memset(&many->job, 0, sizeof many->job);
    many->job.step = step;
    many->job.finished = finished;
    many->job.steps = many->batch.steps;
    many->job.workspace_bytes = many->batch.workspace_bytes;
    if (many->scheduler == NULL) {
        attn_job_run_inline(&many->job, many->workspace);
        return;
    }
    atomic_store(&many->done, false);
    attn_scheduler_submit(many->scheduler, &many->job);
    while (attn_scheduler_help(many->scheduler, &many->job, many->workspace,
                               many->batch.workspace_bytes))
        continue;
    while (!atomic_load(&many->done))
        continue;
}

/* ---- rounds ---- */

struct shape {
    enum attn_dtype dtype;
    size_t group, sessions, keys;
};

static const char *dtype_text(enum attn_dtype dtype) {
    return dtype == ATTN_FLOAT32 ? "f32" : dtype == ATTN_FLOAT16 ? "f16" : "bf16";
}

static void open_call(struct bare_call *bare, const struct shape *shape, const float *q,
                      const struct attn_kv_view *view) {
    const size_t one[] = {KV_HEADS * shape->group, 1, D};
    attn_request_init(&bare->request);
    bare->request.q = attn_tensor_view(q, ATTN_FLOAT32, 3, one);
    bare->request.kv = view;
    bare_call_open(bare, 1);
}

static void hold_rounds(struct many *many, const char *what, double bytes, size_t rounds,
                        double goal) {
    double share[YARDSTICK_ROUNDS_MAX], peak[YARDSTICK_ROUNDS_MAX], read[YARDSTICK_ROUNDS_MAX];
    const size_t plain_bytes = bytes < LEAST_READ ? LEAST_READ : (size_t)bytes;
    char *plain = make_plain(plain_bytes);
    float sink = 0;
    char beside[96];
    const bool cpu = many->scheduler == NULL;
    run_many(many);
    for (size_t n = 0; n < rounds; n++) {
        peak[n] = cpu ? 1 : yardstick_peak();
        read[n] = time_read(plain, plain_bytes, cpu, &sink);
        const double begin = now(cpu);
        run_many(many);
        share[n] = bytes / (now(cpu) - begin) / read[n];
    }
    const struct yardstick_kept kept = yardstick_keep(share, peak, rounds);
    const struct yardstick_kept of_read = yardstick_keep(read, peak, rounds);
    snprintf(beside, sizeof beside, "of a plain read, %.1f GB/s; %.2f to %.2f%s",
             1e-9 * of_read.median, kept.least, kept.most, sink == 1 ? " " : "");
    figure_print(&(struct figure){.what = what,
                                  .unit = "x",
                                  .value = kept.median,
                                  .at_least = goal,
                                  .rounds = kept.rounds,
                                  .discarded = kept.discarded,
                                  .beside = beside});
    free(plain);
}

static void measure(struct attn_kv_pool *pool, const struct shape *shape, const char *what,
                    size_t rounds, double goal, bool cpu) {
    struct attn_kv_cache *caches[MANY];
    struct attn_kv_view views[MANY];
    struct bare_call calls[MANY] = {0};
    struct many many = {.calls = calls};
    struct attn_error error = {0};
    float *q = bare_random(KV_HEADS * shape->group * D);
    for (size_t n = 0; n < shape->sessions; n++) {
        caches[n] = fill(pool, shape->dtype, shape->keys);
        if (attn_kv_view_open(caches[n], 0, NULL, ATTN_KV_NEXT, &views[n], &error) != ATTN_OK)
            fail(&error);
        open_call(&calls[n], shape, q, &views[n]);
        many.items[n] = (struct attn_batch_item){.call = &calls[n].call,
                                                 .plan = &calls[n].plan,
                                                 .result = &calls[n].result,
                                                 .heads = calls[n].heads};
    }
    many.batch = attn_batch_of(many.items, shape->sessions);
    many.workspace = calls[0].workspace;
    if (!cpu && attn_scheduler_create(YARDSTICK_THREADS - 1, 0, &many.scheduler, &error) != ATTN_OK)
        fail(&error);
    hold_rounds(&many, what,
                2.0 * KV_HEADS * D * (double)(shape->sessions * shape->keys) *
                    (double)attn_dtype_size(shape->dtype),
                rounds, goal);
    attn_scheduler_free(&many.scheduler);
    for (size_t n = 0; n < shape->sessions; n++) {
        bare_call_close(&calls[n]);
        attn_kv_view_close(&views[n]);
        attn_kv_cache_free(&caches[n]);
    }
    free(q);
}

/* Microseconds of a fork and of ending it, and of the first append to it. */
static void measure_fork(struct attn_kv_pool *pool, size_t rounds) {
    double fork[YARDSTICK_ROUNDS_MAX], append[YARDSTICK_ROUNDS_MAX];
    struct attn_kv_cache *cache = fill(pool, ATTN_FLOAT16, KEYS), *other;
    struct attn_error error = {0};
    for (size_t n = 0; n < rounds; n++) {
        struct attn_kv_append *open;
        const double begin = yardstick_now();
        if (attn_kv_fork(cache, &other, &error) != ATTN_OK)
            fail(&error);
        const double forked = yardstick_now();
        if (attn_kv_append_begin(other, 0, 1, &open, &error) != ATTN_OK)
            fail(&error);
        append[n] = 1e6 * (yardstick_now() - forked);
        fork[n] = 1e6 * (forked - begin);
        attn_kv_cache_free(&other);
    }
    figure_print(&(struct figure){.what = "a fork of 16k tokens",
                                  .unit = "us",
                                  .value = yardstick_median(fork, rounds),
                                  .at_most = 100,
                                  .rounds = rounds});
    figure_print(&(struct figure){.what = "the first append to it",
                                  .unit = "us",
                                  .value = yardstick_median(append, rounds),
                                  .at_most = 100,
                                  .rounds = rounds});
    attn_kv_cache_free(&cache);
}

int main(int argc, char **argv) {
    static const enum attn_dtype DTYPES[] = {ATTN_FLOAT32, ATTN_FLOAT16, ATTN_BFLOAT16};
    static const size_t GROUPS[] = {1, 4, 8};
    const size_t asked = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    const size_t rounds = asked == 0 || asked > YARDSTICK_ROUNDS_MAX ? ROUNDS : asked;
    const char *wanted = argc > 2 ? argv[2] : "";
    char machine[256], what[96];
    struct attn_kv_pool *pool;
    struct attn_error error = {0};
    setvbuf(stdout, NULL, _IOLBF, 0);
    attn_start();
    if (attn_kv_pool_create(BUDGET, &pool, &error) != ATTN_OK)
        fail(&error);
    printf("%s; %d key/value heads, D=%d, reads with %s\n",
           yardstick_machine(machine, sizeof machine), KV_HEADS, D, peak_name());
    for (size_t n = 0; n < 12; n++) {
        const bool many = n >= 9;
        const struct shape shape = {.dtype = DTYPES[n % 3],
                                    .group = many ? 1 : GROUPS[n / 3],
                                    .sessions = many ? MANY : 1,
                                    .keys = many ? PIECE : KEYS};
        snprintf(what, sizeof what, "%2zu sessions of %5zu tokens, G=%zu %s", shape.sessions,
                 shape.keys, shape.group, dtype_text(shape.dtype));
        if (strstr(what, wanted) != NULL)
            measure(pool, &shape, what, rounds,
                    many               ? 1 / 1.15
                    : shape.group == 1 ? 0.95
                                       : 0,
                    argc > 3);
    }
    if (strstr("fork", wanted) != NULL)
        measure_fork(pool, rounds);
    attn_kv_pool_free(&pool);
    return 0;
}
