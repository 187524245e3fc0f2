/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The head is judged and the body received here, under its limit and the byte budget. A body of
 * known length is admitted as a whole before its first byte is read, and may wait for that; one in
 * chunks is admitted step by step and never waits.
 */
#include <string.h>

#include "core/checked.h"
#include "server/buffer_pool.h"
#include "server/clock.h"
#include "server/exchange.h"
#include "server/exchange_internal.h"

enum { CHUNKED_FIRST = 64 << 10 };
/* A refused client may send this much more before its connection is cut. */
#define MOST_THROWN_AWAY (UINT64_C(64) << 20)

/* The `type` of a problem looks like an address. */
#define PROBLEMS "/problems/"

static void refuse_unknown(struct exchange *exchange) {
    char hint[100];
    if (strncmp(exchange->path, PROBLEMS, strlen(PROBLEMS)) == 0) {
        exchange_fail(exchange, PROBLEM_NOT_FOUND,
                      "\"%.100s\" names a kind of refusal and is no page; docs/errors.md of the "
                      "project says what each means.",
                      exchange->path);
        return;
    }
    const char *const near = route_nearest(exchange->path, hint, sizeof hint);
    exchange_fail(
        exchange, PROBLEM_NOT_FOUND,
        "There is nothing at the path \"%.100s\"%s. %s%s%s/docs has what there is.", exchange->path,
        exchange->escaped_path ? " when it is written with percent signs" : "",
        near == NULL ? "" : "Did you mean ", near == NULL ? "" : near, near == NULL ? "" : "? ");
}

static void refuse_unmatched(struct exchange *exchange, bool path_known) {
    if (!path_known) {
        refuse_unknown(exchange);
        return;
    }
    exchange->answer.allow = route_allow(exchange->path, exchange->allow, sizeof exchange->allow);
    if (exchange->method == HTTP_OPTIONS) {
        exchange_answer(exchange, 204, NULL, NULL, 0);
        exchange->state = EXCHANGE_REFUSED;
        return;
    }
    exchange_fail(exchange, PROBLEM_METHOD, "%s does not have the method %.20s; it has %s.",
                  exchange->path, exchange->method_name, exchange->allow);
}

void exchange_refuse_length(struct exchange *exchange, size_t most, uint64_t length, bool grows) {
    const bool json = most < exchange->service->limits.body_bytes;
    const char *const about = grows ? "at least " : "";
    struct problem problem;
    if (most == 0)
        problem_set(&problem, ATTN_BODY_TOO_LARGE, NULL,
                    "This request has no body; one of %s%llu bytes came. Send it without.", about,
                    (unsigned long long)length);
    else
        problem_set(&problem, ATTN_BODY_TOO_LARGE, NULL,
                    "The body may have %zu bytes%s; this one has %s%llu. Send %sless per call, or "
                    "have the operator raise %s.",
                    most, json ? " in JSON" : "", about, (unsigned long long)length,
                    json ? "safetensors or " : "", json ? "json_max_body" : "max_body");
    problem.limit = (double)most;
    exchange_refuse(exchange, &problem);
}

static bool refuse_length(struct exchange *exchange, uint64_t length) {
    if (length <= exchange->body_limit)
        return false;
    exchange_refuse_length(exchange, exchange->body_limit, length, !exchange->has_length);
    return true;
}

/* Its bytes, and what decoding makes of them; of a packed body that is charged when it has been
   unpacked. At most the whole budget, for a body within its limit must be possible on an idle
   daemon. */
size_t exchange_body_cost(const struct exchange *exchange, size_t bytes) {
    size_t cost;
    if (!attn_mul_size(bytes, exchange->coding == NULL ? exchange->body_weight : 1, &cost) ||
        !attn_add_size(cost, exchange->body_extra, &cost))
        cost = SIZE_MAX;
    return attn_min_size(cost, admission_budget(exchange->service->admission));
}

static void refuse_error(struct exchange *exchange, const struct attn_error *error) {
    struct problem problem;
    problem_from_error(&problem, error);
    exchange_refuse(exchange, &problem);
}

static bool take_buffer(struct exchange *exchange) {
    const size_t bytes =
        exchange->has_length ? attn_max_size((size_t)exchange->content_length, 1) : CHUNKED_FIRST;
    exchange->body = buffer_take(bytes);
    if (exchange->body == NULL) {
        exchange_fail(exchange, ATTN_NO_MEMORY, "There is no memory for the body now.");
        return false;
    }
    exchange->body_capacity = bytes;
    return true;
}

static void granted(struct admission_waiter *waiter) {
    struct exchange *exchange =
        (struct exchange *)((char *)waiter - offsetof(struct exchange, waiter));
    exchange_wake(exchange, EXCHANGE_EVENT_DONE);
    exchange_unref(exchange);
}

/* The connection sleeps: now the place in the line may be taken. */
static void wait_for_bytes(struct exchange *exchange) {
    exchange_ref(exchange);
    switch (admission_ask(exchange->service->admission, &exchange->waiter)) {
    case ADMISSION_GRANTED:
        granted(&exchange->waiter);
        break;
    case ADMISSION_WAITING:
        break;
    case ADMISSION_NO_ROOM:
    case ADMISSION_TOO_LARGE:
        exchange->waiter.bytes = 0;
        exchange_wake(exchange, EXCHANGE_EVENT_NO_ROOM);
        exchange_unref(exchange);
        break;
    }
}

