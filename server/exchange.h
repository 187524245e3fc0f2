/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request and its answer, from the end of the head to the last byte. Its states:
 *
 *   RECEIVING -> (complete) -> handler -> READY -> SENT
 *       |                        `-> SLEEPING -> READY -> SENT
 *       |-> SLEEPING (waits for bytes of the budget) -> RECEIVING
 *       `-> REFUSED (the body is thrown away) -> SENT
 *
 * Only the I/O thread of its connection changes the state. While it sleeps the connection is
 * suspended, and workers, the budget, deadlines and the watcher compete to wake it: the first call
 * of exchange_wake() wins, and only the winner's event counts.
 *
 * Memory: counted references - the connection's, the response's, one per worker job or place in
 * the line for bytes. The last one gives everything back: body, answer, budget.
 */
#ifndef SERVER_EXCHANGE_H
#define SERVER_EXCHANGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/auth/auth.h"
#include "server/backlog.h"
#include "server/codecs/codec.h"
#include "server/codings/coding.h"
#include "server/latency.h"
#include "server/problem.h"
#include "server/request_id.h"
#include "server/routes.h"
#include "server/service.h"
#include "server/tracing/trace_context.h"
#include "server/tracing/trace_parts.h"

enum exchange_state {
    EXCHANGE_RECEIVING,
    EXCHANGE_REFUSED,
    EXCHANGE_SLEEPING,
    EXCHANGE_READY,
    EXCHANGE_SENT
};

/* Whether it sleeps, and what ended the sleep. */
enum exchange_event {
    EXCHANGE_AWAKE,
    EXCHANGE_ASLEEP,
    EXCHANGE_EVENT_DONE,       /* what it waited for is there */
    EXCHANGE_EVENT_NO_ROOM,    /* the line for bytes is full */
    EXCHANGE_EVENT_DEADLINE,   /* of the call */
    EXCHANGE_EVENT_QUEUED_OUT, /* waited too long to begin */
    EXCHANGE_EVENT_GONE,       /* the client went away */
    EXCHANGE_EVENT_SHUTDOWN    /* the drain's deadline */
};

/* A header that an answer of one kind has; `name` is static. */
struct exchange_header {
    const char *name;
    char value[48];
};
enum { EXCHANGE_HEADERS_MOST = 5 };

struct exchange_answer {
    int status;
    const char *media_type; /* NULL: no body */
    const char *coding;     /* what it is packed with; NULL: it is as it is */
    bool varies;            /* with Accept-Encoding */
    bool is_immutable;      /* what this path answers never changes */
    const void *data;       /* borrowed from the exchange or static */
    size_t length;
    const char *allow, *etag, *policy; /* values of Allow, ETag, Content-Security-Policy, or NULL */
    const char *challenge;             /* of WWW-Authenticate, or NULL */
    const char *location;              /* of Location, or NULL */
    size_t json_bytes;    /* how much of it is JSON, where other bytes follow; else 0 */
    unsigned retry_after; /* seconds; 0: it does not say */
    struct exchange_header headers[EXCHANGE_HEADERS_MOST];
    size_t header_count;
    bool close;
    int problem; /* its code, or 0 */
};

/* Memory that an I/O thread keeps for computing small calls itself. */
struct arena {
    void *memory; /* from the buffer pool, or NULL */
    size_t bytes;
};

/* A handler's own memory, which is all that workers may touch while the exchange sleeps. */
struct exchange_work {
    /* After the sleep, on the I/O thread: answers with what the workers left, or sets the
       exchange's launch to sleep again. */
    void (*conclude)(struct exchange_work *work, struct exchange *exchange);
    /* After a sleep that something else has ended, on the I/O thread: gives up waiting; or NULL. */
    void (*give_up)(struct exchange_work *work);
    struct session_wait *wait; /* for a session's turn, while it waits for that */
    void (*free)(struct exchange_work *work);
};

