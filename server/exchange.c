/* SPDX-License-Identifier: Apache-2.0 */
/* The life of an exchange; see exchange.h. The body and its budget are exchange_body.c's. */
#include "server/exchange.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/buffer_pool.h"
#include "server/clock.h"
#include "server/digits.h"
#include "server/exchange_internal.h"
#include "server/http/http_server.h"
#include "server/tracing/trace_exchange.h"

struct exchange *exchange_create(struct service *service) {
    struct exchange *exchange = calloc(1, sizeof *exchange);
    if (exchange == NULL)
        return NULL;
    exchange->service = service;
    exchange->began = clock_now();
    atomic_init(&exchange->references, 1);
    for (size_t i = 0; i < STAGE_COUNT; i++)
        exchange->stage[i] = -1;
    metrics_begin_request(service->metrics);
    return exchange;
}

void exchange_ref(struct exchange *exchange) {
    atomic_fetch_add_explicit(&exchange->references, 1, memory_order_relaxed);
}

void exchange_unref(struct exchange *exchange) {
    if (atomic_fetch_sub_explicit(&exchange->references, 1, memory_order_acq_rel) != 1)
        return;
    if (exchange->work != NULL)
        exchange->work->free(exchange->work);
    buffer_give(exchange->body, exchange->body_capacity);
    if (exchange->reserved > 0)
        admission_release(exchange->service->admission, exchange->reserved);
    exchange_key_end(exchange);
    free(exchange->query);
    free(exchange->lists);
    text_close(&exchange->text);
    free(exchange);
}

enum attn_status exchange_reserve(struct exchange *exchange, size_t bytes,
                                  const struct exchange_room *room, struct attn_error *error) {
    struct admission *admission = exchange->service->admission;
    const size_t budget = admission_budget(admission);
    if (bytes > budget - exchange->reserved)
        return attn_fail_limit(error, room->too_large, "", (double)budget,
                               "With %s the call needs more than the %zu bytes that this service "
                               "has for all calls. %s",
                               room->what, budget, room->advice);
    if (exchange_key_reserve(exchange, bytes, room, error) != ATTN_OK)
        return error->status;
    if (admission_reserve(admission, bytes, exchange_right(exchange)) == ADMISSION_GRANTED) {
        exchange->reserved += bytes;
        return ATTN_OK;
    }
    exchange_key_release(exchange, bytes);
    return attn_fail(error, ATTN_OVERLOADED, "",
                     "There is no room for %s now; try again after the time that Retry-After "
                     "says.",
                     room->what);
}

void exchange_release(struct exchange *exchange, size_t bytes) {
    exchange->reserved -= bytes;
    exchange_key_release(exchange, bytes);
    admission_release(exchange->service->admission, bytes);
}

void exchange_sleep(struct exchange *exchange) {
    exchange->state = EXCHANGE_SLEEPING;
    atomic_store(&exchange->event, EXCHANGE_ASLEEP);
    exchange->launch(exchange);
}

bool exchange_wake(struct exchange *exchange, enum exchange_event event) {
    int expected = EXCHANGE_ASLEEP;
    if (!atomic_compare_exchange_strong(&exchange->event, &expected, (int)event))
        return false;
    if (exchange->cancel != NULL && event != EXCHANGE_EVENT_DONE)
        atomic_store(exchange->cancel, true);
    http_server_resume(exchange);
    return true;
}

/* What a sleep that was not simply done ends with: a code and a sentence. */
static void set_event_problem(struct exchange *exchange, enum exchange_event event) {
    static const struct {
        int code;
        const char *detail;
    } ends[] = {
        [EXCHANGE_EVENT_NO_ROOM] = {ATTN_OVERLOADED, "Too many calls wait for memory; try again "
                                                     "after the time that Retry-After says."},
        [EXCHANGE_EVENT_DEADLINE] = {ATTN_DEADLINE,
                                     "The call did not finish before its deadline. Give it more "
                                     "with timeout_ms, or ask for less."},
        [EXCHANGE_EVENT_QUEUED_OUT] = {ATTN_OVERLOADED,
                                       "The call waited too long for its turn; try again after "
                                       "the time that Retry-After says."},
        [EXCHANGE_EVENT_GONE] = {ATTN_CANCELLED, "The client closed the connection."},
        [EXCHANGE_EVENT_SHUTDOWN] = {ATTN_DRAINING, "The service stops now; try again elsewhere."},
    };
    exchange_fail(exchange, ends[event].code, "%s", ends[event].detail);
}

