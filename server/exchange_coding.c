/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the body and the answer of an exchange are packed. The head decides both: Content-Encoding,
 * Accept-Encoding and ?compress=. A packed body is unpacked between its last byte and the route's
 * handler, which never sees it packed; here and now when it is small, else as a job of one step on
 * a worker, where the exchange sleeps. Refused are codings that are unknown, several at once, and a
 * body that is packed and does not say so.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/checked.h"
#include "server/buffer_pool.h"
#include "server/clock.h"
#include "server/codings/unpacker.h"
#include "server/exchange_internal.h"

/* What an I/O thread reads and makes itself, a millisecond's work, and what a worker does between
   two looks at its checkpoint. */
#define SMALL_BYTES ((size_t)256 << 10)
#define PIECE ((size_t)1 << 20)
/* Packed bytes per second, for ordering jobs. */
#define UNPACK_SPEED 1e8

/* ---- the head ---- */

/* The codings of the Open Inference Protocol's paths are those that its clients know. */
static bool is_oip(const struct exchange *exchange) {
    return exchange->route->errors == PROBLEM_OIP;
}

static bool choose_body(struct exchange *exchange, struct problem *problem) {
    char names[64];
    const char *header = exchange->content_encoding;
    const enum coding_request said = coding_of_request(header, &exchange->coding);
    const bool known = said == CODING_KNOWN && (exchange->coding->for_oip || !is_oip(exchange));
    if (said == CODING_PLAIN || known)
        return true;
    problem_set(problem, PROBLEM_MEDIA_TYPE, NULL,
                "The Content-Encoding \"%.40s\" %s; send %s, or the body as it is.", header,
                said == CODING_SEVERAL ? "names more than one coding" : "is not supported here",
                coding_names(is_oip(exchange), names, sizeof names));
    return false;
}

/* Takes ?compress= out of the query string, which a handler reads as options of the call. Its
   value, or NULL; *count of them there were. */
static const char *take_compress(struct exchange *exchange, size_t *count) {
    const char *value = NULL;
    size_t kept = 0;
    *count = 0;
    for (size_t i = 0; i < exchange->query_count; i++) {
        if (strcmp(exchange->query[i].name, "compress") == 0) {
            value = exchange->query[i].value;
            (*count)++;
        } else {
            exchange->query[kept++] = exchange->query[i];
        }
    }
    exchange->query_count = kept;
    return value;
}

static bool choose_answer_as_told(struct exchange *exchange, const char *value,
                                  struct problem *problem) {
    char names[64];
    const struct coding *coding = coding_find(value, strlen(value));
    if (strcasecmp(value, "none") == 0)
        return true;
    if (coding == NULL || (is_oip(exchange) && !coding->for_oip)) {
        problem_set(problem, ATTN_BAD_VALUE, "/compress",
                    "compress says how the answer is packed: none, %s; not \"%.40s\".",
                    coding_names(is_oip(exchange), names, sizeof names), value);
        return false;
    }
    exchange->answer_coding = coding;
    return true;
}

/*
 * Without ?compress= an answer is packed as the request was, and only when Accept-Encoding names
 * that: every HTTP library sends that header unasked, and packing numbers takes longer than sending
 * them to a neighbour. Clients of the Open Inference Protocol ask by it alone, naming one coding.
 */
static void choose_answer_by_itself(struct exchange *exchange) {
    const struct coding *coding = exchange->coding;
    exchange->answer_varies = coding != NULL || is_oip(exchange);
    if (coding != NULL && !coding_is_accepted(exchange->accept_encoding, coding))
        coding = NULL;
    if (coding == NULL && is_oip(exchange))
        coding = coding_asked_alone(exchange->accept_encoding);
    if (coding != NULL && (coding->for_oip || !is_oip(exchange)))
        exchange->answer_coding = coding;
}

bool exchange_coding_answer(struct exchange *exchange, struct problem *problem) {
    size_t count;
    const char *told = take_compress(exchange, &count);
    if (count > 1) {
        problem_set(problem, ATTN_OPTION_TWICE, "/compress",
                    "The query string has compress %zu times; give it once.", count);
        return false;
    }
    if (told != NULL)
        return choose_answer_as_told(exchange, told, problem);
    choose_answer_by_itself(exchange);
    return true;
}

bool exchange_coding_head(struct exchange *exchange, struct problem *problem) {
    return choose_body(exchange, problem) && exchange_coding_answer(exchange, problem);
}

/* ---- the body ---- */

