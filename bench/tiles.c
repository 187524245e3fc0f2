/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel on one thread in CPU time, as a share of a serial sgemm of 1536^3 in the same
 * rounds: what a change of the kernel or of its tiles brings, on a machine that others use too,
 * where elapsed time says nothing. Useful FLOPs, as in bench/kernels.c; two heads. A window is of
 * 256 keys, documents are of 512.
 *
 *   make bench BENCH=tiles: the blas kernel in CPU time, a few seconds
 *   build/release/bench/tiles [n [D [rounds [kernel [rows keys]...]]]]    rows keys: blas's tiles
 */
#include "bench/bare_call.h"
#include "bench/yardstick.h"
#include "core/executor_internal.h"

#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { HEADS = 2, SIDE = 1536, ROUNDS = 9, TILES_MAX = 16, WINDOW = 256, DOCUMENT = 512 };

enum hiding { NOTHING, CAUSAL, WINDOWED, DOCUMENTS, MASKS };

static const char *const NAMES[MASKS] = {"full", "causal", "window", "documents"};

/* Square factors and product, and the operands of the call. */
struct numbers {
    const char *kernel;
    float *square[3], *operand[3];
    int64_t *ids;
};

/* Tiles to try; row_tile 0 leaves the kernel its own. */
struct trial {
    struct attn_grid grid;
    double share[MASKS][YARDSTICK_ROUNDS_MAX];
};

static void fail(const char *what) {
    fprintf(stderr, "bench/tiles: %s\n", what);
    exit(1);
}

static double cpu_now(void) {
    struct timespec at;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

/* FLOP per second of CPU time. */
static double time_sgemm(const struct numbers *numbers) {
    const double begin = cpu_now();
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, SIDE, SIDE, SIDE, 1, numbers->square[0],
                SIDE, numbers->square[1], SIDE, 0, numbers->square[2], SIDE);
    return 2.0 * SIDE * SIDE * SIDE / (cpu_now() - begin);
}

static void use_tiles(const struct attn_call *call, struct attn_grid grid, struct attn_plan *plan) {
    if (grid.row_tile == 0)
        return;
    plan->grid = grid;
    plan->row_tiles = (call->Tq + grid.row_tile - 1) / grid.row_tile;
    plan->chunks = 1;
    plan->chunk_keys = call->Tk;
    plan->chunk_bytes = 0;
    plan->tasks = call->B * call->Hkv * plan->row_tiles;
    plan->workspace_bytes = attn_task_workspace_bytes(call, plan->kernel, &grid);
}

/* All tasks of a planned call, one after the other. */
static double run_tasks(const struct attn_call *call, const struct attn_plan *plan,
                        struct attn_result *result) {
    const size_t bytes = (plan->workspace_bytes + 63) / 64 * 64;
    struct attn_result_tensor *output = &result->tensors[ATTN_RESULT_OUTPUT];
    void *workspace = aligned_alloc(64, bytes);
    output->data = malloc(output->bytes);
    if (workspace == NULL || output->data == NULL)
        fail("there is no memory");
    memset(workspace, 0, bytes);
    memset(output->data, 0, output->bytes);
    void *shared = malloc(attn_heads_bytes(plan, 1));
    if (shared == NULL)
        fail("there is no memory");
    memset(shared, 0, attn_heads_bytes(plan, 1));
    struct attn_heads *heads = attn_heads_open(call, plan, 1, shared);
    const double begin = cpu_now();
    for (size_t index = 0; index < plan->tasks; index++)
        attn_execute_task(call, plan, result, heads, index, workspace, NULL);
    const double spent = cpu_now() - begin;
    attn_heads_close(heads);
    free(shared);
    free(output->data);
    free(workspace);
    return spent;
}

static double visible_scores(double n, enum hiding hiding) {
    const double window = fmin(n, WINDOW), document = fmin(n, DOCUMENT);
    const double whole = floor(n / document);
    const double rest = n - whole * document;
    switch (hiding) {
    case CAUSAL:
        return n * (n + 1) / 2;
    case WINDOWED:
        return n * window - window * (window - 1) / 2;
    case DOCUMENTS:
        return whole * document * document + rest * rest;
    default:
        return n * n;
    }
}

