/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /v1/attention: decode -> validate -> plan -> lay out the answer -> schedule -> finish. A
 * small call on an idle daemon is done on its I/O thread from end to end; any other sleeps while
 * workers go through the phases of its job. The work struct is all that workers touch.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/checked.h"
#include "server/attention_work.h"
#include "server/buffer_pool.h"
#include "server/clock.h"
#include "server/handlers.h"

/* Larger bodies are decoded by a worker, and larger answers encoded by one. */
#define SMALL_BYTES ((size_t)64 << 10)
/* Text costs up to four times its length again: "1," becomes eight bytes. */
enum { JSON_WEIGHT = 5 };

/* "application/json, application/vnd.safetensors" of those that decode, or encode. */
static const char *media_types(bool encoding, char *text, size_t size) {
    const struct codec *codec;
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; (codec = codec_at(i)) != NULL && used < size; i++)
        if (encoding ? codec->encodes : codec->decodes)
            used += (size_t)snprintf(text + used, size - used, "%s%s", used == 0 ? "" : ", ",
                                     codec->media_type);
    return text;
}

static void refuse_type(struct problem *problem, const char *type) {
    char types[160];
    problem_set(problem, PROBLEM_MEDIA_TYPE, NULL,
                "The body's media type \"%.80s\" is not supported; send one of %s.",
                type == NULL ? "" : type, media_types(false, types, sizeof types));
}

static void refuse_accept(struct problem *problem, const char *accept) {
    char types[160];
    problem_set(problem, PROBLEM_NOT_ACCEPTABLE, NULL,
                "The answer can be had as %s; Accept is \"%.80s\".",
                media_types(true, types, sizeof types), accept == NULL ? "" : accept);
}

/* The deadline that the query string brings, or the configured one. */
static int64_t first_deadline(const struct exchange *exchange) {
    int64_t deadline =
        clock_deadline(exchange->began, exchange->service->limits.request_timeout_ms);
    for (size_t i = 0; i < exchange->query_count; i++)
        if (strcmp(exchange->query[i].name, "timeout_ms") == 0) {
            const long long ms = strtoll(exchange->query[i].value, NULL, 10);
            if (ms > 0 && ms < 1000000000) /* decoding judges what is written here */
                deadline = clock_earlier(deadline, clock_deadline(exchange->began, (uint64_t)ms));
        }
    return deadline;
}

/* Whether a list of content codings, which know no case, leaves the body as it is. */
static bool is_plain(const char *codings) {
    static const char identity[] = "identity", between[] = ", \t";
    for (const char *at = codings == NULL ? "" : codings;;) {
        at += strspn(at, between);
        if (*at == '\0')
            return true;
        const size_t length = strcspn(at, between);
        if (length != sizeof identity - 1 || strncasecmp(at, identity, length) != 0)
            return false;
        at += length;
    }
}

bool attention_check(struct exchange *exchange, struct problem *problem) {
    const struct service_limits *limits = &exchange->service->limits;
    const struct codec *json = codec_find("json");
    bool undecided = false;
    const struct codec *codec = codec_for_request(exchange->content_type, NULL, 0, &undecided);
    if (codec == NULL && !undecided) {
        refuse_type(problem, exchange->content_type);
        return false;
    }
    if (!is_plain(exchange->content_encoding)) {
        problem_set(problem, PROBLEM_MEDIA_TYPE, NULL,
                    "The Content-Encoding \"%.40s\" is not supported; send the body as it is.",
                    exchange->content_encoding);
        return false;
    }
    if (codec_for_answer(exchange->accept, codec == NULL ? json : codec) == NULL) {
        refuse_accept(problem, exchange->accept);
        return false;
    }
    const bool is_text = codec == NULL || codec == json;
    exchange->body_weight = is_text ? JSON_WEIGHT : 1;
    exchange->body_limit = limits->body_bytes;
    if (codec == json)
        exchange->body_limit = attn_min_size(limits->body_bytes, limits->json_body_bytes);
    atomic_store(&exchange->deadline, first_deadline(exchange));
    return true;
}