struct unpacking {
    struct exchange_work base;
    struct exchange *exchange;
    struct attn_job job;
    struct unpacker unpacker;
    struct attn_error error;  /* status OK: none */
    atomic_bool queued;       /* counted among those that wait */
    struct backlog_call load; /* its part of the backlog */
    int64_t waits_since, waited, worked;
    struct trace_parts parts; /* of the exchange's, and those of its own */
};

static enum attn_status reserve(void *owner, size_t bytes, struct attn_error *error) {
    static const struct exchange_room room = {.what = "what its body unpacks to",
                                              .too_large = ATTN_BODY_TOO_LARGE,
                                              .advice = "Send less per call."};
    return exchange_reserve(owner, bytes, &room, error);
}

static void release(void *owner, size_t bytes) {
    exchange_release(owner, bytes);
}

/* The unpacked body takes the packed one's place. What decoding makes of it is charged too, as for
   a plain one: at most the whole budget. */
static enum attn_status adopt(struct exchange *exchange, struct unpacker *unpacker,
                              struct attn_error *error) {
    const size_t budget = admission_budget(exchange->service->admission);
    buffer_give(exchange->body, exchange->body_capacity);
    exchange_release(exchange, exchange_body_cost(exchange, exchange->body_capacity));
    metrics_count_packed(exchange->service->metrics, coding_index(exchange->coding), METRICS_IN);
    exchange->coding = NULL;
    exchange->body = unpacker_take(unpacker, &exchange->body_length, &exchange->body_capacity);
    const size_t cost = exchange_body_cost(exchange, exchange->body_length);
    if (cost <= exchange->body_capacity)
        return ATTN_OK;
    return reserve(exchange,
                   attn_min_size(cost - exchange->body_capacity, budget - exchange->reserved),
                   error);
}

static void unpack(struct unpacking *unpacking, size_t bytes) {
    const int64_t begin = clock_now();
    unpacker_run(&unpacking->unpacker, bytes, &unpacking->error);
    const int64_t end = clock_now();
    unpacking->worked += end - begin;
    trace_parts_add(&unpacking->parts, STAGE_DECODE, begin, end);
}

static bool is_over(const struct unpacking *unpacking) {
    return unpacking->unpacker.done || unpacking->error.status != ATTN_OK;
}

static void leave_queue(struct unpacking *unpacking) {
    if (atomic_exchange(&unpacking->queued, false))
        admission_leave_queue(unpacking->exchange->service->admission);
}

static void unpacking_free(struct exchange_work *base) {
    struct unpacking *unpacking = (struct unpacking *)base;
    leave_queue(unpacking);
    backlog_leave(unpacking->exchange->service->backlog, &unpacking->load, clock_now());
    unpacker_close(&unpacking->unpacker);
    free(unpacking);
}

/* Ends with the handler, or with a refusal. */
static void conclude(struct exchange_work *base, struct exchange *exchange) {
    struct unpacking *unpacking = (struct unpacking *)base;
    struct attn_error error = unpacking->error;
    struct problem problem;
    exchange->stage[STAGE_DECODE] = unpacking->worked;
    if (unpacking->waits_since != 0)
        exchange->stage[STAGE_QUEUE] = unpacking->waited;
    exchange->parts = unpacking->parts;
    if (error.status == ATTN_OK)
        adopt(exchange, &unpacking->unpacker, &error);
    exchange->work = NULL;
    exchange->cancel = NULL;
    unpacking_free(base);
    if (error.status == ATTN_OK) {
        exchange->route->handle(exchange);
        return;
    }
    problem_from_error(&problem, &error);
    exchange_refuse(exchange, &problem);
}

static struct unpacking *unpacking_of(struct attn_job *job) {
    return (struct unpacking *)(void *)((char *)job - offsetof(struct unpacking, job));
}

static void step(struct attn_job *job, size_t index, void *workspace,
                 const struct attn_checkpoint *checkpoint) {
    struct unpacking *unpacking = unpacking_of(job);
    (void)index;
    (void)workspace;
    const int64_t now = clock_now();
    unpacking->waited = now - unpacking->waits_since;
    trace_parts_add(&unpacking->parts, STAGE_QUEUE, unpacking->waits_since, now);
    exchange_leave_queue(unpacking->exchange);
    leave_queue(unpacking);
    while (!is_over(unpacking) && !attn_checkpoint_stops(checkpoint))
        unpack(unpacking, PIECE);
}

