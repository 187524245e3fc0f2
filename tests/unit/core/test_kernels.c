/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every kernel that this machine can run against the reference: sizes at and around the borders of
 * vectors, BLAS blocks and tiles, every float type as operand and as bias, every layout, and a
 * table of options. What a kernel must do beside being close is in test_kernels_contract.c.
 */
#include "core/convert.h"
#include "tests/unit/core/executor_cases.h"

/* A call in two kernels, and the memory its options stand in. */
struct pair {
    struct run run, reference;
    struct attn_mask_node nodes[2][4]; /* one program each: validation writes into it */
    int64_t lengths[2];
    double per_head[28];
    void *bias;
    unsigned char *allowed;
    int64_t *ids;
};

static void free_pair(struct pair *pair) {
    run_close(&pair->run);
    run_close(&pair->reference);
    free(pair->bias);
    free(pair->allowed);
    free(pair->ids);
}

static void set_nodes(struct pair *pair, const struct attn_mask_node *nodes, size_t count) {
    memcpy(pair->nodes[0], nodes, count * sizeof *nodes);
    memcpy(pair->nodes[1], nodes, count * sizeof *nodes);
    pair->run.request.mask = (struct attn_mask){pair->nodes[0], count};
    pair->reference.request.mask = (struct attn_mask){pair->nodes[1], count};
}

static void set_bias(struct pair *pair, enum attn_dtype dtype, const size_t shape[4]) {
    const size_t n = shape[0] * shape[1] * shape[2] * shape[3];
    struct random random = random_seeded(n + 7);
    pair->bias = malloc(n * attn_dtype_size(dtype) + 1);
    for (size_t e = 0; e < n; e++) {
        const double value = e % 13 == 5 ? -INFINITY : 4 * random_unit(&random) - 2;
        attn_store_double(dtype, (char *)pair->bias + e * attn_dtype_size(dtype), 1, 1, &value);
    }
    pair->run.request.bias = pair->reference.request.bias =
        attn_tensor_view(pair->bias, dtype, 4, shape);
}

static void with_scale(struct pair *pair) {
    pair->run.request.scale_given = pair->reference.request.scale_given = true;
    pair->run.request.scale = pair->reference.request.scale = -0.37;
}

static void with_softcap(struct pair *pair) {
    pair->run.request.softcap_given = pair->reference.request.softcap_given = true;
    pair->run.request.softcap = pair->reference.request.softcap = 0.8;
}

/* Beyond float on either side: no cap at all, and scores that are all 0. */
static void with_huge_softcap(struct pair *pair) {
    with_softcap(pair);
    pair->run.request.softcap = pair->reference.request.softcap = 1e200;
}

static void with_tiny_softcap(struct pair *pair) {
    with_softcap(pair);
    pair->run.request.softcap = pair->reference.request.softcap = 1e-200;
}

static void with_causal_rows(struct pair *pair) {
    set_nodes(pair, &(struct attn_mask_node)CAUSAL(BOTTOM_RIGHT), 1);
}

/* Rows see a few keys behind their diagonal. */
static void with_window(struct pair *pair) {
    static const int64_t offset = 3;
    const struct attn_mask_node nodes[] = {
        CAUSAL(NONE),
        {.kind = ATTN_MASK_WINDOW, .left = 2, .right = 5, .pointer = "/mask"},
        JOIN(ANY, 2)};
    pair->run.request.q_offset = pair->reference.request.q_offset =
        (struct attn_int_list){&offset, 1};
    set_nodes(pair, nodes, 3);
}

static void with_padding(struct pair *pair) {
    pair->lengths[0] = (int64_t)(pair->run.sizes.Tk * 2 / 3);
    pair->lengths[1] = (int64_t)pair->run.sizes.Tk;
    set_nodes(pair,
              &(struct attn_mask_node){.kind = ATTN_MASK_PADDING,
                                       .kv_lengths = {pair->lengths, pair->run.sizes.B},
                                       .pointer = "/mask"},
              1);
}

