/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The default kernel on the shapes that people have - lengths, head sizes, groups, masks, a
 * sentence encoder's batch - against the yardstick (bench/yardstick.h), in useful FLOPs: 4 D per
 * visible score. What hides something is also shown as time over the time that its visible area
 * takes at the rate of the full shape that is named beside it.
 *
 *   make bench BENCH=shapes: every shape, one to three minutes
 *   build/release/bench/shapes [rounds [kernel [part of the shapes' names]]]
 */
#include "bench/bare_call.h"
#include "bench/yardstick.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 5, LONG = 8192, DOCUMENT = 512, WINDOW = 256 };

#define AREA_GOAL 1.25

enum hiding { NOTHING, CAUSAL, WINDOWED, DOCUMENTS, HALF };

struct shape {
    const char *name;
    size_t B, H, n, D;
    enum hiding hiding;
    double goal;      /* of the yardstick; 0: none */
    double peak_goal; /* of the FMA peak; 0: none */
    const char *full; /* the shape whose rate the visible area is priced at */
};

static const struct shape SHAPES[] = {
    {"full-512-64", 1, 8, 512, 64, NOTHING, 0.90, 0, NULL},
    {"full-1024-64", 1, 8, 1024, 64, NOTHING, 0.97, 0.75, NULL},
    {"full-2048-64", 1, 8, 2048, 64, NOTHING, 0.97, 0.75, NULL},
    {"full-4096-64", 1, 8, 4096, 64, NOTHING, 0.97, 0.75, NULL},
    {"full-8192-64", 1, 8, LONG, 64, NOTHING, 0.97, 0.75, NULL},
    {"full-512-128", 1, 8, 512, 128, NOTHING, 0.90, 0, NULL},
    {"full-1024-128", 1, 8, 1024, 128, NOTHING, 1.02, 0.80, NULL},
    {"full-2048-128", 1, 8, 2048, 128, NOTHING, 1.02, 0.80, NULL},
    {"full-4096-128", 1, 8, 4096, 128, NOTHING, 1.02, 0.80, NULL},
    {"full-8192-128", 1, 8, LONG, 128, NOTHING, 1.02, 0.80, NULL},
    {"causal-512-64", 1, 8, 512, 64, CAUSAL, 0.80, 0, NULL},
    {"causal-1024-64", 1, 8, 1024, 64, CAUSAL, 0.95, 0, NULL},
    {"causal-2048-64", 1, 8, 2048, 64, CAUSAL, 0.95, 0, NULL},
    {"causal-4096-64", 1, 8, 4096, 64, CAUSAL, 0.95, 0, NULL},
    {"causal-8192-64", 1, 8, LONG, 64, CAUSAL, 0.95, 0, NULL},
    {"causal-512-128", 1, 8, 512, 128, CAUSAL, 0.80, 0, NULL},
    {"causal-1024-128", 1, 8, 1024, 128, CAUSAL, 0.95, 0, NULL},
    {"causal-2048-128", 1, 8, 2048, 128, CAUSAL, 0.95, 0, NULL},
    {"causal-4096-128", 1, 8, 4096, 128, CAUSAL, 0.95, 0, NULL},
    {"causal-8192-128", 1, 8, LONG, 128, CAUSAL, 0.95, 0, NULL},
    {"window-8192-64", 1, 8, LONG, 64, WINDOWED, 0, 0, "full-8192-64"},
    {"documents-8192-64", 1, 8, LONG, 64, DOCUMENTS, 0, 0, "full-8192-64"},
    {"half-8192-64", 1, 8, LONG, 64, HALF, 0, 0, "full-8192-64"},
    {"sentences-128-64", 8, 12, 128, 64, NOTHING, 0.75, 0, NULL},
    {"sentences-128-32", 8, 12, 128, 32, NOTHING, 0.60, 0, NULL},
    {"full-2048-32", 1, 8, 2048, 32, NOTHING, 0.70, 0, NULL},
    {"full-2048-80", 1, 8, 2048, 80, NOTHING, 0.90, 0, NULL},
    {"full-2048-96", 1, 8, 2048, 96, NOTHING, 0.90, 0, NULL},
    {"full-2048-256", 1, 8, 2048, 256, NOTHING, 0.90, 0, NULL},
    {"full-2048-65", 1, 8, 2048, 65, NOTHING, 0, 0, NULL},
    {"full-2048-79", 1, 8, 2048, 79, NOTHING, 0, 0, NULL},
};

enum { SHAPE_COUNT = sizeof SHAPES / sizeof *SHAPES };

static double visible_scores(const struct shape *shape) {
    const double n = (double)shape->n;
    switch (shape->hiding) {
    case CAUSAL:
        return n * (n + 1) / 2;
    case WINDOWED:
        return n * WINDOW - WINDOW * (WINDOW - 1) / 2.0;
    case DOCUMENTS:
        return n * DOCUMENT;
    case HALF:
        return n * n / 2;
    default:
        return n * n;
    }
}

/* `ids` and `half` must stay until the call is closed. */
static size_t mask_of(const struct shape *shape, int64_t *ids, int64_t *half,
                      struct attn_mask_node *node) {
    *half = (int64_t)(shape->n / 2);
    for (size_t t = 0; t < shape->n; t++)
        ids[t] = (int64_t)(t / DOCUMENT);
    *node = (struct attn_mask_node){.kind = ATTN_MASK_CAUSAL};
    if (shape->hiding == WINDOWED)
        *node = (struct attn_mask_node){.kind = ATTN_MASK_WINDOW, .left = WINDOW - 1};
    else if (shape->hiding == DOCUMENTS)
        *node = (struct attn_mask_node){.kind = ATTN_MASK_SEGMENTS,
                                        .tensor = attn_tensor_view(ids, ATTN_INT64, 1, &shape->n)};
    else if (shape->hiding == HALF)
        *node = (struct attn_mask_node){.kind = ATTN_MASK_PADDING, .kv_lengths = {half, 1}};
    return shape->hiding != NOTHING;
}

static void print_goal(double goal) {
    if (goal > 0)
        printf(" (goal %.2f)", goal);
}

static struct yardstick_result measure(struct yardstick *yardstick, const struct shape *shape,
                                       size_t rounds, const char *kernel) {
    const size_t sizes[] = {shape->B, shape->H, shape->n, shape->D};
    int64_t *ids = calloc(shape->n, sizeof *ids), half;
    struct attn_mask_node node;
    struct bare_call bare;
    float *tensors[3];
    attn_request_init(&bare.request);
    for (size_t t = 0; t < 3; t++)
        tensors[t] = bare_random(shape->B * shape->H * shape->n * shape->D);
    bare.request.q = attn_tensor_view(tensors[0], ATTN_FLOAT32, 4, sizes);
    bare.request.k = attn_tensor_view(tensors[1], ATTN_FLOAT32, 4, sizes);
    bare.request.v = attn_tensor_view(tensors[2], ATTN_FLOAT32, 4, sizes);
    bare.request.kernel = kernel;
    bare.request.mask = (struct attn_mask){&node, mask_of(shape, ids, &half, &node)};
    bare_call_open(&bare, YARDSTICK_THREADS);
    const double flops = 4.0 * (double)(shape->B * shape->H * shape->D) * visible_scores(shape);
    const struct yardstick_result result =
        yardstick_measure(yardstick, rounds, flops, bare.plan.kernel->name, bare_call_run, &bare);
    printf("%-19s %-13s %7.1f GF  ratio %.3f", shape->name, bare.plan.kernel->name, result.gflops,
           result.ratio);
    print_goal(shape->goal);
    printf(", %.3f of the FMA peak", result.of_peak);
    print_goal(shape->peak_goal);
    printf(", sgemm %.2f of it", result.yardstick_of_peak);
    bare_call_close(&bare);
    for (size_t t = 0; t < 3; t++)
        free(tensors[t]);
    free(ids);
    return result;
}

/* The ratio of the shape that another is priced by; 0 when it was not measured. */
static double rate_of(const char *name, const double ratios[SHAPE_COUNT]) {
    for (size_t n = 0; name != NULL && n < SHAPE_COUNT; n++)
        if (strcmp(SHAPES[n].name, name) == 0)
            return ratios[n];
    return 0;
}

int main(int argc, char **argv) {
    const size_t asked = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    const size_t rounds = asked == 0 ? ROUNDS : asked;
    const char *kernel = argc > 2 && strcmp(argv[2], "0") != 0 ? argv[2] : NULL;
    const char *part = argc > 3 ? argv[3] : "";
    double ratios[SHAPE_COUNT] = {0};
    char machine[256];
    setvbuf(stdout, NULL, _IOLBF, 0);
    attn_start();
    struct yardstick *yardstick = yardstick_create();
    if (yardstick == NULL || rounds > YARDSTICK_ROUNDS_MAX)
        return 1;
    printf("%s; float32\n", yardstick_machine(machine, sizeof machine));
    for (size_t n = 0; n < SHAPE_COUNT; n++) {
        const struct shape *shape = &SHAPES[n];
        if (strstr(shape->name, part) == NULL)
            continue;
        const struct yardstick_result result = measure(yardstick, shape, rounds, kernel);
        ratios[n] = result.ratio;
        const double rate = rate_of(shape->full, ratios);
        if (rate > 0)
            printf(", %.2f of its visible area's time (goal %.2f)", rate / result.ratio, AREA_GOAL);
        printf("  %zu rounds, %zu discarded\n", result.rounds, result.discarded);
    }
    yardstick_free(yardstick);
    return 0;
}