struct exchange {
    struct service *service;
    /* The head; text is borrowed from the connection and stays until the answer has left. */
    const struct route *route; /* NULL: none for this path and method */
    struct route_captures captures;
    size_t model; /* of the Open Inference Protocol: 1 + oip_model_index(), or 0 */
    enum http_method method;
    const char *method_name, *path, *content_type, *accept;
    const char *content_encoding, *accept_encoding, *if_none_match;
    const char *json_length; /* how much of the body is JSON: codec_oip.h; or NULL */
    const char *origin;      /* of the page that asks, if its pages may read the answer; or NULL */
    const char *host, *authorization; /* or NULL */
    bool foreign_page;                /* a page of another site asks, and may not read the answer */
    bool at_ops;                      /* it came to an operators' address */
    bool is_preflight, asks_private_network; /* a browser's question before the request proper */
    struct codec_query_option *query;        /* owned array of borrowed text */
    size_t query_count;
    char *lists; /* owned: headers of several lines, put together; or NULL */
    char id[REQUEST_ID_SIZE], remote[64], allow[64];
    struct trace_context trace;
    const char *tracestate; /* or NULL; where spans are not sent nobody asks for it */

    bool escaped_path; /* as sent it has percent signs: no route's */
    bool has_body, has_length, expects_continue;
    bool lacks_length; /* its method takes a body, whose end is not stated: it is not read */
    bool stray_body;   /* its method takes none, but one comes: it is not read */
    uint64_t content_length;
    size_t body_limit;
    unsigned body_weight;               /* bytes of the budget per byte of plain body, ... */
    size_t body_extra;                  /* ... and besides, for a part that weighs more */
    const struct coding *coding;        /* what the body is packed with; NULL: it is plain */
    const struct coding *answer_coding; /* what the answer is to be packed with, or NULL */
    bool answer_varies;                 /* by Accept-Encoding */
    void *body;                         /* owned, from the buffer pool */
    size_t body_length, body_capacity;
    uint64_t received; /* of the body, as it came */
    uint64_t thrown_away;
    size_t reserved; /* of the budget; changed by whoever works on the exchange, one at a time */
    struct auth_pass pass;  /* its key, where keys are on */
    size_t reserved_of_key; /* of the key's memory; as `reserved` */
    bool is_counted;        /* among the key's requests in flight */
    bool is_left_alone;     /* it was woken before its worker was done, who may hold on to it */
    bool has_changed;       /* something that others see: no answer says that it failed */
    bool is_lost;        /* it was done, and there was no memory to say so: no answer says else */
    double wait_seconds; /* until a quota lets it in */
    char challenge[128], location[REQUEST_ID_SIZE + 32];
    char etag[64]; /* where the answer's is made for it */
    struct admission_waiter waiter;

    enum exchange_state state;
    atomic_int references;
    atomic_int event;                  /* enum exchange_event */
    atomic_int_least64_t deadline;     /* of the call; 0: none */
    atomic_int_least64_t begin_before; /* while it waits to begin; 0: it has begun, or may wait */
    atomic_int_least64_t queued_at;    /* when its wait for a worker began; 0: it does not wait */
    const struct backlog_call *queued; /* and with what; read only while it sleeps */
    atomic_bool *cancel;               /* of its job, or NULL; set before it sleeps */
    /* Set by a handler that answers from elsewhere: called once the connection sleeps. */
    void (*launch)(struct exchange *exchange);
    struct exchange_work *work;
    void *connection;    /* the HTTP library's */
    void *thread;        /* its I/O thread, a struct http_thread */
    struct arena *arena; /* the I/O thread's */

    struct exchange_answer answer;
    struct text text;              /* owned: the answer where it is text */
    const char *kernel;            /* for the log, or NULL */
    enum latency_shape shape;      /* of its call, for the history */
    char kept_as[REQUEST_ID_SIZE]; /* the capture that its call became, or "" */
    int64_t began, completed, sent;
    int64_t stage[STAGE_COUNT]; /* nanoseconds; -1: not had */
    struct trace_parts parts;   /* and when */
};

/* Of whoever asks, whose sessions and captures are its own; NULL without keys, where all are
   everyone's. */
