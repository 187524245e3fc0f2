/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What core/kernels/kernel.h promises of every kernel beside being close to the formula: values
 * that are not finite reach what they must and nothing else, memory is never read before it is
 * written, a task that is cancelled ends, hidden tiles cost nothing, and the map is what the
 * output was made of.
 */
#include "tests/unit/core/executor_cases.h"

/*
 * Two tiles of keys in every kernel's grid and a part of one, and more score rows than a task has.
 * Once with six heads that share a key/value head, and once with a head of its own, for which
 * kernels cut what is partly hidden more finely.
 */
static struct run_sizes sizes;
static size_t chunk_keys;

static void six_heads(void) {
    chunk_keys = 0;
    sizes = (struct run_sizes){.B = 1, .Hq = 6, .Hkv = 1, .Tq = 50, .Tk = 300, .D = 8, .Dv = 5};
}

static void one_head(void) {
    chunk_keys = 0;
    sizes = (struct run_sizes){.B = 1, .Hq = 1, .Hkv = 1, .Tq = 300, .Tk = 300, .D = 8, .Dv = 5};
}

/* The latter again with the keys of the first tile apart. */
static void in_chunks(void) {
    one_head();
    chunk_keys = 256;
}

static struct run run, clean;
static unsigned char allowed[300 * 300];

static void with_causal_mask(struct attn_mask_node *node) {
    *node = (struct attn_mask_node)CAUSAL(BOTTOM_RIGHT);
}

static void with_window_mask(struct attn_mask_node *node) {
    *node = (struct attn_mask_node){
        .kind = ATTN_MASK_WINDOW, .left = 260, .right = 30, .pointer = "/mask"};
}

static void with_padding_mask(struct attn_mask_node *node) {
    static const int64_t length = 170;
    *node = (struct attn_mask_node){
        .kind = ATTN_MASK_PADDING, .kv_lengths = {&length, 1}, .pointer = "/mask"};
}

/* Every head and row its own; every ninth row nothing. */
static void with_scattered_mask(struct attn_mask_node *node) {
    for (size_t e = 0; e < sizeof allowed; e++)
        allowed[e] = e / 300 % 9 != 0 && (e + e / 300) % 4 == 0;
    *node = (struct attn_mask_node){
        .kind = ATTN_MASK_ALLOW,
        .tensor = attn_tensor_view(allowed, ATTN_BOOL, 4,
                                   (const size_t[]){1, sizes.Hq, sizes.Tq, sizes.Tk}),
        .pointer = "/mask"};
}

static void (*const MASKS[])(struct attn_mask_node *node) = {
    with_causal_mask, with_window_mask, with_padding_mask, with_scattered_mask};

enum { MASK_COUNT = sizeof MASKS / sizeof *MASKS };

static void open_sized(struct run *opened, size_t kernel, struct run_sizes chosen) {
    static const int64_t offset = 0;
    run_open(opened, ATTN_FLOAT32, RUN_BHTD, chosen);
    opened->chunk_keys = chunk_keys;
    opened->request.preferred_kernel = kernel_name(kernel);
    opened->request.returns = RUN_EVERYTHING;
    opened->request.q_offset = (struct attn_int_list){&offset, 1};
}

static void open_masked(struct run *opened, struct attn_mask_node *node, size_t kernel,
                        size_t which) {
    open_sized(opened, kernel, sizes);
    MASKS[which](node);
    opened->request.mask = (struct attn_mask){node, 1};
    if (node->align != ATTN_ALIGN_NONE)
        opened->request.q_offset = (struct attn_int_list){NULL, 0};
}

/* Both the runs that a test spoils and compares, not yet run. */
static void open_both(size_t kernel, size_t which) {
    static struct attn_mask_node nodes[2];
    open_masked(&clean, &nodes[0], kernel, which);
    open_masked(&run, &nodes[1], kernel, which);
}

