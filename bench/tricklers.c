/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a thousand clients cost the others that send a byte per second each, half of them of a head
 * and half of a body: the 99th percentile of small calls at random times beside them, over that
 * without them. Rounds with and without take turns, with connections that come and go with each;
 * the times of all rounds of a kind count together. The clients are a process of their own.
 *
 *   make bench BENCH=tricklers: small calls beside slow clients, half a minute (SECONDS=60 each)
 *   make build && build/release/bench/tricklers [attentiond] [seconds]
 */
#include "bench/child.h"
#include "bench/figure.h"
#include "bench/http_client.h"
#include "bench/open_loop.h"
#include "bench/processors.h"
#include "bench/tensor_request.h"
#include "bench/yardstick.h"

#include <arpa/inet.h>
#include <math.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { SECONDS = 6, ROUNDS = 6, CLIENTS = 1000, CONNECTIONS = 1024, RATE = 400 };

/* Calls as small as those that are computed at once on an I/O thread, and such as workers get. */
static const struct {
    const char *what;
    size_t heads, tokens, size;
} KINDS[] = {{"computed at once", 2, 64, 16}, {"computed by workers", 2, 256, 32}};
enum { KIND_COUNT = sizeof KINDS / sizeof *KINDS };

static void fail(const char *what) {
    fprintf(stderr, "bench/tricklers: %s\n", what);
    exit(1);
}

static void sleep_seconds(double seconds) {
    const struct timespec span = {(time_t)seconds, (long)(1e9 * fmod(seconds, 1))};
    nanosleep(&span, NULL);
}

/* ---- the slow clients ---- */

struct trickler {
    int fd; /* -1: not connected */
    size_t sent;
};

static const char SLOW_HEAD[] = "POST /v1/attention HTTP/1.1\r\nHost: localhost\r\nX-Slow: a";
static const char SLOW_BODY[] = "POST /v1/attention HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                                "application/json\r\nContent-Length: 100000\r\n\r\n";

static void begin_trickle(struct trickler *client, int port, bool in_body) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const char *first = in_body ? SLOW_BODY : SLOW_HEAD;
    client->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (client->fd < 0 ||
        connect(client->fd, (const struct sockaddr *)&address, sizeof address) != 0 ||
        send(client->fd, first, strlen(first), MSG_NOSIGNAL) < 0)
        fail("a slow client cannot connect");
}

