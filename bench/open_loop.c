/* SPDX-License-Identifier: Apache-2.0 */
/* See open_loop.h. */
#include "bench/open_loop.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "bench/yardstick.h"

enum { HEAD_ROOM = 4096, EVENTS = 256, SCRATCH = 64 << 10 };
/* Answers are awaited so many seconds beyond the end. */
#define PATIENCE 30.0

struct connection {
    int fd; /* -1: not open */
    bool is_free;
    double due;
    size_t sent;    /* of the request */
    size_t have;    /* of the head */
    size_t missing; /* of the body; SIZE_MAX before the head has been read */
    int status;
    bool closes;
    char head[HEAD_ROOM + 1];
};

struct loop {
    const struct open_loop_plan *plan;
    struct open_loop_result result;
    struct connection *connections;
    size_t *free, free_count; /* numbers of those that are free, the last used on top */
    size_t busy;
    int epoll;
    double begin, next_due;
    uint64_t random;
    char *scratch;
};

static void fail(const char *what) {
    fprintf(stderr, "bench/open_loop: %s\n", what);
    exit(1);
}

static void *memory(size_t count, size_t size) {
    void *block = calloc(count, size);
    if (block == NULL)
        fail("there is no memory");
    return block;
}

/* Exponentially distributed, of this mean: xorshift*, the same in every run. */
static double draw(struct loop *loop, double mean) {
    loop->random ^= loop->random >> 12;
    loop->random ^= loop->random << 25;
    loop->random ^= loop->random >> 27;
    const uint64_t bits = loop->random * UINT64_C(2685821657736338717) >> 11;
    return -mean * log1p(-(double)bits * 0x1p-53);
}

static double own_seconds(void) {
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/* ---- connections ---- */

static void watch(struct loop *loop, size_t number, int how, uint32_t events) {
    struct epoll_event event = {.events = events, .data.u64 = number};
    if (epoll_ctl(loop->epoll, how, loop->connections[number].fd, &event) != 0)
        fail("a connection cannot be watched");
}

static void open_connection(struct loop *loop, size_t number) {
    struct connection *connection = &loop->connections[number];
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)loop->plan->port)};
    const int on = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connection->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connection->fd < 0 ||
        connect(connection->fd, (const struct sockaddr *)&address, sizeof address) != 0)
        fail("nobody listens");
    setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    fcntl(connection->fd, F_SETFL, O_NONBLOCK);
    watch(loop, number, EPOLL_CTL_ADD, EPOLLIN);
}

static void close_connection(struct connection *connection) {
    close(connection->fd);
    connection->fd = -1;
}

static void record(struct loop *loop, const struct connection *connection) {
    struct open_loop_result *result = &loop->result;
    if (result->count == result->room) {
        result->room = result->room * 2 + 4096;
        result->calls = realloc(result->calls, result->room * sizeof *result->calls);
        if (result->calls == NULL)
            fail("there is no memory");
    }
    result->calls[result->count++] =
        (struct open_loop_call){connection->due, yardstick_now() - loop->begin, connection->status};
}

/* ---- one call ---- */

static void start(struct loop *loop, size_t number, double due);

static void end_call(struct loop *loop, size_t number) {
    struct connection *connection = &loop->connections[number];
    record(loop, connection);
    if (connection->closes || connection->status == 0)
        close_connection(connection);
    connection->is_free = true;
    loop->free[loop->free_count++] = number;
    loop->busy--;
    const double now = yardstick_now() - loop->begin;
    if (loop->plan->rate == 0 && now < loop->plan->seconds)
        start(loop, loop->free[--loop->free_count], now);
}

static void break_off(struct loop *loop, size_t number) {
    loop->connections[number].status = 0;
    end_call(loop, number);
}

