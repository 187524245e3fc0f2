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
#include "server/http/http_tls_internal.h"

/* The library's own remarks, mostly about clients that went away, belong to no request. */
static void ignore_remark(void *context, const char *format, va_list arguments) {
    (void)context;
    (void)format;
    (void)arguments;
}

/* Version 1.0 refuses a NUL, a bare LF and a folded line where it is told to be strict. The strict
   mode of 0.9.75 has no more than the guards, and says less. */
#if MHD_VERSION >= 0x01000000
#define STRICTNESS MHD_OPTION_CLIENT_DISCIPLINE_LVL, 1
#else
#define STRICTNESS MHD_OPTION_STRICT_FOR_CLIENT, 0
#endif

/* How many connections a thread may have. */
static size_t share_of(const struct http_options *options) {
    return (options->connections + options->io_threads - 1) / options->io_threads;
}

static struct MHD_Daemon *start_daemon(struct http_thread *thread, unsigned more_flags,
                                       struct MHD_OptionItem *more) {
    const struct http_options *options = &thread->server->options;
    const unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG |
                           MHD_USE_NO_LISTEN_SOCKET | more_flags;
    return MHD_start_daemon(
        flags, 0, NULL, NULL, http_handle, thread, MHD_OPTION_EXTERNAL_LOGGER, ignore_remark, NULL,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)share_of(options) + HTTP_OPS_MORE,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, options->connection_bytes,
        MHD_OPTION_CONNECTION_TIMEOUT, http_idle_seconds(options), MHD_OPTION_NOTIFY_COMPLETED,
        http_completed, thread, MHD_OPTION_NOTIFY_CONNECTION, http_connection, thread,
        MHD_OPTION_URI_LOG_CALLBACK, http_first_line, thread, STRICTNESS, MHD_OPTION_ARRAY, more,
        MHD_OPTION_END);
}

/* Its interface has no const, and carries functions as data. */
static struct MHD_Daemon *start_tls_daemon(struct http_thread *thread) {
    const char *const authority = http_tls_client_ca(thread->server->options.tls);
    struct MHD_OptionItem items[] = {
        {MHD_OPTION_HTTPS_CERT_CALLBACK, 0, (void *)(uintptr_t)http_tls_retrieve},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)HTTP_TLS_PRIORITIES},
        {authority == NULL ? MHD_OPTION_END : MHD_OPTION_HTTPS_MEM_TRUST, 0,
         (void *)(uintptr_t)authority},
        {MHD_OPTION_END, 0, NULL}};
    return start_daemon(thread, MHD_USE_TLS, items);
}

static bool start_daemons(struct http_thread *thread) {
    const struct http_options *options = &thread->server->options;
    struct MHD_OptionItem nothing[] = {{MHD_OPTION_END, 0, NULL}};
    bool wanted[HTTP_DAEMONS] = {false};
    for (size_t i = 0; i < options->listener_count; i++)
        wanted[options->listeners[i].is_tls ? HTTP_TLS : HTTP_PLAIN] = true;
    if (wanted[HTTP_PLAIN])
        thread->daemons[HTTP_PLAIN] = start_daemon(thread, 0, nothing);
    if (wanted[HTTP_TLS])
        thread->daemons[HTTP_TLS] = start_tls_daemon(thread);
    for (int i = 0; i < HTTP_DAEMONS; i++)
        if (wanted[i] && thread->daemons[i] == NULL)
            return false;
    return true;
}

static void run_daemons(struct http_thread *thread) {
    for (int i = 0; i < HTTP_DAEMONS; i++)
        if (thread->daemons[i] != NULL)
            MHD_run(thread->daemons[i]);
    atomic_fetch_add(&thread->rounds, 1);
}

/* Negative where there is no daemon, which poll() passes over. */
static int poll_descriptor(struct MHD_Daemon *daemon) {
    return daemon == NULL ? -1 : MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
}

/* Bounded even on an idle daemon: no event says that a connection or a descriptor is to be had
   again after there were too many. */
static int poll_timeout(const struct http_thread *thread) {
    int least = 100;
    for (int i = 0; i < HTTP_DAEMONS; i++) {
        MHD_UNSIGNED_LONG_LONG timeout;
        if (thread->daemons[i] != NULL &&
            MHD_get_timeout(thread->daemons[i], &timeout) == MHD_YES &&
            timeout < (MHD_UNSIGNED_LONG_LONG)least)
            least = (int)timeout;
    }
    return least;
}

static void wake_thread(const struct http_thread *thread) {
    const uint64_t one = 1;
    while (write(thread->wake, &one, sizeof one) < 0 && errno == EINTR)
        ; /* a full counter fails too, and is awake already */
}

/* How many connections the thread may take in this round at that listener, in which it has taken
   `accepted`: the library may count them only when it is run. */
static size_t room_at(const struct http_thread *thread, const struct http_listener *listener,
                      size_t accepted) {
    const size_t most =
        share_of(&thread->server->options) + (listener->is_ops ? (size_t)HTTP_OPS_MORE : 0);
    size_t taken = accepted;
    for (int i = 0; i < HTTP_DAEMONS; i++)
        if (thread->daemons[i] != NULL)
            taken += MHD_get_daemon_info(thread->daemons[i], MHD_DAEMON_INFO_CURRENT_CONNECTIONS)
                         ->num_connections;
    return taken >= most ? 0 : attn_min_size(most - taken, HTTP_AT_ONCE - accepted);
}