static void close_both(void) {
    run_close(&run);
    run_close(&clean);
}

static float *operand(struct run *opened, size_t which) {
    return opened->operands[which];
}

static float answer(const struct run *of, enum attn_result_name name, size_t index) {
    return ((const float *)of->result.tensors[name].data)[index];
}

static bool same_bits(enum attn_result_name name, size_t from, size_t n) {
    return n == 0 ||
           memcmp((float *)run.result.tensors[name].data + from,
                  (float *)clean.result.tensors[name].data + from, n * sizeof(float)) == 0;
}

static void expect_same_bits(void) {
    run_expect_same_bits(&run, &clean, 0);
}

/* Rows of [Hq,Tq], and whether one sees key j. */
enum { ROWS = 300 }; /* of either size: Hq * Tq */

static bool sees(size_t row, size_t j) {
    return answer(&clean, ATTN_RESULT_SCORES, row * sizes.Tk + j) != -INFINITY;
}

/* Keys in the first, a middle and the last tile; seen by many rows, by some and by none. */
static const size_t KEYS[] = {0, 31, 169, 170, 256, 299};
static const float NON_FINITE[] = {NAN, INFINITY, -INFINITY};

/* One element of V: it reaches one column of the rows that see it, and no other bit anywhere. */
static void expect_value_reaches(size_t j, size_t column, float value) {
    for (size_t row = 0; row < ROWS; row++)
        for (size_t d = 0; d < sizes.Dv; d++) {
            const size_t at = row * sizes.Dv + d;
            const float got = answer(&run, ATTN_RESULT_OUTPUT, at);
            const bool reached = d == column && sees(row, j);
            if (reached ? !(isnan(value) ? isnan(got) : got == value)
                        : !same_bits(ATTN_RESULT_OUTPUT, at, 1))
                ck_abort_msg("V[%zu,%zu] = %g: row %zu column %zu is %g", j, column, (double)value,
                             row, d, (double)got);
        }
    for (unsigned name = ATTN_RESULT_WEIGHTS; name < ATTN_RESULT_COUNT; name++)
        ck_assert(same_bits((enum attn_result_name)name, 0, run_count(&run, name)));
}

START_TEST(values_reach_exactly_what_sees_them) {
    open_both((size_t)_i / MASK_COUNT, (size_t)_i % MASK_COUNT);
    run_all(&clean);
    for (size_t n = 0; n < COUNT_OF(KEYS); n++) {
        float *element = operand(&run, 2) + KEYS[n] * sizes.Dv + n % sizes.Dv;
        const float before = *element;
        *element = NON_FINITE[n % 3];
        run_all(&run);
        expect_value_reaches(KEYS[n], n % sizes.Dv, *element);
        *element = before;
        run_reset(&run);
    }
    close_both();
}
END_TEST

/* A key of NaN: rows that see it are NaN wherever they are not hidden; others keep their bits. */
static void expect_key_reaches(size_t j) {
    for (size_t row = 0; row < ROWS; row++) {
        const bool spoiled = sees(row, j);
        if (!spoiled && !(same_bits(ATTN_RESULT_OUTPUT, row * sizes.Dv, sizes.Dv) &&
                          same_bits(ATTN_RESULT_WEIGHTS, row * sizes.Tk, sizes.Tk) &&
                          same_bits(ATTN_RESULT_SCORES, row * sizes.Tk, sizes.Tk) &&
                          same_bits(ATTN_RESULT_LSE, row, 1)))
            ck_abort_msg("K[%zu] changes row %zu, which does not see it", j, row);
        for (size_t d = 0; d < sizes.Dv && spoiled; d++)
            ck_assert(isnan(answer(&run, ATTN_RESULT_OUTPUT, row * sizes.Dv + d)));
        for (size_t key = 0; key < sizes.Tk && spoiled; key++) {
            const float weight = answer(&run, ATTN_RESULT_WEIGHTS, row * sizes.Tk + key);
            ck_assert(sees(row, key) ? isnan(weight) : weight == 0);
        }
        ck_assert(!spoiled || isnan(answer(&run, ATTN_RESULT_LSE, row)));
    }
}

