/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The computation behind one attention call: what is decoded, planned, laid out, computed and
 * encoded, step by step on any thread, or as a job of three phases on the workers. It refuses
 * through `error`; it knows its exchange only to wake it, to learn the body and to reserve memory.
 */
#ifndef SERVER_ATTENTION_WORK_H
#define SERVER_ATTENTION_WORK_H

#include "server/exchange.h"

enum attention_phase { ATTENTION_NEW, ATTENTION_PREPARED, ATTENTION_COMPUTED, ATTENTION_ENCODED };

struct attention_work {
    struct exchange_work base;
    struct exchange *exchange;
    struct attn_job job;
    enum attention_phase phase;
    const struct codec *in, *out;
    struct codec_request request;
    struct attn_call call;
    struct attn_plan plan;
    struct attn_result result;
    struct codec_answer answer;
    struct attn_error error; /* status OK: none */
    atomic_bool queued;      /* counted among those that wait */
    atomic_int_least64_t compute_began;
    int64_t waits_since;
    int64_t stage[STAGE_COUNT]; /* nanoseconds; -1: not had */
};

/* Freed by its exchange. NULL when there is no memory. */
struct attention_work *attention_work_create(struct exchange *exchange);

/* Decodes, validates, plans, reserves and lays out: `error`, or phase PREPARED. */
void attention_work_prepare(struct attention_work *work);
/* Computes and encodes a prepared call on this thread. */
void attention_work_compute_all(struct attention_work *work, void *workspace);

/* Takes a place among the waiting calls; false when there is none. */
bool attention_work_enter_queue(struct attention_work *work);
/* Hands the rest to the workers, who wake the exchange at the end. The exchange sleeps. */
void attention_work_submit(struct attention_work *work);

#endif
