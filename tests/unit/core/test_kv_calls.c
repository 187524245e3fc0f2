/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls over a cache against the plain call on the same rows, for every kernel, dtype and option,
 * whatever the appends were and wherever pages end.
 */
#include "core/checked.h"
#include "tests/unit/core/executor_cases.h"
#include "tests/unit/core/kv_fixture.h"

/* What a case sets on both requests; its lists and nodes live here, twice where validation writes.
 */
struct options {
    struct attn_mask_node nodes[2][4];
    double sinks[8];
    float *bias;
    bool all;                      /* not causal */
    struct attn_rope_request rope; /* the session's */
};

/* A plain call and the same over a cache. */
struct twins {
    struct run plain, cached;
    struct options options;
};

static void no_option(struct twins *twins) {
    (void)twins;
}

static void all_keys(struct twins *twins) {
    twins->options.all = true;
}

static void scale_and_cap(struct twins *twins) {
    for (size_t n = 0; n < 2; n++) {
        struct attn_request *request = n ? &twins->cached.request : &twins->plain.request;
        request->scale_given = request->softcap_given = true;
        request->scale = -0.6;
        request->softcap = 1.5;
    }
}

static void alibi(struct twins *twins) {
    twins->plain.request.alibi = twins->cached.request.alibi = true;
}

static void sinks(struct twins *twins) {
    for (size_t h = 0; h < 8; h++)
        twins->options.sinks[h] = h % 3 == 0 ? -INFINITY : (double)h - 2;
    twins->plain.request.sink = twins->cached.request.sink =
        (struct attn_real_list){twins->options.sinks, twins->plain.sizes.Hq};
}

static void bias(struct twins *twins) {
    const struct run_sizes *n = &twins->plain.sizes;
    const size_t count = n->Hq * n->Tq * n->Tk;
    struct random random = random_seeded(5);
    twins->options.bias = malloc(count * sizeof(float));
    for (size_t e = 0; e < count; e++)
        twins->options.bias[e] = e % 11 == 3 ? -INFINITY : (float)random_unit(&random);
    twins->plain.request.bias = twins->cached.request.bias = attn_tensor_view(
        twins->options.bias, ATTN_FLOAT32, 3, (const size_t[]){n->Hq, n->Tq, n->Tk});
}

static void additive(struct twins *twins) {
    static const double w[64] = {0.5, -1, 0.25, 2, 0.125, -0.5, 1, 1};
    twins->plain.request.score = twins->cached.request.score = ATTN_SCORE_ADDITIVE;
    twins->plain.request.w = twins->cached.request.w =
        attn_tensor_view(w, ATTN_FLOAT64, 1, &twins->plain.sizes.D);
}

/* A window of the call's own, beside what the session shows. */
static void own_window(struct twins *twins) {
    static const int64_t first = 1;
    const struct attn_mask_node nodes[] = {
        {.kind = ATTN_MASK_WINDOW, .left = 40, .right = 3, .pointer = "/mask"},
        {.kind = ATTN_MASK_DILATED, .width = 900, .stride = 3, .pointer = "/mask"},
        {.kind = ATTN_MASK_PREFIX, .lengths = {&first, 1}, .pointer = "/mask"},
        JOIN(ANY, 3)};
    memcpy(twins->options.nodes[0], nodes, sizeof nodes);
    memcpy(twins->options.nodes[1], nodes, sizeof nodes);
    twins->plain.request.mask = (struct attn_mask){twins->options.nodes[0], 4};
    twins->cached.request.mask = (struct attn_mask){twins->options.nodes[1], 4};
}

static void rope(struct twins *twins) {
    twins->options.rope = (struct attn_rope_request){.given = true};
}

static void partial_rope(struct twins *twins) {
    static const double frequencies[] = {0.7, 0.01};
    twins->options.rope = (struct attn_rope_request){.given = true,
                                                     .dims_given = true,
                                                     .dims = 4,
                                                     .inv_freq = {frequencies, 2},
                                                     .interleaved = true};
}

