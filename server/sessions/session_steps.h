/* SPDX-License-Identifier: Apache-2.0 */
/* A step of many sessions, between session_steps_handler.c, which gathers them, and
 * session_steps.c, which makes the step. */
#ifndef SERVER_SESSIONS_SESSION_STEPS_H
#define SERVER_SESSIONS_SESSION_STEPS_H

#include "core/attention.h"
#include "server/calls/attention_call.h"
#include "server/sessions/session_step.h"

enum { STEPS_MOST = 1024 };

/* One session's part. */
struct steps_part {
    struct session *session; /* owned reference */
    struct session_wait wait;
    struct session_step step;
    struct attn_request request;
    struct attn_call call;
    struct attn_plan plan;
    struct attn_result result;
    struct attn_heads *heads; /* NULL until prepared */
    size_t first_task;
    int problem; /* why it fails, if it does */
    struct attn_error error;
};

struct steps_call {
    struct tensor_call tensors;
    struct steps_part *parts;  /* [count]; owned */
    struct steps_part **order; /* of their turns; owned */
    size_t count, turns;
    struct text failures; /* owned */
    int64_t began;
};

static inline struct steps_call *steps_of(struct call_work *work) {
    return (struct steps_call *)work;
}

#define STEPS_ASK_FOR_LESS "Step fewer sessions at once, or ask for safetensors."

/* The step, once all turns are held. */
extern const struct call_kind STEPS_KIND;

/* Gives the answer its tensors, of all parts' (session_steps_join.c). Errors: BAD_SHAPE where those
   differ in more than the number of keys, RESULT_TOO_LARGE. */
enum attn_status steps_join(struct steps_call *call);
/* Adds what a part's maps take until they are gathered; false when it does not fit. */
bool steps_scratch(const struct steps_part *part, size_t *bytes);
/* Gives part n's tensors their places, some from `scratch`; returns its rest. */
char *steps_place(struct steps_call *call, size_t n, char *scratch);
/* Copies them where the answer has them. All parts have been computed. */
void steps_gather(struct steps_call *call);

/* Ends all parts, and their turns. Again, it does nothing. */
void steps_settle(struct call_work *work, bool succeeded);
void steps_close(struct call_work *work);

/* Notes that a session fails. */
void steps_add_failure(struct steps_call *call, const char *id, const struct problem *problem);
/* All that was noted, for the problem; NULL when nothing was. */
const char *steps_failures(struct steps_call *call);

#endif
