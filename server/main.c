/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attentiond: read the configuration, listen, start the compute and I/O threads, wait for a
 * signal, drain, end. Exit status: 0 after a drain, 1 when it cannot start, 2 for a configuration
 * that is refused.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/config.h"
#include "server/buffer_pool.h"
#include "server/captures/captures.h"
#include "server/clock.h"
#include "server/codecs/codec_png.h"
#include "server/heap.h"
#include "server/http/http_server.h"
#include "server/latency.h"
#include "server/main_internal.h"
#include "server/service.h"
#include "server/sessions/session_table.h"
#include "server/signals.h"
#include "server/supervisor.h"
#include "server/tracing/tracing.h"

/* A thread that moves bytes or answers a small call goes before those that compute. */
enum { COMPUTE_NICENESS = 5 };

struct program {
    struct attn_config config;
    struct access_log log;
    struct service service;
    struct http_server *http;
    struct http_tls *tls; /* NULL: there is none */
    struct typeface typeface;
    struct doors doors;
};

_Static_assert(2 * (int)CONFIG_ADDRESSES_MAX <= (int)HTTP_LISTENERS_MAX,
               "every address has a listener");

/* ---- start ---- */

static void take_limits(struct service *service, const struct attn_config *config,
                        const struct doors *doors) {
    service->limits = (struct service_limits){
        .body_bytes = config->max_body,
        .json_body_bytes = config->json_max_body,
        .body_ratio = config->max_compression_ratio,
        .call = {.result_bytes = config->max_result, .flops = (double)config->max_flops},
        .inline_seconds = 1e-6 * (double)config->inline_microseconds,
        .queue_timeout_ms = config->queue_timeout_ms,
        .queue_work_ms = config->queue_work_ms,
        .request_timeout_ms = config->request_timeout_ms,
        .queue_limit = config->queue_limit,
        .connections = config->max_connections,
        .cancel_on_disconnect = config->cancel_on_disconnect,
    };
    char error[CONFIG_ERROR_SIZE]; /* there was none when the configuration was checked */
    cors_read(&service->cors, config->cors_origins, main_doors_are_local(doors), error,
              sizeof error);
    service->hosts = config->hosts;
    service->has_ops = doors->ops_count > 0;
    service->workers = config->threads;
    service->io_threads = config->io_threads;
    service->kernel = config->kernel[0] == '\0' ? NULL : config->kernel;
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

static struct captures *open_captures(const struct program *program) {
    enum { CAPTURES_PART = 8 }; /* of the budget, where nothing is said */
    const struct attn_config *config = &program->config;
    const struct captures_options options = {
        .on = config->captures,
        .half = config->capture_dtype != 0,
        .bytes = config->capture_bytes != 0 ? config->capture_bytes
                                            : config->memory_budget / CAPTURES_PART,
        .ttl_ms = config->capture_ttl_ms,
    };
    return captures_create(&options, program->service.admission);
}

static bool start_service(struct program *program) {
    struct service *service = &program->service;
    struct attn_error error = {0};
    char text[KEYRING_ERROR_SIZE];
    take_limits(service, &program->config, &program->doors);
    machine_probe(&service->machine);
    documents_open(service->documents);
    buffer_pool_open(program->config.memory_budget / 4);
    buffer_pool_bound(program->config.memory_budget);
    service->log = &program->log;
    service->metrics = metrics_create();
    service->latency = latency_create();
    service->admission =
        admission_create(program->config.memory_budget, program->config.queue_limit);
    service->backlog =
        backlog_create(service->workers, 1e-3 * (double)program->config.queue_work_ms);
    const struct session_limits limits = {
        .bytes = program->config.sessions_memory,
        .count = program->config.max_sessions,
        .ttl_seconds = 1e-3 * (double)program->config.session_ttl_ms,
        .longest_ttl_seconds = 1e-3 * (double)program->config.max_session_ttl_ms,
    };
    service->sessions = session_table_create(&limits);
    if (service->admission != NULL)
        service->captures = open_captures(program);
    if (service->metrics == NULL || service->latency == NULL || service->captures == NULL ||
        service->sessions == NULL || service->backlog == NULL) {
        main_print_error("there is no memory to start with");
        return false;
    }
    service->auth = auth_open(program->config.key_file, text, sizeof text);
    if (service->auth == NULL) {
        main_print_error(text);
        return false;
    }
    attn_start();
    load_typeface(program);
    if (attn_scheduler_create(service->workers, COMPUTE_NICENESS, &service->scheduler, &error) ==
        ATTN_OK)
        return true;
    main_print_error(error.detail);
    return false;
}

/* True where there is none to be had. */
static bool start_tls(struct program *program) {
    const struct http_tls_files files = main_tls_files(&program->config);
    char error[CONFIG_ERROR_SIZE];
    if (files.certificate[0] == '\0')
        return true;
    program->tls = http_tls_open(&files, error, sizeof error);
    if (program->tls == NULL) {
        main_print_error(error);
        return false;
    }
    metrics_certificate(program->service.metrics, http_tls_expires(program->tls));
    return true;
}

static bool start_http(struct program *program) {
    const struct attn_config *config = &program->config;
    struct http_options options = {
        .listener_count = program->doors.count,
        .tls = program->tls,
        .io_threads = config->io_threads,
        .connections = config->max_connections,
        .connection_bytes = (size_t)config->connection_memory,
        .header_timeout_ms = config->header_timeout_ms,
        .body_timeout_ms = config->body_timeout_ms,
        .send_timeout_ms = config->send_timeout_ms,
        .idle_timeout_ms = config->idle_timeout_ms,
    };
    for (size_t i = 0; i < program->doors.count; i++) {
        const struct door *door = &program->doors.at[i];
        options.listeners[i] = (struct http_listener){door->listener, door->is_ops, door->is_tls};
    }
    program->http = http_server_start(&program->service, &options);
    if (program->http == NULL)
        main_print_error("the I/O threads cannot be started");
    return program->http != NULL;
}

static bool start(struct program *program) {
    main_raise_descriptors(&program->config, &program->log);
    if (!signals_catch()) {
        main_print_error("there are no descriptors to start with");
        return false;
    }
    if (!main_listen(&program->doors, &program->config) || !start_service(program) ||
        !start_tls(program) || !main_start_tracing(&program->service, &program->config) ||
        !main_has_descriptors(&program->config) || !start_http(program))
        return false;
    atomic_store(&program->service.phase, SERVICE_READY);
    main_announce(&program->doors, &program->config, auth_has_keys(program->service.auth),
                  &program->log);
    return true;
}

/* ---- run ---- */

/* What is read again while the service runs; what is wrong then changes nothing. */
static void reload(struct program *program) {
    struct service *service = &program->service;
    const bool has_keys = auth_has_keys(service->auth);
    char text[CONFIG_ERROR_SIZE];
    if (!has_keys && program->tls == NULL) {
        access_log_event(&program->log, "reload", "there is no file to read again");
        return;
    }
    const bool keys_are_fine = !has_keys || auth_reload(service->auth, text, sizeof text);
    if (!keys_are_fine)
        access_log_event(&program->log, "reload failed", text);
    const bool tls_is_fine =
        program->tls == NULL || http_tls_reload(program->tls, text, sizeof text);
    if (!tls_is_fine)
        access_log_event(&program->log, "reload failed", text);
    metrics_reloaded(service->metrics, keys_are_fine && tls_is_fine);
    if (program->tls != NULL)
        metrics_certificate(service->metrics, http_tls_expires(program->tls));
    if (!keys_are_fine || !tls_is_fine)
        return;
    snprintf(text, sizeof text, "%zu keys, %s", auth_count(service->auth),
             program->tls == NULL ? "no certificate" : "a certificate");
    access_log_event(&program->log, "reload", text);
}

static bool has_changed(const struct program *program) {
    const bool keys = auth_file_changed(program->service.auth);
    return (program->tls != NULL && http_tls_changed(program->tls)) || keys;
}

/* As signals_wait(), giving the supervisor its signs of life while the I/O threads go round. */
static enum signals_event wait_event(const struct program *program, int ms) {
    const int life_ms = supervisor_life_ms();
    const int64_t end = clock_now() + (int64_t)ms * CLOCK_MS;
    for (;;) {
        const int64_t left = end - clock_now();
        const int left_ms = left <= 0 ? 0 : (int)(left / CLOCK_MS) + 1;
        const bool is_last = life_ms == 0 || left_ms <= life_ms;
        const enum signals_event event = signals_wait(is_last ? left_ms : life_ms);
        if (life_ms > 0 && http_server_is_alive(program->http, 2 * (uint64_t)life_ms))
            supervisor_say_alive();
        if (is_last || event != SIGNALS_TIME)
            return event;
    }
}

/* True when the moment has come; then the next is so much later. */
static bool has_come(int64_t *moment, int64_t ms) {
    const int64_t now = clock_now();
    if (now < *moment)
        return false;
    *moment = now + ms * CLOCK_MS;
    return true;
}

static void serve(struct program *program) {
    enum { AGE_MS = 2000 }; /* what was not used for so long, or twice that, is given back */
    const int64_t look_ms = (int64_t)program->config.reload_interval_ms;
    int64_t look = clock_now() + look_ms * CLOCK_MS, age = clock_now() + AGE_MS * CLOCK_MS;
    struct heap heap = {0};
    for (;;) {
        const int64_t left = clock_earlier(look, age) - clock_now();
        const enum signals_event event =
            wait_event(program, left <= 0 ? 0 : (int)(left / CLOCK_MS) + 1);
        if (event == SIGNALS_STOP)
            return;
        if (has_come(&age, AGE_MS)) {
            buffer_pool_age();
            heap_age(&heap, metrics_in_flight(program->service.metrics) == 0);
            captures_expire(program->service.captures);
            latency_look(&program->service, 0);
        }
        session_table_sweep(program->service.sessions);
        if (event == SIGNALS_RELOAD || (has_come(&look, look_ms) && has_changed(program)))
            reload(program);
    }
}

/* ---- drain ---- */

/* Until the time is over or a further signal to stop comes. */
static void wait_stop(const struct program *program, uint64_t ms) {
    const int64_t deadline = clock_now() + (int64_t)ms * CLOCK_MS;
    for (int64_t left; (left = deadline - clock_now()) > 0;)
        if (wait_event(program, (int)(left / CLOCK_MS) + 1) == SIGNALS_STOP)
            return;
}

/* True when nothing is in flight any more; false at the deadline or at a further signal. */
static bool wait_idle(struct program *program, uint64_t ms) {
    enum { STEP_MS = 5 };
    const int64_t deadline = clock_now() + (int64_t)ms * CLOCK_MS;
    while (metrics_in_flight(program->service.metrics) > 0)
        if (clock_now() >= deadline || wait_event(program, STEP_MS) == SIGNALS_STOP)
            return metrics_in_flight(program->service.metrics) == 0;
    return true;
}

/* A connection that was taken in the last moment may still bring its first request. */
static void await_first_requests(struct program *program) {
    enum { PATIENCE_MS = 500, STEP_MS = 2 };
    const int64_t deadline = clock_now() + PATIENCE_MS * CLOCK_MS;
    while (http_server_unasked(program->http) > 0 && clock_now() < deadline)
        if (wait_event(program, STEP_MS) == SIGNALS_STOP)
            return;
}

/*
 * Not ready at once; for the lame-duck time everything is still taken; then no new connection, and
 * what comes on those there are ends. What does not end in time is told so, then cut.
 */
static void drain(struct program *program) {
    enum { LAST_WORDS_MS = 2000, CUT_MS = 10000 };
    struct service *service = &program->service;
    atomic_store(&service->phase, SERVICE_LEAVING);
    access_log_event(&program->log, "stopping", "not ready any more");
    supervisor_say_stopping();
    wait_stop(program, program->config.lame_duck_ms);
    atomic_store(&service->phase, SERVICE_DRAINING);
    http_server_quiesce(program->http);
    main_shut(&program->doors);
    await_first_requests(program);
    if (wait_idle(program, program->config.drain_timeout_ms))
        return;
    atomic_store(&service->phase, SERVICE_CUTTING);
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
    tracing_stop(program->service.tracing);
    http_tls_free(program->tls);
    attn_scheduler_free(&program->service.scheduler);
    session_table_free(program->service.sessions);
    main_close(&program->doors);
    captures_free(program->service.captures);
    admission_free(program->service.admission);
    backlog_free(program->service.backlog);
    metrics_free(program->service.metrics);
    latency_free(program->service.latency);
    auth_free(program->service.auth);
    typeface_free(&program->typeface);
}

/* Without the libraries' own ends: a thread of OpenBLAS's that was given no memory asks for it
   until there is some, and would be waited for. */
static _Noreturn void leave(int status) {
    fflush(stdout);
    _exit(status);
}

int main(int argc, char **argv) {
    static struct program program;
    const int status = main_configure(&program.config, argc, argv);
    if (status == EXIT_SUCCESS)
        return status;
    if (status > 0)
        leave(status);
    access_log_open(&program.log, STDERR_FILENO, (enum access_log_level)program.config.log);
    if (!start(&program)) {
        stop(&program);
        leave(EXIT_FAILURE);
    }
    serve(&program);
    drain(&program);
    stop(&program);
    access_log_event(&program.log, "stopped", "everything was answered");
    return EXIT_SUCCESS;
}
