/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoding: one query of eight heads against long keys and values, by the default kernel on two
 * threads, in turn with a plain vectorised read of the same buffers and with the multiply-adds of
 * the yardstick (bench/yardstick.h). "cache" decodes with the same buffers again and again; "DRAM"
 * goes around more buffers than a cache holds. With one query head per key/value head the goal is
 * a share of the read bandwidth, with more it is one of the FMA peak.
 *
 *   make bench BENCH=decode: decoding against read bandwidth and FMA peak, half a minute
 *   build/release/bench/decode [rounds [kernel [rows]]]: a family's name, and a part of the rows'
 *   own, such as "G=8 f32 cache"
 */
#include "bench/bare_call.h"
#include "bench/peak.h"
#include "bench/yardstick.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { HEADS = 8, ROUNDS = 15, CALLS_MAX = 32 };
#define HUGE_PAGE ((size_t)2 << 20)
#define POOL ((size_t)192 << 20)       /* bytes that "DRAM" goes around */
#define CACHED ((size_t)16 << 20)      /* keys and values that "cache" is measured up to */
#define READ_LEAST ((size_t)256 << 20) /* for starting threads must not be seen in it */

struct shape {
    size_t keys, D, group;
    enum attn_dtype dtype;
    bool dram;
};

/* Cut from the pool one behind the other, keys and then values. */
struct sets {
    const char *pool;
    size_t operand, count; /* bytes of keys, or of values; how many sets */
};

struct shares {
    double seconds[YARDSTICK_ROUNDS_MAX], read[YARDSTICK_ROUNDS_MAX];
    double of_read[YARDSTICK_ROUNDS_MAX], of_peak[YARDSTICK_ROUNDS_MAX];
    size_t rounds, discarded;
    float sink; /* of what was read */
};

/* Bytes that are small numbers as float16 and as float32, on pages so large that neither side waits
 * for their table. */
static char *make_pool(void) {
    char *pool = aligned_alloc(HUGE_PAGE, POOL);
    if (pool == NULL) {
        fprintf(stderr, "bench/decode: there is no memory\n");
        exit(1);
    }
    madvise(pool, POOL, MADV_HUGEPAGE);
    for (size_t n = 0; n < POOL; n++)
        pool[n] = (char)(0x20 + n % 13);
    return pool;
}

static struct sets cut(const char *pool, const struct shape *shape) {
    const size_t operand =
        HEADS / shape->group * shape->keys * shape->D * attn_dtype_size(shape->dtype);
    return (struct sets){pool, operand, shape->dram ? POOL / (2 * operand) : 1};
}

struct reader {
    const struct sets *sets;
    size_t index, repeats;
    float sum;
};

/* One thread's half of all sets. */
static void *read_half(void *argument) {
    struct reader *reader = argument;
    const size_t bytes = 2 * reader->sets->operand * reader->sets->count / YARDSTICK_THREADS;
    for (size_t repeat = 0; repeat < reader->repeats; repeat++)
        peak_read(reader->sets->pool + reader->index * bytes, bytes, &reader->sum);
    return NULL;
}

/* Bytes per second of both threads; *sink keeps the sums from vanishing. */
static double time_read(const struct sets *sets, float *sink) {
    const size_t bytes = 2 * sets->operand * sets->count;
    size_t repeats = 1;
    while (repeats * bytes < READ_LEAST)
        repeats++;
    struct reader readers[YARDSTICK_THREADS];
    pthread_t threads[YARDSTICK_THREADS];
    const double begin = yardstick_now();
    for (size_t t = 0; t < YARDSTICK_THREADS; t++) {
        readers[t] = (struct reader){.sets = sets, .index = t, .repeats = repeats};
        if (pthread_create(&threads[t], NULL, read_half, &readers[t]) != 0)
            abort();
    }
    for (size_t t = 0; t < YARDSTICK_THREADS; t++) {
        pthread_join(threads[t], NULL);
        *sink += readers[t].sum;
    }
    return (double)(bytes * repeats) / (yardstick_now() - begin);
}

/* Seconds of one decode, the median; on every set the same call, but for its tensors. */
static double time_decode(struct bare_call *bare, const struct sets *sets) {
    double seconds[CALLS_MAX];
    const size_t calls = sets->count == 1 || sets->count > CALLS_MAX ? CALLS_MAX : sets->count;
    static size_t next = 0;
    for (size_t n = 0; n < calls; n++) {
        const char *keys = sets->pool + next++ % sets->count * 2 * sets->operand;
        const double begin = yardstick_now();
        bare->call.k.data = keys;
        bare->call.v.data = keys + sets->operand;
        bare_call_run(bare);
        seconds[n] = yardstick_now() - begin;
    }
    return yardstick_median(seconds, calls);
}

