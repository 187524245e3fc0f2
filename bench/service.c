/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the service costs around the arithmetic, as ratios in one run:
 *  - uploading a body to attentiond against a libmicrohttpd server that only counts the bytes;
 *  - a whole safetensors call against the time that the same plan takes on the same number of
 *    threads without HTTP, for blas and for the default kernel.
 * Each round times both sides in turn; the median of the rounds' ratios counts.
 *
 *   make bench BENCH=service: uploads and whole calls over HTTP, up to a minute
 *   make build && build/release/bench/service [attentiond] [rounds]
 */
#include "bench/bare_call.h"
#include "bench/http_client.h"
#include "bench/yardstick.h"

#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 9, ROUNDS_MAX = 101, UPLOAD = 64 << 20 };

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

/* A child that ends with this process, however this one ends: a benchmark that was killed must not
 * leave a daemon behind that competes with the next one. */
static pid_t fork_bound(void) {
    const pid_t bench = getpid();
    const pid_t child = fork();
    if (child < 0)
        fail("cannot start a process");
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != bench)
            _exit(1);
    }
    return child;
}

/* Runs in a child process, as attentiond does, until it is killed. */
static pid_t start_counter(int port) {
    const pid_t child = fork_bound();
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
static pid_t start_service(const char *path, int port, const char *kernel) {
    char listen_at[32];
    snprintf(listen_at, sizeof listen_at, "127.0.0.1:%d", port);
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    const pid_t child = fork_bound();
    if (child != 0) {
        close(nowhere);
        return child;
    }
    dup2(nowhere, STDOUT_FILENO);
    execl(path, path, "--listen", listen_at, "--log", "off", "--threads", "2",
          kernel == NULL ? (char *)NULL : "--kernel", kernel, (char *)NULL);
    dprintf(STDERR_FILENO, "bench/service: cannot start %s: %s\n", path, strerror(errno));
    _exit(1);
}

static void stop(pid_t child) {
    kill(child, SIGTERM);
    waitpid(child, NULL, 0);
}

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
    double ratios[ROUNDS_MAX], counted[ROUNDS_MAX], stored[ROUNDS_MAX];
    struct http_client counter, service;
    const int port = http_client_free_port(21000);
    const pid_t counter_process = start_counter(port);
    const int service_port = http_client_free_port(port + 1);
    const pid_t service_process = start_service(path, service_port, NULL);
    if (!http_client_open(&counter, port, 1 << 16) ||
        !http_client_open(&service, service_port, 1 << 16))
        fail("cannot connect");
    char *body = malloc(UPLOAD);
    memset(body, 0xff, UPLOAD);
    for (size_t round = 0; round <= rounds; round++) {
        const double plain = timed_post(&counter, body, UPLOAD, 400);
        const double ours = timed_post(&service, body, UPLOAD, 400);
        if (round == 0)
            continue;
        counted[round - 1] = UPLOAD / plain / 1e6;
        stored[round - 1] = UPLOAD / ours / 1e6;
        ratios[round - 1] = plain / ours;
    }
    printf("upload of 64 MiB: %.0f MB/s of %.0f counted only: ratio %.3f (goal 0.85)\n",
           yardstick_median(stored, rounds), yardstick_median(counted, rounds),
           yardstick_median(ratios, rounds));
    free(body);
    http_client_close(&counter);
    http_client_close(&service);
    stop(counter_process);
    stop(service_process);
}

/* A safetensors request of float32 q, k, v [1,H,n,D], a multiple of 64 bytes into the body. */
static char *write_request(size_t H, size_t n, size_t D, size_t *length, float *tensors[3]) {
    const size_t bytes = H * n * D * sizeof(float);
    char header[512];
    int used = snprintf(header, sizeof header,
                        "{\"q\":{\"dtype\":\"F32\",\"shape\":[1,%zu,%zu,%zu],\"data_offsets\":[0,"
                        "%zu]},\"k\":{\"dtype\":\"F32\",\"shape\":[1,%zu,%zu,%zu],"
                        "\"data_offsets\":[%zu,%zu]},\"v\":{\"dtype\":\"F32\",\"shape\":[1,%zu,"
                        "%zu,%zu],\"data_offsets\":[%zu,%zu]}}",
                        H, n, D, bytes, H, n, D, bytes, 2 * bytes, H, n, D, 2 * bytes, 3 * bytes);
    while ((used + 8) % 64 != 0)
        header[used++] = ' ';
    const uint64_t header_length = (uint64_t)used;
    *length = 8 + (size_t)used + 3 * bytes;
    char *body = aligned_alloc(64, (*length + 63) / 64 * 64);
    memcpy(body, &header_length, 8);
    memcpy(body + 8, header, (size_t)used);
    for (size_t t = 0; t < 3; t++) {
        tensors[t] = (float *)(void *)(body + 8 + used + t * bytes);
        for (size_t e = 0; e < H * n * D; e++)
            tensors[t][e] = (float)rand() / (float)RAND_MAX * 2.0f - 1.0f;
    }
    return body;
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
    double ratios[ROUNDS_MAX], whole[ROUNDS_MAX], bare_time[ROUNDS_MAX];
    float *tensors[3];
    size_t length;
    char *body = write_request(H, n, D, &length, tensors);
    struct bare_call bare;
    struct http_client client;
    prepare(&bare, kernel, H, n, D, tensors);
    const int port = http_client_free_port(23000);
    const pid_t service = start_service(path, port, kernel);
    if (!http_client_open(&client, port, length))
        fail("cannot connect");
    for (size_t round = 0; round < rounds + 2; round++) {
        const double alone = timed_run(&bare);
        const double served = timed_post(&client, body, length, 200);
        if (round < 2)
            continue;
        bare_time[round - 2] = alone * 1e3;
        whole[round - 2] = served * 1e3;
        ratios[round - 2] = served / alone;
    }
    printf("safetensors call, H=8 n=%zu D=%zu (%.1f MB up): %.2f ms of %.2f ms in %s: ratio %.3f "
           "(goal 1.25)\n",
           n, D, (double)length / 1e6, yardstick_median(whole, rounds),
           yardstick_median(bare_time, rounds), bare.plan.kernel->name,
           yardstick_median(ratios, rounds));
    http_client_close(&client);
    stop(service);
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
