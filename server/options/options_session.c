/* SPDX-License-Identifier: Apache-2.0 */
/* How a session is made, and what is done with it as a whole. */
#include <stdlib.h>
#include <string.h>

#include "server/options/options_table.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

static struct codec_session *session_of(struct options *options) {
    return &options->request->session;
}

/* ---- what makes a session ---- */

/* Whether they are within their limits is decided by attn_kv_cache_create. */
static enum attn_status read_int(struct options *options, struct json_value value,
                                 const char *pointer, int64_t *out) {
    return json_value_int(&options->reader, value, pointer, INT64_MIN, INT64_MAX, out);
}

static enum attn_status apply_layers(struct options *options, struct json_value value,
                                     const char *pointer) {
    session_of(options)->given |= 1U << CODEC_SESSION_LAYERS;
    return read_int(options, value, pointer, &session_of(options)->spec.layers);
}

static enum attn_status apply_kv_heads(struct options *options, struct json_value value,
                                       const char *pointer) {
    session_of(options)->given |= 1U << CODEC_SESSION_KV_HEADS;
    return read_int(options, value, pointer, &session_of(options)->spec.Hkv);
}

static enum attn_status apply_head_dim(struct options *options, struct json_value value,
                                       const char *pointer) {
    session_of(options)->given |= 1U << CODEC_SESSION_HEAD_DIM;
    return read_int(options, value, pointer, &session_of(options)->spec.D);
}

static enum attn_status apply_value_dim(struct options *options, struct json_value value,
                                        const char *pointer) {
    session_of(options)->given |= 1U << CODEC_SESSION_VALUE_DIM;
    return read_int(options, value, pointer, &session_of(options)->spec.Dv);
}

static enum attn_status apply_capacity(struct options *options, struct json_value value,
                                       const char *pointer) {
    session_of(options)->given |= 1U << CODEC_SESSION_CAPACITY;
    return read_int(options, value, pointer, &session_of(options)->spec.capacity);
}

static enum attn_status apply_dtype(struct options *options, struct json_value value,
                                    const char *pointer) {
    static const char *const words[] = {"float32", "float16", "bfloat16", "float64"};
    static const enum attn_dtype values[] = {ATTN_FLOAT32, ATTN_FLOAT16, ATTN_BFLOAT16,
                                             ATTN_FLOAT64};
    size_t index;
    const enum attn_status status =
        json_value_word(&options->reader, value, pointer, words, COUNT(words), &index);
    session_of(options)->given |= 1U << CODEC_SESSION_DTYPE;
    if (status == ATTN_OK)
        session_of(options)->spec.dtype = values[index];
    return status;
}

static enum attn_status apply_ttl(struct options *options, struct json_value value,
                                  const char *pointer) {
    double *const seconds = &session_of(options)->ttl_seconds;
    const enum attn_status status = json_value_real(&options->reader, value, pointer, seconds);
    if (status != ATTN_OK || *seconds > 0)
        return status;
    return attn_fail(options->reader.error, ATTN_BAD_VALUE, pointer,
                     "Expected a number of seconds above 0, but %g came.", *seconds);
}

static enum attn_status apply_id(struct options *options, struct json_value value,
                                 const char *pointer) {
    char came[JSON_DESCRIPTION_ROOM];
    struct codec_session *const session = session_of(options);
    const char *const id = json_string_value(value.node);
    if (id == NULL)
        return attn_fail(options->reader.error, ATTN_BAD_TYPE, pointer,
                         "Expected the session's id as a text, but %s came.",
                         json_value_describe(value, came));
    session->id_length = json_string_length(value.node);
    session->id = storage_take_text(options->reader.storage, id, session->id_length);
    return session->id != NULL
               ? ATTN_OK
               : attn_fail(options->reader.error, ATTN_NO_MEMORY, "", "There is no memory now.");
}

/* {"left", "sinks"}, or null for a layer that keeps everything. */
static enum attn_status read_window(struct options *options, struct json_value value,
                                    const char *pointer, struct attn_kv_window *out) {
    char came[JSON_DESCRIPTION_ROOM], where[JSON_POINTER_ROOM];
    const enum json_kind kind = json_value_kind(value);
    const char *name;
    json_t *node;
    *out = (struct attn_kv_window){.given = kind != JSON_KIND_NULL, .left = -1};
    if (kind == JSON_KIND_NULL)
        return ATTN_OK;
    if (kind != JSON_KIND_OBJECT)
        return attn_fail(options->reader.error, ATTN_BAD_TYPE, pointer,
                         "Expected {\"left\": tokens, \"sinks\": tokens}, or null for a layer that "
                         "keeps everything, but %s came.",
                         json_value_describe(value, came));
    enum attn_status status = ATTN_OK;
    json_object_foreach(value.node, name, node) {
        const struct json_value member = {value.document, node};
        json_pointer_member(where, pointer, name);
        if (status != ATTN_OK)
            break;
        if (strcmp(name, "left") == 0)
            status = read_int(options, member, where, &out->left);
        else if (strcmp(name, "sinks") == 0)
            status = read_int(options, member, where, &out->sinks);
        else
            status = attn_fail(options->reader.error, ATTN_UNKNOWN_FIELD, where,
                               "A window has left and sinks.");
    }
    if (status == ATTN_OK && json_object_get(value.node, "left") == NULL)
        status = attn_fail(options->reader.error, ATTN_MISSING_FIELD, pointer,
                           "A window needs left: how many tokens before its own a query sees.");
    return status;
}