/* The codecs of a complete request; false when it was refused. */
static bool choose_codecs(struct attention_work *work, struct exchange *exchange) {
    const size_t most = exchange->service->limits.json_body_bytes;
    struct problem problem;
    bool undecided = false;
    work->in = codec_for_request(exchange->content_type, exchange->body, exchange->body_length,
                                 &undecided);
    work->out = work->in == NULL ? NULL : codec_for_answer(exchange->accept, work->in);
    if (work->in != NULL && work->out != NULL &&
        (work->in != codec_find("json") || exchange->body_length <= most))
        return true;
    if (work->in == NULL) {
        refuse_type(&problem, exchange->content_type);
    } else if (work->out == NULL) {
        refuse_accept(&problem, exchange->accept);
    } else {
        problem_set(&problem, ATTN_BODY_TOO_LARGE, NULL,
                    "A body in JSON may have %zu bytes; this one has %zu. Send safetensors.", most,
                    exchange->body_length);
        problem.limit = (double)most;
    }
    exchange_refuse(exchange, &problem);
    return false;
}

static void conclude(struct exchange_work *base, struct exchange *exchange) {
    struct attention_work *work = (struct attention_work *)base;
    struct problem problem;
    for (int stage = STAGE_DECODE; stage <= STAGE_ENCODE; stage++)
        exchange->stage[stage] = work->stage[stage];
    if (work->error.status != ATTN_OK) {
        problem_from_error(&problem, &work->error);
        exchange_refuse(exchange, &problem);
        return;
    }
    exchange->kernel = work->plan.kernel->name;
    const double computed = (double)atomic_load(&work->result.scores_computed);
    const struct metrics_call counted = {
        .kernel = exchange->kernel,
        .flops = work->plan.flops,
        .scores_computed = computed,
        .scores_skipped =
            work->plan.scores_total > computed ? work->plan.scores_total - computed : 0,
    };
    metrics_count_call(exchange->service->metrics, &counted);
    exchange_answer(exchange, 200, work->answer.media_type,
                    (const char *)work->answer.buffer + work->answer.offset, work->answer.length);
}

/* Computes on the I/O thread; false when its arena cannot be had. */
static bool compute_here(struct attention_work *work, struct arena *arena) {
    const size_t needed = attn_max_size(work->plan.workspace_bytes, 64);
    if (arena->bytes < needed) {
        buffer_give(arena->memory, arena->bytes);
        arena->memory = buffer_take(needed);
        arena->bytes = arena->memory == NULL ? 0 : needed;
    }
    if (arena->memory == NULL)
        return false;
    attention_work_compute_all(work, arena->memory);
    return true;
}

static void launch(struct exchange *exchange) {
    attention_work_submit((struct attention_work *)exchange->work);
}

/* The rest is the workers'. */
static void hand_over(struct attention_work *work, struct exchange *exchange) {
    if (!attention_work_enter_queue(work)) {
        struct problem problem;
        const size_t limit = exchange->service->limits.queue_limit;
        problem_set(&problem, ATTN_OVERLOADED, NULL,
                    "As many calls wait as may (queue_limit = %zu); try again after the time that "
                    "Retry-After says.",
                    limit);
        problem.limit = (double)limit;
        exchange_refuse(exchange, &problem);
        return;
    }
    const uint64_t patience = exchange->service->limits.queue_timeout_ms;
    atomic_store(&exchange->begin_before, clock_deadline(exchange->completed, patience));
    exchange->cancel = &work->job.cancelled;
    exchange->launch = launch;
}

static bool is_small(const struct attention_work *work, const struct service *service) {
    return service_seconds(service, work->plan.work) * (double)service->workers <=
               service->limits.inline_seconds &&
           work->answer.capacity <= SMALL_BYTES;
}

void attention_handle(struct exchange *exchange) {
    struct service *service = exchange->service;
    struct attention_work *work = attention_work_create(exchange);
    if (work == NULL) {
        exchange_fail(exchange, ATTN_NO_MEMORY, "There is no memory for this call now.");
        return;
    }
    work->base.conclude = conclude;
    exchange->work = &work->base;
    if (!choose_codecs(work, exchange))
        return;
    if (service->limits.inline_seconds > 0 && exchange->body_length <= SMALL_BYTES &&
        admission_queue_depth(service->admission) == 0) {
        attention_work_prepare(work);
        if (work->error.status == ATTN_OK && !is_small(work, service)) {
            hand_over(work, exchange);
            return;
        }
        if (work->error.status != ATTN_OK || compute_here(work, exchange->arena)) {
            conclude(&work->base, exchange);
            return;
        }
    }
    hand_over(work, exchange);
}
