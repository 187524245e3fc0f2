/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our side of a session's step in bench/peers/peers.py, without HTTP on two threads: one row is
 * appended to a cache and its queries attend over all of it, run as often as each line says that
 * comes in, its seconds going out. Everything that a step does to a cache is timed, planning too;
 * that the row is cut off again is not. It goes around `sets` caches. Queries and rows are float32.
 *
 *   step Hq Hkv n D f32|f16|bf16 sets       n: tokens with the new one
 */
#include "bench/bare_call.h"
#include "bench/yardstick.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 256 };

struct steps {
    size_t Hq, Hkv, n, D, sets, turn;
    enum attn_dtype dtype;
    struct attn_kv_pool *pool;
    struct attn_kv_cache **caches;
    struct attn_kv_rows row;
    struct bare_call bare;
    void *shared; /* of its heads */
    float *output;
};

static void fail(const char *what) {
    fprintf(stderr, "step: %s\n", what);
    exit(1);
}

static enum attn_dtype dtype_of(const char *text) {
    static const struct {
        const char *text;
        enum attn_dtype dtype;
    } names[] = {{"f32", ATTN_FLOAT32}, {"f16", ATTN_FLOAT16}, {"bf16", ATTN_BFLOAT16}};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++)
        if (strcmp(names[n].text, text) == 0)
            return names[n].dtype;
    fail("expected f32, f16 or bf16");
    return ATTN_FLOAT32;
}

/* k and v [Hkv,count,D]. */
static struct attn_kv_rows rows_of(const struct steps *steps, size_t count) {
    const size_t shape[] = {steps->Hkv, count, steps->D};
    const size_t values = steps->Hkv * count * steps->D;
    return (struct attn_kv_rows){.k = attn_tensor_view(bare_random(values), ATTN_FLOAT32, 3, shape),
                                 .v =
                                     attn_tensor_view(bare_random(values), ATTN_FLOAT32, 3, shape)};
}

static struct attn_kv_append *append(struct attn_kv_cache *cache, const struct attn_kv_rows *rows) {
    struct attn_error error = {0};
    struct attn_kv_append *open;
    if (attn_kv_append_begin(cache, 0, rows->k.shape[1], &open, &error) != ATTN_OK)
        fail(error.detail);
    attn_kv_append_write(open, rows, NULL);
    return open;
}

static struct attn_kv_cache *fill(const struct steps *steps, const struct attn_kv_rows *piece) {
    const int64_t D = (int64_t)steps->D;
    const struct attn_kv_spec spec = {.layers = 1,
                                      .Hkv = (int64_t)steps->Hkv,
                                      .D = D,
                                      .Dv = D,
                                      .dtype = steps->dtype,
                                      .capacity = 1 << 24};
    struct attn_error error = {0};
    struct attn_kv_cache *cache;
    if (attn_kv_cache_create(steps->pool, &spec, &cache, &error) != ATTN_OK)
        fail(error.detail);
    while (attn_kv_length(cache, 0) < steps->n)
        attn_kv_append_commit(append(cache, piece));
    if (attn_kv_truncate(cache, steps->n - 1, &error) != ATTN_OK)
        fail(error.detail);
    return cache;
}

static void open_all(struct steps *steps) {
    const size_t one[] = {steps->Hq, 1, steps->D};
    const struct attn_kv_rows piece = rows_of(steps, PIECE);
    struct attn_error error = {0};
    if (attn_kv_pool_create((size_t)8 << 30, &steps->pool, &error) != ATTN_OK ||
        attn_scheduler_create(YARDSTICK_THREADS - 1, 0, &steps->bare.scheduler, &error) != ATTN_OK)
        fail(error.detail);
    steps->caches = calloc(steps->sets, sizeof(struct attn_kv_cache *));
    for (size_t n = 0; n < steps->sets; n++)
        steps->caches[n] = fill(steps, &piece);
    free((void *)piece.k.data);
    free((void *)piece.v.data);
    steps->row = rows_of(steps, 1);
    steps->output = bare_random(steps->Hq * steps->D);
    attn_request_init(&steps->bare.request);
    steps->bare.request.q =
        attn_tensor_view(bare_random(steps->Hq * steps->D), ATTN_FLOAT32, 3, one);
}

