/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The work that is queued and in flight, in seconds that the workers together need for it, and
 * whether a further call is let in beside it: not where more than a limit is ahead of it. Ahead of
 * a call is what is left of each other one, but of each at most as much as the call needs itself,
 * for the shortest is served first (core/scheduler.h). So a short call is let in beside long ones,
 * and one that is alone always.
 *
 * When calls have to be refused the backlog begins to shed: then a call is let in only where a few
 * like it are ahead. The workers have enough to do, and who is let in is answered about as soon as
 * at an ordinary load. Shedding ends a second after the last refusal, or when there was nothing to
 * do for a tenth of a second.
 *
 * Planned work becomes seconds by the speeds that the workers have shown of late, one per pace.
 */
#ifndef SERVER_BACKLOG_H
#define SERVER_BACKLOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Kinds of work whose speeds differ: one per kernel, as attn_kernel_at() counts them, and others.
 */
enum backlog_pace {
    BACKLOG_KERNELS = 16,
    BACKLOG_MERGE = BACKLOG_KERNELS,
    BACKLOG_SCALING,
    BACKLOG_COPY,
    BACKLOG_BODY, /* whatever a body asks for */
    BACKLOG_PACES
};

/* What there is to do. */
struct backlog_work {
    size_t pace;
    double amount;  /* floating-point operations; of BACKLOG_BODY bytes of the body */
    double seconds; /* of one worker, besides */
};

struct backlog;

/* One call's part. Caller storage, zeroed at first; it must stay until backlog_leave(). */
struct backlog_call {
    struct backlog_work work;        /* the backlog's, under its lock */
    atomic_size_t tasks, tasks_done; /* the caller's: how much of it is over; 0 tasks: nothing */
    const atomic_bool *cancelled;    /* the caller's, or NULL: what is left will not be done */
    const atomic_int_least64_t *deadline; /* the caller's, or NULL; nothing is done after it */
    bool is_in;
    struct backlog_call *next, *previous;
};

/* What a call finds. */
struct backlog_answer {
    bool is_let_in;
    double ahead; /* seconds of work */
};

/* `most`: seconds of work that may be ahead of a call; 0: no limit, and nobody is ever refused.
   NULL when there is no memory. */
struct backlog *backlog_create(size_t workers, double most);
/* Nobody may be in it. */
void backlog_free(struct backlog *backlog);

/* Seconds of all workers that the work takes. */
double backlog_seconds(struct backlog *backlog, struct backlog_work work);
/* So much was done in so many seconds of workers, added up. */
void backlog_learn(struct backlog *backlog, size_t pace, double amount, double seconds);

/* Whether a call with this work would be let in; `now` as of clock_now(). */
struct backlog_answer backlog_ask(struct backlog *backlog, struct backlog_work work, int64_t now);
/* Lets the call in, or not. */
struct backlog_answer backlog_enter(struct backlog *backlog, struct backlog_call *call,
                                    struct backlog_work work, int64_t now);
struct backlog_answer backlog_enter_anyway(struct backlog *backlog, struct backlog_call *call,
                                           struct backlog_work work);
/* It is in, and what it has to do is known better by now: it may stay, or has to leave. */
struct backlog_answer backlog_revise(struct backlog *backlog, struct backlog_call *call,
                                     struct backlog_work work, int64_t now);
/* Nothing when it is not in. */
void backlog_leave(struct backlog *backlog, struct backlog_call *call, int64_t now);

/* A call was refused for another reason that more calls came than could be served. */
void backlog_note_refusal(struct backlog *backlog, int64_t now);
bool backlog_sheds(struct backlog *backlog, int64_t now);
/* The backlog sheds, and who is let in now would not have to wait as long as this call has, so many
   nanoseconds. Never before it is known how long calls take, or where it is no work that waits. */
bool backlog_is_overdue(struct backlog *backlog, const struct backlog_call *call, int64_t waited,
                        int64_t now);
/* What is left of all calls' work, in seconds of all workers. */
double backlog_total(struct backlog *backlog, int64_t now);

#endif
