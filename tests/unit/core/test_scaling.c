/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scaling experiment: the published numbers, as numpy gives them for seed 3, to what sums of
 * 512 terms of float64 in another order differ by; what holds for any numbers; what is refused.
 */
#include "core/scaling.h"
#include "tests/support/request_builder.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

static const struct attn_limits NO_LIMITS = {SIZE_MAX, INFINITY};

static struct attn_scaling accepted(const struct attn_scaling_request *request) {
    struct attn_scaling scaling;
    struct attn_error error = {.status = ATTN_OK};
    const enum attn_status status = attn_scaling_init(&scaling, request, &NO_LIMITS, &error);
    ck_assert_msg(status == ATTN_OK, "refused: %s (%s)", error.detail, error.pointer);
    return scaling;
}

/* The caller frees *memory, in which all of the result lies. */
static const struct attn_scaling_size *run(const struct attn_scaling *scaling, void **memory) {
    ck_assert_uint_eq(scaling->bytes % 64, 0);
    *memory = aligned_alloc(64, scaling->bytes);
    ck_assert_ptr_nonnull(*memory);
    memset(*memory, 0xff, scaling->bytes);
    return attn_scaling_run(scaling, *memory, NULL);
}

struct published {
    size_t d_k;
    double variance, weights[ATTN_DIVISOR_COUNT][3], entropy[ATTN_DIVISOR_COUNT];
};

static const struct published PUBLISHED[] = {
    {4,
     4.0270723500260726,
     {{0.07057230516402388, 0.005393822966169122, 0.9240338718698069},
      {0.20429241087084216, 0.05647853538491007, 0.7392290537442477},
      {0.2917131085828896, 0.15338099170758027, 0.5549058997095301}},
     {0.28826944609517946, 0.7101273406640844, 0.973764914233289}},
    {64,
     62.57298021757384,
     {{2.3706205090745118e-06, 0.6849518455177567, 0.31504578386173426},
      {0.09818735444460674, 0.4727758770122673, 0.42903676854312595},
      {0.2924393279161947, 0.35592684580876, 0.3516338262750453}},
     {0.6231107343975485, 0.9451096053215111, 1.0947520534116306}},
    {512,
     535.5311951758962,
     {{0.9999996088426086, 3.9115739146089945e-07, 9.135055678166547e-17},
      {0.582586795830851, 0.3035148293139534, 0.11389837485519555},
      {0.3445896809790776, 0.3348014497807058, 0.32060886924021664}},
     {6.162354422877288e-06, 0.9240849384589946, 1.0981750875492198}},
};

START_TEST(the_published_table) {
    struct attn_scaling_request request;
    void *memory;
    attn_scaling_request_init(&request);
    const struct attn_scaling scaling = accepted(&request);
    const struct attn_scaling_size *sizes = run(&scaling, &memory);
    ck_assert_uint_eq(scaling.count, 3);
    for (size_t i = 0; i < 3; i++) {
        const struct published *expected = &PUBLISHED[i];
        ck_assert_uint_eq(sizes[i].d_k, expected->d_k);
        ck_assert_double_eq_tol(sizes[i].variance, expected->variance, 1e-10);
        for (size_t n = 0; n < ATTN_DIVISOR_COUNT; n++) {
            const struct attn_scaling_row *row = &sizes[i].rows[n];
            for (size_t j = 0; j < 3; j++)
                ck_assert_double_eq_tol(row->weights[j], expected->weights[n][j],
                                        1e-12 * expected->weights[n][j]);
            ck_assert_double_eq_tol(row->entropy, expected->entropy[n], 1e-12);
        }
    }
    free(memory);
}
END_TEST

START_TEST(rows_agree_with_themselves) {
    static const int64_t d_k[] = {7, 1, 300};
    const struct attn_scaling_request request = {
        .d_k = {d_k, 3}, .samples = 5, .keys = 9, .seed = UINT32_MAX};
    const struct attn_scaling scaling = accepted(&request);
    void *memory;
    const struct attn_scaling_size *sizes = run(&scaling, &memory);
    for (size_t i = 0; i < 3; i++) {
        const double root = sqrt((double)d_k[i]);
        const double divisors[] = {1, root, (double)d_k[i]};
        for (size_t n = 0; n < ATTN_DIVISOR_COUNT; n++) {
            const struct attn_scaling_row *row = &sizes[i].rows[n];
            double sum = 0, most = 0, squares = 0;
            ck_assert_double_eq(row->divisor, divisors[n]);
            for (size_t j = 0; j < 9; j++) {
                ck_assert_double_eq(row->scores[j], sizes[i].rows[0].scores[j] / divisors[n]);
                sum += row->weights[j];
                most = fmax(most, row->weights[j]);
                squares += row->weights[j] * row->weights[j];
            }
            ck_assert_double_eq_tol(sum, 1, 1e-14);
            ck_assert_double_eq(row->max, most);
            ck_assert_double_eq_tol(row->gradient_health, 1 - squares, 1e-14);
            ck_assert(row->entropy >= 0 && row->entropy <= log(9) + 1e-14);
        }
    }
    free(memory);
}
END_TEST