/* What the first step needs is what all need. */
static void plan(struct steps *steps, const struct attn_kv_view *view) {
    const struct attn_limits limits = {.result_bytes = (size_t)1 << 30, .flops = 1e18};
    struct bare_call *bare = &steps->bare;
    struct attn_error error = {0};
    bare->request.kv = view;
    if (attn_call_init(&bare->call, &bare->request, &error) != ATTN_OK ||
        attn_plan_make(&bare->call, &limits, &bare->plan, &bare->result, &error) != ATTN_OK)
        fail(error.detail);
    if (steps->shared == NULL) {
        const size_t bytes = attn_heads_bytes(&bare->plan, YARDSTICK_THREADS);
        steps->shared = aligned_alloc(64, (bytes + 63) / 64 * 64);
        bare->workspace = aligned_alloc(64, (bare->plan.workspace_bytes + 64) / 64 * 64);
        if (steps->shared == NULL || bare->workspace == NULL)
            fail("there is no memory");
        printf("%s\n", bare->plan.kernel->name);
    }
    bare->result.tensors[ATTN_RESULT_OUTPUT].data = steps->output;
    bare->heads = attn_heads_open(&bare->call, &bare->plan, YARDSTICK_THREADS, steps->shared);
}

static double step(struct steps *steps) {
    struct attn_kv_cache *cache = steps->caches[steps->turn++ % steps->sets];
    struct attn_error error = {0};
    struct attn_kv_view view;
    const double begin = yardstick_now();
    struct attn_kv_append *open = append(cache, &steps->row);
    if (attn_kv_view_open(cache, 0, open, ATTN_KV_NEXT, &view, &error) != ATTN_OK)
        fail(error.detail);
    plan(steps, &view);
    bare_call_run(&steps->bare);
    attn_heads_close(steps->bare.heads);
    attn_call_close(&steps->bare.call);
    attn_kv_view_close(&view);
    attn_kv_append_commit(open);
    const double spent = yardstick_now() - begin;
    if (attn_kv_truncate(cache, steps->n - 1, &error) != ATTN_OK)
        fail(error.detail);
    return spent;
}

static void close_all(struct steps *steps) {
    attn_scheduler_free(&steps->bare.scheduler);
    for (size_t n = 0; n < steps->sets; n++)
        attn_kv_cache_free(&steps->caches[n]);
    attn_kv_pool_free(&steps->pool);
    free(steps->caches);
    free((void *)steps->row.k.data);
    free((void *)steps->row.v.data);
    free((void *)steps->bare.request.q.data);
    free(steps->output);
    free(steps->shared);
    free(steps->bare.workspace);
}

int main(int argc, char **argv) {
    char line[16];
    if (argc != 7) {
        fprintf(stderr, "step: expected Hq Hkv n D f32|f16|bf16 sets\n");
        return 1;
    }
    struct steps steps = {.Hq = strtoul(argv[1], NULL, 10),
                          .Hkv = strtoul(argv[2], NULL, 10),
                          .n = strtoul(argv[3], NULL, 10),
                          .D = strtoul(argv[4], NULL, 10),
                          .dtype = dtype_of(argv[5]),
                          .sets = strtoul(argv[6], NULL, 10)};
    attn_start();
    setvbuf(stdout, NULL, _IOLBF, 0);
    open_all(&steps);
    step(&steps);
    while (fgets(line, sizeof line, stdin) != NULL)
        for (size_t calls = strtoul(line, NULL, 10); calls > 0; calls--)
            printf("%.9f\n", step(&steps));
    close_all(&steps);
    return 0;
}
