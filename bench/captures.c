/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How soon a map of a kept call can be looked at, and what that costs small calls meanwhile. One
 * head of 32,768 tokens, causal; tiles of 512 x 512 in float16 over HTTP. Every round keeps the
 * call anew, so that nothing of its map is there.
 *
 *   make bench BENCH=captures: maps of a kept call, half a minute
 *   make build && build/release/bench/captures [attentiond] [rounds] [tokens]
 */
#include "bench/child.h"
#include "bench/figure.h"
#include "bench/http_client.h"
#include "bench/tensor_request.h"
#include "bench/yardstick.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 3, ROUNDS_MAX = 21, TOKENS = 32768, D = 64, SMALL_MOST = 200000, ANSWER = 8 << 20 };

static void fail(const char *what) {
    fprintf(stderr, "bench/captures: %s\n", what);
    exit(1);
}

/* Small calls, one after the other with a pause, until they are told to end. */
struct small {
    int port;
    atomic_bool ends;
    size_t count;
    double milliseconds[SMALL_MOST];
};

static void *send_small(void *argument) {
    struct small *small = argument;
    const struct timespec pause = {0, 2000000};
    float *tensors[3];
    size_t length, answer_length;
    char *body = tensor_request(4, 16, 32, &length, tensors);
    const char *answer;
    struct http_client client;
    if (!http_client_open(&client, small->port, 1 << 20))
        fail("cannot connect");
    while (!atomic_load(&small->ends) && small->count < SMALL_MOST) {
        const double begin = yardstick_now();
        if (http_client_post(&client, "/v1/attention", "application/vnd.safetensors", body, length,
                             &answer, &answer_length) != 200)
            fail("a small call was refused");
        small->milliseconds[small->count++] = 1e3 * (yardstick_now() - begin);
        nanosleep(&pause, NULL);
    }
    http_client_close(&client);
    free(body);
    return NULL;
}

static int rising(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double percentile_99(struct small *small) {
    qsort(small->milliseconds, small->count, sizeof *small->milliseconds, rising);
    return small->count == 0 ? 0 : small->milliseconds[small->count * 99 / 100];
}

/* Milliseconds until a map is there. */
static double timed_map(struct http_client *client, const char *id, const char *query) {
    char path[256];
    const char *answer;
    size_t length;
    snprintf(path, sizeof path, "/v1/captures/%s/map%s", id, query);
    const double begin = yardstick_now();
    if (http_client_get(client, path, &answer, &length) != 200)
        fail("a map was refused");
    return 1e3 * (yardstick_now() - begin);
}

/* Keeps the call; its id. */
static void keep(struct http_client *client, const char *body, size_t length, char id[33]) {
    static const char path[] =
        "/v1/attention?mask=causal&return=lse&capture=%7B%22name%22%3A%22bench%22%7D";
    static const char before[] = "/v1/captures/";
    const char *answer, *at = NULL;
    size_t answer_length;
    if (http_client_post(client, path, "application/vnd.safetensors", body, length, &answer,
                         &answer_length) == 200)
        at = memmem(answer, answer_length, before, sizeof before - 1);
    if (at == NULL)
        fail("the call was not kept");
    snprintf(id, 33, "%.32s", at + sizeof before - 1);
}

enum what { PREVIEW, OVERVIEW, PAN, ZOOM, NEAR, SMALL, WHATS };

/* A round: small calls alone, then beside the overview. */
static void measure(struct http_client *client, int port, const char *id,
                    double figures[WHATS][ROUNDS_MAX], size_t round) {
    const struct timespec second = {1, 0};
    double p99[2];
    figures[PREVIEW][round] = timed_map(client, id, "?preview=1");
    for (int beside = 0; beside <= 1; beside++) {
        struct small *small = calloc(1, sizeof *small);
        pthread_t thread;
        if (small == NULL)
            fail("no memory");
        small->port = port;
        if (pthread_create(&thread, NULL, send_small, small) != 0)
            fail("no thread");
        if (beside)
            figures[OVERVIEW][round] = timed_map(client, id, "");
        nanosleep(&second, NULL);
        atomic_store(&small->ends, true);
        pthread_join(thread, NULL);
        p99[beside] = percentile_99(small);
        free(small);
    }
    figures[SMALL][round] = p99[1] / p99[0];
    figures[PAN][round] = timed_map(client, id, "?rows=8192:24576&cols=4096:20480");
    figures[ZOOM][round] = timed_map(client, id, "?rows=20001:24097&cols=9003:13099");
    figures[NEAR][round] = timed_map(client, id, "?rows=20001:20513&cols=9003:9515");
}

int main(int argc, char **argv) {
    static const struct figure ROWS[WHATS] = {
        [PREVIEW] = {.what = "preview, whole", .unit = "ms", .at_most = 300},
        [OVERVIEW] = {.what = "overview, exact", .unit = "ms", .at_most = 2500},
        [PAN] = {.what = "16,384 x 16,384 of it", .unit = "ms", .at_most = 150},
        [ZOOM] = {.what = "4,096 x 4,096 beside its bins", .unit = "ms", .at_most = 150},
        [NEAR] = {.what = "512 x 512 cells", .unit = "ms", .at_most = 150},
        [SMALL] = {.what = "p99 of small calls meanwhile", .unit = "of before", .at_most = 1.5},
    };
    static double figures[WHATS][ROUNDS_MAX];
    const char *path = argc > 1 ? argv[1] : "build/attentiond";
    size_t rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : ROUNDS;
    const size_t tokens = argc > 3 ? strtoul(argv[3], NULL, 10) : TOKENS;
    float *tensors[3];
    size_t length;
    struct http_client client;
    char id[33];
    rounds = rounds < 1 ? 1 : rounds > ROUNDS_MAX ? ROUNDS_MAX : rounds;
    setvbuf(stdout, NULL, _IOLBF, 0);
    setenv("ATTENTIOND_CAPTURES", "on", 1);
    char *body = tensor_request(1, tokens, D, &length, tensors);
    const int port = http_client_free_port(25000);
    const pid_t service = child_service(path, port, NULL, -1);
    if (!http_client_open(&client, port, ANSWER))
        fail("cannot connect");
    for (size_t round = 0; round < rounds; round++) {
        keep(&client, body, length, id);
        measure(&client, port, id, figures, round);
    }
    for (size_t what = 0; what < WHATS; what++) {
        struct figure figure = ROWS[what];
        figure.value = yardstick_median(figures[what], rounds);
        figure.rounds = rounds;
        figure_print(&figure);
    }
    http_client_close(&client);
    child_stop(service);
    free(body);
    return 0;
}