/* A list that begins with null reads as one of numbers. Behind a first element that is an object it
   reads as what it is. */
static enum attn_status open_list(struct options *options, struct json_value *value,
                                  size_t *skipped) {
    struct json_array_text list;
    *skipped = 0;
    if (json_value_kind(*value) != JSON_KIND_NUMBERS)
        return ATTN_OK;
    enum attn_status status = json_value_array_text(&options->reader, *value, &list);
    if (status != ATTN_OK)
        return status;
    static const char first[] = "[{},";
    char *const text = storage_take(options->reader.storage, list.length + sizeof first);
    if (text == NULL) {
        status = attn_fail(options->reader.error, ATTN_NO_MEMORY, "", "There is no memory now.");
    } else {
        memcpy(text, first, sizeof first - 1);
        memcpy(text + sizeof first - 1, list.text + 1, list.length - 1);
        text[sizeof first - 1 + list.length - 1] = '\0';
        *skipped = 1;
        status = options_open_text(options, "window", text, value);
    }
    free(list.owned);
    return status;
}

static enum attn_status apply_window(struct options *options, struct json_value value,
                                     const char *pointer) {
    struct attn_kv_spec *const spec = &session_of(options)->spec;
    char where[JSON_POINTER_ROOM];
    size_t skipped;
    enum attn_status status = open_list(options, &value, &skipped);
    if (status != ATTN_OK)
        return status;
    const bool is_list = json_value_kind(value) == JSON_KIND_LIST;
    const size_t count = is_list ? json_array_size(value.node) - skipped : 1;
    struct attn_kv_window *const windows =
        storage_take_array(options->reader.storage, count, sizeof *windows);
    if (windows == NULL)
        return attn_fail(options->reader.error, ATTN_NO_MEMORY, "", "There is no memory now.");
    if (!is_list)
        status = read_window(options, value, pointer, windows);
    for (size_t i = 0; is_list && i < count && status == ATTN_OK; i++)
        status = read_window(options, json_value_item(value, i + skipped),
                             json_pointer_index(where, pointer, i), &windows[i]);
    spec->windows = windows;
    spec->window_count = count;
    if (status == ATTN_OK && is_list && count != (size_t)spec->layers)
        return attn_fail(options->reader.error, ATTN_BAD_VALUE, pointer,
                         "Expected one window, or one per layer (%lld), but %zu came.",
                         (long long)spec->layers, count);
    return status;
}

static enum attn_status apply_rope(struct options *options, struct json_value value,
                                   const char *pointer) {
    const enum attn_status status = options_apply_rope(options, value, pointer);
    session_of(options)->spec.rope = options->request->attention.rope;
    return status;
}

/* ---- what a snapshot has besides ---- */

static enum attn_status apply_lengths(struct options *options, struct json_value value,
                                      const char *pointer) {
    return options_ints(options, value, pointer, &session_of(options)->lengths);
}

static enum attn_status apply_gap_keys(struct options *options, struct json_value value,
                                       const char *pointer) {
    return options_ints(options, value, pointer, &session_of(options)->gap_keys);
}

static enum attn_status apply_gap_counts(struct options *options, struct json_value value,
                                         const char *pointer) {
    return options_ints(options, value, pointer, &session_of(options)->gap_counts);
}

/* ---- the tables ---- */

#define MAKING_OPTIONS                                                                            \
    {"id", OPTION_SCALAR, apply_id}, {"layers", OPTION_SCALAR, apply_layers},                     \
        {"kv_heads", OPTION_SCALAR, apply_kv_heads}, {"head_dim", OPTION_SCALAR, apply_head_dim}, \
        {"value_dim", OPTION_SCALAR, apply_value_dim}, {"dtype", OPTION_SCALAR, apply_dtype},     \
        {"capacity", OPTION_SCALAR, apply_capacity}, {"window", OPTION_SCALAR, apply_window},     \
        {"rope", OPTION_SCALAR, apply_rope}, {                                                    \
        "ttl_s", OPTION_SCALAR, apply_ttl                                                         \
    }

