/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whatever a client sends, to I/O threads as the daemon has them: heads, framing, chunks, paths,
 * queries and the bodies behind them, until the client has ended its side. What comes back is
 * nothing, or answers.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/captures/captures.h"
#include "server/http/http_server.h"
#include "server/latency.h"
#include "server/service.h"
#include "server/sessions/session_table.h"
#include "tests/fuzz/fuzz.h"

enum { MIB = 1 << 20, STUCK_MS = 20000 };

struct wire {
    struct access_log log;
    struct service service;
    struct sockaddr_in address;
    struct http_server *server;
};

static void make_service(struct wire *wire) {
    struct service *const service = &wire->service;
    char error[1024];
    struct attn_error refused;
    *service = (struct service){
        .limits = {.body_bytes = MIB,
                   .json_body_bytes = MIB,
                   .body_ratio = 100,
                   .call = {.result_bytes = MIB, .flops = 2e6},
                   .inline_seconds = 1,
                   .queue_timeout_ms = 1000,
                   .queue_work_ms = 1000,
                   .request_timeout_ms = 1000,
                   .queue_limit = 10,
                   .connections = 16},
        .workers = 1,
        .io_threads = 1,
        .hosts = "",
    };
    access_log_open(&wire->log, open("/dev/null", O_WRONLY | O_CLOEXEC), ACCESS_LOG_ALL);
    service->log = &wire->log;
    cors_read(&service->cors, "", true, error, sizeof error);
    machine_probe(&service->machine);
    documents_open(service->documents);
    service->metrics = metrics_create();
    service->latency = latency_create();
    service->admission = admission_create((size_t)64 * MIB, 10);
    service->backlog = backlog_create(1, 1);
    service->sessions = session_table_create(&(struct session_limits){
        .bytes = MIB, .count = 4, .ttl_seconds = 1, .longest_ttl_seconds = 2});
    service->captures = captures_create(
        &(struct captures_options){.on = true, .bytes = MIB, .ttl_ms = 1000}, service->admission);
    service->auth = auth_open("", error, sizeof error);
    if (attn_scheduler_create(1, 0, &service->scheduler, &refused) != ATTN_OK)
        abort();
    atomic_store(&service->phase, SERVICE_READY);
}

static int listen_somewhere(struct wire *wire) {
    socklen_t size = sizeof wire->address;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    wire->address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (fd < 0 || bind(fd, (const struct sockaddr *)&wire->address, size) != 0 ||
        listen(fd, 16) != 0 || getsockname(fd, (struct sockaddr *)&wire->address, &size) != 0)
        abort();
    return fd;
}

static struct wire *wire_open(void) {
    static struct wire wire;
    if (wire.server != NULL)
        return &wire;
    make_service(&wire);
    struct http_options options = {.listener_count = 1,
                                   .io_threads = 1,
                                   .connections = 16,
                                   .connection_bytes = 32 << 10,
                                   .header_timeout_ms = STUCK_MS,
                                   .body_timeout_ms = STUCK_MS,
                                   .send_timeout_ms = STUCK_MS,
                                   .idle_timeout_ms = STUCK_MS};
    options.listeners[0].fd = listen_somewhere(&wire);
    wire.server = http_server_start(&wire.service, &options);
    if (wire.server == NULL)
        abort();
    return &wire;
}

static void send_all(int fd, const uint8_t *data, size_t size) {
    while (size > 0) {
        const ssize_t sent = send(fd, data, size, MSG_NOSIGNAL);
        if (sent <= 0)
            return; /* it was refused before its end */
        data += sent;
        size -= (size_t)sent;
    }
}

/* Whether anything, if only the end, comes within so many milliseconds. */
static bool await(int fd, int ms) {
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    int ready;
    while ((ready = poll(&polled, 1, ms)) < 0 && errno == EINTR)
        ; /* the fuzzer has a clock */
    return ready == 1;
}

/* Until the other side ends it too; returns how many bytes came, and has the first of them. */
static size_t receive_all(int fd, char *first, size_t room) {
    char piece[4096];
    size_t length = 0;
    for (;;) {
        if (!await(fd, STUCK_MS))
            abort();
        const ssize_t got = recv(fd, piece, sizeof piece, 0);
        if (got <= 0)
            return length;
        for (size_t n = 0; n < (size_t)got && length + n < room; n++)
            first[length + n] = piece[n];
        length += (size_t)got;
    }
}

void fuzz_wire(const uint8_t *data, size_t size) {
    static const char VERSION[] = "HTTP/1.";
    const struct wire *const wire = wire_open();
    char first[sizeof VERSION - 1];
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&wire->address, sizeof wire->address) != 0)
        abort();
    send_all(fd, data, size);
    (void)await(fd, 1); /* an end that is read with what it ends costs the library half a second */
    shutdown(fd, SHUT_WR);
    const size_t length = receive_all(fd, first, sizeof first);
    if (length > 0 && (length < sizeof first || memcmp(first, VERSION, sizeof first) != 0))
        abort();
    close(fd);
}