/* Documents of 5 keys; the rows are shared out among them. */
static void with_segments(struct pair *pair) {
    const struct run_sizes *n = &pair->run.sizes;
    pair->ids = malloc((n->Tq + n->Tk + 1) * sizeof *pair->ids);
    for (size_t t = 0; t < n->Tq + n->Tk; t++)
        pair->ids[t] = (int64_t)(t < n->Tq ? t * n->Tk / n->Tq / 5 : (t - n->Tq) / 5);
    set_nodes(
        pair,
        &(struct attn_mask_node){.kind = ATTN_MASK_SEGMENTS,
                                 .tensor = attn_tensor_view(pair->ids, ATTN_INT64, 1, &n->Tq),
                                 .kv = attn_tensor_view(pair->ids + n->Tq, ATTN_INT64, 1, &n->Tk),
                                 .pointer = "/mask"},
        1);
}

/* Every head its own: one key in three, and the first head nothing at all. */
static void with_a_mask_per_head(struct pair *pair) {
    const struct run_sizes *n = &pair->run.sizes;
    const size_t shape[4] = {1, n->Hq, n->Tq, n->Tk};
    const size_t plane = n->Tq * n->Tk;
    pair->allowed = malloc(n->Hq * plane + 1);
    for (size_t e = 0; e < n->Hq * plane; e++)
        pair->allowed[e] = e / plane > 0 && (e + e / plane) % 3 == 0;
    set_nodes(
        pair,
        &(struct attn_mask_node){.kind = ATTN_MASK_ALLOW,
                                 .tensor = attn_tensor_view(pair->allowed, ATTN_BOOL, 4, shape),
                                 .pointer = "/mask"},
        1);
}

static void with_full_bias(struct pair *pair) {
    const struct run_sizes *n = &pair->run.sizes;
    set_bias(pair, ATTN_FLOAT32, (const size_t[]){n->B, n->Hq, n->Tq, n->Tk});
}

static void with_bias_per_key(struct pair *pair) {
    const struct run_sizes *n = &pair->run.sizes;
    set_bias(pair, ATTN_FLOAT16, (const size_t[]){n->B, 1, 1, n->Tk});
}

static void with_bias_per_row(struct pair *pair) {
    const struct run_sizes *n = &pair->run.sizes;
    set_bias(pair, ATTN_BFLOAT16, (const size_t[]){1, n->Hq, n->Tq, 1});
}

static void with_bias_per_head(struct pair *pair) {
    set_bias(pair, ATTN_FLOAT64, (const size_t[]){1, pair->run.sizes.Hq, 1, 1});
}

static void with_plane_of_bias(struct pair *pair) {
    const struct run_sizes *n = &pair->run.sizes;
    set_bias(pair, ATTN_FLOAT64, (const size_t[]){1, 1, n->Tq, n->Tk});
}

static void with_slopes(struct pair *pair) {
    static const int64_t offset = -2;
    pair->run.request.alibi = pair->reference.request.alibi = true;
    pair->run.request.q_offset = pair->reference.request.q_offset =
        (struct attn_int_list){&offset, 1};
}

static void with_a_sink(struct pair *pair) {
    for (size_t h = 0; h < pair->run.sizes.Hq; h++)
        pair->per_head[h] = h % 3 == 0 ? -INFINITY : (double)h - 2;
    pair->run.request.sink = pair->reference.request.sink =
        (struct attn_real_list){pair->per_head, pair->run.sizes.Hq};
}

static void set_rope(struct pair *pair, struct attn_rope_request rope) {
    const size_t D = pair->run.sizes.D;
    rope.given = D >= 2;
    rope.dims_given = rope.dims_given || D % 2 != 0;
    if (rope.dims == 0)
        rope.dims = (int64_t)(D / 2 * 2);
    pair->run.request.rope = pair->reference.request.rope = rope;
}