START_TEST(one_sample_does_not_vary_and_one_key_takes_all) {
    static const int64_t d_k = 16;
    const struct attn_scaling_request request = {
        .d_k = {&d_k, 1}, .samples = 1, .keys = 1, .seed = 0};
    const struct attn_scaling scaling = accepted(&request);
    void *memory;
    const struct attn_scaling_size *sizes = run(&scaling, &memory);
    ck_assert(sizes[0].variance == 0);
    for (size_t n = 0; n < ATTN_DIVISOR_COUNT; n++) {
        const struct attn_scaling_row *row = &sizes[0].rows[n];
        ck_assert(row->weights[0] == 1 && row->max == 1);
        ck_assert(row->entropy == 0 && row->gradient_health == 0);
    }
    free(memory);
}
END_TEST

/* Neither a key nor a sample is drawn. */
START_TEST(a_cancelled_run_ends) {
    static const int64_t d_k = 512;
    const struct attn_scaling_request request = {
        .d_k = {&d_k, 1}, .samples = 97000, .keys = 3, .seed = 3};
    const struct attn_scaling scaling = accepted(&request);
    const atomic_bool cancelled = true;
    const struct attn_checkpoint checkpoint = {.cancelled = &cancelled};
    void *memory = aligned_alloc(64, scaling.bytes);
    ck_assert_ptr_nonnull(memory);
    const struct attn_scaling_size *sizes = attn_scaling_run(&scaling, memory, &checkpoint);
    ck_assert(sizes[0].variance == 0 && sizes[0].rows[0].scores[0] == 0);
    free(memory);
}
END_TEST

static void refuse(const struct attn_scaling_request *request, const struct attn_limits *limits,
                   enum attn_status status, const char *pointer, const char *words) {
    struct attn_scaling scaling;
    struct attn_error error = {.status = ATTN_OK};
    ck_assert_str_eq(attn_status_name(attn_scaling_init(&scaling, request, limits, &error)),
                     attn_status_name(status));
    ck_assert_str_eq(error.pointer, pointer);
    ck_assert_msg(strstr(error.detail, words) != NULL, "\"%s\" lacks \"%s\"", error.detail, words);
}

START_TEST(refusals) {
    static const int64_t zero = 0, large = 65537, small = 4, many[33] = {1};
    const struct {
        struct attn_scaling_request request;
        enum attn_status status;
        const char *pointer, *words;
    } rows[] = {
        {{{&zero, 1}, 1, 1, 1}, ATTN_BAD_VALUE, "/d_k", "from 1 to 65536, got 0"},
        {{{&large, 1}, 1, 1, 1}, ATTN_BAD_VALUE, "/d_k", "got 65537"},
        {{{&small, 0}, 1, 1, 1}, ATTN_BAD_VALUE, "/d_k", "1 to 32 vector sizes, got 0"},
        {{{many, 33}, 1, 1, 1}, ATTN_BAD_VALUE, "/d_k", "got 33"},
        {{{&small, 1}, 0, 1, 1}, ATTN_BAD_VALUE, "/samples", "got 0"},
        {{{&small, 1}, 1, 0, 1}, ATTN_BAD_VALUE, "/keys", "from 1 to 1024, got 0"},
        {{{&small, 1}, 1, 1025, 1}, ATTN_BAD_VALUE, "/keys", "got 1025"},
        {{{&small, 1}, 1, 1, -1}, ATTN_BAD_VALUE, "/seed", "got -1"},
        {{{&small, 1}, 1, 1, INT64_C(1) << 32}, ATTN_BAD_VALUE, "/seed", "4294967295"},
        {{{&small, 1}, 12500000, 1, 1}, ATTN_TOO_MUCH_WORK, "", "1e+08 are allowed"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        refuse(&rows[i].request, &NO_LIMITS, rows[i].status, rows[i].pointer, rows[i].words);
    const struct attn_limits less = {SIZE_MAX, 1e6};
    const struct attn_scaling_request request = {{&small, 1}, 200, 1, 1};
    refuse(&request, &less, ATTN_TOO_MUCH_WORK, "", "1e+03 are allowed");
}
END_TEST

static Suite *scaling_suite(void) {
    Suite *suite = suite_create("scaling");
    TCase *all = tcase_create("all");
    tcase_add_test(all, the_published_table);
    tcase_add_test(all, rows_agree_with_themselves);
    tcase_add_test(all, one_sample_does_not_vary_and_one_key_takes_all);
    tcase_add_test(all, a_cancelled_run_ends);
    tcase_add_test(all, refusals);
    suite_add_tcase(suite, all);
    return suite;
}

ATTN_TEST_MAIN(scaling_suite)
