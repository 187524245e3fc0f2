/* SPDX-License-Identifier: Apache-2.0 */
/* The I/O threads; see http_server.h. */
#include "server/http/http_server.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/checked.h"
#include "server/buffer_pool.h"
#include "server/clock.h"
#include "server/http/http_handler.h"
#include "server/http/http_internal.h"

/* The library's own remarks, mostly about clients that went away, belong to no request. */
static void ignore_remark(void *context, const char *format, va_list arguments) {
    (void)context;
    (void)format;
    (void)arguments;
}

/* How many connections a thread may have. */
static size_t share_of(const struct http_options *options) {
    return (options->connections + options->io_threads - 1) / options->io_threads;
}

static struct MHD_Daemon *start_daemon(struct http_thread *thread) {
    const struct http_options *options = &thread->server->options;
    const unsigned flags =
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG | MHD_USE_NO_LISTEN_SOCKET;
    return MHD_start_daemon(flags, 0, NULL, NULL, http_handle, thread, MHD_OPTION_EXTERNAL_LOGGER,
                            ignore_remark, NULL, MHD_OPTION_CONNECTION_LIMIT,
                            (unsigned)share_of(options), MHD_OPTION_CONNECTION_TIMEOUT,
                            http_idle_seconds(options), MHD_OPTION_NOTIFY_COMPLETED, http_completed,
                            thread, MHD_OPTION_NOTIFY_CONNECTION, http_connection, thread,
                            MHD_OPTION_URI_LOG_CALLBACK, http_first_line, thread, MHD_OPTION_END);
}

static int poll_descriptor(struct MHD_Daemon *daemon) {
    return MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
}

/* Bounded even on an idle daemon: no event says that a connection or a descriptor is to be had
   again after there were too many. */
static int poll_timeout(struct MHD_Daemon *daemon) {
    enum { LONGEST_MS = 100 };
    MHD_UNSIGNED_LONG_LONG timeout;
    if (MHD_get_timeout(daemon, &timeout) != MHD_YES || timeout > LONGEST_MS)
        return LONGEST_MS;
    return (int)timeout;
}

static void wake_thread(const struct http_thread *thread) {
    const uint64_t one = 1;
    while (write(thread->wake, &one, sizeof one) < 0 && errno == EINTR)
        ; /* a full counter fails too, and is awake already */
}

/* How many more connections the thread may take. */
static size_t room_of(const struct http_thread *thread) {
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(thread->daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);
    const size_t share = share_of(&thread->server->options);
    return info->num_connections >= share ? 0 : share - info->num_connections;
}

/* Takes connections that wait at a listener while *room lasts; false when there are no descriptors
   for them. The library may count them only when it is run. */