START_TEST(a_nan_score_spoils_exactly_its_row) {
    open_both((size_t)_i / MASK_COUNT, (size_t)_i % MASK_COUNT);
    run_all(&clean);
    for (size_t n = 0; n < COUNT_OF(KEYS); n++) {
        float *element = operand(&run, 1) + KEYS[n] * sizes.D + n % sizes.D;
        const float before = *element;
        *element = NAN;
        run_all(&run);
        expect_key_reaches(KEYS[n]);
        *element = before;
        run_reset(&run);
    }
    close_both();
}
END_TEST

/* +inf spoils as NaN does; -inf hides: its weight is 0 and the row stays finite. */
START_TEST(an_infinite_score_spoils_or_hides) {
    static const size_t j = 257;
    open_both((size_t)_i / MASK_COUNT, (size_t)_i % MASK_COUNT);
    run_all(&clean);
    operand(&run, 1)[j * sizes.D + 3] = INFINITY;
    run_all(&run);
    for (size_t row = 0; row < ROWS; row++) {
        const float score = answer(&run, ATTN_RESULT_SCORES, row * sizes.Tk + j);
        const float weight = answer(&run, ATTN_RESULT_WEIGHTS, row * sizes.Tk + j);
        const float lse = answer(&run, ATTN_RESULT_LSE, row);
        for (size_t d = 0; d < sizes.Dv; d++) {
            const float got = answer(&run, ATTN_RESULT_OUTPUT, row * sizes.Dv + d);
            ck_assert(score == INFINITY ? isnan(got) : isfinite(got) != 0);
        }
        if (score == INFINITY)
            ck_assert(sees(row, j) && isnan(weight) && isnan(lse));
        else
            ck_assert(!isnan(lse) && (score != -INFINITY || weight == 0));
    }
    close_both();
}
END_TEST

/* All of a hidden key and value, in every place that no row sees. */
START_TEST(what_nobody_sees_changes_nothing) {
    open_both((size_t)_i / 3, 2);
    run_all(&clean);
    for (size_t e = 170 * sizes.D; e < 300 * sizes.D; e++)
        operand(&run, 1)[e] = NON_FINITE[(e + (size_t)_i) % 3];
    for (size_t e = 170 * sizes.Dv; e < 300 * sizes.Dv; e++)
        operand(&run, 2)[e] = NON_FINITE[(e + (size_t)_i) % 3];
    run_all(&run);
    expect_same_bits();
    ck_assert(!atomic_load(&run.result.non_finite));
    close_both();
}
END_TEST

START_TEST(rows_that_see_nothing_are_zeros) {
    static struct attn_mask_node nothing;
    static const int64_t length = 0;
    nothing = (struct attn_mask_node){
        .kind = ATTN_MASK_PADDING, .kv_lengths = {&length, 1}, .pointer = "/mask"};
    open_sized(&run, (size_t)_i, sizes);
    run.request.mask = (struct attn_mask){&nothing, 1};
    run_all(&run);
    for (size_t n = 0; n < run_count(&run, ATTN_RESULT_OUTPUT); n++)
        ck_assert(answer(&run, ATTN_RESULT_OUTPUT, n) == 0 &&
                  !signbit(answer(&run, ATTN_RESULT_OUTPUT, n)));
    for (size_t n = 0; n < run_count(&run, ATTN_RESULT_WEIGHTS); n++)
        ck_assert(answer(&run, ATTN_RESULT_WEIGHTS, n) == 0);
    ck_assert_uint_eq(atomic_load(&run.result.empty_rows), ROWS);
    run_close(&run);
}
END_TEST

