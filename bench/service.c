/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the service costs around the arithmetic, as ratios in one run:
 *  - uploading a body to attentiond against a libmicrohttpd server that only counts the bytes;
 *  - a whole safetensors call against the time that the same plan takes on the same number of
 *    threads without HTTP, for blas and for the default kernel.
 * Each round times both sides in turn; the median of the ratios counts, of the rounds before and
 * after which the loop of multiply-adds tells that the machine was ours (bench/yardstick.h).
 *
 *   make bench BENCH=service: uploads and whole calls over HTTP, up to a minute
 *   make build && build/release/bench/service [attentiond] [rounds]
 */
#include "bench/bare_call.h"
#include "bench/child.h"
#include "bench/figure.h"
#include "bench/http_client.h"
#include "bench/tensor_request.h"
#include "bench/yardstick.h"

#include <math.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 21, ROUNDS_MAX = 101, UPLOAD = 64 << 20 };

static void fail(const char *what) {
    fprintf(stderr, "bench/service: %s\n", what);
    exit(1);
}

/* The count-only server: swallows a body and answers 400, as attentiond does to a body that is no
 * container. */
static enum MHD_Result count_bytes(void *closure, struct MHD_Connection *connection,
                                   const char *url, const char *method, const char *version,
                                   const char *data, size_t *size, void **state) {
    static char answer[] = "counted";
    (void)url, (void)method, (void)version, (void)data;
    if (*state == NULL) {
        *state = closure;
        return MHD_YES;
    }
    if (*size > 0) {
        *(size_t *)closure += *size;
        *size = 0;
        return MHD_YES;
    }
    struct MHD_Response *response =
        MHD_create_response_from_buffer(sizeof answer - 1, answer, MHD_RESPMEM_PERSISTENT);
    const enum MHD_Result queued = MHD_queue_response(connection, 400, response);
    MHD_destroy_response(response);
    return queued;
}

/* Runs in a child process, as attentiond does, until it is killed. */
static pid_t start_counter(int port) {
    const pid_t child = child_fork();
    if (child != 0)
        return child;
    size_t counted = 0;
    struct MHD_Daemon *daemon =
        MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD, (uint16_t)port, NULL, NULL, count_bytes,
                         &counted, MHD_OPTION_THREAD_POOL_SIZE, 2u, MHD_OPTION_END);
    if (daemon == NULL)
        _exit(1);
    for (;;)
        pause();
}

/* kernel: NULL for the default. */
static double timed_post(struct http_client *client, const void *body, size_t length, int expect) {
    const char *answer;
    size_t answer_length;
    const double begin = yardstick_now();
    const int status = http_client_post(client, "/v1/attention", "application/vnd.safetensors",
                                        body, length, &answer, &answer_length);
    const double spent = yardstick_now() - begin;
    if (status != expect) {
        fprintf(stderr, "status %d: %.*s\n", status, (int)(status ? answer_length : 0),
                status ? answer : "");
        fail("an unexpected answer");
    }
    return spent;
}

static void bench_upload(const char *path, size_t rounds) {
    double ratios[ROUNDS_MAX], fma[ROUNDS_MAX], counted[ROUNDS_MAX], stored[ROUNDS_MAX];
    struct http_client counter, service;
    const int port = http_client_free_port(21000);
    const pid_t counter_process = start_counter(port);
    const int service_port = http_client_free_port(port + 1);
    const pid_t service_process = child_service(path, service_port, NULL, -1);
    if (!http_client_open(&counter, port, 1 << 16) ||
        !http_client_open(&service, service_port, 1 << 16))
        fail("cannot connect");
    char *body = malloc(UPLOAD);
    memset(body, 0xff, UPLOAD);
    for (size_t round = 0; round <= rounds; round++) {
        const double peak = yardstick_peak();
        const double plain = timed_post(&counter, body, UPLOAD, 400);
        const double ours = timed_post(&service, body, UPLOAD, 400);
        if (round == 0)
            continue;
        fma[round - 1] = fmin(peak, yardstick_peak());
        counted[round - 1] = UPLOAD / plain / 1e6;
        stored[round - 1] = UPLOAD / ours / 1e6;
        ratios[round - 1] = plain / ours;
    }
    const struct yardstick_kept kept = yardstick_keep(ratios, fma, rounds);
    char beside[96];
    snprintf(beside, sizeof beside, "%.0f MB/s of %.0f", yardstick_median(stored, rounds),
             yardstick_median(counted, rounds));
    figure_print(&(struct figure){.what = "upload of 64 MiB",
                                  .value = kept.median,
                                  .unit = "of a server that only counts",
                                  .at_least = 0.85,
                                  .rounds = kept.rounds,
                                  .discarded = kept.discarded,
                                  .beside = beside});
    free(body);
    http_client_close(&counter);
    http_client_close(&service);
    child_stop(counter_process);
    child_stop(service_process);
}

