/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attentiond: read the configuration, listen, start the compute and I/O threads, wait for a
 * signal, drain, end. Exit status: 0 after a drain, 1 when it cannot start, 2 for a configuration
 * that is refused.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "config/config.h"
#include "server/buffer_pool.h"
#include "server/clock.h"
#include "server/codecs/codec_png.h"
#include "server/http/http_server.h"
#include "server/listener.h"
#include "server/service.h"

enum { EXIT_REJECTED = 2 };

/* A thread that moves bytes or answers a small call goes before those that compute. */
enum { COMPUTE_NICENESS = 5 };

struct program {
    struct attn_config config;
    struct access_log log;
    struct service service;
    struct http_server *http;
    struct typeface typeface;
    int listeners[CONFIG_ADDRESSES_MAX]; /* as many as could be opened, of the configured ones */
    size_t listener_count;
};

_Static_assert((int)CONFIG_ADDRESSES_MAX <= (int)HTTP_LISTENERS_MAX,
               "every address has a listener");

/* The one variable of its kind: a signal handler can reach nothing else. */
static int stop_event = -1;

static void print_error(const char *text) {
    fprintf(stderr, "attentiond: %s\n", text);
}

/* ---- configuration ---- */

/* Whether nobody but this machine can connect. */
static bool is_on_loopback(const struct config_addresses *addresses) {
    bool on_loopback = true;
    for (size_t i = 0; i < addresses->count; i++) {
        const struct config_address *address = &addresses->items[i];
        const bool is_name = address->host[strspn(address->host, "0123456789.")] != '\0';
        on_loopback = on_loopback && (address->is_path || strcmp(address->host, "localhost") == 0 ||
                                      (!is_name && strncmp(address->host, "127.", 4) == 0) ||
                                      strcmp(address->host, "::1") == 0);
    }
    return on_loopback;
}

/* What config/ cannot know: kernels and origins. */
static bool check_names(const struct attn_config *config, struct config_error *error) {
    struct cors cors;
    if (!cors_read(&cors, config->cors_origins, is_on_loopback(&config->listen), error->text,
                   sizeof error->text))
        return false;
    if (config->kernel[0] == '\0')
        return true;
    const struct attn_kernel *kernel = attn_kernel_find(config->kernel);
    if (kernel != NULL && kernel->available())
        return true;
    char names[ATTN_KERNEL_NAMES_SIZE];
    snprintf(
        error->text, sizeof error->text,
        "kernel: there is no kernel \"%s\" on this machine; there are %s. Leave the option out "
        "to have one chosen.",
        config->kernel, attn_kernel_names(names));
    return false;
}

/* The exit status when the program is not to run, or -1. */
static int configure(struct attn_config *config, int argc, char **argv) {
    static struct config_error error;
    enum config_action action = config_load(config, argc, argv, environ, &error);
    if ((action == CONFIG_RUN || action == CONFIG_CHECK) &&
        !config_resolve_auto(config, "", &error))
        action = CONFIG_REJECTED;
    if ((action == CONFIG_RUN || action == CONFIG_CHECK) && !check_names(config, &error))
        action = CONFIG_REJECTED;
    switch (action) {
    case CONFIG_RUN:
        return -1;
    case CONFIG_CHECK:
        config_print_effective(config, stdout);
        return EXIT_SUCCESS;
    case CONFIG_HELP:
        config_print_help(stdout);
        return EXIT_SUCCESS;
    case CONFIG_VERSION:
        printf("attentiond %s\n", ATTN_VERSION);
        return EXIT_SUCCESS;
    case CONFIG_REJECTED:
        print_error(error.text);
        return EXIT_REJECTED;
    }
    return EXIT_REJECTED;
}

static void take_limits(struct service *service, const struct attn_config *config) {
    service->limits = (struct service_limits){
        .body_bytes = config->max_body,
        .json_body_bytes = config->json_max_body,
        .body_ratio = config->max_compression_ratio,
        .call = {.result_bytes = config->max_result, .flops = (double)config->max_flops},
        .inline_seconds = 1e-6 * (double)config->inline_microseconds,
        .queue_timeout_ms = config->queue_timeout_ms,
        .request_timeout_ms = config->request_timeout_ms,
        .queue_limit = config->queue_limit,
        .connections = config->max_connections,
        .cancel_on_disconnect = config->cancel_on_disconnect,
    };
    char error[CONFIG_ERROR_SIZE]; /* there was none when the configuration was checked */
    cors_read(&service->cors, config->cors_origins, is_on_loopback(&config->listen), error,
              sizeof error);
    service->workers = config->threads;
    service->io_threads = config->io_threads;
    service->kernel = config->kernel[0] == '\0' ? NULL : config->kernel;
}

