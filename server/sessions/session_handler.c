/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions as resources: made, listed, looked at, forked, cut and deleted. */
#include <string.h>

#include "core/attention.h"
#include "server/handlers.h"
#include "server/options/options_table.h"
#include "server/sessions/sessions.h"

static void refuse(struct exchange *exchange, const struct attn_error *error) {
    struct problem problem;
    problem_from_error(&problem, error);
    exchange_refuse(exchange, &problem);
}

/* ---- making ---- */

static bool same_lists(const struct attn_kv_spec *a, const struct attn_kv_spec *b) {
    if (a->window_count != b->window_count || a->rope.inv_freq.count != b->rope.inv_freq.count)
        return false;
    for (size_t i = 0; i < a->window_count; i++)
        if (a->windows[i].given != b->windows[i].given ||
            (a->windows[i].given && (a->windows[i].left != b->windows[i].left ||
                                     a->windows[i].sinks != b->windows[i].sinks)))
            return false;
    for (size_t i = 0; i < a->rope.inv_freq.count; i++)
        if (a->rope.inv_freq.values[i] != b->rope.inv_freq.values[i])
            return false;
    return true;
}

static bool same_rope(const struct attn_rope_request *a, const struct attn_rope_request *b) {
    return a->given == b->given && (!a->given || (a->dims == b->dims && a->theta == b->theta &&
                                                  a->interleaved == b->interleaved));
}

/* Whether two sessions were asked for in the same words. */
static bool is_same(const struct session *one, const struct session *other) {
    const struct attn_kv_spec *a = attn_kv_cache_spec(one->cache),
                              *b = attn_kv_cache_spec(other->cache);
    return a->layers == b->layers && a->Hkv == b->Hkv && a->D == b->D && a->Dv == b->Dv &&
           a->dtype == b->dtype && a->capacity == b->capacity && same_lists(a, b) &&
           same_rope(&a->rope, &b->rope) && one->ttl_seconds == other->ttl_seconds;
}

/* Lets a new session in and answers with it; or, asked for once more in the same words, with the
   one that there is. Takes the reference. */
static void add(struct exchange *exchange, struct session *session) {
    struct problem problem;
    const enum session_answer answer =
        session_table_add(exchange->service->sessions, session, sessions_key_limits(exchange));
    if (answer == SESSION_FINE) {
        sessions_created(exchange, session);
    } else if (answer == SESSION_EXISTS) {
        struct session *other = sessions_find(exchange, session->id, strlen(session->id), &problem);
        if (other != NULL && is_same(session, other))
            sessions_answer(exchange, other, 200);
        else
            sessions_say(&problem, exchange, answer, session->id, strlen(session->id));
        session_unref(other);
    } else {
        sessions_say(&problem, exchange, answer, "", 0);
    }
    if (exchange->answer.status == 0)
        exchange_refuse(exchange, &problem);
    session_unref(session);
}

static void create(struct exchange *exchange, const struct codec_session *asked) {
    struct attn_kv_cache *cache;
    struct session *session;
    struct attn_error error = {0};
    if (sessions_make_cache(session_table_pool(exchange->service->sessions), asked, &cache,
                            &error) == ATTN_OK &&
        sessions_make(exchange, asked, cache, &session, &error) == ATTN_OK)
        add(exchange, session);
    else
        refuse(exchange, &error);
}

/* Options make one, and a snapshot brings one back. */
static const struct codec *codec_of(const struct exchange *exchange, bool *undecided) {
    const struct codec *codec =
        codec_for_request(exchange->content_type, exchange->body, exchange->body_length, undecided);
    const bool is_fine =
        codec == codec_find("json") || codec == codec_find("safetensors") || *undecided;
    return is_fine ? codec : NULL;
}

static bool refuse_type(const struct exchange *exchange, struct problem *problem) {
    problem_set(problem, PROBLEM_MEDIA_TYPE, NULL,
                "The body's media type \"%.80s\" is not supported here; send %s, or a snapshot as "
                "%s.",
                exchange->content_type == NULL ? "" : exchange->content_type,
                codec_find("json")->media_type, codec_find("safetensors")->media_type);
    return false;
}

bool sessions_create_check(struct exchange *exchange, struct problem *problem) {
    const struct service_limits *limits = &exchange->service->limits;
    bool undecided = false;
    if (codec_of(exchange, &undecided) == NULL && !undecided)
        return refuse_type(exchange, problem);
    if (!codec_is_acceptable(exchange->accept, codec_find("json"))) {
        problem_set(problem, PROBLEM_NOT_ACCEPTABLE, NULL,
                    "The answer can be had as %s; Accept is \"%.80s\".",
                    codec_find("json")->media_type, exchange->accept);
        return false;
    }
    exchange->body_weight = 1;
    exchange->body_limit = limits->body_bytes;
    tensor_call_set_deadline(exchange);
    return true;
}

void sessions_create(struct exchange *exchange) {
    struct codec_request request;
    struct problem problem;
    bool undecided = false;
    const struct codec *codec = codec_of(exchange, &undecided);
    if (codec == NULL) {
        refuse_type(exchange, &problem);
        exchange_refuse(exchange, &problem);
    } else if (codec == codec_find("safetensors")) {
        sessions_restore(exchange);
    } else if (sessions_read_options(exchange, &SESSION_SCHEMA, false, &request)) {
        create(exchange, &request.session);
        codec_request_close(&request);
    }
}

/* ---- looking ---- */

