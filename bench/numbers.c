/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Number text, both ways, as ratios to what else could do it in this process: jansson, strtod,
 * sprintf. The contestants run in turn within each round and the median of the rounds' ratios
 * counts, so that a noisy machine slows both alike. Exits 1 when a target is missed.
 *
 *   make bench BENCH=numbers: numbers in JSON, both ways, ten seconds
 *   make -j2 build/release/bench/numbers && build/release/bench/numbers [rounds]
 */
#include "server/numbers/numbers.h"
#include "bench/figure.h"
#include "server/codecs/base64.h"
#include "tests/support/random.h"

#include <jansson.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { NUMBERS = 1000000, ROUNDS = 5, ROUNDS_MAX = 101, TEXT_ROOM = NUMBERS * 32 };

/* Everything a contestant reads and writes; allocated and touched once. */
struct arena {
    float *floats;
    double *doubles;
    char *text9, *text17, *out, *base64;
    size_t length9, length17, length_base64;
};

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

static void *touched(size_t size) {
    void *memory = malloc(size);
    if (memory == NULL)
        abort();
    memset(memory, 1, size);
    return memory;
}

/* A [rows][64] nested array of standard-normal-like values with `digits` significant digits. */
static size_t write_text(const struct arena *arena, int digits, char *out) {
    char *p = out;
    *p++ = '[';
    for (size_t i = 0; i < NUMBERS; i++) {
        if (i % 64 == 0)
            p += sprintf(p, i == 0 ? "[" : "],[");
        p += sprintf(p, i % 64 == 0 ? "%.*g" : ",%.*g", digits,
                     digits == 9 ? (double)arena->floats[i] : arena->doubles[i]);
    }
    return (size_t)(p - out) + (size_t)sprintf(p, "]]");
}

static struct arena arena_create(void) {
    struct arena arena = {touched(NUMBERS * sizeof(float)),
                          touched(NUMBERS * sizeof(double)),
                          touched(TEXT_ROOM),
                          touched(TEXT_ROOM),
                          touched(TEXT_ROOM),
                          touched(TEXT_ROOM),
                          0,
                          0,
                          0};
    struct random random = random_seeded(3);
    for (size_t i = 0; i < NUMBERS; i++) {
        double sum = 0;
        for (int k = 0; k < 12; k++)
            sum += random_unit(&random);
        arena.doubles[i] = sum - 6;
        arena.floats[i] = (float)arena.doubles[i];
    }
    arena.length9 = write_text(&arena, 9, arena.text9);
    arena.length17 = write_text(&arena, 17, arena.text17);
    arena.length_base64 = base64_encode(arena.floats, NUMBERS * sizeof(float), arena.base64);
    return arena;
}

static void arena_free(struct arena *arena) {
    free(arena->floats);
    free(arena->doubles);
    free(arena->text9);
    free(arena->text17);
    free(arena->out);
    free(arena->base64);
}

static void require(bool ok, const char *what) {
    if (!ok) {
        fprintf(stderr, "numbers: %s failed\n", what);
        exit(1);
    }
}

static void ours_in(struct arena *arena, enum number_type type, const char *text, size_t length) {
    size_t end, commas;
    struct number_array_shape shape;
    struct number_fault fault;
    require(number_array_skip(text, length, &end, &commas), "skip");
    require(number_array_parse(type, text, end, arena->out, commas + 1, &shape, &fault) ==
                NUMBER_OK,
            "parse");
}

static void ours_in_f32(struct arena *arena) {
    ours_in(arena, NUMBER_F32, arena->text9, arena->length9);
}

static void ours_in_f64(struct arena *arena) {
    ours_in(arena, NUMBER_F64, arena->text17, arena->length17);
}

static void ours_in_f16(struct arena *arena) {
    ours_in(arena, NUMBER_F16, arena->text9, arena->length9);
}

static void jansson_in(struct arena *arena) {
    json_t *root = json_loadb(arena->text9, arena->length9, 0, NULL);
    require(root != NULL, "jansson");
    json_decref(root);
}

static void strtod_in(struct arena *arena) {
    double *out = (double *)(void *)arena->out;
    char *p = arena->text17 + 1;
    for (size_t i = 0; i < NUMBERS; i++) {
        while (*p == '[' || *p == ']' || *p == ',')
            p++;
        out[i] = strtod(p, &p);
    }
}

static void strtof_in(struct arena *arena) {
    float *out = (float *)(void *)arena->out;
    char *p = arena->text9 + 1;
    for (size_t i = 0; i < NUMBERS; i++) {
        while (*p == '[' || *p == ']' || *p == ',')
            p++;
        out[i] = strtof(p, &p);
    }
}

static void ours_out_f32(struct arena *arena) {
    number_print_array(NUMBER_F32, arena->floats, NUMBERS, arena->out);
}

static void ours_out_f64(struct arena *arena) {
    number_print_array(NUMBER_F64, arena->doubles, NUMBERS, arena->out);
}

static void sprintf_9(struct arena *arena) {
    char *p = arena->out;
    for (size_t i = 0; i < NUMBERS; i++)
        p += sprintf(p, "%.9g,", (double)arena->floats[i]);
}

static void sprintf_17(struct arena *arena) {
    char *p = arena->out;
    for (size_t i = 0; i < NUMBERS; i++)
        p += sprintf(p, "%.17g,", arena->doubles[i]);
}

