/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a step of a session costs around its arithmetic, over a connection that stays: one token of
 * 8 heads with D = 128 in safetensors, in turn with a libmicrohttpd server that reads as many bytes
 * and answers as many, and with one that waits between calls as the service does. Sessions are
 * short, so that a step is computed by the thread that reads it, or long. What the service says
 * that its arithmetic took is taken off.
 *
 *   make bench BENCH=steps: steps of sessions over HTTP against an echo, ten seconds
 *   make build && build/release/bench/steps [attentiond]
 */
#include "bench/child.h"
#include "bench/figure.h"
#include "bench/http_client.h"
#include "bench/yardstick.h"

#include <math.h>
#include <microhttpd.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HEADS = 8, D = 128, ROUNDS = 9, STEPS = 200, SHORT = 64, LONG = 16384 };
enum { ROWS = HEADS * D, ANSWER_ROOM = 1 << 16, ECHOES = 2, RUN = 20 };
#define AWAKE 100e-6 /* seconds, as server/http/http_wait.c has it */
#define SAFETENSORS "application/vnd.safetensors"

static void fail(const char *what, const char *answer) {
    fprintf(stderr, "bench/steps: %s %s\n", what, answer);
    exit(1);
}

/* ---- the echo ---- */

struct echo {
    size_t bytes;
    char answer[ANSWER_ROOM];
};

static enum MHD_Result echo_call(void *closure, struct MHD_Connection *connection, const char *url,
                                 const char *method, const char *version, const char *data,
                                 size_t *size, void **state) {
    struct echo *echo = closure;
    (void)url, (void)method, (void)version, (void)data;
    if (*state == NULL || *size > 0) {
        *state = closure;
        *size = 0;
        return MHD_YES;
    }
    struct MHD_Response *response =
        MHD_create_response_from_buffer(echo->bytes, echo->answer, MHD_RESPMEM_PERSISTENT);
    const enum MHD_Result queued = MHD_queue_response(connection, 200, response);
    MHD_destroy_response(response);
    return queued;
}

/* Waits as the daemon's threads do in a dialogue, and has its connections' memory. */
static void echo_awake(int port, struct echo *echo) {
    struct MHD_Daemon *daemon =
        MHD_start_daemon(MHD_USE_EPOLL, (uint16_t)port, NULL, NULL, echo_call, echo,
                         MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)128 << 10, MHD_OPTION_END);
    if (daemon == NULL)
        _exit(1);
    struct pollfd polled = {.fd = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd,
                            .events = POLLIN};
    for (;;) {
        const double end = yardstick_now() + AWAKE;
        while (poll(&polled, 1, 0) == 0 && yardstick_now() < end)
            sched_yield();
        if (polled.revents == 0)
            poll(&polled, 1, 100);
        MHD_run(daemon);
    }
}

/* In a child process, as the daemon is, until it is killed. */
static pid_t start_echo(int port, size_t bytes, bool awake) {
    const pid_t child = child_fork();
    if (child != 0)
        return child;
    static struct echo echo;
    echo.bytes = bytes;
    if (awake)
        echo_awake(port, &echo);
    if (MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD, (uint16_t)port, NULL, NULL, echo_call,
                         &echo, MHD_OPTION_END) == NULL)
        _exit(1);
    for (;;)
        pause();
}

/* ---- the service ---- */

