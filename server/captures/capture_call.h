/* SPDX-License-Identifier: Apache-2.0 */
/* A call that may be kept: from the option `capture` to what its answer says about it. */
#ifndef SERVER_CAPTURES_CAPTURE_CALL_H
#define SERVER_CAPTURES_CAPTURE_CALL_H

#include "server/captures/captures.h"
#include "server/exchange.h"

struct capture_call {
    struct capture *capture; /* NULL: it is not kept */
    const char *refusal;     /* why, where that was asked for; static text, or NULL */
};

/*
 * Copies a planned call where it asks to be kept and can be; its tasks then leave their rows in
 * result->rows. That it is not kept is no error of the call's. Errors: BAD_VALUE for grids that
 * have more places than there are tokens.
 */
enum attn_status capture_call_begin(struct capture_call *keeping, const struct exchange *exchange,
                                    const struct codec_request *request,
                                    const struct attn_call *call, const struct attn_plan *plan,
                                    struct attn_result *result, struct attn_error *error);
/* The call was computed: the report says what becomes of it. */
void capture_call_report(const struct capture_call *keeping, struct codec_report *report);
/* How the call ended: it is shown if its answer is there, and nothing can keep it back any more. */
void capture_call_settle(struct capture_call *keeping, bool succeeded);
/* Every call's end, kept or not. */
void capture_call_close(struct capture_call *keeping);

#endif
