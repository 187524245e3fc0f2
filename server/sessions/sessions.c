/* SPDX-License-Identifier: Apache-2.0 */
/* Finding sessions, refusing them, making them, and their text; see sessions.h. */
#include "server/sessions/sessions.h"

#include <stdlib.h>
#include <string.h>

#include "core/attention.h"
#include "core/checked.h"
#include "server/options/options_table.h"

/* ---- finding ---- */

static const struct {
    int code;
    const char *detail; /* of the id */
} refusals[] = {
    [SESSION_UNKNOWN] = {PROBLEM_NO_SESSION,
                         "There is no session \"%.*s\". It may have been deleted, be on another "
                         "replica, or belong to another key; GET /v1/sessions lists those of this "
                         "one."},
    [SESSION_EXPIRED] = {PROBLEM_SESSION_EXPIRED,
                         "The session \"%.*s\" was not used for its time to live (ttl_s) and has "
                         "ended. Make a new one; its tokens have to be sent again."},
    [SESSION_EXISTS] = {PROBLEM_SESSION_EXISTS,
                        "There is a session \"%.*s\" already, and it is another than this would "
                        "be. Delete it first, or choose another id."},
    [SESSION_TOO_MANY] = {PROBLEM_SESSIONS_FULL,
                          "The service keeps as many sessions as it may (max_sessions)%.*s; try "
                          "again after the time that Retry-After says."},
    [SESSION_TOO_MANY_OWN] = {PROBLEM_SESSION_LIMIT,
                              "The key keeps as many sessions as it may%.*s. Delete those that are "
                              "not needed."},
    [SESSION_NO_ID] = {PROBLEM_INTERNAL, "The system has no random numbers for an id%.*s."},
};

static bool is_about_id(enum session_answer answer) {
    return answer == SESSION_UNKNOWN || answer == SESSION_EXPIRED || answer == SESSION_EXISTS;
}

int sessions_code(enum session_answer answer) {
    return refusals[answer].code;
}

void sessions_say(struct problem *problem, const struct exchange *exchange,
                  enum session_answer answer, const char *id, size_t length) {
    const size_t shown = is_about_id(answer) ? attn_min_size(length, SESSION_ID_LONGEST) : 0;
    char detail[sizeof problem->detail];
    snprintf(detail, sizeof detail, refusals[answer].detail, (int)shown, id);
    problem_set(problem, refusals[answer].code, NULL, "%s", detail);
    if (answer == SESSION_TOO_MANY)
        problem->limit = (double)session_table_limits(exchange->service->sessions)->count;
    else if (answer == SESSION_TOO_MANY_OWN)
        problem->limit = sessions_key_limits(exchange)->sessions;
}

void sessions_say_memory(struct problem *problem, const struct exchange *exchange) {
    const double most = sessions_key_limits(exchange)->session_memory;
    problem_set(problem, PROBLEM_SESSION_MEMORY, NULL,
                "The key's sessions may keep %.0f bytes together, and with this they would keep "
                "more. Delete or cut those that are not needed.",
                most);
    problem->limit = most;
}

void sessions_note_length(struct session *session, struct attn_error *error) {
    if (error->status != ATTN_SESSION_LENGTH && error->status != ATTN_SESSION_EVICTED)
        return;
    error->has_length = true;
    error->length = session_length(session, 0);
    for (size_t layer = 1; layer < session->layers; layer++)
        error->length = attn_min_size(error->length, session_length(session, layer));
}

struct session *sessions_find(struct exchange *exchange, const char *id, size_t length,
                              struct problem *problem) {
    struct session *session = NULL;
    const enum session_answer answer = session_table_find(
        exchange->service->sessions, exchange_account(exchange), id, length, &session);
    if (answer != SESSION_FINE)
        sessions_say(problem, exchange, answer, id, length);
    return session;
}

static struct session *find_of_path(struct exchange *exchange, struct problem *problem) {
    const struct route_capture id = route_captured(&exchange->captures, "id");
    return sessions_find(exchange, id.text, id.length, problem);
}

struct session *sessions_take(struct exchange *exchange) {
    struct problem problem;
    struct session *session = find_of_path(exchange, &problem);
    if (session == NULL)
        exchange_refuse(exchange, &problem);
    return session;
}

bool sessions_check_path(struct exchange *exchange, struct problem *problem) {
    struct session *session = find_of_path(exchange, problem);
    session_unref(session);
    return session != NULL;
}