/* Runs every task with the answer and the workspace full of one byte. */
static void run_filled(struct run *filled, int byte) {
    run_plan(filled);
    void *workspace = NULL;
    const size_t bytes = filled->plan.workspace_bytes;
    ck_assert_int_eq(posix_memalign(&workspace, 64, bytes), 0);
    for (size_t name = 0; name < ATTN_RESULT_COUNT; name++)
        if (filled->result.tensors[name].bytes > 0)
            memset(filled->result.tensors[name].data, byte, filled->result.tensors[name].bytes);
    struct attn_heads *heads = run_heads(filled, 1);
    for (size_t index = 0; index < filled->plan.tasks; index++) {
        memset(workspace, byte, bytes);
        attn_execute_task(&filled->call, &filled->plan, &filled->result, heads, index, workspace,
                          NULL);
    }
    run_heads_close(heads);
    free(workspace);
}

/* A product that scales what it finds by 0 keeps NaN. 0xff is NaN in every type. */
START_TEST(memory_is_written_before_it_is_read) {
    open_both((size_t)_i / MASK_COUNT, (size_t)_i % MASK_COUNT);
    run_filled(&clean, 0);
    run_filled(&run, 0xff);
    expect_same_bits();
    close_both();
}
END_TEST

START_TEST(a_cancelled_task_computes_nothing) {
    static const atomic_bool cancelled = true;
    const struct attn_checkpoint checkpoint = {.cancelled = &cancelled};
    open_sized(&run, (size_t)_i, sizes);
    run_plan(&run);
    void *workspace = NULL;
    ck_assert_int_eq(posix_memalign(&workspace, 64, run.plan.workspace_bytes), 0);
    struct attn_heads *heads = run_heads(&run, 1);
    for (size_t index = 0; index < run.plan.tasks; index++)
        attn_execute_task(&run.call, &run.plan, &run.result, heads, index, workspace, &checkpoint);
    run_heads_close(heads);
    ck_assert_uint_eq(atomic_load(&run.result.scores_computed), 0);
    for (size_t name = 0; name < ATTN_RESULT_COUNT; name++)
        for (size_t byte = 0; byte < run.result.tensors[name].bytes; byte++)
            if (((unsigned char *)run.result.tensors[name].data)[byte] != RUN_UNTOUCHED)
                ck_abort_msg("byte %zu of tensor %zu was written", byte, name);
    free(workspace);
    run_close(&run);
}
END_TEST

/* Masks that hide nothing are no masks, to the bit. */
START_TEST(what_hides_nothing_changes_no_bit) {
    static const int64_t length = 300;
    struct attn_mask_node nodes[] = {
        {.kind = ATTN_MASK_WINDOW, .left = 300, .right = 300, .pointer = "/mask"},
        {.kind = ATTN_MASK_PADDING, .kv_lengths = {&length, 1}, .pointer = "/mask"},
        {.kind = ATTN_MASK_ALLOW,
         .tensor = attn_tensor_view(allowed, ATTN_BOOL, 4,
                                    (const size_t[]){1, sizes.Hq, sizes.Tq, sizes.Tk}),
         .pointer = "/mask"}};
    memset(allowed, 1, sizeof allowed);
    open_sized(&clean, (size_t)_i, sizes);
    run_all(&clean);
    for (size_t n = 0; n < COUNT_OF(nodes); n++) {
        open_sized(&run, (size_t)_i, sizes);
        run.request.mask = (struct attn_mask){&nodes[n], 1};
        run_all(&run);
        expect_same_bits();
        run_close(&run);
    }
    run_close(&clean);
}
END_TEST

/*
 * The output's weight of a key is exp(s - m'), m' the maximum so far, times exp(m' - m) for later
 * tiles; the map's is exp(s - m) at once. Exponentials are good to 2e-7, and rounding a difference
 * x in front of one costs |x| 2^-24 on either side. Below 2^-126 either may be 0.
 */
