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
    int listener;
};

/* The one variable of its kind: a signal handler can reach nothing else. */
static int stop_event = -1;

static void print_error(const char *text) {
    fprintf(stderr, "attentiond: %s\n", text);
}

/* ---- configuration ---- */

/* The exit status when the program is not to run, or -1. */
static int configure(struct attn_config *config, int argc, char **argv) {
    static struct config_error error;
    enum config_action action = config_load(config, argc, argv, environ, &error);
    if ((action == CONFIG_RUN || action == CONFIG_CHECK) &&
        !config_resolve_auto(config, "", &error))
        action = CONFIG_REJECTED;
    if ((action == CONFIG_RUN || action == CONFIG_CHECK) && config->kernel[0] != '\0') {
        const struct attn_kernel *kernel = attn_kernel_find(config->kernel);
        if (kernel == NULL || !kernel->available()) {
            char names[ATTN_KERNEL_NAMES_SIZE];
            snprintf(error.text, sizeof error.text,
                     "kernel: there is no kernel \"%s\" on this machine; there are %s. Leave the "
                     "option out to have one chosen.",
                     config->kernel, attn_kernel_names(names));
            action = CONFIG_REJECTED;
        }
    }
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
    const struct http_options options = {
        .listener = program->listener,
        .io_threads = config->io_threads,
        .connections = config->max_connections,
        .header_timeout_ms = config->header_timeout_ms,
        .body_timeout_ms = config->body_timeout_ms,
        .send_timeout_ms = config->send_timeout_ms,
        .idle_timeout_ms = config->idle_timeout_ms,
    };
    program->http = http_server_start(&program->service, &options);
    if (program->http == NULL)
        print_error("the I/O threads cannot be started");
    return program->http != NULL;
}

static bool start_listening(struct program *program) {
    char error[512];
    const struct config_address *address = &program->config.listen;
    program->listener = listener_open(address->host, address->port, error, sizeof error);
    if (program->listener < 0)
        print_error(error);
    return program->listener >= 0;
}

static void announce(struct program *program) {
    const char *host = program->config.listen.host;
    const bool is_v6 = strchr(host, ':') != NULL;
    char url[CONFIG_HOST_SIZE + 32];
    snprintf(url, sizeof url, "http://%s%s%s:%u", is_v6 ? "[" : "", host, is_v6 ? "]" : "",
             listener_port(program->listener));
    printf("attentiond %s on %s\n"
           "  description %s/v1\n  contract    %s/openapi.yaml\n  metrics     %s/metrics\n"
           "Try it:\n  curl -s %s/v1/attention -H 'Content-Type: application/json' "
           "-d '{\"q\":[[1,0],[0,1]],\"k\":[[1,0],[0,1]],\"v\":[[1,2],[3,4]],\"weights\":true}'\n",
           ATTN_VERSION, url, url, url, url, url);
    fflush(stdout);
    access_log_event(&program->log, "listening", url);
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
    listener_shut(program->listener);
    if (wait_idle(program, program->config.drain_timeout_ms))
        return;
    access_log_event(&program->log, "cutting", "calls in flight are answered 503");
    http_server_wake_all(program->http);
    if (wait_idle(program, LAST_WORDS_MS))
        return;
    http_server_cut_all(program->http);
    wait_idle(program, CUT_MS);
}

/* The buffer pool's idle buffers end with the process: unmapping gigabytes first helps nobody. */
static void stop(struct program *program) {
    if (program->http != NULL)
        http_server_stop(program->http);
    attn_scheduler_free(&program->service.scheduler);
    if (program->listener >= 0)
        close(program->listener);
    admission_free(program->service.admission);
    metrics_free(program->service.metrics);
    typeface_free(&program->typeface);
}

int main(int argc, char **argv) {
    static struct program program = {.listener = -1};
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