static inline struct account *exchange_account(const struct exchange *exchange) {
    return exchange->pass.key == NULL ? NULL : exchange->pass.key->account;
}

/* With one reference. NULL when there is no memory. Counts as a request in flight from here to
   exchange_end(). */
struct exchange *exchange_create(struct service *service);
void exchange_ref(struct exchange *exchange);
void exchange_unref(struct exchange *exchange);

/* Finds the route and judges the head, whose fields have been filled in. Leaves the state
   RECEIVING, REFUSED, or RECEIVING with `launch` set: then it must sleep. */
void exchange_head(struct exchange *exchange);
/* Takes (or throws away) a piece of the body; false when a refused client sends on and on. */
bool exchange_take_body(struct exchange *exchange, const void *data, size_t count);
/* The request is complete. Leaves the state READY, or `launch` set: then it must sleep. */
void exchange_complete(struct exchange *exchange);
/* The connection is suspended: starts the sleep and then what it waits for. */
void exchange_sleep(struct exchange *exchange);
/* After a sleep, on the I/O thread: leaves the state RECEIVING, REFUSED or READY, or `launch` set:
   then it must sleep again. */
void exchange_woken(struct exchange *exchange);
/* Ends a sleep. True for the first caller, whose event it is; the others do nothing. */
bool exchange_wake(struct exchange *exchange, enum exchange_event event);
/* The answer has left, `whole` or not, or the connection died: counts and logs. */
void exchange_end(struct exchange *exchange, bool whole);

/* Ways to answer. Refusing keeps the first refusal. */
void exchange_refuse(struct exchange *exchange, const struct problem *problem);
/* Refuses a body of `length` bytes, so far where it `grows`, for the limit of `most` bytes: that of
   every body, or the lower one of JSON. */
void exchange_refuse_length(struct exchange *exchange, size_t most, uint64_t length, bool grows);
void exchange_fail(struct exchange *exchange, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void exchange_answer(struct exchange *exchange, int status, const char *media_type,
                     const void *data, size_t length);
/* Answers 200 with exchange->text. */
void exchange_answer_text(struct exchange *exchange, const char *media_type);
/* The same in gzip where Accept-Encoding allows it: for text that only programs read. */
void exchange_answer_packed_text(struct exchange *exchange, const char *media_type);

/* Decides how the answer is packed, for handlers of routes without a check; false with *problem set
   to refuse. */
bool exchange_coding_answer(struct exchange *exchange, struct problem *problem);

/* What room is asked for, a noun with its article, and what to say when there can never be so much:
   a status, and how to need less. */
struct exchange_room {
    const char *what;
    enum attn_status too_large;
    const char *advice;
};
/* Reserves more of the budget at once, or fails: as a quota of the key, as OVERLOADED, or as
   room->too_large when beside what the exchange has already it is more than there is. */
enum attn_status exchange_reserve(struct exchange *exchange, size_t bytes,
                                  const struct exchange_room *room, struct attn_error *error);
/* Gives back what exchange_reserve gave. */
void exchange_release(struct exchange *exchange, size_t bytes);
/* Counts planned work to the key, if there is one; fails as a quota. */
enum attn_status exchange_charge(struct exchange *exchange, double flops, struct attn_error *error);
/* Takes a place in the backlog for `work`, which `call` then has, and among the calls that wait for
   a worker, and says until when it may begin; false when there is none: then the exchange has its
   answer. `call` must stay until the exchange has left the queue. */
bool exchange_enter_queue(struct exchange *exchange, struct backlog_call *call,
                          struct backlog_work work);
/* Its worker has begun with it, or it is over. */
void exchange_leave_queue(struct exchange *exchange);
/* What it has to do is known by now; fails as OVERLOADED. */
enum attn_status exchange_revise_work(struct exchange *exchange, struct backlog_call *call,
                                      struct backlog_work work, struct attn_error *error);
/* The Server-Timing header's value; returns text. */
const char *exchange_timing(const struct exchange *exchange, char *text, size_t size);

#endif