/* ---- options ---- */

/* They are read on the I/O thread. */
#define OPTIONS_LONGEST ((size_t)256 << 10)

bool sessions_check_json(struct exchange *exchange, struct problem *problem) {
    if (!tensor_call_check(exchange, codec_find("json"), false, problem))
        return false;
    exchange->body_limit = attn_min_size(exchange->body_limit, OPTIONS_LONGEST);
    return true;
}

bool sessions_read_options(struct exchange *exchange, const struct codec_schema *schema,
                           bool is_optional, struct codec_request *request) {
    static const char nothing[] = "{}";
    const bool is_empty = exchange->body_length == 0 && is_optional;
    const struct codec_input input = {
        .body = is_empty ? nothing : exchange->body,
        .length = is_empty ? sizeof nothing - 1 : exchange->body_length,
        .query = exchange->query,
        .query_count = exchange->query_count,
        .schema = schema,
    };
    struct attn_error error = {0};
    struct problem problem;
    if (codec_find("json")->decode(&input, request, &error) == ATTN_OK)
        return true;
    problem_from_error(&problem, &error);
    exchange_refuse(exchange, &problem);
    return false;
}

bool sessions_check_query(struct exchange *exchange, const struct codec_schema *schema) {
    struct codec_request request;
    if (!sessions_read_options(exchange, schema, true, &request))
        return false;
    codec_request_close(&request);
    return true;
}

/* ---- making ---- */

enum attn_status sessions_make_cache(struct attn_kv_pool *pool, const struct codec_session *asked,
                                     struct attn_kv_cache **out, struct attn_error *error) {
    static const struct {
        const char *name, *sentence;
    } needs[CODEC_SESSION_NEEDS] = {
        [CODEC_SESSION_LAYERS] = {"/layers", "layers: how many layers it keeps keys and values of"},
        [CODEC_SESSION_KV_HEADS] = {"/kv_heads", "kv_heads: how many key/value heads a layer has"},
        [CODEC_SESSION_HEAD_DIM] = {"/head_dim", "head_dim: the size of a key"},
        [CODEC_SESSION_DTYPE] = {"/dtype", "dtype: float32, float16, bfloat16 or float64"},
        [CODEC_SESSION_CAPACITY] = {"/capacity", "capacity: the most tokens of a layer; it is a "
                                                 "limit and reserves nothing"},
    };
    for (int need = 0; need < CODEC_SESSION_NEEDS; need++)
        if ((asked->given & 1U << need) == 0)
            return attn_fail(error, ATTN_MISSING_FIELD, needs[need].name, "A session needs %s.",
                             needs[need].sentence);
    struct attn_kv_spec spec = asked->spec;
    if ((asked->given & 1U << CODEC_SESSION_VALUE_DIM) == 0)
        spec.Dv = spec.D;
    return attn_kv_cache_create(pool, &spec, out, error);
}

/* What stands in a path without being escaped. */
static bool is_id(const char *id, size_t length) {
    static const char characters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                     "0123456789._~-";
    return length > 0 && length <= SESSION_ID_LONGEST && strspn(id, characters) == length &&
           strspn(id, ".") < length && strcmp(id, "attention") != 0;
}

static enum attn_status check_id(const struct codec_session *asked, struct attn_error *error) {
    if (asked->id == NULL || is_id(asked->id, asked->id_length))
        return ATTN_OK;
    return attn_fail(error, ATTN_BAD_VALUE, "/id",
                     "An id has 1 to %d letters, digits, dots, dashes, underscores and tildes, and "
                     "is not \"attention\" nor dots alone; \"%.70s\" is none. Leave it out for a "
                     "random one.",
                     SESSION_ID_LONGEST, asked->id);
}

static enum attn_status choose_ttl(const struct exchange *exchange,
                                   const struct codec_session *asked, double *seconds,
                                   struct attn_error *error) {
    const struct session_limits *limits = session_table_limits(exchange->service->sessions);
    *seconds = asked->ttl_seconds > 0 ? asked->ttl_seconds : limits->ttl_seconds;
    if (*seconds <= limits->longest_ttl_seconds)
        return ATTN_OK;
    return attn_fail_limit(error, ATTN_BAD_VALUE, "/ttl_s", limits->longest_ttl_seconds,
                           "A session is kept for %.9g seconds after its last use at most "
                           "(max_session_ttl), but %.9g came.",
                           limits->longest_ttl_seconds, *seconds);
}