/* What the socket takes now; an answer may come before all is sent. */
static void send_some(struct loop *loop, size_t number) {
    struct connection *connection = &loop->connections[number];
    const size_t length = loop->plan->request_length;
    while (connection->sent < length) {
        const ssize_t sent = send(connection->fd, loop->plan->request + connection->sent,
                                  length - connection->sent, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN) {
            watch(loop, number, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
            return;
        }
        if (sent < 0)
            return; /* the answer, or the reset, is still to be read */
        connection->sent += (size_t)sent;
    }
}

static void start(struct loop *loop, size_t number, double due) {
    struct connection *connection = &loop->connections[number];
    if (connection->fd < 0)
        open_connection(loop, number);
    connection->is_free = false;
    connection->due = due;
    connection->sent = connection->have = 0;
    connection->missing = SIZE_MAX;
    connection->status = 0;
    connection->closes = false;
    loop->busy++;
    loop->result.latest_start =
        fmax(loop->result.latest_start, yardstick_now() - loop->begin - due);
    send_some(loop, number);
}

/* The head is there: what it says of itself and of the body. */
static void read_head(struct connection *connection, const char *end) {
    const char *length = strcasestr(connection->head, "\r\nContent-Length:");
    const size_t head_length = (size_t)(end + 4 - connection->head);
    const size_t body = length == NULL ? 0 : strtoull(length + 17, NULL, 10);
    connection->status = atoi(connection->head + 9);
    connection->closes = strcasestr(connection->head, "\r\nConnection: close") != NULL;
    connection->missing = body - (connection->have - head_length);
}

/* Takes what has come; false at the end of the stream. */
static bool receive_some(struct loop *loop, struct connection *connection) {
    const bool in_head = connection->missing == SIZE_MAX;
    char *to = in_head ? connection->head + connection->have : loop->scratch;
    const ssize_t got =
        recv(connection->fd, to, in_head ? HEAD_ROOM - connection->have : SCRATCH, 0);
    if (got <= 0)
        return got < 0 && errno == EAGAIN;
    if (!in_head) {
        connection->missing -= (size_t)got;
        return true;
    }
    connection->have += (size_t)got;
    connection->head[connection->have] = '\0';
    const char *end = strstr(connection->head, "\r\n\r\n");
    if (end != NULL)
        read_head(connection, end);
    return end != NULL || connection->have < HEAD_ROOM;
}

static void serve(struct loop *loop, size_t number, uint32_t events) {
    struct connection *connection = &loop->connections[number];
    if (connection->is_free) { /* the other side ends an idle connection */
        if (connection->fd >= 0 && recv(connection->fd, loop->scratch, 1, 0) <= 0)
            close_connection(connection);
        return;
    }
    if ((events & EPOLLOUT) != 0) {
        watch(loop, number, EPOLL_CTL_MOD, EPOLLIN);
        send_some(loop, number);
    }
    if ((events & (EPOLLIN | EPOLLERR | EPOLLHUP)) == 0)
        return;
    if (!receive_some(loop, connection))
        break_off(loop, number);
    else if (connection->missing == 0)
        end_call(loop, number);
}

/* ---- the loop ---- */

static void start_due(struct loop *loop, double now) {
    while (loop->next_due <= now && loop->next_due < loop->plan->seconds) {
        if (loop->free_count == 0)
            loop->result.unsent++;
        else
            start(loop, loop->free[--loop->free_count], loop->next_due);
        loop->next_due += draw(loop, 1 / loop->plan->rate);
    }
}

/* Until something happens or the next call is due. */
static void wait_and_serve(struct loop *loop, double now) {
    const double until = loop->next_due < loop->plan->seconds ? loop->next_due : now + 0.05;
    const double left = fmin(fmax(until - now, 0), 0.05);
    const struct timespec span = {0, (long)(1e9 * left)};
    struct pollfd polled = {.fd = loop->epoll, .events = POLLIN};
    struct epoll_event events[EVENTS];
    if (ppoll(&polled, 1, &span, NULL) <= 0)
        return;
    const int count = epoll_wait(loop->epoll, events, EVENTS, 0);
    for (int i = 0; i < count; i++)
        serve(loop, events[i].data.u64, events[i].events);
}

static void run(struct loop *loop) {
    const struct open_loop_plan *plan = loop->plan;
    for (;;) {
        const double now = yardstick_now() - loop->begin;
        start_due(loop, now);
        if ((now >= plan->seconds && loop->busy == 0) || now >= plan->seconds + PATIENCE)
            return;
        wait_and_serve(loop, now);
    }
}

struct open_loop_result open_loop_run(const struct open_loop_plan *plan) {
    struct loop loop = {.plan = plan,
                        .connections = memory(plan->connections, sizeof *loop.connections),
                        .free = memory(plan->connections, sizeof *loop.free),
                        .epoll = epoll_create1(EPOLL_CLOEXEC),
                        .random = UINT64_C(88172645463325252),
                        .scratch = memory(1, SCRATCH)};
    const double used = own_seconds();
    for (size_t i = plan->connections; i-- > 0;) {
        loop.connections[i].fd = -1;
        loop.connections[i].is_free = true;
        loop.free[loop.free_count++] = i;
    }
    loop.begin = yardstick_now();
    loop.next_due = plan->rate > 0 ? draw(&loop, 1 / plan->rate) : INFINITY;
    while (plan->rate == 0 && loop.free_count > 0)
        start(&loop, loop.free[--loop.free_count], 0);
    run(&loop);
    for (size_t i = 0; i < plan->connections; i++) {
        if (!loop.connections[i].is_free)
            record(&loop, &loop.connections[i]); /* no answer to the very end */
        if (loop.connections[i].fd >= 0)
            close_connection(&loop.connections[i]);
    }
    close(loop.epoll);
    free(loop.scratch);
    free(loop.free);
    free(loop.connections);
    loop.result.own_seconds = own_seconds() - used;
    return loop.result;
}

void open_loop_free(struct open_loop_result *result) {
    free(result->calls);
}

/* ---- what came of it ---- */

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct open_loop_times open_loop_times(const struct open_loop_result *result, int status,
                                       double from, double to) {
    struct open_loop_times times = {memory(result->count + 1, sizeof(double)), 0};
    for (size_t i = 0; i < result->count; i++) {
        const struct open_loop_call *call = &result->calls[i];
        if (call->status == status && call->due >= from && call->due < to)
            times.seconds[times.count++] = call->end - call->due;
    }
    qsort(times.seconds, times.count, sizeof(double), ascending);
    return times;
}

double open_loop_percentile(const struct open_loop_times *times, double share) {
    if (times->count == 0)
        return 0;
    const size_t rank = (size_t)ceil(share * (double)times->count);
    return times->seconds[rank == 0 ? 0 : rank - 1];
}

double open_loop_rate(const struct open_loop_result *result, int status, double seconds) {
    size_t count = 0;
    for (size_t i = 0; i < result->count; i++)
        count += result->calls[i].status == status && result->calls[i].end <= seconds;
    return (double)count / seconds;
}