static void all_at_once(struct twins *twins) {
    scale_and_cap(twins);
    alibi(twins);
    sinks(twins);
    bias(twins);
    own_window(twins);
    partial_rope(twins);
}

static void (*const OPTIONS[])(struct twins *) = {no_option,  all_keys, scale_and_cap, alibi,
                                                  sinks,      bias,     additive,      rope,
                                                  own_window, rope,     partial_rope,  all_at_once};

/* The plain call's mask: its own and causal. */
static void add_causal(struct run *run, struct attn_mask_node *nodes, const struct options *options,
                       const int64_t *position) {
    const size_t own = run->request.mask.count;
    run->request.q_offset = (struct attn_int_list){position, 1};
    if (options->all)
        return;
    for (size_t i = 0; i < own; i++)
        nodes[i] = run->request.mask.nodes[i];
    nodes[own] = (struct attn_mask_node)CAUSAL(NONE);
    nodes[own + 1] = (struct attn_mask_node)JOIN(ALL, 2);
    run->request.mask = (struct attn_mask){nodes, own > 0 ? own + 2 : 1};
}

struct law {
    size_t kernel;
    size_t option;
    enum attn_dtype dtype;
    struct run_sizes sizes;
    size_t step; /* rows of an append before the last one, of Tq */
};

static void open_run(struct run *run, const struct law *law) {
    run_open(run, law->dtype, RUN_BHTD, law->sizes);
    run->request.preferred_kernel = kernel_name(law->kernel);
    run->request.returns = RUN_EVERYTHING | ATTN_RETURN_STATS | ATTN_RETURN_COL_SUMS;
}

static bool is_decode(const struct run *run) {
    return strncmp(run->plan.kernel->name, "decode", 6) == 0;
}

/* Decode adds a score's products up in another order where keys lie in panels, and turned keys are
 * kept in the cache's own type. */
static void compare(const struct twins *twins, const struct law *law) {
    const bool halves = law->dtype == ATTN_FLOAT16 || law->dtype == ATTN_BFLOAT16;
    const bool narrow = attn_kernel_real_size(twins->plain.plan.kernel, &twins->plain.call) >
                        attn_dtype_size(law->dtype);
    const bool rounded = narrow && twins->options.rope.given;
    if (!rounded && !is_decode(&twins->plain)) {
        run_expect_same_bits(&twins->cached, &twins->plain, 0);
        return;
    }
    const double tolerance = !halves ? 1e-5 : law->dtype == ATTN_FLOAT16 ? 4e-3 : 4e-2;
    for (unsigned name = 0; name < ATTN_RESULT_COUNT; name++)
        for (size_t n = 0; n < run_count(&twins->plain, name) && name != ATTN_RESULT_STATS; n++)
            ck_assert(run_is_close(run_at(&twins->cached, name, n), run_at(&twins->plain, name, n),
                                   tolerance));
}

static void expect_law(struct law law) {
    struct twins twins = {0};
    struct attn_mask_node nodes[8];
    const int64_t position = (int64_t)(law.sizes.Tk - law.sizes.Tq);
    struct attn_kv_pool *pool = pool_of(ROOMY);
    open_run(&twins.plain, &law);
    open_run(&twins.cached, &law);
    OPTIONS[law.option](&twins);
    struct attn_kv_spec spec = spec_of(&law.sizes, law.dtype);
    spec.rope = twins.plain.request.rope = twins.options.rope;
    add_causal(&twins.plain, nodes, &twins.options, &position);
    twins.cached.request.kv_all = twins.options.all;
    run_all(&twins.plain);
    struct attn_kv_cache *cache = cache_of(pool, &spec);
    for (size_t at = 0, n; at < (size_t)position; at += n) {
        n = attn_min_size(law.step, (size_t)position - at);
        append_rows(cache, 0, &twins.plain, at, n);
    }
    const struct attn_kv_rows rows = rows_of(&twins.plain, (size_t)position, law.sizes.Tq);
    struct attn_kv_append *append = begin_append(cache, 0, &rows);
    struct attn_kv_view view = view_of(cache, 0, append, ATTN_KV_NEXT);
    run_over(&twins.cached, &view);
    compare(&twins, &law);
    attn_kv_view_close(&view);
    attn_kv_append_commit(append);
    ck_assert_uint_eq(attn_kv_length(cache, 0), law.sizes.Tk);
    attn_kv_cache_free(&cache);
    run_close(&twins.plain);
    run_close(&twins.cached);
    free(twins.options.bias);
    pool_close(pool);
}

