/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What becomes of the service when ten times the calls come that it can compute: calls of some 12
 * ms on both workers and 36 KiB, over loopback, from a generator that shares the processors with
 * the daemon, at the same priority; the daemon's compute threads are nicer than both by themselves.
 * In turn, on one daemon with its defaults:
 *  - capacity: eight connections, each with its next call when its last is answered, before and
 *    after all else, whose mean counts;
 *  - 0.8 of that, at random times;
 *  - ten times that, at random times;
 *  - 0.8 of it again, which shows how long what was too much is felt.
 *
 *   make bench BENCH=overload: ten times the load, half a minute (SECONDS=60: of each part)
 *   make build && build/release/bench/overload [attentiond] [seconds]
 */
#include "bench/child.h"
#include "bench/figure.h"
#include "bench/http_client.h"
#include "bench/open_loop.h"
#include "bench/processors.h"
#include "bench/yardstick.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SECONDS = 8, TOKENS = 6144, CLOSED = 8, OPEN = 2048 };
#define FEW_TIMES 0.8
#define MANY_TIMES 10.0
/* A second in which nothing of the overload is left: nobody is refused, and of the calls fewer take
 * longer than that of 0.8 than this. */
#define CALM_SHARE 0.95
#define CALM_STEP 0.25
/* Seconds in which an overload is noticed. */
#define ONSET 2.0

enum { WARM, BEFORE, FEW, MANY, AFTER, LAST, PARTS };

struct bench {
    int port;
    char *request;
    size_t length;
    double seconds;
};

/* What counts of a part. */
struct part {
    double rate; /* of 200, per second */
    double p50, p99;
    struct open_loop_result result;
};

/* q, k and v of [1,1,TOKENS,1] in half precision, all of them in [0.5, 1). */
static char *build_request(size_t *length) {
    enum { TENSOR = TOKENS * 2, ROOM = 1024 + 3 * TENSOR };
    char header[400];
    int used = snprintf(header, sizeof header,
                        "{\"q\":{\"dtype\":\"F16\",\"shape\":[1,1,%d,1],\"data_offsets\":[0,%d]},"
                        "\"k\":{\"dtype\":\"F16\",\"shape\":[1,1,%d,1],\"data_offsets\":[%d,%d]},"
                        "\"v\":{\"dtype\":\"F16\",\"shape\":[1,1,%d,1],\"data_offsets\":[%d,%d]}}",
                        TOKENS, TENSOR, TOKENS, TENSOR, 2 * TENSOR, TOKENS, 2 * TENSOR, 3 * TENSOR);
    while ((used + 8) % 64 != 0)
        header[used++] = ' ';
    char *request = malloc(ROOM);
    const uint64_t header_length = (uint64_t)used;
    *length = (size_t)snprintf(request, ROOM,
                               "POST /v1/attention HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                               "application/vnd.safetensors\r\nContent-Length: %d\r\n\r\n",
                               8 + used + 3 * TENSOR);
    memcpy(request + *length, &header_length, 8);
    memcpy(request + *length + 8, header, (size_t)used);
    *length += 8 + (size_t)used;
    for (size_t i = 0; i < 3 * TOKENS; i++, *length += 2) {
        const uint16_t half = (uint16_t)(0x3800 | (rand() & 0x3ff));
        memcpy(request + *length, &half, 2);
    }
    return request;
}

/* `rate` 0: the closed loop. */
static struct part measure(const struct bench *bench, double rate, double seconds) {
    const struct open_loop_plan plan = {
        bench->port, bench->request, bench->length, rate, rate == 0 ? CLOSED : OPEN, seconds};
    struct part part = {.result = open_loop_run(&plan)};
    struct open_loop_times times = open_loop_times(&part.result, 200, 0, seconds);
    part.rate = open_loop_rate(&part.result, 200, seconds);
    part.p50 = open_loop_percentile(&times, 0.5);
    part.p99 = open_loop_percentile(&times, 0.99);
    free(times.seconds);
    return part;
}

static size_t count_status(const struct open_loop_result *result, int status) {
    size_t count = 0;
    for (size_t i = 0; i < result->count; i++)
        count += result->calls[i].status == status;
    return count;
}

/* The begin of the first second in which the service is as before; INFINITY: there is none. */
static double time_to_calm(const struct part *after, const struct part *before, double seconds) {
    for (int step = 0; CALM_STEP * step + 1 <= seconds; step++) {
        const double from = CALM_STEP * step;
        struct open_loop_times good = open_loop_times(&after->result, 200, from, from + 1);
        struct open_loop_times refused = open_loop_times(&after->result, 503, from, from + 1);
        const bool is_calm =
            refused.count == 0 && open_loop_percentile(&good, CALM_SHARE) <= before->p99;
        free(good.seconds);
        free(refused.seconds);
        if (is_calm)
            return from;
    }
    return INFINITY;
}

/* The beginning of the overload is part of what is measured; these are without it. */
static void report_steady(const struct bench *bench, const struct part *many) {
    struct open_loop_times good = open_loop_times(&many->result, 200, ONSET, bench->seconds);
    struct open_loop_times refused = open_loop_times(&many->result, 503, ONSET, bench->seconds);
    printf("after its first %g s: 99th percentile of accepted calls %.1f ms, of refusals %.2f ms\n",
           ONSET, 1e3 * open_loop_percentile(&good, 0.99),
           1e3 * open_loop_percentile(&refused, 0.99));
    free(good.seconds);
    free(refused.seconds);
}