void sessions_list(struct exchange *exchange) {
    size_t count;
    if (!sessions_check_query(exchange, &SESSION_BARE_SCHEMA))
        return;
    struct session **list =
        session_table_list(exchange->service->sessions, exchange_account(exchange), &count);
    exchange->text.failed |= list == NULL;
    text_format(&exchange->text, "{\"sessions\":[");
    for (size_t i = 0; list != NULL && i < count; i++) {
        text_format(&exchange->text, "%s", i == 0 ? "" : ",");
        sessions_write(&exchange->text, list[i]);
        session_unref(list[i]);
    }
    text_format(&exchange->text, "]}\n");
    free(list);
    exchange_answer_text(exchange, "application/json");
}

void sessions_get(struct exchange *exchange) {
    struct session *session =
        sessions_check_query(exchange, &SESSION_BARE_SCHEMA) ? sessions_take(exchange) : NULL;
    if (session == NULL)
        return;
    sessions_answer(exchange, session, 200);
    session_unref(session);
}

/* ---- ending ---- */

/* Calls that have begun end as they would have; their pages go with them. */
void sessions_delete(struct exchange *exchange) {
    struct problem problem;
    struct session *session =
        sessions_check_query(exchange, &SESSION_BARE_SCHEMA) ? sessions_take(exchange) : NULL;
    if (session == NULL)
        return;
    if (session_table_remove(exchange->service->sessions, session)) {
        exchange_answer(exchange, 204, NULL, NULL, 0);
    } else {
        sessions_say(&problem, exchange, SESSION_UNKNOWN, session->id, strlen(session->id));
        exchange_refuse(exchange, &problem);
    }
    session_unref(session);
}

/* ---- with the turn ---- */

/* What is done at once when the turn has come. */
struct turn_work {
    struct exchange_work base;
    struct session_wait wait;
    struct codec_request request;
    void (*act)(struct exchange *exchange, struct session *session,
                const struct codec_session *asked);
};

static void turn_free(struct exchange_work *base) {
    struct turn_work *work = (struct turn_work *)base;
    session_wait_close(&work->wait);
    codec_request_close(&work->request);
    free(work);
}

static void act(struct exchange *exchange) {
    struct turn_work *work = (struct turn_work *)exchange->work;
    struct session *session = work->wait.session;
    struct problem problem;
    if (session_is_over(session)) {
        sessions_say(&problem, exchange, SESSION_UNKNOWN, session->id, strlen(session->id));
        exchange_refuse(exchange, &problem);
    } else {
        work->act(exchange, session, &work->request.session);
    }
    session_wait_end(&work->wait);
}

/* Reads the options, and acts when it is this request's turn. */
static void take_turn(struct exchange *exchange, const struct codec_schema *schema,
                      bool is_optional,
                      void (*what)(struct exchange *exchange, struct session *session,
                                   const struct codec_session *asked)) {
    struct session *session = sessions_take(exchange);
    struct turn_work *work = session == NULL ? NULL : calloc(1, sizeof *work);
    if (session != NULL && work == NULL)
        exchange_fail(exchange, ATTN_NO_MEMORY, "There is no memory for this call now.");
    if (work != NULL && sessions_read_options(exchange, schema, is_optional, &work->request)) {
        work->base = (struct exchange_work){.free = turn_free};
        work->act = what;
        exchange->work = &work->base;
        if (session_wait_begin(&work->wait, exchange, session, act))
            act(exchange);
    } else {
        free(work);
    }
    session_unref(session);
}

static void cut(struct exchange *exchange, struct session *session,
                const struct codec_session *asked) {
    struct attn_error error = {0};
    if (!asked->length_given)
        attn_fail(&error, ATTN_MISSING_FIELD, "/length",
                  "Say length: how many tokens of every layer are left.");
    else
        attn_kv_truncate(session->cache, (size_t)asked->length, &error);
    if (error.status == ATTN_OK) {
        session_charge(session, sessions_key_limits(exchange), attn_kv_cache_bytes(session->cache));
        session_publish(session);
        sessions_answer(exchange, session, 200);
        return;
    }
    sessions_note_length(session, &error);
    refuse(exchange, &error);
}

void sessions_truncate(struct exchange *exchange) {
    take_turn(exchange, &SESSION_TRUNCATE_SCHEMA, false, cut);
}

/* Keeps what the original keeps, but for its id, and as long unless it says otherwise. */
static void fork_one(struct exchange *exchange, struct session *session,
                     const struct codec_session *asked) {
    struct codec_session wanted = *asked;
    struct attn_kv_cache *cache;
    struct session *other;
    struct attn_error error = {0};
    struct problem problem;
    if (wanted.ttl_seconds <= 0)
        wanted.ttl_seconds = session->ttl_seconds;
    if (attn_kv_fork(session->cache, &cache, &error) != ATTN_OK ||
        sessions_make(exchange, &wanted, cache, &other, &error) != ATTN_OK) {
        refuse(exchange, &error);
        return;
    }
    if (!session_charge(other, sessions_key_limits(exchange), attn_kv_cache_bytes(cache))) {
        sessions_say_memory(&problem, exchange);
        exchange_refuse(exchange, &problem);
        session_unref(other);
        return;
    }
    const enum session_answer answer =
        session_table_add(exchange->service->sessions, other, sessions_key_limits(exchange));
    if (answer == SESSION_FINE) {
        sessions_created(exchange, other);
    } else {
        sessions_say(&problem, exchange, answer, other->id, strlen(other->id));
        exchange_refuse(exchange, &problem);
    }
    session_unref(other);
}

void sessions_fork(struct exchange *exchange) {
    take_turn(exchange, &SESSION_FORK_SCHEMA, true, fork_one);
}

bool sessions_named_check(struct exchange *exchange, struct problem *problem) {
    return sessions_check_path(exchange, problem) && sessions_check_json(exchange, problem);
}