/* ---- start ---- */

/* Every connection needs a descriptor, and accepting without one to spare is a busy loop. */
static void raise_descriptor_limit(struct program *program) {
    enum { RESERVE = 64 };
    const rlim_t needed = (rlim_t)program->config.max_connections + RESERVE;
    struct rlimit limit;
    char text[160];
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed)
        return;
    limit.rlim_cur = limit.rlim_max < needed ? limit.rlim_max : needed;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur >= needed)
        return;
    program->config.max_connections = limit.rlim_cur > RESERVE + 64 ? limit.rlim_cur - RESERVE : 64;
    snprintf(text, sizeof text, "max_connections is %llu: the system allows %llu descriptors",
             (unsigned long long)program->config.max_connections,
             (unsigned long long)limit.rlim_cur);
    access_log_event(&program->log, "limit", text);
}

static void on_signal(int number) {
    const uint64_t one = 1;
    const int saved = errno;
    (void)number;
    (void)!write(stop_event, &one, sizeof one);
    errno = saved;
}

/* A handler, not sigwait(): threads that a library started before main() block no signal. */
static bool catch_signals(void) {
    const struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    stop_event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
    if (stop_event < 0) {
        print_error("there are no descriptors to start with");
        return false;
    }
    signal(SIGPIPE, SIG_IGN);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    return true;
}

/* Pictures have text when there is a font for it; nothing else depends on it. */
static void load_typeface(struct program *program) {
    char text[CONFIG_STRING_SIZE + 80];
    if (typeface_load(&program->typeface, program->config.font)) {
        program->service.typeface = &program->typeface;
        return;
    }
    snprintf(text, sizeof text, "pictures have no text: there is no font at %s",
             program->config.font);
    access_log_event(&program->log, "font", text);
}

static bool start_service(struct program *program) {
    struct service *service = &program->service;
    struct attn_error error = {0};
    take_limits(service, &program->config);
    machine_probe(&service->machine);
    documents_open(service->documents);
    buffer_pool_open(program->config.memory_budget / 4);
    service->log = &program->log;
    service->metrics = metrics_create();
    service->admission =
        admission_create(program->config.memory_budget, program->config.queue_limit);
    if (service->metrics == NULL || service->admission == NULL) {
        print_error("there is no memory to start with");
        return false;
    }
    attn_start();
    load_typeface(program);
    if (attn_scheduler_create(service->workers, COMPUTE_NICENESS, &service->scheduler, &error) ==
        ATTN_OK)
        return true;
    print_error(error.detail);
    return false;
}

static bool start_http(struct program *program) {
    const struct attn_config *config = &program->config;
    struct http_options options = {
        .listener_count = program->listener_count,
        .io_threads = config->io_threads,
        .connections = config->max_connections,
        .header_timeout_ms = config->header_timeout_ms,
        .body_timeout_ms = config->body_timeout_ms,
        .send_timeout_ms = config->send_timeout_ms,
        .idle_timeout_ms = config->idle_timeout_ms,
    };
    memcpy(options.listeners, program->listeners, sizeof program->listeners);
    program->http = http_server_start(&program->service, &options);
    if (program->http == NULL)
        print_error("the I/O threads cannot be started");
    return program->http != NULL;
}

static bool start_listening(struct program *program) {
    static const mode_t modes[] = {
        [CONFIG_MODE_0600] = 0600, [CONFIG_MODE_0660] = 0660, [CONFIG_MODE_0666] = 0666};
    const struct attn_config *config = &program->config;
    char error[512];
    for (size_t i = 0; i < config->listen.count; i++) {
        const struct config_address *address = &config->listen.items[i];
        const int listener =
            address->is_path
                ? listener_open_path(address->host, modes[config->socket_mode], error, sizeof error)
                : listener_open(address->host, address->port, error, sizeof error);
        if (listener < 0) {
            print_error(error);
            return false;
        }
        program->listeners[program->listener_count++] = listener;
    }
    return true;
}

/* How the n-th address is spoken to: a URL, and what curl needs beside it. */
static void describe_address(const struct program *program, size_t n, char *url, size_t url_size,
                             char *flag, size_t flag_size) {
    const struct config_address *address = &program->config.listen.items[n];
    const bool is_v6 = strchr(address->host, ':') != NULL;
    flag[0] = '\0';
    if (address->is_path)
        snprintf(flag, flag_size, "--unix-socket %s ", address->host);
    snprintf(url, url_size, "http://%s%s%s:%u", is_v6 ? "[" : "", address->host, is_v6 ? "]" : "",
             listener_port(program->listeners[n]));
    if (address->is_path)
        snprintf(url, url_size, "http://localhost");
}