/* The same call without HTTP. */
static void prepare(struct bare_call *bare, const char *kernel, size_t H, size_t n, size_t D,
                    float *tensors[3]) {
    const size_t shape[] = {1, H, n, D};
    attn_request_init(&bare->request);
    bare->request.q = attn_tensor_view(tensors[0], ATTN_FLOAT32, 4, shape);
    bare->request.k = attn_tensor_view(tensors[1], ATTN_FLOAT32, 4, shape);
    bare->request.v = attn_tensor_view(tensors[2], ATTN_FLOAT32, 4, shape);
    bare->request.kernel = kernel;
    bare_call_open(bare, YARDSTICK_THREADS);
}

static double timed_run(struct bare_call *bare) {
    const double begin = yardstick_now();
    bare_call_run(bare);
    return yardstick_now() - begin;
}

static void bench_call(const char *path, const char *kernel, size_t n, size_t D, size_t rounds) {
    const size_t H = 8;
    double ratios[ROUNDS_MAX], fma[ROUNDS_MAX], whole[ROUNDS_MAX], bare_time[ROUNDS_MAX];
    float *tensors[3];
    size_t length;
    char *body = tensor_request(H, n, D, &length, tensors);
    struct bare_call bare;
    struct http_client client;
    prepare(&bare, kernel, H, n, D, tensors);
    const int port = http_client_free_port(23000);
    const pid_t service = child_service(path, port, kernel, -1);
    if (!http_client_open(&client, port, length))
        fail("cannot connect");
    for (size_t round = 0; round < rounds + 2; round++) {
        const double peak = yardstick_peak();
        const double alone = timed_run(&bare);
        const double served = timed_post(&client, body, length, 200);
        if (round < 2)
            continue;
        fma[round - 2] = fmin(peak, yardstick_peak());
        bare_time[round - 2] = alone * 1e3;
        whole[round - 2] = served * 1e3;
        ratios[round - 2] = served / alone;
    }
    const struct yardstick_kept kept = yardstick_keep(ratios, fma, rounds);
    char what[96], beside[96];
    snprintf(what, sizeof what, "whole call, n=%zu, D=%zu, by %s", n, D, bare.plan.kernel->name);
    snprintf(beside, sizeof beside, "%.2f ms of %.2f, %.1f MB up", yardstick_median(whole, rounds),
             yardstick_median(bare_time, rounds), (double)length / 1e6);
    figure_print(&(struct figure){.what = what,
                                  .value = kept.median,
                                  .unit = "of its kernel's time",
                                  .at_most = 1.25,
                                  .rounds = kept.rounds,
                                  .discarded = kept.discarded,
                                  .beside = beside});
    http_client_close(&client);
    child_stop(service);
    bare_call_close(&bare);
    free(body);
}

int main(int argc, char **argv) {
    const char *path = argc > 1 ? argv[1] : "build/attentiond";
    size_t rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : ROUNDS;
    rounds = rounds < 1 ? 1 : rounds > ROUNDS_MAX ? ROUNDS_MAX : rounds;
    setvbuf(stdout, NULL, _IOLBF, 0);
    attn_start();
    bench_upload(path, rounds);
    static const size_t LENGTHS[] = {1024, 2048, 4096};
    static const char *const KERNELS[] = {"blas", NULL};
    for (size_t kernel = 0; kernel < sizeof KERNELS / sizeof *KERNELS; kernel++)
        for (size_t at = 0; at < sizeof LENGTHS / sizeof *LENGTHS; at++)
            for (size_t D = 64; D <= 128; D *= 2)
                bench_call(path, KERNELS[kernel], LENGTHS[at], D, rounds);
    return 0;
}