/* q, k and v [HEADS, rows, D]; rows of q or none. The caller frees it. */
static char *build_step(size_t rows, size_t queries, size_t *length) {
    const size_t own = queries * ROWS * sizeof(float), bytes = rows * ROWS * sizeof(float);
    char header[600];
    int used = snprintf(
        header, sizeof header,
        "{\"__metadata__\":{\"options\":\"{\\\"layer\\\":0}\"},\"q\":{\"dtype\":\"F32\",\"shape\":"
        "[%d,%zu,%d],\"data_offsets\":[0,%zu]},\"k\":{\"dtype\":\"F32\",\"shape\":[%d,%zu,%d],"
        "\"data_offsets\":[%zu,%zu]},\"v\":{\"dtype\":\"F32\",\"shape\":[%d,%zu,%d],"
        "\"data_offsets\":[%zu,%zu]}}",
        HEADS, queries, D, own, HEADS, rows, D, own, own + bytes, HEADS, rows, D, own + bytes,
        own + 2 * bytes);
    while ((used + 8) % 64 != 0)
        header[used++] = ' ';
    const uint64_t header_length = (uint64_t)used;
    *length = 8 + (size_t)used + own + 2 * bytes;
    char *body = malloc(*length);
    memcpy(body, &header_length, 8);
    memcpy(body + 8, header, (size_t)used);
    for (size_t at = 8 + (size_t)used; at < *length; at += sizeof(float)) {
        const float value = (float)rand() / (float)RAND_MAX - 0.5f;
        memcpy(body + at, &value, sizeof value);
    }
    return body;
}

/* Seconds; *timing borrows the answer's Server-Timing until the next call. */
static double post(struct http_client *client, const char *path, const char *type, const char *body,
                   size_t length, const char **timing) {
    const char *answer;
    size_t answer_length;
    const double begin = yardstick_now();
    const int status = http_client_post(client, path, type, body, length, &answer, &answer_length);
    const double spent = yardstick_now() - begin;
    if (status / 100 != 2)
        fail("an unexpected answer:", status == 0 ? "none" : answer);
    *timing = strstr(client->buffer, "\r\nServer-Timing:");
    return spent;
}

/* Microseconds of a stage. */
static double stage(const char *timing, const char *name) {
    const char *at = timing == NULL ? NULL : strstr(timing, name);
    return at == NULL ? 0 : 1e3 * atof(at + strlen(name));
}

struct sample {
    double whole, apart; /* microseconds: a step, the same less its arithmetic */
    double echo[ECHOES]; /* asleep between calls, and awake */
    double within;       /* of the service's own time, less its arithmetic */
};

static void take_step(struct http_client *service, const char *path, const char *step,
                      size_t length, struct sample *sample) {
    static const char *const AROUND[] = {"read;dur=", "decode;dur=", "queue;dur=", "encode;dur="};
    const char *timing;
    sample->whole = 1e6 * post(service, path, SAFETENSORS, step, length, &timing);
    sample->apart = sample->whole - stage(timing, "compute;dur=");
    for (size_t n = 0; n < sizeof AROUND / sizeof *AROUND; n++)
        sample->within += stage(timing, AROUND[n]);
}

/* A run of each, for who has just answered waits awake, and would take a processor from the next.
 */
static void take(struct http_client *service, struct http_client *echoes, const char *path,
                 const char *step, size_t length, struct sample *samples) {
    const char *timing;
    memset(samples, 0, RUN * sizeof *samples);
    for (int echo = 0; echo < ECHOES; echo++)
        for (size_t n = 0; n < RUN; n++)
            samples[n].echo[echo] =
                1e6 * post(&echoes[echo], "/", SAFETENSORS, step, length, &timing);
    for (size_t n = 0; n < RUN; n++)
        take_step(service, path, step, length, &samples[n]);
}

static void open_session(struct http_client *service, const char *id, size_t tokens) {
    char body[256], path[64];
    const char *timing;
    snprintf(body, sizeof body,
             "{\"id\":\"%s\",\"layers\":1,\"kv_heads\":%d,\"head_dim\":%d,\"dtype\":\"float32\","
             "\"capacity\":65536}",
             id, HEADS, D);
    post(service, "/v1/sessions", "application/json", body, strlen(body), &timing);
    snprintf(path, sizeof path, "/v1/sessions/%s/attention", id);
    size_t length;
    char *prompt = build_step(tokens, 0, &length);
    post(service, path, SAFETENSORS, prompt, length, &timing);
    free(prompt);
}

