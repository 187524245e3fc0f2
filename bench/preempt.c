/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a small call waits for while a long one computes: the daemon's own time for it, from the end
 * of its head to the last byte of its answer (the access log's "ms"), with a call of 8 heads and
 * 16,384 tokens in flight, against the same calls of a daemon that is idle while another process
 * burns the same CPU in the same way at the priority of the compute threads. In each round small
 * calls are sent one after the other for as long as the long one takes, two seconds at most, and
 * then for as long beside that process; 99th percentiles over all rounds.
 *
 *   make bench BENCH=preempt: small calls beside a long one, about half a minute
 *   make build && build/release/bench/preempt [attentiond] [rounds]
 */
#include "bench/bare_call.h"
#include "bench/child.h"
#include "bench/figure.h"
#include "bench/http_client.h"
#include "bench/tensor_request.h"
#include "bench/yardstick.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 4, SAMPLES_MAX = 1 << 18, LONG_HEADS = 8, LONG_TOKENS = 16384, D = 64 };

/* Seconds between two calls, and for what was sent to be decoded, or what was stopped to rest. */
#define PAUSE 1e-3
#define SETTLE 0.1
/* And for a long call at most: on a busy machine it takes many. */
#define LONGEST 2.0

#define GOAL 3

static void fail(const char *what) {
    fprintf(stderr, "bench/preempt: %s\n", what);
    exit(1);
}

static void sleep_seconds(double seconds) {
    const struct timespec span = {(time_t)seconds,
                                  (long)(1e9 * (seconds - (double)(time_t)seconds))};
    nanosleep(&span, NULL);
}

struct body {
    const char *media_type;
    char *data;
    size_t length;
};

struct samples {
    double *ms;
    size_t count;
};

struct bench {
    int port, log;
    off_t log_read;
    pid_t service, burner;
    struct body body; /* of the long call */
};

/* ---- the long call, and the process that burns what it would ---- */

struct long_call {
    struct http_client client;
    pthread_t thread;
    int status; /* of the answer, 0 when it was cut */
    atomic_bool answered;
};

static void *await_long(void *argument) {
    struct long_call *call = argument;
    const char *answer;
    size_t length;
    call->status = http_client_receive(&call->client, &answer, &length);
    atomic_store(&call->answered, true);
    return NULL;
}

/* Returns once it is uploaded and computed. */
static void begin_long(struct long_call *call, const struct bench *bench) {
    enum { ANSWER = LONG_HEADS * LONG_TOKENS * D * 4 + (1 << 16) };
    const struct body *body = &bench->body;
    memset(call, 0, sizeof *call);
    if (!http_client_open(&call->client, bench->port, ANSWER) ||
        !http_client_send(&call->client, "/v1/attention", body->media_type, body->data,
                          body->length) ||
        pthread_create(&call->thread, NULL, await_long, call) != 0)
        fail("the long call cannot begin");
    sleep_seconds(SETTLE);
}

/* The daemon ends what nobody waits for. */
static void end_long(struct long_call *call) {
    const bool cut = !atomic_load(&call->answered);
    if (cut)
        shutdown(call->client.fd, SHUT_RDWR);
    pthread_join(call->thread, NULL);
    http_client_close(&call->client);
    if (!cut && call->status != 200)
        fail("the long call was refused");
    sleep_seconds(SETTLE);
}

/* The niceness of the daemon's compute threads: the most that any of its threads has. */
static int compute_niceness(pid_t service) {
    char path[64];
    int most = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)service);
    DIR *tasks = opendir(path);
    for (struct dirent *entry; tasks != NULL && (entry = readdir(tasks)) != NULL;) {
        const int niceness = getpriority(PRIO_PROCESS, (id_t)strtoul(entry->d_name, NULL, 10));
        if (entry->d_name[0] != '.' && niceness > most)
            most = niceness;
    }
    if (tasks != NULL)
        closedir(tasks);
    return most;
}

/* The long call without a service, again and again, in a process that sleeps until it is woken. */
static pid_t start_burner(int niceness) {
    const pid_t child = child_fork();
    if (child != 0)
        return child;
    const size_t shape[] = {1, LONG_HEADS, LONG_TOKENS, D};
    const size_t count = (size_t)LONG_HEADS * LONG_TOKENS * D;
    static struct bare_call bare;
    setpriority(PRIO_PROCESS, 0, niceness);
    attn_request_init(&bare.request);
    bare.request.q = attn_tensor_view(bare_random(count), ATTN_FLOAT32, 4, shape);
    bare.request.k = attn_tensor_view(bare_random(count), ATTN_FLOAT32, 4, shape);
    bare.request.v = attn_tensor_view(bare_random(count), ATTN_FLOAT32, 4, shape);
    bare_call_open(&bare, YARDSTICK_THREADS);
    raise(SIGSTOP);
    for (;;)
        bare_call_run(&bare);
}

/* ---- the small calls ---- */