bool http_arrived_at_ops(struct http_thread *thread, int fd) {
    for (size_t i = 0; i < thread->arrival_count; i++)
        if (thread->arrivals[i] == fd) {
            thread->arrivals[i] = thread->arrivals[--thread->arrival_count];
            return true;
        }
    return false;
}

/* Takes up to `room` connections that wait at a listener, and counts them; false when there are no
   descriptors for them. */
static bool accept_from(struct http_thread *thread, const struct http_listener *listener,
                        size_t room, size_t *accepted) {
    struct MHD_Daemon *const daemon = thread->daemons[listener->is_tls ? HTTP_TLS : HTTP_PLAIN];
    for (; room > 0; room--) {
        struct sockaddr_storage address;
        socklen_t size = sizeof address;
        const int descriptor =
            accept4(listener->fd, (struct sockaddr *)&address, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (descriptor < 0)
            return errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM;
        if (listener->is_ops)
            thread->arrivals[thread->arrival_count++] = descriptor;
        if (MHD_add_connection(daemon, descriptor, (struct sockaddr *)&address, size) != MHD_YES)
            (void)http_arrived_at_ops(thread, descriptor); /* it was closed: nobody will ask */
        ++*accepted;
    }
    return true;
}

/* What poll() found, from another listener on in each round: one that is never empty takes all the
   room there is, and the others have to have theirs. */
static void accept_ready(struct http_thread *thread, const struct pollfd *polled) {
    const struct http_options *options = &thread->server->options;
    size_t accepted = 0;
    thread->turn++;
    for (size_t i = 0; i < options->listener_count; i++) {
        const size_t number = (thread->turn + i) % options->listener_count;
        const struct http_listener *listener = &options->listeners[number];
        if (polled[number].revents != 0 &&
            !accept_from(thread, listener, room_at(thread, listener, accepted), &accepted))
            thread->starved = true;
    }
}

/* One round; true when something was there to do. Listeners are looked at while there is room. */
static bool serve(struct http_thread *thread, int timeout, bool accepting) {
    enum { WAKE = HTTP_DAEMONS, FIRST };
    const struct http_options *options = &thread->server->options;
    struct pollfd polled[FIRST + HTTP_LISTENERS_MAX] = {
        [HTTP_PLAIN] = {.fd = poll_descriptor(thread->daemons[HTTP_PLAIN]), .events = POLLIN},
        [HTTP_TLS] = {.fd = poll_descriptor(thread->daemons[HTTP_TLS]), .events = POLLIN},
        [WAKE] = {.fd = thread->wake, .events = POLLIN}};
    accepting = accepting && !thread->starved;
    for (size_t i = 0; i < options->listener_count; i++) {
        const bool is_open = accepting && room_at(thread, &options->listeners[i], 0) > 0;
        polled[FIRST + i] =
            (struct pollfd){.fd = is_open ? options->listeners[i].fd : -1, .events = POLLIN};
    }
    const int ready = http_wait(thread, polled, FIRST + options->listener_count, timeout);
    uint64_t wakes;
    thread->starved = false;
    thread->runs = 0;
    thread->arrival_count = 0;
    accept_ready(thread, polled + FIRST);
    if (polled[WAKE].revents != 0 && read(thread->wake, &wakes, sizeof wakes) < 0)
        return true; /* somebody else's wake-up: nothing is lost */
    run_daemons(thread);
    return ready > 0;
}

/* Connections that were waiting are accepted before the door closes. */
static void quiesce(struct http_thread *thread) {
    const struct http_options *options = &thread->server->options;
    for (size_t i = 0; i < options->listener_count; i++) {
        const struct http_listener *listener = &options->listeners[i];
        size_t room, accepted;
        do {
            accepted = 0;
            room = room_at(thread, listener, 0);
            accept_from(thread, listener, room, &accepted);
            run_daemons(thread);
        } while (room > 0 && accepted == room);
    }
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
        atomic_store_explicit(&thread->seen, clock_now(), memory_order_relaxed);
        if (atomic_load(&server->quiesce) && !told) {
            told = true;
            quiesce(thread);
        }
        const int timeout = poll_timeout(thread);
        if (timeout == 0 && thread->runs++ < RUNS)
            run_daemons(thread); /* it has work in hand, such as an upload */
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
    if (!start_daemons(thread))
        return false;
    atomic_init(&thread->seen, clock_now());
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
    server->cpus = sysconf(_SC_NPROCESSORS_ONLN);
    server->warden = http_warden_create(service);
    bool started = server->warden != NULL && http_spares_create(server);
    while (started && server->thread_count < options->io_threads)
        started = start_thread(server, &server->threads[server->thread_count++]);
    if (started)
        return server;
    http_server_stop(server);
    return NULL;
}

bool http_server_is_alive(const struct http_server *server, uint64_t ms) {
    const int64_t since = clock_now() - (int64_t)ms * CLOCK_MS;
    bool is_alive = true;
    for (size_t i = 0; i < server->thread_count; i++)
        is_alive = is_alive && atomic_load(&server->threads[i].seen) >= since;
    return is_alive;
}

size_t http_server_unasked(const struct http_server *server) {
    return atomic_load(&server->unasked);
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
    for (int i = 0; i < HTTP_DAEMONS; i++)
        if (thread->daemons[i] != NULL)
            MHD_stop_daemon(thread->daemons[i]);
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
    http_spares_free(server);
    free(server);
}

/* The library's own wake-up exists only in the modes in which it owns the threads. */
void http_server_resume(const struct exchange *exchange) {
    const struct http_thread *thread = exchange->thread;
    MHD_resume_connection(exchange->connection);
    wake_thread(thread);
}