void exchange_woken(struct exchange *exchange) {
    const enum exchange_event event = (enum exchange_event)atomic_load(&exchange->event);
    const bool was_complete = exchange->completed != 0;
    assert(event > EXCHANGE_ASLEEP);
    atomic_store(&exchange->event, EXCHANGE_AWAKE); /* whoever comes late wakes nobody */
    exchange_leave_queue(exchange);
    exchange->launch = NULL;
    exchange->state = EXCHANGE_RECEIVING;
    if (!was_complete)
        exchange_body_woken(exchange, event == EXCHANGE_EVENT_DONE);
    exchange->is_left_alone |= event != EXCHANGE_EVENT_DONE;
    if (event != EXCHANGE_EVENT_DONE && was_complete && exchange->work->give_up != NULL)
        exchange->work->give_up(exchange->work);
    if (event != EXCHANGE_EVENT_DONE)
        set_event_problem(exchange, event);
    else if (was_complete)
        exchange->work->conclude(exchange->work, exchange);
    if (was_complete && exchange->launch == NULL)
        exchange->state = EXCHANGE_READY;
}

void exchange_complete(struct exchange *exchange) {
    exchange->completed = clock_now();
    if (exchange->state == EXCHANGE_REFUSED) {
        exchange->state = EXCHANGE_READY;
        return;
    }
    if (exchange->has_body) {
        exchange->stage[STAGE_READ] = exchange->completed - exchange->began;
        trace_parts_add(&exchange->parts, STAGE_READ, exchange->began, exchange->completed);
    }
    exchange_coding_body(exchange);
    if (exchange->launch == NULL)
        exchange->state = EXCHANGE_READY;
}

void exchange_answer(struct exchange *exchange, int status, const char *media_type,
                     const void *data, size_t length) {
    exchange->answer.status = status;
    exchange->answer.media_type = media_type;
    exchange->answer.data = data;
    exchange->answer.length = length;
    exchange->answer.coding = NULL;
    exchange->answer.varies = false;
}

void exchange_answer_text(struct exchange *exchange, const char *media_type) {
    if (exchange->text.failed)
        exchange_fail(exchange, ATTN_NO_MEMORY, "There is no memory for the answer now.");
    else
        exchange_answer(exchange, 200, media_type, exchange->text.data, exchange->text.length);
}

/* What Retry-After says: whole seconds, at least one and at most a minute. */
static unsigned retry_seconds(const struct exchange *exchange, int status) {
    enum { LONGEST = 60 };
    const double wait = status == 503 ? exchange_busy_seconds(exchange) : exchange->wait_seconds;
    if (status != 503 && status != 429)
        return 0;
    return wait >= LONGEST ? LONGEST : (unsigned)wait + 1;
}

void exchange_refuse(struct exchange *exchange, const struct problem *problem) {
    const enum problem_form form = route_errors(exchange->path);
    const char *media_type = problem_content_type(form);
    exchange->state = EXCHANGE_REFUSED;
    if (exchange->answer.problem != 0)
        return;
    const int status = problem_status(problem->code);
    text_clear(&exchange->text);
    problem_write(problem, form, exchange->id, &exchange->text);
    if (exchange->text.failed)
        exchange_answer(exchange, 503, media_type, problem_no_memory(form),
                        strlen(problem_no_memory(form)));
    else
        exchange_answer(exchange, status, media_type, exchange->text.data, exchange->text.length);
    exchange->answer.problem = problem->code;
    exchange->answer.retry_after = retry_seconds(exchange, status);
    exchange->answer.close |=
        problem->code == PROBLEM_BAD_FRAMING || problem->code == PROBLEM_LENGTH_REQUIRED ||
        problem->code == PROBLEM_TRANSFER_CODING || problem->code == ATTN_DRAINING;
    metrics_count_rejection(exchange->service->metrics, problem->code);
}

void exchange_fail(struct exchange *exchange, int code, const char *format, ...) {
    char detail[sizeof(((struct problem *)NULL)->detail)];
    struct problem problem;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(detail, sizeof detail, format, arguments);
    va_end(arguments);
    problem_set(&problem, code, NULL, "%s", detail);
    exchange_refuse(exchange, &problem);
}