static void with_rope_far_away(struct pair *pair) {
    static const int64_t offset = 1000000;
    set_rope(pair, (struct attn_rope_request){
                       .theta_given = true, .theta = 5e5, .q_offset = {&offset, 1}});
}

/* Not all dimensions, neighbours in pairs, and every batch item elsewhere. */
static void with_partial_rope(struct pair *pair) {
    static const int64_t offsets[] = {-40, 7};
    static const double frequency = 0.7;
    set_rope(pair, (struct attn_rope_request){.dims_given = true,
                                              .dims = 2,
                                              .inv_freq = {&frequency, 1},
                                              .interleaved = true,
                                              .q_offset = {offsets, pair->run.sizes.B},
                                              .k_offset = -3});
}

static void with_all_at_once(struct pair *pair) {
    with_scale(pair);
    with_softcap(pair);
    with_a_mask_per_head(pair);
    with_full_bias(pair);
    with_slopes(pair);
    with_a_sink(pair);
    set_rope(pair, (struct attn_rope_request){.interleaved = true});
}

static void with_no_option(struct pair *pair) {
    (void)pair;
}

static const struct {
    const char *name;
    void (*set)(struct pair *pair);
} OPTIONS[] = {
    {"none", with_no_option},
    {"scale", with_scale},
    {"softcap", with_softcap},
    {"softcap 1e200", with_huge_softcap},
    {"softcap 1e-200", with_tiny_softcap},
    {"causal", with_causal_rows},
    {"window", with_window},
    {"padding", with_padding},
    {"segments", with_segments},
    {"mask per head", with_a_mask_per_head},
    {"bias [B,Hq,Tq,Tk]", with_full_bias},
    {"bias [B,1,1,Tk]", with_bias_per_key},
    {"bias [1,Hq,Tq,1]", with_bias_per_row},
    {"bias [1,Hq,1,1]", with_bias_per_head},
    {"bias [1,1,Tq,Tk]", with_plane_of_bias},
    {"alibi", with_slopes},
    {"sink", with_a_sink},
    {"rope", with_rope_far_away},
    {"rope of two dimensions", with_partial_rope},
    {"all at once", with_all_at_once},
};

/*
 * Float: a score is a sum of at most 128 products of at most 1 under a scale of 1/sqrt(D), so that
 * its rounding errors, were they all one way, are 128 * 2^-24 = 7.6e-6 and in truth a tenth of it;
 * an exponential has a relative error of 2e-7; sums of weights add a few ulp. Double: the same
 * count of ulps, 2^29 times smaller.
 */
static double tolerance_of(const struct run *run) {
    return run->call.precision == ATTN_PRECISION_FLOAT64 ? 2e-14 : 4e-6;
}

static void compare(const struct pair *pair, enum attn_result_name name, const char *what) {
    const struct run_sizes *n = &pair->run.sizes;
    const double tolerance = tolerance_of(&pair->run);
    ck_assert_uint_eq(run_count(&pair->run, name), run_count(&pair->reference, name));
    for (size_t e = 0; e < run_count(&pair->run, name); e++) {
        const double got = run_at(&pair->run, name, e), want = run_at(&pair->reference, name, e);
        if (!run_is_close(got, want, tolerance))
            ck_abort_msg("%s, %s, Hq %zu Hkv %zu Tq %zu Tk %zu D %zu Dv %zu: %s[%zu] is %.17g, not "
                         "%.17g",
                         pair->run.plan.kernel->name, what, n->Hq, n->Hkv, n->Tq, n->Tk, n->D,
                         n->Dv, attn_result_tensor_name(name), e, got, want);
    }
}

/* How the operands are given. UNSET: as the dtype implies. */
struct given {
    enum attn_dtype dtype;
    enum attn_precision precision;
    enum run_form form;
    size_t chunk_keys;
};

static const struct given PLAIN = {ATTN_FLOAT32, ATTN_PRECISION_UNSET, RUN_BHTD, 0};