/* A line of the access log about a call with this body that was answered. */
static bool is_about(const char *line, const struct body *body) {
    char size[48];
    snprintf(size, sizeof size, "\"body_bytes\":%zu,", body->length);
    return strstr(line, size) != NULL && strstr(line, "\"status\":200,") != NULL;
}

/* The daemon's time of each small call since the last look, as far as the long call's line where
 * there is one: what follows was not beside it. */
static void read_log(struct bench *bench, const struct body *body, struct samples *samples) {
    const off_t end = lseek(bench->log, 0, SEEK_END);
    const size_t length = (size_t)(end - bench->log_read);
    char *text = malloc(length + 1);
    if (text == NULL || pread(bench->log, text, length, bench->log_read) != (ssize_t)length)
        fail("the access log cannot be read");
    text[length] = '\0';
    bench->log_read = end;
    for (char *rest = text, *line; (line = strsep(&rest, "\n")) != NULL;) {
        const char *ms = strstr(line, "\"ms\":");
        if (is_about(line, &bench->body))
            break;
        if (ms != NULL && is_about(line, body) && samples->count < SAMPLES_MAX)
            samples->ms[samples->count++] = strtod(ms + 5, NULL);
    }
    free(text);
}

/* Small calls until `over` (NULL: never) or for `limit` seconds; the seconds that they took. */
static double post_small(const struct bench *bench, const struct body *body,
                         const atomic_bool *over, double limit) {
    struct http_client client;
    const char *answer;
    size_t length;
    if (!http_client_open(&client, bench->port, 1 << 22))
        fail("cannot connect");
    const double begin = yardstick_now();
    while ((over == NULL || !atomic_load(over)) && yardstick_now() - begin < limit) {
        if (http_client_post(&client, "/v1/attention", body->media_type, body->data, body->length,
                             &answer, &length) != 200)
            fail("a small call was refused");
        sleep_seconds(PAUSE);
    }
    const double spent = yardstick_now() - begin;
    http_client_close(&client);
    sleep_seconds(SETTLE); /* the last lines */
    return spent;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double percentile(struct samples *samples, double part) {
    if (samples->count == 0)
        fail("no small call was logged");
    qsort(samples->ms, samples->count, sizeof *samples->ms, by_value);
    return samples->ms[(size_t)(part * (double)(samples->count - 1))];
}

static void measure(struct bench *bench, const char *name, const struct body *body, size_t rounds) {
    struct samples with = {malloc(SAMPLES_MAX * sizeof(double)), 0};
    struct samples control = {malloc(SAMPLES_MAX * sizeof(double)), 0};
    for (size_t round = 0; round < rounds; round++) {
        struct long_call call;
        begin_long(&call, bench);
        const double spent = post_small(bench, body, &call.answered, LONGEST);
        end_long(&call);
        read_log(bench, body, &with);
        kill(bench->burner, SIGCONT);
        sleep_seconds(SETTLE);
        post_small(bench, body, NULL, spent);
        kill(bench->burner, SIGSTOP);
        read_log(bench, body, &control);
    }
    const double p50 = percentile(&with, 0.5), control_p50 = percentile(&control, 0.5);
    const double p99 = percentile(&with, 0.99), control_p99 = percentile(&control, 0.99);
    char beside[160];
    snprintf(beside, sizeof beside, "p99 %.3f ms of %.3f, p50 %.3f ms of %.3f, %zu and %zu calls",
             p99, control_p99, p50, control_p50, with.count, control.count);
    figure_print(&(struct figure){.what = name,
                                  .value = p99 / control_p99,
                                  .unit = "of the p99 beside the process",
                                  .at_most = GOAL,
                                  .beside = beside});
    free(with.ms);
    free(control.ms);
}

static struct body safetensors(size_t H, size_t n) {
    float *tensors[3];
    struct body body = {.media_type = "application/vnd.safetensors"};
    body.data = tensor_request(H, n, D, &body.length, tensors);
    return body;
}

int main(int argc, char **argv) {
    const char *path = argc > 1 ? argv[1] : "build/attentiond";
    const size_t rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : ROUNDS;
    struct bench bench = {.port = http_client_free_port(25000),
                          .log = memfd_create("access log", MFD_CLOEXEC)};
    struct body json = {.media_type = "application/json"};
    setvbuf(stdout, NULL, _IOLBF, 0);
    bench.service = child_service(path, bench.port, NULL, bench.log);
    bench.body = safetensors(LONG_HEADS, LONG_TOKENS);
    struct body bodies[] = {safetensors(1, 64), safetensors(1, 512)};
    json.data = tensor_request_json(1, 64, D, &json.length);
    struct http_client ready;
    if (!http_client_open(&ready, bench.port, 1 << 16))
        fail("cannot connect");
    http_client_close(&ready);
    bench.burner = start_burner(compute_niceness(bench.service));
    measure(&bench, "64 x 64, safetensors", &bodies[0], rounds);
    measure(&bench, "64 x 64, JSON", &json, rounds);
    measure(&bench, "512 x 64, safetensors", &bodies[1], rounds);
    child_kill(bench.burner);
    child_stop(bench.service);
    return 0;
}