void exchange_body_woken(struct exchange *exchange, bool was_granted) {
    struct admission *admission = exchange->service->admission;
    if (!was_granted && admission_leave(admission, &exchange->waiter)) {
        exchange_unref(exchange); /* the line's reference */
        return;
    }
    /* Granted, perhaps a moment too late: either way the bytes are this exchange's. */
    exchange->reserved += exchange->waiter.bytes;
    if (was_granted)
        take_buffer(exchange);
}

static void admit(struct exchange *exchange) {
    struct service *service = exchange->service;
    const size_t bytes = exchange->has_length ? (size_t)exchange->content_length : CHUNKED_FIRST;
    const size_t cost = exchange_body_cost(exchange, bytes);
    static const struct exchange_room room = {
        .what = "its body", .too_large = ATTN_BODY_TOO_LARGE, .advice = "Send less per call."};
    struct attn_error error = {0};
    if (exchange_key_reserve(exchange, cost, &room, &error) != ATTN_OK) {
        refuse_error(exchange, &error);
        return;
    }
    const enum admission_right right =
        exchange_right(exchange) == ADMISSION_KEPT ? ADMISSION_KEPT : ADMISSION_FIRST;
    if (admission_reserve(service->admission, cost, right) == ADMISSION_GRANTED) {
        exchange->reserved = cost;
        take_buffer(exchange);
        return;
    }
    exchange->waiter = (struct admission_waiter){.bytes = cost, .right = right, .granted = granted};
    atomic_store(&exchange->begin_before,
                 clock_deadline(exchange->began, service->limits.queue_timeout_ms));
    exchange->launch = wait_for_bytes;
}

void exchange_head(struct exchange *exchange) {
    struct problem problem;
    bool path_known = false;
    if (!exchange->escaped_path)
        exchange->route =
            route_find(exchange->path, exchange->method, &exchange->captures, &path_known);
    if (exchange->route == NULL) {
        path_known = path_known || (exchange->method == HTTP_OPTIONS && !exchange->escaped_path &&
                                    route_is_whole_server(exchange->path));
        exchange->answer.close |= exchange->lacks_length || exchange->stray_body;
        refuse_unmatched(exchange, path_known);
        return;
    }
    if (!exchange_access(exchange, &problem)) {
        exchange_refuse(exchange, &problem);
        return;
    }
    if (exchange->stray_body) {
        exchange_fail(exchange, PROBLEM_BAD_FRAMING,
                      "This method takes no body; send the request without one.");
        return;
    }
    if (exchange->lacks_length && !exchange->route->empty_body) {
        exchange_fail(exchange, PROBLEM_LENGTH_REQUIRED,
                      "A request of this method needs a Content-Length, or Transfer-Encoding: "
                      "chunked.");
        return;
    }
    if (exchange->route->check == NULL)
        return;
    if (service_phase(exchange->service) >= SERVICE_CUTTING) {
        exchange_fail(exchange, ATTN_DRAINING,
                      "The service is shutting down; try again elsewhere.");
        return;
    }
    if (!exchange->route->check(exchange, &problem) || !exchange_coding_head(exchange, &problem)) {
        exchange_refuse(exchange, &problem);
        return;
    }
    if (!refuse_length(exchange, exchange->has_length ? exchange->content_length : 0) &&
        exchange_check_backlog(exchange))
        admit(exchange);
}

/* Room for `needed` bytes of a body in chunks. */
static bool grow(struct exchange *exchange, size_t needed) {
    if (needed <= exchange->body_capacity)
        return true;
    const size_t capacity =
        attn_min_size(attn_max_size(needed, exchange->body_capacity * 2), exchange->body_limit);
    const size_t more = exchange_body_cost(exchange, capacity) -
                        exchange_body_cost(exchange, exchange->body_capacity);
    static const struct exchange_room room = {
        .what = "the rest of the body, which with a Content-Length may wait for it,",
        .too_large = ATTN_OVERLOADED,
        .advice = "Send less per call."};
    struct attn_error error = {0};
    if (exchange_reserve(exchange, more, &room, &error) != ATTN_OK) {
        refuse_error(exchange, &error);
        return false;
    }
    void *body = buffer_take(capacity);
    if (body == NULL) {
        exchange_fail(exchange, ATTN_NO_MEMORY, "There is no memory for the body now.");
        return false;
    }
    memcpy(body, exchange->body, exchange->body_length);
    buffer_give(exchange->body, exchange->body_capacity);
    exchange->body = body;
    exchange->body_capacity = capacity;
    return true;
}

bool exchange_take_body(struct exchange *exchange, const void *data, size_t count) {
    const size_t length = exchange->body_length + count;
    if (exchange->state == EXCHANGE_RECEIVING && !refuse_length(exchange, length) &&
        grow(exchange, length)) {
        memcpy((char *)exchange->body + exchange->body_length, data, count);
        exchange->body_length = length;
        exchange->received = length;
        return true;
    }
    exchange->thrown_away += count;
    return exchange->thrown_away <= MOST_THROWN_AWAY;
}
