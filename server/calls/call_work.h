/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a call that computes: prepared, computed and encoded, on the I/O thread from end to
 * end when it is small and the daemon idle, else as a job of three phases on the workers. What the
 * steps do is a struct call_kind's business; this knows its exchange only to wake it, to learn the
 * body and to reserve memory. It refuses through `error`.
 */
#ifndef SERVER_CALLS_CALL_WORK_H
#define SERVER_CALLS_CALL_WORK_H

#include "server/exchange.h"

enum call_phase { CALL_NEW, CALL_PREPARED, CALL_COMPUTED, CALL_ENCODED };

struct call_work;

/* One kind of call. The steps run on any thread and fill `error` when they refuse. */
struct call_kind {
    /* Decodes, validates, reserves and lays out the answer; sets tasks, workspace_bytes,
       shared_bytes, flops, pace. */
    enum attn_status (*prepare)(struct call_work *work);
    /* Tasks run concurrently, each with workspace_bytes of its own. */
    void (*compute)(struct call_work *work, size_t task, void *workspace,
                    const struct attn_checkpoint *checkpoint);
    /* Completes the answer's bytes. */
    enum attn_status (*encode)(struct call_work *work);
    /* On the I/O thread, in place of an answer, when all that comes before has succeeded: the call
       goes on with call_work_again(), or is refused. NULL: it is answered. */
    void (*go_on)(struct call_work *work, struct exchange *exchange);
    /* Once, when it is known how the call ends; or NULL. When it has succeeded: on the I/O thread,
       before it is answered, and it fails after all where this fills `error`. Else on any thread.
     */
    void (*settle)(struct call_work *work, bool succeeded);
    /* On the I/O thread, once it is answered: what metrics and log say; or NULL. */
    void (*count)(const struct call_work *work, struct exchange *exchange);
    void (*close)(struct call_work *work);
    const char *ask_for_less; /* a sentence: how to mend an answer that is too large */
};

/* Begins the memory of every kind's own call. It is all that workers touch. */
struct call_work {
    struct exchange_work base;
    const struct call_kind *kind;
    struct exchange *exchange;
    struct attn_job job;
    enum call_phase phase;
    size_t tasks, workspace_bytes; /* of the computation; workspace per worker */
    bool tasks_wait;               /* tasks may wait for earlier ones */
    size_t shared_bytes;           /* that all tasks share, ... */
    void *shared;                  /* ... had from call_work_reserve on, aligned to 64 */
    double flops;                  /* of all tasks, ... */
    size_t pace;                   /* ... and which enum backlog_pace they are done at */
    struct backlog_call load;      /* its part of the backlog */
    atomic_int_least64_t busy;     /* nanoseconds of workers on its tasks, those that are done */
    struct codec_answer answer;
    const struct coding *packed; /* what the answer has been packed with, or NULL */
    struct attn_error error;     /* status OK: none */
    int problem;                 /* what an error is called instead of by its status, or 0 */
    const char *failures;        /* of many sessions: problem.failures */
    bool settled;
    atomic_bool queued;                       /* counted among those that wait */
    bool on_io_thread;                        /* while it is prepared */
    const struct attn_checkpoint *checkpoint; /* of the step that prepares or encodes, or NULL */
    size_t most_here;                         /* bytes that decoding may still take */
    bool put_off; /* it would take more, or long: a worker decodes from the start */
    atomic_int_least64_t compute_began;
    int64_t waits_since;
    int64_t stage[STAGE_COUNT]; /* nanoseconds; -1: not had */
    struct trace_parts parts;   /* and when, with what was before it */
};

/* `bytes` zeroed bytes that begin with a call_work, freed by their exchange. NULL when there is no
   memory: then the exchange has its answer. */
void *call_work_create(struct exchange *exchange, const struct call_kind *kind, size_t bytes);
/* The handler's last step: answers, or sets the exchange's launch. */
void call_work_begin(struct call_work *work);

/* For go_on, at once or later: the same call as one of another kind, from its prepare on. */
void call_work_again(struct call_work *work, const struct call_kind *kind);

/* Bytes per second at which bodies are decoded and answers encoded, for ordering jobs. */
#define CODEC_SPEED 5e8
/* For the backlog: of a prepared call its tasks and its bytes, else its body alone. */
struct backlog_work call_work_load(const struct call_work *work, size_t answer_bytes);
/* Threads that may run tasks of the call at once, once `tasks` is set. */
size_t call_work_hands(const struct call_work *work);
/* For prepare: charges what decoding takes beside the body, before it is taken; errors as of
   struct codec_budget. */
enum attn_status call_work_charge(struct call_work *work, size_t bytes, struct attn_error *error);
/* For prepare: whether it runs on an I/O thread, where it has to return now, without an error and
   with nothing begun, because what follows takes long. */
bool call_work_put_off(struct call_work *work);
/* For prepare: takes over the call's own deadline, 0 for none, and refuses one that has passed. */
enum attn_status call_work_take_deadline(struct call_work *work, int64_t timeout_ms);
/* For prepare: memory for an answer, also a packed one, the workers' workspaces and what they
   share, and room for its work, at once or not at all. */
enum attn_status call_work_reserve(struct call_work *work, size_t answer_bytes);
/* For encode: fills in the id and what the stages took until now. */
void call_work_report(const struct call_work *work, struct codec_report *report);

#endif
