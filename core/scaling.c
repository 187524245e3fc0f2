/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The numbers are drawn in the order of the published script, which decides all of them: per d_k
 * the query and then each key; and after all sizes, per d_k, pairs of a query and a key.
 */
#include "core/scaling.h"

#include <math.h>

#include "core/checked.h"
#include "core/mt19937.h"

/* Most normal numbers that one experiment may draw: two seconds of a core. */
#define MAX_NORMALS 1e8
/* What drawing one costs, in floating-point operations of a kernel's speed. */
#define NORMAL_WORK 1000.0
enum { ALIGNMENT = 64 };

void attn_scaling_request_init(struct attn_scaling_request *request) {
    static const int64_t published[] = {4, 64, 512};
    *request = (struct attn_scaling_request){
        .d_k = {published, sizeof published / sizeof *published},
        .samples = 2000,
        .keys = 3,
        .seed = 3,
    };
}

static enum attn_status check_range(int64_t value, int64_t most, const char *pointer,
                                    struct attn_error *error) {
    if (value >= 1 && value <= most)
        return ATTN_OK;
    return attn_fail(error, ATTN_BAD_VALUE, pointer, "%s must be from 1 to %lld, got %lld.",
                     pointer + 1, (long long)most, (long long)value);
}

static enum attn_status check(const struct attn_scaling_request *request,
                              struct attn_error *error) {
    if (request->d_k.count < 1 || request->d_k.count > ATTN_SCALING_MAX_SIZES)
        return attn_fail(error, ATTN_BAD_VALUE, "/d_k",
                         "d_k must hold 1 to %d vector sizes, got %zu.", ATTN_SCALING_MAX_SIZES,
                         request->d_k.count);
    for (size_t i = 0; i < request->d_k.count; i++)
        if (check_range(request->d_k.values[i], ATTN_SCALING_MAX_D_K, "/d_k", error) != ATTN_OK)
            return error->status;
    if (check_range(request->samples, INT32_MAX, "/samples", error) != ATTN_OK ||
        check_range(request->keys, ATTN_SCALING_MAX_KEYS, "/keys", error) != ATTN_OK)
        return error->status;
    if (request->seed < 0 || request->seed > UINT32_MAX)
        return attn_fail(error, ATTN_BAD_VALUE, "/seed", "seed must be from 0 to %lld, got %lld.",
                         (long long)UINT32_MAX, (long long)request->seed);
    return ATTN_OK;
}