enum attn_status sessions_make(const struct exchange *exchange, const struct codec_session *asked,
                               struct attn_kv_cache *cache, struct session **out,
                               struct attn_error *error) {
    double ttl = 0;
    if (check_id(asked, error) != ATTN_OK || choose_ttl(exchange, asked, &ttl, error) != ATTN_OK) {
        attn_kv_cache_free(&cache);
        return error->status;
    }
    struct session *session =
        session_create(exchange->service->sessions, exchange_account(exchange), cache);
    if (session == NULL)
        return attn_fail(error, ATTN_NO_MEMORY, "", "There is no memory for a session now.");
    session->ttl_seconds = ttl;
    session->has_own_id = asked->id != NULL;
    if (asked->id != NULL)
        memcpy(session->id, asked->id, asked->id_length + 1);
    *out = session;
    return ATTN_OK;
}

/* ---- text ---- */

static void write_windows(struct text *text, const struct attn_kv_spec *spec) {
    text_format(text, ",\"window\":[");
    for (size_t i = 0; i < spec->window_count; i++) {
        const struct attn_kv_window *window = &spec->windows[i];
        text_format(text, "%s", i == 0 ? "" : ",");
        if (window->given)
            text_format(text, "{\"left\":%lld,\"sinks\":%lld}", (long long)window->left,
                        (long long)window->sinks);
        else
            text_format(text, "null");
    }
    text_format(text, "]");
}

static void write_rope(struct text *text, const struct attn_rope_request *rope) {
    if (!rope->given)
        return;
    text_format(text, ",\"rope\":{\"dims\":%lld,\"interleaved\":%s", (long long)rope->dims,
                rope->interleaved ? "true" : "false");
    if (rope->inv_freq.count == 0)
        text_format(text, ",\"theta\":%.17g", rope->theta);
    for (size_t i = 0; i < rope->inv_freq.count; i++)
        text_format(text, "%s%.17g", i == 0 ? ",\"inv_freq\":[" : ",", rope->inv_freq.values[i]);
    text_format(text, "%s}", rope->inv_freq.count == 0 ? "" : "]");
}

static bool has_window(const struct attn_kv_spec *spec) {
    for (size_t i = 0; i < spec->window_count; i++)
        if (spec->windows[i].given)
            return true;
    return false;
}

void sessions_write_spec(struct text *text, const struct attn_kv_spec *spec) {
    text_format(text,
                "\"layers\":%lld,\"kv_heads\":%lld,\"head_dim\":%lld,\"value_dim\":%lld,"
                "\"dtype\":\"%s\",\"capacity\":%lld",
                (long long)spec->layers, (long long)spec->Hkv, (long long)spec->D,
                (long long)spec->Dv, attn_dtype_name(spec->dtype), (long long)spec->capacity);
    if (has_window(spec))
        write_windows(text, spec);
    write_rope(text, &spec->rope);
}

void sessions_write(struct text *text, struct session *session) {
    struct session_facts facts;
    size_t *lengths = calloc(session->layers, sizeof *lengths);
    if (lengths == NULL) {
        text->failed = true;
        return;
    }
    session_read(session, &facts, lengths);
    text_format(text, "{\"id\":\"%s\",", session->id);
    sessions_write_spec(text, attn_kv_cache_spec(session->cache));
    text_format(text, ",\"ttl_s\":%.9g,\"expires_in_s\":%.3f,\"lengths\":[", session->ttl_seconds,
                facts.seconds_left);
    for (size_t layer = 0; layer < session->layers; layer++)
        text_format(text, "%s%zu", layer == 0 ? "" : ",", lengths[layer]);
    text_format(text, "],\"pages\":%zu,\"bytes\":%zu}", facts.pages, facts.bytes);
    free(lengths);
}

void sessions_answer(struct exchange *exchange, struct session *session, int status) {
    sessions_write(&exchange->text, session);
    text_add(&exchange->text, "\n", 1);
    exchange->is_lost = exchange->text.failed && exchange->route->method != HTTP_GET;
    exchange_answer_text(exchange, "application/json");
    if (exchange->answer.problem == 0)
        exchange->answer.status = status;
}

void sessions_created(struct exchange *exchange, struct session *session) {
    snprintf(exchange->location, sizeof exchange->location, "/v1/sessions/%s", session->id);
    sessions_answer(exchange, session, 201);
    exchange->answer.location = exchange->location;
}