static struct attn_mask_node mask_of(const struct numbers *numbers, const size_t *n,
                                     enum hiding hiding) {
    if (hiding == WINDOWED)
        return (struct attn_mask_node){.kind = ATTN_MASK_WINDOW, .left = WINDOW - 1};
    if (hiding == DOCUMENTS)
        return (struct attn_mask_node){.kind = ATTN_MASK_SEGMENTS,
                                       .tensor = attn_tensor_view(numbers->ids, ATTN_INT64, 1, n)};
    return (struct attn_mask_node){.kind = ATTN_MASK_CAUSAL};
}

static double time_call(const struct numbers *numbers, size_t n, size_t D, enum hiding hiding,
                        struct attn_grid grid) {
    static const struct attn_limits limits = {.result_bytes = (size_t)1 << 34, .flops = 1e18};
    const size_t shape[] = {1, HEADS, n, D};
    struct attn_mask_node node = mask_of(numbers, &n, hiding);
    struct attn_error error = {0};
    struct attn_request request;
    struct attn_call call;
    struct attn_plan plan;
    struct attn_result result;
    attn_request_init(&request);
    request.q = attn_tensor_view(numbers->operand[0], ATTN_FLOAT32, 4, shape);
    request.k = attn_tensor_view(numbers->operand[1], ATTN_FLOAT32, 4, shape);
    request.v = attn_tensor_view(numbers->operand[2], ATTN_FLOAT32, 4, shape);
    request.kernel = numbers->kernel;
    request.mask = (struct attn_mask){&node, hiding != NOTHING};
    if (attn_call_init(&call, &request, &error) != ATTN_OK ||
        attn_plan_make(&call, &limits, &plan, &result, &error) != ATTN_OK)
        fail(error.detail);
    use_tiles(&call, grid, &plan);
    const double spent = run_tasks(&call, &plan, &result);
    attn_call_close(&call);
    return 4.0 * HEADS * (double)D * visible_scores((double)n, hiding) / spent;
}

static void report(struct trial *trial, size_t rounds) {
    if (trial->grid.row_tile == 0)
        printf("the kernel's own:");
    else
        printf("%5zu x %-5zu    :", trial->grid.row_tile, trial->grid.key_tile);
    for (size_t masks = 0; masks < MASKS; masks++) {
        const double median = yardstick_median(trial->share[masks], rounds);
        printf("  %s %.3f (%.3f to %.3f)", NAMES[masks], median, trial->share[masks][0],
               trial->share[masks][rounds - 1]);
    }
    printf("\n");
}

static size_t number(int argc, char **argv, int index, size_t otherwise) {
    const size_t given = argc > index ? strtoul(argv[index], NULL, 10) : 0;
    return given == 0 ? otherwise : given;
}

int main(int argc, char **argv) {
    static struct trial trials[TILES_MAX];
    const size_t n = number(argc, argv, 1, 2048);
    const size_t D = number(argc, argv, 2, 64);
    const size_t rounds = number(argc, argv, 3, ROUNDS);
    size_t count = 1;
    struct numbers numbers = {.kernel = argc > 4 ? argv[4] : "blas"};
    char machine[256];
    if (rounds > YARDSTICK_ROUNDS_MAX)
        fail("too many rounds");
    attn_start();
    for (int at = 5; at + 1 < argc && count < TILES_MAX; at += 2)
        trials[count++].grid =
            (struct attn_grid){number(argc, argv, at, 1), number(argc, argv, at + 1, 1)};
    numbers.ids = calloc(n, sizeof *numbers.ids);
    for (size_t t = 0; t < n && numbers.ids != NULL; t++)
        numbers.ids[t] = (int64_t)(t / DOCUMENT);
    for (size_t operand = 0; operand < 3; operand++) {
        numbers.square[operand] = bare_random((size_t)SIDE * SIDE);
        numbers.operand[operand] = bare_random(HEADS * n * D);
    }
    for (size_t round = 0; round < rounds; round++) {
        const double yard = time_sgemm(&numbers);
        for (size_t masks = 0; masks < MASKS; masks++)
            for (size_t t = 0; t < count; t++)
                trials[t].share[masks][round] =
                    time_call(&numbers, n, D, (enum hiding)masks, trials[t].grid) / yard;
    }
    printf("%s; one, in CPU time; %s, H=%d n=%zu D=%zu\n",
           yardstick_machine(machine, sizeof machine), numbers.kernel, HEADS, n, D);
    for (size_t t = 0; t < count; t++)
        report(&trials[t], rounds);
    for (size_t operand = 0; operand < 3; operand++) {
        free(numbers.square[operand]);
        free(numbers.operand[operand]);
    }
    free(numbers.ids);
    return 0;
}