static void open_one(struct run *run, const char *kernel, struct given given,
                     struct run_sizes sizes) {
    run_open(run, given.dtype, given.form, sizes);
    run->chunk_keys = given.chunk_keys;
    run->request.preferred_kernel = kernel;
    run->request.returns = RUN_EVERYTHING;
    run->request.precision = given.precision;
    run->request.output_dtype_given = true;
    run->request.output_dtype = ATTN_FLOAT64; /* so that no rounding hides a difference */
}

static void expect_as_reference(size_t kernel, size_t option, struct given given,
                                struct run_sizes sizes) {
    struct pair pair = {.bias = NULL};
    open_one(&pair.run, kernel_name(kernel), given, sizes);
    open_one(&pair.reference, "reference", given, sizes);
    OPTIONS[option].set(&pair);
    run_all(&pair.run);
    run_all(&pair.reference);
    for (unsigned name = 0; name < ATTN_RESULT_COUNT; name++)
        compare(&pair, (enum attn_result_name)name, OPTIONS[option].name);
    ck_assert_uint_eq(atomic_load(&pair.run.result.empty_rows),
                      atomic_load(&pair.reference.result.empty_rows));
    ck_assert(!atomic_load(&pair.run.result.non_finite));
    free_pair(&pair);
}

/* Two batch items of two key/value heads. */
static struct run_sizes sized(size_t group, size_t Tq, size_t Tk, size_t D, size_t Dv) {
    return (struct run_sizes){
        .B = 2, .Hq = 2 * group, .Hkv = 2, .Tq = Tq, .Tk = Tk, .D = D, .Dv = Dv};
}

/* Every remainder of a vector and of a BLAS block, and tiles that are one short or one over. */
START_TEST(every_length_of_keys) {
    static const size_t long_ones[] = {97, 255, 256, 257, 300, 513};
    for (size_t n = 0; n < 70 + COUNT_OF(long_ones); n++) {
        const size_t Tk = n < 70 ? n + 1 : long_ones[n - 70];
        const size_t Tq = n < 70 ? 1 + Tk % 7 : 4;
        expect_as_reference((size_t)_i, 0, PLAIN, sized(2, Tq, Tk, 16, 5));
        expect_as_reference((size_t)_i, n % COUNT_OF(OPTIONS), PLAIN, sized(2, Tq, Tk, 16, 5));
        expect_as_reference((size_t)_i, COUNT_OF(OPTIONS) - 1, PLAIN, sized(2, Tq, Tk, 3, 8));
    }
}
END_TEST

/* Around the rows of a task for each group size; 256 score rows are one task of `blas`. */
START_TEST(every_number_of_rows) {
    static const size_t groups[] = {1, 2, 4, 7};
    for (size_t g = 0; g < COUNT_OF(groups); g++) {
        const size_t tile = 256 / groups[g];
        const size_t rows[] = {1, 2, 3, 15, 16, 17, tile - 1, tile, tile + 1, 2 * tile + 1};
        for (size_t n = 0; n < COUNT_OF(rows); n++) {
            struct run_sizes sizes = sized(groups[g], rows[n], 19, 8, 3);
            sizes.B = 1;
            expect_as_reference((size_t)_i, (n + g) % COUNT_OF(OPTIONS), PLAIN, sizes);
            expect_as_reference((size_t)_i, COUNT_OF(OPTIONS) - 1, PLAIN, sizes);
        }
    }
}
END_TEST

START_TEST(every_width_and_group) {
    static const size_t keys[] = {0, 1, 3, 16, 59, 64, 128}, values[] = {0, 1, 5, 64, 130};
    static const size_t groups[] = {1, 2, 4, 7};
    size_t option = 0;
    for (size_t d = 0; d < COUNT_OF(keys); d++)
        for (size_t v = 0; v < COUNT_OF(values); v++)
            for (size_t g = 0; g < COUNT_OF(groups); g++)
                expect_as_reference((size_t)_i, option++ % COUNT_OF(OPTIONS), PLAIN,
                                    sized(groups[g], 5, 23, keys[d], values[v]));
}
END_TEST