static const struct option SESSION_OPTIONS[] = {MAKING_OPTIONS};
static const struct option SNAPSHOT_OPTIONS[] = {
    MAKING_OPTIONS,
    {"lengths", OPTION_BODY_ONLY, apply_lengths},
    {"gap_keys", OPTION_BODY_ONLY, apply_gap_keys},
    {"gap_counts", OPTION_BODY_ONLY, apply_gap_counts},
};

static const struct options_hint SESSION_HINTS[] = {
    {"num_layers", "It is called layers"},
    {"n_layers", "It is called layers"},
    {"num_kv_heads", "It is called kv_heads"},
    {"num_heads", "A session keeps keys and values: say kv_heads; a step's q says how many queries "
                  "there are"},
    {"heads", "It is called kv_heads"},
    {"dim", "It is called head_dim"},
    {"max_length", "It is called capacity"},
    {"max_seq_len", "It is called capacity"},
    {"ttl", "It is called ttl_s, in seconds"},
    {"sliding_window", "Say \"window\": {\"left\": tokens before its own that a query sees}"},
    {"sinks", "Say \"window\": {\"left\": ..., \"sinks\": ...}"},
    {NULL, NULL},
};

const struct codec_schema SESSION_SCHEMA = {
    .title = "A session",
    .members = "layers, kv_heads, head_dim, dtype and capacity",
    .unknown = "a session has id, layers, kv_heads, head_dim, value_dim, dtype, capacity, window, "
               "rope and ttl_s",
    .options = SESSION_OPTIONS,
    .option_count = COUNT(SESSION_OPTIONS),
    .hints = SESSION_HINTS,
};

const struct codec_schema SESSION_SNAPSHOT_SCHEMA = {
    .title = "A snapshot",
    .members = "layers.0.k, layers.0.v and so on",
    .unknown = "a snapshot has what makes a session, lengths, gap_keys and gap_counts",
    .options = SNAPSHOT_OPTIONS,
    .option_count = COUNT(SNAPSHOT_OPTIONS),
    .hints = SESSION_HINTS,
};

/* ---- what is done with a session ---- */

static enum attn_status apply_length(struct options *options, struct json_value value,
                                     const char *pointer) {
    session_of(options)->length_given = true;
    return json_value_int(&options->reader, value, pointer, 0, INT64_MAX,
                          &session_of(options)->length);
}

static const struct option FORK_OPTIONS[] = {
    {"id", OPTION_SCALAR, apply_id},
    {"ttl_s", OPTION_SCALAR, apply_ttl},
};

static const struct options_hint NO_HINTS[] = {{NULL, NULL}};

const struct codec_schema SESSION_FORK_SCHEMA = {
    .title = "A fork",
    .members = "id and ttl_s, which may both be left out",
    .unknown = "a fork has id and ttl_s",
    .options = FORK_OPTIONS,
    .option_count = COUNT(FORK_OPTIONS),
    .hints = NO_HINTS,
};

static const struct option TRUNCATE_OPTIONS[] = {
    {"length", OPTION_SCALAR, apply_length},
};

static const struct options_hint TRUNCATE_HINTS[] = {
    {"position", "It is called length: how many tokens are left"},
    {"to", "It is called length: how many tokens are left"},
    {NULL, NULL},
};

const struct codec_schema SESSION_TRUNCATE_SCHEMA = {
    .title = "A truncation",
    .members = "length",
    .unknown = "a truncation has length: how many tokens are left",
    .options = TRUNCATE_OPTIONS,
    .option_count = COUNT(TRUNCATE_OPTIONS),
    .hints = TRUNCATE_HINTS,
};

static const struct option KV_OPTIONS[] = {
    {"timeout_ms", OPTION_SCALAR, options_apply_timeout},
};

const struct codec_schema SESSION_KV_SCHEMA = {
    .title = "A snapshot's request",
    .members = "timeout_ms, which may be left out",
    .unknown = "taking a snapshot has timeout_ms and compress",
    .options = KV_OPTIONS,
    .option_count = COUNT(KV_OPTIONS),
    .hints = NO_HINTS,
};

static const struct options_hint BARE_HINTS[] = {
    {"length", "POST .../truncate has it"},
    {"lengths", "POST .../truncate has length"},
    {"position", "Steps have it"},
    {"ttl_s", "It is said when a session is made, restored or forked"},
    {NULL, NULL},
};

const struct codec_schema SESSION_BARE_SCHEMA = {
    .title = "This request",
    .members = "nothing",
    .unknown = "looking at sessions and deleting them has no options and no conditions",
    .hints = BARE_HINTS,
};