static bool accept_from(struct http_thread *thread, int listener, size_t *room) {
    for (; *room > 0; (*room)--) {
        struct sockaddr_storage address;
        socklen_t size = sizeof address;
        const int descriptor =
            accept4(listener, (struct sockaddr *)&address, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (descriptor >= 0)
            MHD_add_connection(thread->daemon, descriptor, (struct sockaddr *)&address, size);
        else
            return errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM;
    }
    return true;
}

/* One round; true when something was there to do. Listeners are looked at while there is room. */
static bool serve(struct http_thread *thread, int timeout, bool accepting) {
    enum { FIRST = 2, AT_ONCE = 16 }; /* other threads take the rest */
    const struct http_options *options = &thread->server->options;
    struct pollfd polled[FIRST + HTTP_LISTENERS_MAX] = {
        {.fd = poll_descriptor(thread->daemon), .events = POLLIN},
        {.fd = thread->wake, .events = POLLIN}};
    nfds_t count = FIRST;
    size_t room = attn_min_size(room_of(thread), AT_ONCE);
    if (accepting && !thread->starved && room > 0)
        for (size_t i = 0; i < options->listener_count; i++)
            polled[count++] = (struct pollfd){.fd = options->listeners[i], .events = POLLIN};
    const int ready = poll(polled, count, timeout);
    uint64_t wakes;
    thread->starved = false;
    thread->runs = 0;
    for (nfds_t i = FIRST; i < count; i++)
        if (polled[i].revents != 0 && !accept_from(thread, polled[i].fd, &room))
            thread->starved = true;
    if (polled[1].revents != 0 && read(thread->wake, &wakes, sizeof wakes) < 0)
        return true; /* somebody else's wake-up: nothing is lost */
    MHD_run(thread->daemon);
    return ready > 0;
}

/* Connections that were waiting are accepted before the door closes. */
static void quiesce(struct http_thread *thread) {
    const struct http_options *options = &thread->server->options;
    size_t room = room_of(thread);
    for (size_t i = 0; i < options->listener_count; i++)
        accept_from(thread, options->listeners[i], &room);
    MHD_run(thread->daemon);
    atomic_fetch_add(&thread->server->quiet, 1);
}

/* Requests that came between the last look and the decision to stop are still answered. */
static void finish(struct http_thread *thread) {
    enum { ROUNDS = 1000, ROUND_MS = 5 };
    struct metrics *metrics = thread->server->service->metrics;
    for (int i = 0; i < ROUNDS; i++) {
        const bool was_busy = serve(thread, ROUND_MS, false);
        if (!was_busy && metrics_in_flight(metrics) == 0)
            return;
    }
}

static void *run(void *argument) {
    enum { RUNS = 16 }; /* without a look at the listeners */
    struct http_thread *thread = argument;
    struct http_server *server = thread->server;
    bool told = false;
    while (!atomic_load(&server->stop)) {
        if (atomic_load(&server->quiesce) && !told) {
            told = true;
            quiesce(thread);
        }
        const int timeout = poll_timeout(thread->daemon);
        if (timeout == 0 && thread->runs++ < RUNS)
            MHD_run(thread->daemon); /* it has work in hand: in an upload, every 16 KiB */
        else
            serve(thread, timeout, !told);
    }
    finish(thread);
    return NULL;
}

static void wake_threads(struct http_server *server) {
    for (size_t i = 0; i < server->thread_count; i++)
        wake_thread(&server->threads[i]);
}

static bool start_thread(struct http_server *server, struct http_thread *thread) {
    thread->server = server;
    thread->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (thread->wake < 0)
        return false;
    thread->daemon = start_daemon(thread);
    if (thread->daemon == NULL)
        return false;
    thread->started = pthread_create(&thread->thread, NULL, run, thread) == 0;
    return thread->started;
}

struct http_server *http_server_start(struct service *service, const struct http_options *options) {
    struct http_server *server =
        calloc(1, sizeof *server + options->io_threads * sizeof *server->threads);
    if (server == NULL)
        return NULL;
    server->service = service;
    server->options = *options;
    server->warden = http_warden_create(service);
    bool started = server->warden != NULL;
    while (started && server->thread_count < options->io_threads)
        started = start_thread(server, &server->threads[server->thread_count++]);
    if (started)
        return server;
    http_server_stop(server);
    return NULL;
}

void http_server_quiesce(struct http_server *server) {
    const struct timespec moment = {.tv_nsec = CLOCK_MS};
    atomic_store(&server->quiesce, true);
    wake_threads(server);
    while (atomic_load(&server->quiet) < server->thread_count)
        nanosleep(&moment, NULL);
}

void http_server_wake_all(struct http_server *server) {
    http_warden_wake_all(server->warden);
}

void http_server_cut_all(struct http_server *server) {
    http_warden_cut_all(server->warden);
}

static void end_thread(struct http_thread *thread) {
    if (thread->started)
        pthread_join(thread->thread, NULL);
    if (thread->daemon != NULL)
        MHD_stop_daemon(thread->daemon);
    if (thread->wake >= 0)
        close(thread->wake);
    buffer_give(thread->arena.memory, thread->arena.bytes);
}

void http_server_stop(struct http_server *server) {
    atomic_store(&server->stop, true);
    wake_threads(server);
    for (size_t i = 0; i < server->thread_count; i++)
        end_thread(&server->threads[i]);
    if (server->warden != NULL)
        http_warden_free(server->warden);
    free(server);
}

/* The library's own wake-up exists only in the modes in which it owns the threads. */
void http_server_resume(const struct exchange *exchange) {
    const struct http_thread *thread = exchange->thread;
    MHD_resume_connection(exchange->connection);
    wake_thread(thread);
}