static void print(const char *what, double value, const char *unit, double at_most,
                  const char *beside) {
    figure_print(&(struct figure){.what = what,
                                  .value = value,
                                  .unit = unit,
                                  .at_most = at_most,
                                  .rounds = ROUNDS,
                                  .beside = beside});
}

static double median_of(const struct sample *samples, size_t count,
                        double (*of)(const struct sample *sample)) {
    static double values[ROUNDS * STEPS];
    for (size_t n = 0; n < count; n++)
        values[n] = of(&samples[n]);
    return yardstick_median(values, count);
}

static double whole(const struct sample *sample) {
    return sample->whole;
}

static double apart(const struct sample *sample) {
    return sample->apart;
}

static double within(const struct sample *sample) {
    return sample->within;
}

static double asleep(const struct sample *sample) {
    return sample->echo[0];
}

static double awake(const struct sample *sample) {
    return sample->echo[1];
}

static double to_asleep(const struct sample *sample) {
    return sample->apart / sample->echo[0];
}

static double to_awake(const struct sample *sample) {
    return sample->apart / sample->echo[1];
}

static void report(size_t tokens, const struct sample *samples, size_t count) {
    char what[96], beside[128];
    snprintf(what, sizeof what, "a step over %zu tokens, from read to write", tokens);
    print(what, median_of(samples, count, within), "us beside its arithmetic", 60, NULL);
    snprintf(what, sizeof what, "a step over %zu tokens, end to end", tokens);
    snprintf(beside, sizeof beside, "%.1f us, %.1f without its arithmetic, of %.1f us",
             median_of(samples, count, whole), median_of(samples, count, apart),
             median_of(samples, count, asleep));
    print(what, median_of(samples, count, to_asleep), "of an echo", 1.5, beside);
    snprintf(what, sizeof what, "a step over %zu tokens, beside one that waits alike", tokens);
    snprintf(beside, sizeof beside, "of %.1f us", median_of(samples, count, awake));
    print(what, median_of(samples, count, to_awake), "of an echo", 0, beside);
}

static void measure(struct http_client *service, struct http_client *echoes, size_t tokens,
                    const char *step, size_t length) {
    static struct sample samples[ROUNDS * STEPS], unused[RUN];
    size_t count = 0;
    for (size_t round = 0; round <= ROUNDS; round++) {
        char id[32], path[64];
        snprintf(id, sizeof id, "s%zu-%zu", tokens, round);
        snprintf(path, sizeof path, "/v1/sessions/%s/attention", id);
        open_session(service, id, tokens);
        for (size_t n = 0; n < STEPS; n += RUN) {
            take(service, echoes, path, step, length, round > 0 ? samples + count : unused);
            count += round > 0 ? RUN : 0;
        }
    }
    report(tokens, samples, count);
}

int main(int argc, char **argv) {
    const char *path = argc > 1 ? argv[1] : "build/attentiond";
    struct http_client service, echoes[ECHOES];
    pid_t echoing[ECHOES];
    size_t length;
    setvbuf(stdout, NULL, _IOLBF, 0);
    const int port = http_client_free_port(26000);
    const pid_t daemon = child_service(path, port, NULL, -1);
    if (!http_client_open(&service, port, ANSWER_ROOM))
        fail("cannot connect", "");
    for (int n = 0, at = port; n < ECHOES; n++) {
        at = http_client_free_port(at + 1);
        echoing[n] = start_echo(at, ROWS * sizeof(float) + 256, n == 1);
        if (!http_client_open(&echoes[n], at, ANSWER_ROOM))
            fail("cannot connect", "");
    }
    char *step = build_step(1, 1, &length);
    measure(&service, echoes, SHORT, step, length);
    measure(&service, echoes, LONG, step, length);
    free(step);
    http_client_close(&service);
    for (int n = 0; n < ECHOES; n++) {
        http_client_close(&echoes[n]);
        child_kill(echoing[n]);
    }
    child_stop(daemon);
    return 0;
}