/* One byte more; a client that was told off begins anew. */
static void trickle(struct trickler *client, int port, bool in_body) {
    char answer[512];
    if (client->fd >= 0 && recv(client->fd, answer, sizeof answer, MSG_DONTWAIT) >= 0) {
        close(client->fd);
        client->fd = -1;
    }
    if (client->fd < 0)
        begin_trickle(client, port, in_body);
    else
        send(client->fd, "a", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Until it is killed; says so on `ready` when all are connected. */
static pid_t start_tricklers(int port, int ready) {
    static struct trickler clients[CLIENTS];
    const pid_t child = child_fork();
    if (child != 0)
        return child;
    for (size_t i = 0; i < CLIENTS; i++)
        begin_trickle(&clients[i], port, i % 2 == 1);
    if (write(ready, "", 1) != 1)
        _exit(1);
    const double begin = yardstick_now();
    for (size_t turn = 0;; turn++) {
        const double ahead = begin + (double)turn / CLIENTS - yardstick_now();
        if (ahead > 0)
            sleep_seconds(ahead);
        trickle(&clients[turn % CLIENTS], port, turn % CLIENTS % 2 == 1);
    }
}

/* ---- the others ---- */

struct times {
    double *seconds;
    size_t count;
};

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double percentile(struct times *times, double share) {
    qsort(times->seconds, times->count, sizeof(double), ascending);
    return times->count == 0 ? 0 : times->seconds[(size_t)(share * (double)(times->count - 1))];
}

static void add_times(struct times *times, const struct open_loop_plan *plan) {
    struct open_loop_result result = open_loop_run(plan);
    struct open_loop_times good = open_loop_times(&result, 200, 0, plan->seconds);
    if (good.count != result.count || result.unsent > 0)
        fail("a call was not answered 200");
    times->seconds = realloc(times->seconds, (times->count + good.count) * sizeof(double) + 1);
    memcpy(times->seconds + times->count, good.seconds, good.count * sizeof(double));
    times->count += good.count;
    free(good.seconds);
    open_loop_free(&result);
}

static char *build_request(size_t kind, size_t *length) {
    float *tensors[3];
    size_t body_length;
    char *body = tensor_request(KINDS[kind].heads, KINDS[kind].tokens, KINDS[kind].size,
                                &body_length, tensors);
    char *request = malloc(body_length + 512);
    *length = (size_t)snprintf(request, 512,
                               "POST /v1/attention HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                               "application/vnd.safetensors\r\nContent-Length: %zu\r\n\r\n",
                               body_length);
    memcpy(request + *length, body, body_length);
    *length += body_length;
    free(body);
    return request;
}

static pid_t begin_clients(int port) {
    int ready[2];
    char word;
    if (pipe(ready) != 0)
        fail("there is no pipe");
    const pid_t clients = start_tricklers(port, ready[1]);
    if (read(ready[0], &word, 1) != 1)
        fail("the slow clients did not start");
    close(ready[0]);
    close(ready[1]);
    return clients;
}

static void end_clients(pid_t clients) {
    child_kill(clients);
    sleep_seconds(0.3);
}

static void measure(int port, size_t kind, double seconds) {
    struct open_loop_plan plan = {
        .port = port, .rate = RATE, .connections = CONNECTIONS, .seconds = seconds / ROUNDS};
    struct times with = {0}, without = {0};
    char *request = build_request(kind, &plan.request_length);
    char beside[128];
    plan.request = request;
    for (int round = 0; round < ROUNDS; round++) {
        add_times(&without, &plan);
        const pid_t clients = begin_clients(port);
        add_times(&with, &plan);
        end_clients(clients);
    }
    const double slow = percentile(&with, 0.99), fast = percentile(&without, 0.99);
    snprintf(beside, sizeof beside, "%.3f ms of %.3f ms, medians %.3f ms of %.3f ms, %zu calls",
             1e3 * slow, 1e3 * fast, 1e3 * percentile(&with, 0.5), 1e3 * percentile(&without, 0.5),
             with.count);
    figure_print(&(struct figure){.what = KINDS[kind].what,
                                  .value = slow / fast,
                                  .unit = "of the 99th percentile without slow clients",
                                  .at_most = 1.05,
                                  .beside = beside});
    free(request);
    free(with.seconds);
    free(without.seconds);
}

/* What does not depend on who else uses the machine. */
static void measure_cost(int port, pid_t service, double seconds) {
    const pid_t clients = begin_clients(port);
    sleep_seconds(0.5);
    const double before = processors_used(service), begin = yardstick_now();
    sleep_seconds(seconds);
    const double used = (processors_used(service) - before) / (yardstick_now() - begin);
    end_clients(clients);
    figure_print(&(struct figure){.what = "the daemon's processor time for slow clients alone",
                                  .value = 100 * used,
                                  .unit = "% of a processor",
                                  .at_most = 5});
}

int main(int argc, char **argv) {
    const char *path = argc > 1 ? argv[1] : "build/attentiond";
    const char *asked = argc > 2 ? argv[2] : getenv("SECONDS");
    struct rlimit descriptors;
    struct http_client first;
    setvbuf(stdout, NULL, _IOLBF, 0);
    getrlimit(RLIMIT_NOFILE, &descriptors);
    descriptors.rlim_cur = descriptors.rlim_max;
    setrlimit(RLIMIT_NOFILE, &descriptors);
    const int port = http_client_free_port(26000);
    const pid_t service = child_service(path, port, NULL, -1);
    if (!http_client_open(&first, port, 1 << 16))
        fail("cannot connect");
    http_client_close(&first);
    const double seconds = asked == NULL ? SECONDS : fmax(atof(asked), 1);
    const struct processors_span span = processors_begin(service);
    for (size_t kind = 0; kind < KIND_COUNT; kind++)
        measure(port, kind, seconds);
    measure_cost(port, service, seconds);
    printf("others, the slow clients among them, used %.0f %% of the processors meanwhile\n",
           100 * processors_others(&span));
    child_stop(service);
    return 0;
}
