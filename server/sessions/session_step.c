/* SPDX-License-Identifier: Apache-2.0 */
/* Appending and looking; see session_step.h. */
#include "server/sessions/session_step.h"

#include "core/attention.h"

static enum attn_status choose_layer(struct session_step *step,
                                     const struct session_step_request *request,
                                     struct attn_error *error) {
    const size_t layers = step->session->layers;
    if (!request->layer_given && layers > 1)
        return attn_fail(error, ATTN_MISSING_FIELD, "/layer",
                         "The session has %zu layers: say layer, from 0 to %zu.", layers,
                         layers - 1);
    step->layer = (size_t)request->layer;
    if (step->layer < layers)
        return ATTN_OK;
    return attn_fail_limit(error, ATTN_BAD_VALUE, "/layer", (double)(layers - 1),
                           "The session has %zu layer%s, counted from 0; %lld came.", layers,
                           attn_plural(layers), (long long)request->layer);
}

/* What is appended begins where the layer ends; what attends alone begins anywhere before. */
static enum attn_status check_position(const struct session_step *step,
                                       const struct session_step_request *request, bool appends,
                                       struct attn_error *error) {
    const size_t length = attn_kv_length(step->session->cache, step->layer);
    const int64_t position = request->position;
    const bool is_fine = appends ? position == (int64_t)length : position <= (int64_t)length;
    if (!request->position_given || is_fine)
        return ATTN_OK;
    attn_fail(error, ATTN_SESSION_LENGTH, "/position",
              "Layer %zu of the session has %zu token%s, but position is %lld. %s", step->layer,
              length, attn_plural(length), (long long)position,
              appends && position < (int64_t)length
                  ? "Where this is a call sent again, its rows are there: send its q alone, with "
                    "\"append\": false, for its answer."
                  : "Go on from the length that is there.");
    error->has_length = true;
    error->length = length;
    return error->status;
}

static enum attn_status charge(struct session_step *step, const struct account_limits *limits,
                               int *problem, struct attn_error *error) {
    struct session *session = step->session;
    const size_t more = attn_kv_append_bytes(session->cache, step->layer, step->rows);
    const size_t now = attn_kv_cache_bytes(session->cache);
    if (more <= SIZE_MAX - now && session_charge(session, limits, now + more))
        return ATTN_OK;
    *problem = PROBLEM_SESSION_MEMORY;
    const double most = limits == NULL ? 0 : limits->session_memory;
    return attn_fail_limit(error, ATTN_QUOTA, "", most,
                           "The key's sessions may keep %.0f bytes together, and with these %zu "
                           "rows they would keep more. Delete or cut those that are not needed.",
                           most, step->rows);
}

static enum attn_status append(struct session_step *step, const struct attn_kv_rows *rows,
                               const struct account_limits *limits,
                               const struct attn_checkpoint *checkpoint, int *problem,
                               struct attn_error *error) {
    struct attn_kv_cache *cache = step->session->cache;
    if (attn_kv_rows_check(cache, rows, &step->rows, error) != ATTN_OK ||
        charge(step, limits, problem, error) != ATTN_OK ||
        attn_kv_append_begin(cache, step->layer, step->rows, &step->append, error) != ATTN_OK)
        return error->status;
    if (attn_kv_append_write(step->append, rows, checkpoint))
        return ATTN_OK;
    return attn_fail(error, ATTN_CANCELLED, "", "The call was cancelled.");
}

enum attn_status session_step_begin(struct session_step *step, struct session *session,
                                    const struct session_step_request *request,
                                    const struct account_limits *limits,
                                    const struct attn_checkpoint *checkpoint, int *problem,
                                    struct attn_error *error) {
    const bool appends = !attn_tensor_is_none(&request->rows.k);
    const struct attn_kv_cache *cache = session->cache;
    step->session = session;
    if (choose_layer(step, request, error) != ATTN_OK ||
        check_position(step, request, appends, error) != ATTN_OK)
        return error->status;
    if (appends && append(step, &request->rows, limits, checkpoint, problem, error) != ATTN_OK) {
        session_step_end(step, false);
        return error->status;
    }
    const size_t length = attn_kv_length(cache, step->layer);
    const bool is_placed = !appends && request->position_given;
    if (attn_kv_view_open(cache, step->layer, step->append,
                          is_placed ? request->position : ATTN_KV_NEXT, &step->view,
                          error) != ATTN_OK) {
        session_step_end(step, false);
        return error->status;
    }
    step->has_view = true;
    step->position = is_placed ? (size_t)request->position : length;
    step->length = length + step->rows;
    return ATTN_OK;
}

void session_step_end(struct session_step *step, bool succeeded) {
    struct session *session = step->session;
    if (step->has_view)
        attn_kv_view_close(&step->view);
    step->has_view = false;
    if (session == NULL || (step->append == NULL && step->rows == 0))
        return; /* it was never begun, is over, or appends nothing */
    if (step->append != NULL && succeeded)
        attn_kv_append_commit(step->append);
    else if (step->append != NULL)
        attn_kv_append_abort(step->append);
    step->append = NULL;
    step->rows = 0;
    session_charge(session, NULL, attn_kv_cache_bytes(session->cache));
    session_publish(session);
}
