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
       shared_bytes, flops. */
    enum attn_status (*prepare)(struct call_work *work);
    /* Tasks run concurrently, each with workspace_bytes of its own. */
    void (*compute)(struct call_work *work, size_t task, void *workspace,
                    const struct attn_checkpoint *checkpoint);
    /* Completes the answer's bytes. */
    enum attn_status (*encode)(struct call_work *work);
    /* On the I/O thread, once there is an answer: what metrics and log say; or NULL. */
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
    double flops;                  /* of all tasks: only ordering depends on it */
    struct codec_answer answer;
    const struct coding *packed; /* what the answer has been packed with, or NULL */
    struct attn_error error;     /* status OK: none */
    atomic_bool queued;          /* counted among those that wait */
    atomic_int_least64_t compute_began;
    int64_t waits_since;
    int64_t stage[STAGE_COUNT]; /* nanoseconds; -1: not had */
};

/* `bytes` zeroed bytes that begin with a call_work, freed by their exchange. NULL when there is no
   memory: then the exchange has its answer. */
void *call_work_create(struct exchange *exchange, const struct call_kind *kind, size_t bytes);
/* The handler's last step: answers, or sets the exchange's launch. */
void call_work_begin(struct call_work *work);

/* Threads that may run tasks of the call at once, once `tasks` is set. */
size_t call_work_hands(const struct call_work *work);
/* For prepare: takes over the call's own deadline, 0 for none, and refuses one that has passed. */
enum attn_status call_work_take_deadline(struct call_work *work, int64_t timeout_ms);
/* For prepare: memory for an answer, also a packed one, the workers' workspaces and what they
   share, at once or not at all. */
enum attn_status call_work_reserve(struct call_work *work, size_t answer_bytes);
/* For encode: fills in the id and what the stages took until now. */
void call_work_report(const struct call_work *work, struct codec_report *report);

#endif