/* A piece of the memory of `count` elements, by whole alignments. The limits keep it countable. */
static size_t area(size_t count, size_t size) {
    return (count * size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

enum attn_status attn_scaling_init(struct attn_scaling *scaling,
                                   const struct attn_scaling_request *request,
                                   const struct attn_limits *limits, struct attn_error *error) {
    double normals = 0;
    if (check(request, error) != ATTN_OK)
        return error->status;
    *scaling = (struct attn_scaling){
        .count = request->d_k.count,
        .samples = (size_t)request->samples,
        .keys = (size_t)request->keys,
        .seed = (uint32_t)request->seed,
    };
    for (size_t i = 0; i < scaling->count; i++) {
        scaling->d_k[i] = (size_t)request->d_k.values[i];
        scaling->largest = attn_max_size(scaling->largest, scaling->d_k[i]);
        normals +=
            (double)scaling->d_k[i] * (1 + (double)scaling->keys + 2 * (double)scaling->samples);
    }
    scaling->work = normals * NORMAL_WORK;
    const double most = fmin(MAX_NORMALS, limits->flops / NORMAL_WORK);
    if (normals > most)
        return attn_fail_limit(
            error, ATTN_TOO_MUCH_WORK, "", most,
            "The experiment would draw %.3g random numbers; %.3g are allowed. Ask for "
            "fewer samples, or smaller d_k.",
            normals, most);
    scaling->bytes = area(scaling->count, sizeof(struct attn_scaling_size)) +
                     area(scaling->largest, sizeof(double)) +
                     area(scaling->count * ATTN_DIVISOR_COUNT * 2 * scaling->keys, sizeof(double));
    return ATTN_OK;
}

/* An experiment in progress. */
struct run {
    const struct attn_scaling *scaling;
    const struct attn_checkpoint *checkpoint;
    struct attn_mt19937 random;
    double *q; /* as long as the largest d_k */
};

static void draw_query(struct run *run, size_t d_k) {
    for (size_t i = 0; i < d_k; i++)
        run->q[i] = attn_mt19937_normal(&run->random);
}

/* Of the query and a key that is drawn here. */
static double draw_product(struct run *run, size_t d_k) {
    double sum = 0;
    for (size_t i = 0; i < d_k; i++)
        sum += run->q[i] * attn_mt19937_normal(&run->random);
    return sum;
}

/* By Welford's recurrence: one pass, and no difference of two large sums. */
static double sample_variance(struct run *run, size_t d_k) {
    double mean = 0, squares = 0;
    for (size_t n = 1; n <= run->scaling->samples && !attn_checkpoint_stops(run->checkpoint); n++) {
        draw_query(run, d_k);
        const double value = draw_product(run, d_k);
        const double off = value - mean;
        mean += off / (double)n;
        squares += off * (value - mean);
    }
    return squares / (double)run->scaling->samples;
}

static void weigh(struct attn_scaling_row *row, double *weights, size_t keys) {
    double most = -INFINITY, sum = 0, squares = 0;
    for (size_t j = 0; j < keys; j++)
        most = fmax(most, row->scores[j]);
    for (size_t j = 0; j < keys; j++)
        sum += weights[j] = exp(row->scores[j] - most);
    for (size_t j = 0; j < keys; j++) {
        const double p = weights[j] /= sum;
        row->max = fmax(row->max, p);
        row->entropy -= p == 0 ? 0 : p * log(p);
        squares += p * p;
    }
    row->gradient_health = 1 - squares;
    row->weights = weights;
}

/* The rows' scores and weights go to numbers[0 .. 2 * keys * ATTN_DIVISOR_COUNT). */
static void fill_rows(struct run *run, struct attn_scaling_size *size, double *numbers) {
    const double divisors[ATTN_DIVISOR_COUNT] = {1, sqrt((double)size->d_k), (double)size->d_k};
    const size_t keys = run->scaling->keys;
    draw_query(run, size->d_k);
    for (size_t j = 0; j < keys; j++)
        numbers[j] = attn_checkpoint_stops(run->checkpoint) ? 0 : draw_product(run, size->d_k);
    for (size_t n = ATTN_DIVISOR_COUNT; n-- > 0;) { /* the first row's scores are the products */
        double *scores = numbers + 2 * n * keys;
        for (size_t j = 0; j < keys; j++)
            scores[j] = numbers[j] / divisors[n];
        size->rows[n] = (struct attn_scaling_row){.divisor = divisors[n], .scores = scores};
        weigh(&size->rows[n], scores + keys, keys);
    }
}

const struct attn_scaling_size *attn_scaling_run(const struct attn_scaling *scaling, void *memory,
                                                 const struct attn_checkpoint *checkpoint) {
    struct attn_scaling_size *sizes = memory;
    struct run run = {.scaling = scaling, .checkpoint = checkpoint};
    run.q = (void *)((char *)memory + area(scaling->count, sizeof *sizes));
    double *numbers = (void *)((char *)run.q + area(scaling->largest, sizeof *run.q));
    attn_mt19937_init(&run.random, scaling->seed);
    for (size_t i = 0; i < scaling->count; i++) {
        sizes[i].d_k = scaling->d_k[i];
        fill_rows(&run, &sizes[i], numbers + i * ATTN_DIVISOR_COUNT * 2 * scaling->keys);
    }
    for (size_t i = 0; i < scaling->count; i++)
        sizes[i].variance = sample_variance(&run, scaling->d_k[i]);
    return sizes;
}