static void announce(struct program *program) {
    char url[CONFIG_HOST_SIZE + 32], flag[CONFIG_HOST_SIZE + 32], place[CONFIG_HOST_SIZE + 64];
    for (size_t i = 0; i < program->listener_count; i++) {
        const struct config_address *address = &program->config.listen.items[i];
        describe_address(program, i, url, sizeof url, flag, sizeof flag);
        snprintf(place, sizeof place, "%s%s", address->is_path ? "unix:" : "",
                 address->is_path ? address->host : url);
        printf("attentiond %s on %s\n", ATTN_VERSION, place);
        access_log_event(&program->log, "listening", place);
    }
    describe_address(program, 0, url, sizeof url, flag, sizeof flag);
    printf("  description %s/v1\n  contract    %s/openapi.yaml\n  metrics     %s/metrics\n"
           "Try it:\n  curl -s %s%s/v1/attention -H 'Content-Type: application/json' "
           "-d '{\"q\":[[1,0],[0,1]],\"k\":[[1,0],[0,1]],\"v\":[[1,2],[3,4]],\"weights\":true}'\n",
           url, url, url, flag, url);
    fflush(stdout);
}

static bool start(struct program *program) {
    raise_descriptor_limit(program);
    if (!catch_signals() || !start_listening(program) || !start_service(program) ||
        !start_http(program))
        return false;
    atomic_store(&program->service.phase, SERVICE_READY);
    announce(program);
    return true;
}

/* ---- drain ---- */

/* Waits for a signal, at most `ms` milliseconds, -1 for ever; true when one came. */
static bool wait_signal(int ms) {
    struct pollfd polled = {.fd = stop_event, .events = POLLIN};
    uint64_t count;
    while (poll(&polled, 1, ms) < 0 && errno == EINTR)
        ;
    return read(stop_event, &count, sizeof count) > 0;
}

/* True when nothing is in flight any more; false at the deadline or at a further signal. */
static bool wait_idle(struct program *program, uint64_t ms) {
    enum { STEP_MS = 5 };
    const int64_t deadline = clock_now() + (int64_t)ms * CLOCK_MS;
    while (metrics_in_flight(program->service.metrics) > 0)
        if (clock_now() >= deadline || wait_signal(STEP_MS))
            return metrics_in_flight(program->service.metrics) == 0;
    return true;
}

/*
 * Not ready at once; for the lame-duck time everything is still taken; then no new connection and
 * no new call, and what is in flight ends. What does not end in time is told so, then cut.
 */
static void drain(struct program *program) {
    enum { LAST_WORDS_MS = 2000, CUT_MS = 10000 };
    struct service *service = &program->service;
    atomic_store(&service->phase, SERVICE_LEAVING);
    access_log_event(&program->log, "stopping", "not ready any more");
    if (program->config.lame_duck_ms > 0)
        wait_signal((int)program->config.lame_duck_ms);
    atomic_store(&service->phase, SERVICE_DRAINING);
    http_server_quiesce(program->http);
    for (size_t i = 0; i < program->listener_count; i++)
        listener_shut(program->listeners[i]);
    if (wait_idle(program, program->config.drain_timeout_ms))
        return;
    access_log_event(&program->log, "cutting", "calls in flight are answered 503");
    http_server_wake_all(program->http);
    if (wait_idle(program, LAST_WORDS_MS))
        return;
    http_server_cut_all(program->http);
    wait_idle(program, CUT_MS);
}

static void close_listeners(const struct program *program) {
    for (size_t i = 0; i < program->listener_count; i++) {
        const struct config_address *address = &program->config.listen.items[i];
        if (address->is_path)
            listener_remove_path(program->listeners[i], address->host);
        close(program->listeners[i]);
    }
}

/* The buffer pool's idle buffers end with the process: unmapping gigabytes first helps nobody. */
static void stop(struct program *program) {
    if (program->http != NULL)
        http_server_stop(program->http);
    attn_scheduler_free(&program->service.scheduler);
    close_listeners(program);
    admission_free(program->service.admission);
    metrics_free(program->service.metrics);
    typeface_free(&program->typeface);
}

int main(int argc, char **argv) {
    static struct program program;
    const int status = configure(&program.config, argc, argv);
    if (status >= 0)
        return status;
    program.log = (struct access_log){STDERR_FILENO, (enum access_log_level)program.config.log};
    if (!start(&program)) {
        stop(&program);
        return EXIT_FAILURE;
    }
    while (!wait_signal(-1))
        ;
    drain(&program);
    stop(&program);
    access_log_event(&program.log, "stopped", "everything was answered");
    return EXIT_SUCCESS;
}