/* What a stage takes beside its name: ", ", ";dur=", a point, three digits, and a NUL. */
enum { TIMING_ROOM = DIGITS_DECIMAL + 12 };

static size_t put(char *out, const char *text) {
    const size_t length = strlen(text);
    memcpy(out, text, length);
    return length;
}

/* As CLOCK_MS_FORMAT. */
static size_t put_milliseconds(char *out, int64_t microseconds) {
    size_t used = digits_decimal(out, (uint64_t)microseconds / 1000);
    const unsigned rest = (unsigned)((uint64_t)microseconds % 1000);
    out[used++] = '.';
    out[used++] = (char)('0' + rest / 100);
    out[used++] = (char)('0' + rest / 10 % 10);
    out[used++] = (char)('0' + rest % 10);
    return used;
}

const char *exchange_timing(const struct exchange *exchange, char *text, size_t size) {
    size_t used = 0;
    for (int i = 0; i < STAGE_WRITE; i++) {
        const char *name = metrics_stage_name((enum metrics_stage)i);
        if (exchange->stage[i] < 0 || size - used < strlen(name) + TIMING_ROOM)
            continue;
        used += used == 0 ? 0 : put(text + used, ", ");
        used += put(text + used, name);
        used += put(text + used, ";dur=");
        used += put_milliseconds(text + used, clock_microseconds(exchange->stage[i]));
    }
    text[used] = '\0';
    return text;
}

/* Where a request is counted: its route, or another row of its path, or "unmatched". */
static size_t counted_route(const struct exchange *exchange) {
    const struct route *route = exchange->route;
    if (route == NULL && !exchange->escaped_path)
        route = route_of_path(exchange->path);
    return route != NULL ? route_index(route) : route_count();
}

/* The history is of calls that compute, without what looks at it or at captures. */
static void note_latency(const struct exchange *exchange, const struct metrics_request *request) {
    const struct route *route = exchange->route;
    if (route == NULL || request->method != HTTP_POST ||
        (route->access != ACCESS_INFER && route->access != ACCESS_SESSIONS))
        return;
    struct latency_call call = {
        .id = exchange->id,
        .capture = exchange->kept_as,
        .status = request->code,
        .shape = exchange->shape,
        .nanoseconds = request->nanoseconds,
    };
    memcpy(call.stage, request->stage, sizeof call.stage);
    latency_note(exchange->service->latency, &call, latency_now());
}

void exchange_end(struct exchange *exchange, bool whole) {
    const int64_t now = clock_now();
    struct metrics_request request = {
        .route = counted_route(exchange),
        .model = exchange->model,
        .method = exchange->method,
        /* Nobody got an answer: the code that says the client closed the request. */
        .code = exchange->state == EXCHANGE_SENT ? exchange->answer.status : 499,
        .body_bytes = exchange->received,
        .nanoseconds = now - exchange->began,
    };
    if (exchange->state == EXCHANGE_SENT && exchange->work != NULL) {
        exchange->stage[STAGE_WRITE] = now - exchange->sent;
        trace_parts_add(&exchange->parts, STAGE_WRITE, exchange->sent, now);
    }
    memcpy(request.stage, exchange->stage, sizeof request.stage);
    const struct access_log_entry entry = {
        .id = exchange->id,
        .trace_id = exchange->trace.trace_id,
        .remote = exchange->remote,
        .method = exchange->method_name,
        .path = exchange->path,
        .media_type = exchange->content_type,
        .problem = exchange->answer.problem != 0 ? problem_name(exchange->answer.problem) : "",
        .kernel = exchange->kernel,
        .key = exchange->pass.key == NULL ? NULL : exchange->pass.key->name,
        .status = request.code,
        .whole = whole && exchange->state == EXCHANGE_SENT,
        .body_bytes = exchange->received,
        .answer_bytes = exchange->answer.length,
        .nanoseconds = request.nanoseconds,
    };
    struct access_log_entry line = entry;
    memcpy(line.stage, exchange->stage, sizeof line.stage);
    access_log_request(exchange->service->log, &line);
    note_latency(exchange, &request);
    trace_exchange_end(exchange, &request, now);
    metrics_end_request(exchange->service->metrics, &request);
    exchange_key_leave(exchange);
}