START_TEST(every_option_in_every_form) {
    static const struct given given[] = {
        {ATTN_FLOAT32, ATTN_PRECISION_UNSET, RUN_BHTD, 0},
        {ATTN_FLOAT32, ATTN_PRECISION_FLOAT64, RUN_BTHD, 0},
        {ATTN_FLOAT64, ATTN_PRECISION_UNSET, RUN_BHTD, 0},
        {ATTN_FLOAT64, ATTN_PRECISION_FLOAT32, RUN_SPLIT, 0},
        {ATTN_FLOAT64, ATTN_PRECISION_FLOAT64, RUN_SPLIT, 0},
        {ATTN_FLOAT16, ATTN_PRECISION_UNSET, RUN_BHTD, 0},
        {ATTN_FLOAT16, ATTN_PRECISION_FLOAT64, RUN_BTHD, 0},
        {ATTN_BFLOAT16, ATTN_PRECISION_UNSET, RUN_BTHD, 0},
        {ATTN_BFLOAT16, ATTN_PRECISION_UNSET, RUN_SPLIT, 0},
        {ATTN_FLOAT32, ATTN_PRECISION_UNSET, RUN_SPLIT, 0},
        {ATTN_FLOAT32, ATTN_PRECISION_UNSET, RUN_TURNED, 0},
    };
    const size_t kernel = (size_t)_i / COUNT_OF(OPTIONS), option = (size_t)_i % COUNT_OF(OPTIONS);
    for (size_t n = 0; n < COUNT_OF(given); n++) {
        expect_as_reference(kernel, option, given[n], sized(2, 13, 37, 24, 10));
        expect_as_reference(kernel, option, given[n], sized(4, 3, 270, 17, 9));
        struct given in_chunks = given[n];
        in_chunks.chunk_keys = 256;
        expect_as_reference(kernel, option, in_chunks, sized(4, 3, 270, 17, 9));
        expect_as_reference(kernel, option, in_chunks, sized(3, 1, 520, 40, 21));
    }
}
END_TEST

/* A task's rows and keys both cross tiles. */
START_TEST(every_option_over_many_tiles) {
    const size_t kernel = (size_t)_i / COUNT_OF(OPTIONS), option = (size_t)_i % COUNT_OF(OPTIONS);
    struct run_sizes sizes = sized(2, 101, 530, 8, 6);
    struct given in_chunks = PLAIN;
    in_chunks.chunk_keys = 256;
    sizes.B = 1;
    expect_as_reference(kernel, option, PLAIN, sizes);
    expect_as_reference(kernel, option, in_chunks, sizes);
}
END_TEST

/* The reference is last and is compared with the formula elsewhere. */
static Suite *kernels_suite(void) {
    Suite *suite = suite_create("kernels");
    attn_start(); /* one thread in OpenBLAS, as in a process that serves */
    const int kernels = kernel_count() - 1;
    const int options = (int)COUNT_OF(OPTIONS);
    TCase *sizes = tcase_create("sizes");
    tcase_set_timeout(sizes, 120);
    tcase_add_loop_test(sizes, every_length_of_keys, 0, kernels);
    tcase_add_loop_test(sizes, every_number_of_rows, 0, kernels);
    tcase_add_loop_test(sizes, every_width_and_group, 0, kernels);
    suite_add_tcase(suite, sizes);
    TCase *option = tcase_create("options");
    tcase_set_timeout(option, 120);
    tcase_add_loop_test(option, every_option_in_every_form, 0, kernels * options);
    tcase_add_loop_test(option, every_option_over_many_tiles, 0, kernels * options);
    suite_add_tcase(suite, option);
    return suite;
}

ATTN_TEST_MAIN(kernels_suite)