/* The generator takes more of the shared processors when it offers more; elsewhere it would not. */
static double left_by_generator(const struct bench *bench, const struct part parts[PARTS]) {
    const double closed = parts[BEFORE].result.own_seconds + parts[LAST].result.own_seconds;
    const double taken = (parts[MANY].result.own_seconds - closed) / bench->seconds;
    return 1 - taken / (double)sysconf(_SC_NPROCESSORS_ONLN);
}

static void report_goodput(const struct bench *bench, const struct part parts[PARTS]) {
    const struct part *many = &parts[MANY];
    const double capacity = 0.5 * (parts[BEFORE].rate + parts[LAST].rate);
    char beside[160];
    snprintf(beside, sizeof beside, "%.1f/s of %.1f/s (before %.1f, after %.1f), %zu calls came",
             many->rate, capacity, parts[BEFORE].rate, parts[LAST].rate, many->result.count);
    figure_print(&(struct figure){.what = "goodput at ten times the load",
                                  .value = many->rate / capacity,
                                  .unit = "of capacity",
                                  .at_least = 0.95,
                                  .beside = beside});
    printf("that is %.3f of the capacity that the generator leaves, which takes %.1f %% of a "
           "processor\n",
           many->rate / (capacity * left_by_generator(bench, parts)),
           100 * many->result.own_seconds / bench->seconds);
}

static void report_accepted(const struct part *many, const struct part *few) {
    char beside[160];
    snprintf(beside, sizeof beside, "%.1f ms of %.1f ms; medians %.1f ms, %.1f ms", 1e3 * many->p99,
             1e3 * few->p99, 1e3 * many->p50, 1e3 * few->p50);
    figure_print(&(struct figure){.what = "99th percentile of accepted calls",
                                  .value = many->p99 / few->p99,
                                  .unit = "times that at 0.8 of capacity",
                                  .at_most = 2,
                                  .beside = beside});
}

static void report_refused(const struct bench *bench, const struct part *many) {
    struct open_loop_times refused = open_loop_times(&many->result, 503, 0, bench->seconds);
    const size_t answered = count_status(&many->result, 200);
    char beside[160];
    snprintf(beside, sizeof beside,
             "%zu of them, median %.2f ms; the generator was late by %.1f ms", refused.count,
             1e3 * open_loop_percentile(&refused, 0.5), 1e3 * many->result.latest_start);
    figure_print(&(struct figure){.what = "99th percentile of refusals",
                                  .value = 1e3 * open_loop_percentile(&refused, 0.99),
                                  .unit = "ms",
                                  .at_most = 10,
                                  .beside = beside});
    printf("other answers, resets and calls not sent: %zu of %zu\n",
           many->result.count - answered - refused.count + many->result.unsent, many->result.count);
    free(refused.seconds);
}

static void report(const struct bench *bench, const struct part parts[PARTS]) {
    const struct part *few = &parts[FEW], *many = &parts[MANY];
    report_goodput(bench, parts);
    report_accepted(many, few);
    report_refused(bench, many);
    report_steady(bench, many);
    figure_print(&(struct figure){.what = "as before",
                                  .value = time_to_calm(&parts[AFTER], few, bench->seconds),
                                  .unit = "s after ten times the load",
                                  .at_most = 5});
    printf("refused at 0.8 of capacity: %zu of %zu\n", count_status(&few->result, 503),
           few->result.count);
}

int main(int argc, char **argv) {
    const char *path = argc > 1 ? argv[1] : "build/attentiond";
    const char *asked = argc > 2 ? argv[2] : getenv("SECONDS");
    struct bench bench = {.seconds = asked == NULL ? SECONDS : fmax(atof(asked), 2)};
    struct http_client first;
    struct part parts[PARTS];
    setvbuf(stdout, NULL, _IOLBF, 0);
    bench.request = build_request(&bench.length);
    bench.port = http_client_free_port(25000);
    const pid_t service = child_service(path, bench.port, NULL, -1);
    if (!http_client_open(&first, bench.port, 1 << 16)) {
        fprintf(stderr, "bench/overload: cannot connect\n");
        return 1;
    }
    http_client_close(&first);
    parts[WARM] = measure(&bench, 0, 1);
    const struct processors_span span = processors_begin(service);
    parts[BEFORE] = measure(&bench, 0, bench.seconds / 2);
    const double capacity = parts[BEFORE].rate;
    parts[FEW] = measure(&bench, FEW_TIMES * capacity, bench.seconds);
    parts[MANY] = measure(&bench, MANY_TIMES * capacity, bench.seconds);
    parts[AFTER] = measure(&bench, FEW_TIMES * capacity, bench.seconds);
    parts[LAST] = measure(&bench, 0, bench.seconds / 2);
    const double others = processors_others(&span);
    report(&bench, parts);
    printf("others used %.0f %% of the processors meanwhile\n", 100 * others);
    for (int i = 0; i < PARTS; i++)
        open_loop_free(&parts[i].result);
    child_stop(service);
    free(bench.request);
    return 0;
}
