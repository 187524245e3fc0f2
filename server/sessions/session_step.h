/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session's part of a step: the append and the view of its call, from its turn until the new rows
 * are committed or gone.
 */
#ifndef SERVER_SESSIONS_SESSION_STEP_H
#define SERVER_SESSIONS_SESSION_STEP_H

#include "server/sessions/sessions.h"

struct session_step {
    struct session *session;       /* borrowed; whoever steps has its turn */
    size_t layer, rows;            /* rows: that are appended */
    struct attn_kv_append *append; /* NULL: none is open */
    struct attn_kv_view view;
    bool has_view;
    size_t position, length; /* of the first query, and of the layer with the new rows */
};

struct session_step_request {
    struct attn_kv_rows rows; /* k none: nothing is appended */
    bool layer_given, position_given;
    int64_t layer, position;
};

/*
 * Opens append and view. On failure *problem is what the error is called instead of by its status,
 * or 0. Errors: BAD_VALUE, SESSION_LENGTH with the length, and those of the cache.
 */
enum attn_status session_step_begin(struct session_step *step, struct session *session,
                                    const struct session_step_request *request,
                                    const struct account_limits *limits,
                                    const struct attn_checkpoint *checkpoint, int *problem,
                                    struct attn_error *error);
/* The view is not read any more, and the rows count, or are gone. Again, it does nothing. */
void session_step_end(struct session_step *step, bool succeeded);

#endif