static bool is_same_weight(double got, double weight) {
    return fabs(got - weight) <=
           0x1p-125 + (weight == 0 ? 0 : weight * (8e-7 + 0x1p-23 * fabs(log(weight))));
}

/*
 * V of ones at (j, j) makes the output the map. Scores reach 60, where one ulp is 4e-6, so that a
 * map from products that round otherwise would show in a row's sum.
 */
START_TEST(the_map_is_what_the_output_was_made_of) {
    struct run_sizes square = sizes;
    static struct attn_mask_node node;
    square.Dv = square.Tk;
    square.D = 59;
    open_masked(&run, &node, (size_t)_i / MASK_COUNT, (size_t)_i % MASK_COUNT);
    run_close(&run);
    const struct attn_request request = run.request;
    open_sized(&run, (size_t)_i / MASK_COUNT, square);
    run.request.mask = request.mask;
    run.request.q_offset = request.q_offset;
    run.request.scale_given = true;
    run.request.scale = 6;
    for (size_t e = 0; e < square.Hkv * square.Tk * square.Dv; e++)
        operand(&run, 2)[e] = e / square.Dv % square.Tk == e % square.Dv;
    run_all(&run);
    for (size_t row = 0; row < ROWS; row++) {
        double sum = 0;
        for (size_t j = 0; j < square.Tk; j++) {
            const double weight = (double)answer(&run, ATTN_RESULT_WEIGHTS, row * square.Tk + j);
            const double got = (double)answer(&run, ATTN_RESULT_OUTPUT, row * square.Tk + j);
            if (!is_same_weight(got, weight))
                ck_abort_msg("row %zu key %zu weighs %.9g, the output used %.9g", row, j, weight,
                             got);
            sum += weight;
        }
        const bool empty = answer(&run, ATTN_RESULT_LSE, row) == -INFINITY;
        ck_assert_msg(empty ? sum == 0 : fabs(sum - 1) <= 8e-7, "row %zu sums to %.9g", row, sum);
    }
    run_close(&run);
}
END_TEST

/* Every promise at one of the sizes. */
static void add_promises(Suite *suite, const char *name, void (*choose_sizes)(void)) {
    const int kernels = kernel_count();
    TCase *promises = tcase_create(name);
    tcase_set_timeout(promises, 120);
    tcase_add_checked_fixture(promises, choose_sizes, NULL);
    tcase_add_loop_test(promises, values_reach_exactly_what_sees_them, 0, kernels * MASK_COUNT);
    tcase_add_loop_test(promises, a_nan_score_spoils_exactly_its_row, 0, kernels * MASK_COUNT);
    tcase_add_loop_test(promises, an_infinite_score_spoils_or_hides, 0, kernels * MASK_COUNT);
    tcase_add_loop_test(promises, what_nobody_sees_changes_nothing, 0, kernels * 3);
    tcase_add_loop_test(promises, rows_that_see_nothing_are_zeros, 0, kernels);
    tcase_add_loop_test(promises, memory_is_written_before_it_is_read, 0, kernels * MASK_COUNT);
    tcase_add_loop_test(promises, a_cancelled_task_computes_nothing, 0, kernels);
    tcase_add_loop_test(promises, what_hides_nothing_changes_no_bit, 0, kernels);
    tcase_add_loop_test(promises, the_map_is_what_the_output_was_made_of, 0, kernels * MASK_COUNT);
    suite_add_tcase(suite, promises);
}

static Suite *kernels_contract_suite(void) {
    Suite *suite = suite_create("kernels_contract");
    attn_start(); /* one thread in OpenBLAS, as in a process that serves */
    add_promises(suite, "six heads share a key/value head", six_heads);
    add_promises(suite, "one head", one_head);
    add_promises(suite, "one head, keys in chunks", in_chunks);
    return suite;
}

ATTN_TEST_MAIN(kernels_contract_suite)