static struct run_sizes sized(size_t group, size_t Tq, size_t Tk, size_t D, size_t Dv) {
    return (struct run_sizes){
        .B = 1, .Hq = 2 * group, .Hkv = 2, .Tq = Tq, .Tk = Tk, .D = D, .Dv = Dv};
}

/* Around panels, pages and blocks of keys. */
START_TEST(every_border) {
    static const size_t lengths[] = {1,   2,   15,  16,  17,  63,  64,  65,  127, 128,
                                     129, 191, 255, 256, 257, 320, 511, 513, 700};
    static const size_t steps[] = {1, 7, 16, 64, 100, 1000};
    for (size_t n = 0; n < COUNT_OF(lengths); n++) {
        const size_t Tq = attn_min_size(1 + n % 3, lengths[n]);
        const size_t step = steps[n % COUNT_OF(steps)];
        expect_law((struct law){(size_t)_i, 0, ATTN_FLOAT32, sized(1, Tq, lengths[n], 8, 5), step});
        expect_law((struct law){(size_t)_i, COUNT_OF(OPTIONS) - 1, ATTN_FLOAT32,
                                sized(2, Tq, lengths[n], 10, 16), step});
    }
}
END_TEST

START_TEST(every_option_and_dtype) {
    static const enum attn_dtype dtypes[] = {ATTN_FLOAT32, ATTN_FLOAT16, ATTN_BFLOAT16,
                                             ATTN_FLOAT64};
    for (size_t option = 0; option < COUNT_OF(OPTIONS); option++) {
        for (size_t n = 0; n < COUNT_OF(dtypes); n++)
            expect_law((struct law){(size_t)_i, option, dtypes[n], sized(2, 2, 330, 24, 40), 90});
        expect_law(
            (struct law){(size_t)_i, option, dtypes[option % 4], sized(3, 40, 300, 6, 3), 130});
    }
}
END_TEST

/* Heads of every height of strips, and heads so wide that blocks have fewer keys. */
START_TEST(every_width_and_group) {
    static const size_t groups[] = {1, 2, 3, 4, 7, 8, 16}, widths[] = {1, 16, 33, 64, 128, 200};
    for (size_t g = 0; g < COUNT_OF(groups); g++)
        for (size_t w = 0; w < COUNT_OF(widths); w++)
            expect_law((struct law){
                (size_t)_i, 0, w % 2 ? ATTN_FLOAT16 : ATTN_FLOAT32,
                sized(groups[g], 1, 150 + 30 * g, widths[w], widths[COUNT_OF(widths) - 1 - w]),
                90});
}
END_TEST

static Suite *kv_calls_suite(void) {
    Suite *suite = suite_create("kv calls");
    TCase *cases = tcase_create("as plain calls");
    tcase_set_timeout(cases, 120);
    tcase_add_loop_test(cases, every_border, 0, kernel_count());
    tcase_add_loop_test(cases, every_option_and_dtype, 0, kernel_count());
    tcase_add_loop_test(cases, every_width_and_group, 0, kernel_count());
    suite_add_tcase(suite, cases);
    return suite;
}

ATTN_TEST_MAIN(kv_calls_suite)