static void open_call(struct bare_call *bare, const struct shape *shape, const struct sets *sets,
                      const char *kernel) {
    const size_t one[] = {1, HEADS, 1, shape->D};
    const size_t all[] = {1, HEADS / shape->group, shape->keys, shape->D};
    attn_request_init(&bare->request);
    bare->request.q = attn_tensor_view(sets->pool, shape->dtype, 4, one);
    bare->request.k = attn_tensor_view(sets->pool, shape->dtype, 4, all);
    bare->request.v = attn_tensor_view(sets->pool + sets->operand, shape->dtype, 4, all);
    bare->request.kernel = kernel;
    bare_call_open(bare, YARDSTICK_THREADS);
}

/* Rounds in which the FMA loop was more than 10 % below its best were disturbed. */
static void hold_rounds(struct bare_call *bare, const struct shape *shape, const struct sets *sets,
                        size_t rounds, struct shares *kept) {
    double seconds[YARDSTICK_ROUNDS_MAX], read[YARDSTICK_ROUNDS_MAX], peak[YARDSTICK_ROUNDS_MAX];
    double best = 0;
    float sink = 0;
    time_decode(bare, sets);
    for (size_t round = 0; round < rounds; round++) {
        peak[round] = 1e9 * yardstick_peak();
        read[round] = time_read(sets, &sink);
        seconds[round] = time_decode(bare, sets);
        best = peak[round] > best ? peak[round] : best;
    }
    *kept = (struct shares){.sink = sink};
    for (size_t round = 0; round < rounds; round++) {
        if (peak[round] < 0.9 * best) {
            kept->discarded++;
            continue;
        }
        const double flops = 4.0 * HEADS * (double)(shape->keys * shape->D);
        const size_t at = kept->rounds++;
        kept->seconds[at] = seconds[round];
        kept->read[at] = read[round];
        kept->of_read[at] = 2.0 * (double)sets->operand / seconds[round] / read[round];
        kept->of_peak[at] = flops / seconds[round] / peak[round];
    }
}

enum { NAME_SIZE = 64 };

static const char *name_of(const struct shape *shape, char name[NAME_SIZE]) {
    snprintf(name, NAME_SIZE, "kv=%-5zu D=%-3zu G=%zu %s %-5s", shape->keys, shape->D, shape->group,
             shape->dtype == ATTN_FLOAT16 ? "f16" : "f32", shape->dram ? "DRAM" : "cache");
    return name;
}

static void report(const struct shape *shape, const char *kernel, struct shares *kept) {
    const bool half = shape->dtype == ATTN_FLOAT16;
    char name[NAME_SIZE];
    printf("%s %-13s %8.3f ms  ratio %.3f of %.1f GB/s read, %.3f of the FMA peak",
           name_of(shape, name), kernel, 1e3 * yardstick_median(kept->seconds, kept->rounds),
           yardstick_median(kept->of_read, kept->rounds),
           1e-9 * yardstick_median(kept->read, kept->rounds),
           yardstick_median(kept->of_peak, kept->rounds));
    if (shape->group == 1 && shape->dram)
        printf(" (goal 0.95 of read)");
    if (shape->group > 1 && !shape->dram)
        printf(" (goal %.2f of peak)", half ? 0.55 : 0.45);
    printf("  %zu rounds, %zu discarded\n", kept->rounds, kept->discarded);
}

static void measure(const struct shape *shape, const char *pool, size_t rounds,
                    const char *kernel) {
    const struct sets sets = cut(pool, shape);
    struct bare_call bare;
    struct shares kept;
    if (!shape->dram && 2 * sets.operand > CACHED)
        return;
    open_call(&bare, shape, &sets, kernel);
    hold_rounds(&bare, shape, &sets, rounds, &kept);
    report(shape, bare.plan.kernel->name, &kept);
    bare_call_close(&bare);
}

int main(int argc, char **argv) {
    static const size_t KEYS[] = {4096, 16384}, WIDTHS[] = {64, 128}, GROUPS[] = {1, 4, 8};
    static const enum attn_dtype DTYPES[] = {ATTN_FLOAT32, ATTN_FLOAT16};
    const size_t asked = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    const size_t rounds = asked == 0 ? ROUNDS : asked;
    const char *kernel = argc > 2 ? argv[2] : NULL;
    char machine[256], name[NAME_SIZE];
    setvbuf(stdout, NULL, _IOLBF, 0);
    attn_start();
    if (rounds > YARDSTICK_ROUNDS_MAX)
        return 1;
    char *pool = make_pool();
    printf("%s; one query, %d heads; multiply-adds and reads with %s\n",
           yardstick_machine(machine, sizeof machine), HEADS, peak_name());
    const char *wanted = argc > 3 ? argv[3] : "";
    for (size_t index = 0; index < 48; index++) {
        const struct shape shape = {.keys = KEYS[index / 24],
                                    .D = WIDTHS[index / 12 % 2],
                                    .group = GROUPS[index / 4 % 3],
                                    .dtype = DTYPES[index / 2 % 2],
                                    .dram = index % 2};
        if (strstr(name_of(&shape, name), wanted) != NULL)
            measure(&shape, pool, rounds, kernel);
    }
    free(pool);
    return 0;
}