static bool finished(struct attn_job *job) {
    struct unpacking *unpacking = unpacking_of(job);
    struct exchange *exchange = unpacking->exchange;
    leave_queue(unpacking);
    exchange_wake(exchange, EXCHANGE_EVENT_DONE);
    exchange_unref(exchange); /* the job's; it may be the last */
    return false;
}

static double seconds_of(const struct exchange *exchange) {
    return (double)exchange->body_length / UNPACK_SPEED;
}

/* The exchange sleeps. */
static void launch(struct exchange *exchange) {
    struct unpacking *unpacking = (struct unpacking *)exchange->work;
    exchange_ref(exchange);
    unpacking->waits_since = clock_now();
    unpacking->job.step = step;
    unpacking->job.finished = finished;
    unpacking->job.steps = 1;
    unpacking->job.cost = seconds_of(exchange);
    attn_scheduler_submit(exchange->service->scheduler, &unpacking->job);
}

static void hand_over(struct unpacking *unpacking) {
    struct exchange *exchange = unpacking->exchange;
    const struct backlog_work work = {.pace = BACKLOG_BODY, .seconds = seconds_of(exchange)};
    unpacking->load.cancelled = &unpacking->job.cancelled;
    if (!exchange_enter_queue(exchange, &unpacking->load, work))
        return;
    atomic_store(&unpacking->queued, true);
    exchange->cancel = &unpacking->job.cancelled;
    exchange->launch = launch;
}

static void begin(struct exchange *exchange) {
    const struct service_limits *limits = &exchange->service->limits;
    const struct unpacker_account account = {reserve, release, exchange};
    const struct unpacker_limits most = {
        .bytes = exchange->body_limit,
        .option = exchange->body_limit < limits->body_bytes ? "json_max_body" : "max_body",
        .ratio = limits->body_ratio,
    };
    struct unpacking *unpacking = calloc(1, sizeof *unpacking);
    if (unpacking == NULL) {
        exchange_fail(exchange, ATTN_NO_MEMORY, "There is no memory for this call now.");
        return;
    }
    unpacking->base = (struct exchange_work){.conclude = conclude, .free = unpacking_free};
    unpacking->exchange = exchange;
    unpacking->parts = exchange->parts;
    unpacker_init(&unpacking->unpacker, exchange->coding, exchange->body, exchange->body_length,
                  &most, &account);
    exchange->work = &unpacking->base;
    if (limits->inline_seconds > 0 && exchange->body_length <= SMALL_BYTES &&
        admission_queue_depth(exchange->service->admission) == 0)
        unpack(unpacking, SMALL_BYTES);
    if (is_over(unpacking))
        conclude(&unpacking->base, exchange);
    else
        hand_over(unpacking);
}

/* A safetensors file may begin with two bytes of gzip's, but has a brace at byte 8. */
static const struct coding *undeclared(const struct exchange *exchange) {
    const unsigned char *body = exchange->body;
    return exchange->body_length > 8 && body[8] == '{'
               ? NULL
               : coding_recognise(body, exchange->body_length);
}

void exchange_coding_body(struct exchange *exchange) {
    if (exchange->body_length == 0) {
        exchange->route->handle(exchange);
        return;
    }
    if (exchange->coding != NULL) {
        begin(exchange);
        return;
    }
    const struct coding *coding = undeclared(exchange);
    if (coding == NULL)
        exchange->route->handle(exchange);
    else
        exchange_fail(
            exchange, PROBLEM_MEDIA_TYPE,
            "The body is compressed with %s, and no header says so. Send Content-Encoding: "
            "%s with it.",
            coding->name, coding->name);
}

/* ---- the answer ---- */

void exchange_answer_packed_text(struct exchange *exchange, const char *media_type) {
    static const char name[] = "gzip";
    const struct coding *gzip = coding_find(name, sizeof name - 1);
    struct text *text = &exchange->text;
    const bool wanted =
        !text->failed && text->length > 0 && coding_is_accepted(exchange->accept_encoding, gzip);
    char *packed = wanted ? malloc(text->length) : NULL;
    const size_t length =
        packed == NULL ? 0
                       : coding_pack(gzip, text->data, text->length, packed, text->length, NULL);
    if (length > 0) {
        const size_t capacity = text->length;
        text_close(text);
        *text = (struct text){.data = packed, .length = length, .capacity = capacity};
    } else {
        free(packed);
    }
    exchange_answer_text(exchange, media_type);
    exchange->answer.coding = length > 0 ? gzip->name : NULL;
    exchange->answer.varies = exchange->answer.problem == 0;
}