static void skip_only(struct arena *arena) {
    size_t end, commas;
    require(number_array_skip(arena->text9, arena->length9, &end, &commas), "skip");
}

static void copy(struct arena *arena) {
    memcpy(arena->out, arena->text9, arena->length9);
}

static void base64_in(struct arena *arena) {
    size_t length, fault;
    require(base64_decode(arena->base64, arena->length_base64, arena->out, &length, &fault),
            "base64");
}

static void base64_out(struct arena *arena) {
    base64_encode(arena->floats, NUMBERS * sizeof(float), arena->out);
}

struct contest {
    const char *name;
    void (*ours)(struct arena *);
    void (*theirs)(struct arena *);
    double target; /* times faster than theirs, 0 = shown only */
};

static const struct contest contests[] = {
    {"in, f32, 9 digits / jansson load", ours_in_f32, jansson_in, 25},
    {"in, f32, 9 digits / strtof loop", ours_in_f32, strtof_in, 0},
    {"in, f16, 9 digits / strtof loop", ours_in_f16, strtof_in, 0},
    {"in, f64, 17 digits / strtod loop", ours_in_f64, strtod_in, 4},
    {"out, f32, shortest / sprintf %.9g", ours_out_f32, sprintf_9, 12},
    {"out, f64, shortest / sprintf %.17g", ours_out_f64, sprintf_17, 0},
    {"skip 9 digits / memcpy", skip_only, copy, 0},
    {"base64 in / parse f32", base64_in, ours_in_f32, 0},
    {"base64 out / print f32", base64_out, ours_out_f32, 0},
};

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count) {
    qsort(values, (size_t)count, sizeof values[0], by_value);
    return values[count / 2];
}

static double timed(void (*run)(struct arena *), struct arena *arena) {
    const double start = now();
    run(arena);
    return now() - start;
}

/* One contestant's time, then ours, repeated to about as long: the clock changes within seconds. */
static void hold_round(const struct contest *contest, struct arena *arena, double *ours,
                       double *theirs) {
    enum { REPEATS_MAX = 16 };
    *theirs = timed(contest->theirs, arena);
    double sum = 0;
    int repeats = 0;
    while (repeats < REPEATS_MAX && sum < *theirs / 2) {
        sum += timed(contest->ours, arena);
        repeats++;
    }
    *ours = sum / repeats;
}

static void hold_contest(const struct contest *contest, struct arena *arena, int rounds) {
    double ours[ROUNDS_MAX], theirs[ROUNDS_MAX], ratio[ROUNDS_MAX];
    char beside[64];
    contest->ours(arena);
    for (int round = 0; round < rounds; round++) {
        hold_round(contest, arena, &ours[round], &theirs[round]);
        ratio[round] = theirs[round] / ours[round];
    }
    snprintf(beside, sizeof beside, "%.2f ns of %.2f", 1e9 * median(ours, rounds) / NUMBERS,
             1e9 * median(theirs, rounds) / NUMBERS);
    figure_print(&(struct figure){.what = contest->name,
                                  .value = median(ratio, rounds),
                                  .unit = "times as fast",
                                  .at_least = contest->target,
                                  .rounds = (size_t)rounds,
                                  .beside = beside});
}

/* Heap per number beyond the text: what the comma count makes a caller allocate, and jansson. */
static void show_memory(struct arena *arena) {
    size_t end, commas;
    require(number_array_skip(arena->text9, arena->length9, &end, &commas), "skip");
    const double ours = (double)((commas + 1) * sizeof(float)) / NUMBERS;
    const size_t before = mallinfo2().uordblks;
    json_t *root = json_loadb(arena->text9, arena->length9, 0, NULL);
    require(root != NULL, "jansson");
    const double theirs = (double)(mallinfo2().uordblks - before) / NUMBERS;
    json_decref(root);
    char beside[64];
    snprintf(beside, sizeof beside, "jansson's load %.1f", theirs);
    figure_print(&(struct figure){.what = "memory per number beyond the body",
                                  .value = ours,
                                  .unit = "bytes",
                                  .at_most = 4.5,
                                  .beside = beside});
}

static void check_round_trip(struct arena *arena) {
    float *back = touched(NUMBERS * sizeof(float));
    arena->out[0] = '[';
    size_t length = 1 + number_print_array(NUMBER_F32, arena->floats, NUMBERS, arena->out + 1);
    arena->out[length++] = ']';
    struct number_array_shape shape;
    struct number_fault fault;
    require(number_array_parse_f32(arena->out, length, back, NUMBERS, &shape, &fault) ==
                    NUMBER_OK &&
                memcmp(back, arena->floats, NUMBERS * sizeof(float)) == 0,
            "reading back what was printed");
    free(back);
}

int main(int argc, char **argv) {
    const int asked = argc > 1 ? atoi(argv[1]) : ROUNDS;
    const int rounds = asked < 1 ? 1 : asked > ROUNDS_MAX ? ROUNDS_MAX : asked;
    struct arena arena = arena_create();
    printf("per number, %d of them: ours in turn with others\n", NUMBERS);
    for (size_t i = 0; i < sizeof contests / sizeof contests[0]; i++)
        hold_contest(&contests[i], &arena, rounds);
    show_memory(&arena);
    check_round_trip(&arena);
    arena_free(&arena);
    return 0;
}
