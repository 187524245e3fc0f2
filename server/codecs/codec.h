/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Codecs turn bytes into a request and a result into bytes; one row of the codec table per media
 * type. They see requests, calls, results and status - never plans or kernels.
 *
 * The life of one exchange: codec_decode -> (validate, plan) -> codec_lay_out gives the answer its
 * memory and every wanted result tensor its place -> compute -> codec_finish completes the bytes.
 */
#ifndef SERVER_CODECS_CODEC_H
#define SERVER_CODECS_CODEC_H

#include <stdatomic.h>

#include "core/call.h"
#include "core/kv_cache.h"
#include "core/merge.h"
#include "core/result.h"
#include "core/scaling.h"
#include "core/status.h"
#include "server/numbers/number_team.h"

enum codec_encoding { CODEC_ENCODING_UNSET, CODEC_NESTED, CODEC_FLAT, CODEC_BASE64 };

/* One option from the query string, percent-decoded; borrowed text. */
struct codec_query_option {
    const char *name;
    const char *value;
};

/* What a token is called: at most so many bytes, whole characters of them. Not checked to be UTF-8.
 */
struct codec_label {
    unsigned char length;
    char text[63];
};
/* Of the queries, or the keys: `lists` lists of `count`, one after the other. */
struct codec_labels {
    const struct codec_label *labels; /* in the request's storage */
    size_t lists, count;              /* lists 0: not given; 1: for all batch items */
};

struct codec_schema; /* which tensors and options a kind of call has: options_table.h */

/* What decoding makes of a byte of JSON, itself included: "1," becomes eight bytes. */
enum { CODEC_JSON_WEIGHT = 5 };

/* Memory that decoding takes beside the body: members that are unpacked, tensors that are copied.
 */
struct codec_budget {
    size_t most;      /* bytes that may be unpacked from one body */
    size_t most_json; /* bytes of JSON, in a body of another encoding too */
    /* Charges bytes before they are taken, or fails: as a quota, as OVERLOADED when there is no
       room now, and as BODY_TOO_LARGE when beside what the call has they are more than there is.
       CANCELLED, without an error: decoding ends here. */
    enum attn_status (*reserve)(void *closure, size_t bytes, struct attn_error *error);
    void *closure;
};

/* What decode is given. Everything is borrowed and outlives the decoded request. */
struct codec_input {
    const void *body;
    size_t length;
    const struct codec_query_option *query;
    size_t query_count;
    const struct codec_schema *schema;
    /* Looked at every few megabytes: once it is true, decoding ends as CANCELLED. NULL: never. */
    const atomic_bool *cancelled;
    const struct number_team *team;    /* that may help to read; NULL: nobody */
    const struct codec_budget *budget; /* NULL: nothing limits it */
    const struct oip_head *oip;        /* of the Open Inference Protocol's codec; else NULL */
};

/* What a session cannot be made without. */
enum codec_session_need {
    CODEC_SESSION_LAYERS,
    CODEC_SESSION_KV_HEADS,
    CODEC_SESSION_HEAD_DIM,
    CODEC_SESSION_DTYPE,
    CODEC_SESSION_CAPACITY,
    CODEC_SESSION_NEEDS,
    CODEC_SESSION_VALUE_DIM = CODEC_SESSION_NEEDS /* head_dim, unless it is given */
};

/* What calls of sessions say besides; text and lists are in the request's storage. */
struct codec_session {
    const char *id; /* NULL: not given */
    size_t id_length;
    unsigned given; /* bits 1 << codec_session_need */
    struct attn_kv_spec spec;
    double ttl_seconds; /* 0: not given */
    bool layer_given, position_given, length_given;
    int64_t layer, position, length;
    bool attends_only; /* append is false */
    const char **ids;  /* of a step of many sessions */
    size_t id_count;
    struct attn_int_list positions; /* not given: count 0 and values NULL */
    /* Of a snapshot: per layer its length, after how many of the keys that are kept how many have
       left, and its rows as they are kept. */
    struct attn_int_list lengths, gap_keys, gap_counts;
    const struct attn_tensor *k, *v;
};

/* What a call that is to be kept is called there; texts in the request's storage. */
struct codec_capture {
    bool given;
    const char *name, *run;      /* run: NULL when not given */
    int64_t layer;               /* -1: not given */
    size_t q_grid[2], k_grid[2]; /* rows and columns; 0: not given */
};

/* Which map is compared with, and how near it has to be; `with` in the request's storage. */
struct codec_compare {
    const char *with; /* NULL: a map that was sent */
    double rtol, atol;
};
#define CODEC_COMPARE_RTOL 1e-3
#define CODEC_COMPARE_ATOL 1e-6

/* A decoded request: what its schema fills. Its tensors borrow the body or own_memory behind
   `storage`. */
struct codec_request {
    struct attn_request attention;
    struct attn_tensor outputs, lses; /* a merge's; the options it shares are in `attention` */
    struct attn_scaling_request scaling;
    struct codec_session session;
    struct codec_labels q_labels, k_labels;
    struct codec_capture capture;
    struct codec_compare compare;
    enum codec_encoding encoding; /* of a JSON answer; never UNSET after decode */
    int64_t timeout_ms;           /* 0: not given */
    void *storage;                /* owned; freed by codec_request_close */
    void *notes;                  /* in storage: what a codec keeps for its answer; or NULL */
};

struct typeface; /* codec_png.h */

/* Where a step of a session stood, and how long its layer is with it. */
struct codec_step {
    size_t layer, position, length;
};

/* What the answer says about the call besides its tensors. */
struct codec_report {
    const char *id; /* request id */
    const struct attn_call *call;
    const char *kernel;
    double decode_ms, queue_ms, compute_ms;
    double flops;
    const struct codec_step *step;   /* or NULL */
    const struct attn_merge *merge;  /* instead of call and kernel; or NULL */
    const struct typeface *typeface; /* of pictures; NULL: they have no text */
    const struct number_team *team;  /* that may help to write; NULL: nobody */
    const char *capture_id;          /* under which the call is kept; or NULL */
    const char *capture_refusal;     /* why it is not, where that was asked for; or NULL */
};

/* An answer under construction. */
struct codec_answer {
    const char *media_type;
    void *buffer;    /* owned: from buffer_pool; NULL before lay_out */
    size_t capacity; /* bytes of buffer */
    size_t length;   /* bytes that are sent, from `offset`; final after codec_finish */
    size_t offset;
    void *scratch; /* owned float scratch of text encodings, or NULL */
    size_t scratch_bytes;
    size_t header_bytes; /* room kept for the header, of binary encodings */
    size_t json_bytes;   /* of the Open Inference Protocol's JSON where bytes follow it; else 0 */
};

struct codec {
    const char *name;       /* "json", "safetensors" */
    const char *media_type; /* as sent, and as recognised in Content-Type and Accept */
    bool decodes, encodes;
    bool draws;         /* encodes the map of an attention call, and no other answer */
    const char *advice; /* sentences for whoever sends what it does not decode; or NULL */
    enum attn_status (*decode)(const struct codec_input *input, struct codec_request *request,
                               struct attn_error *error);
    /* Before the call is planned: leaves in it what the answer can hold, or refuses. NULL: all. */
    enum attn_status (*select)(struct attn_call *call, struct attn_error *error);
    /* Bytes that lay_out will allocate for this result: for admission, before anything is
     * allocated. `call` is NULL when the answer is not an attention call's. */
    bool (*answer_bytes)(const struct attn_call *call, const struct codec_request *request,
                         const struct attn_result *result, size_t *bytes);
    enum attn_status (*lay_out)(const struct attn_call *call, const struct codec_request *request,
                                struct attn_result *result, struct codec_answer *answer,
                                struct attn_error *error);
    enum attn_status (*finish)(const struct codec_report *report,
                               const struct codec_request *request,
                               const struct attn_result *result, struct codec_answer *answer,
                               struct attn_error *error);
};

/* The table; NULL past the end. */
const struct codec *codec_at(size_t index);
const struct codec *codec_find(const char *name);

/*
 * The codec of a request body: by Content-Type (parameters ignored, NULL when absent), or by the
 * body's first bytes when the type says nothing (application/octet-stream, text/plain,
 * application/x-www-form-urlencoded, none). NULL: unsupported media type. `body` may be NULL when
 * only the header is known: then an unspecific type gives *undecided = true.
 */
const struct codec *codec_for_request(const char *content_type, const void *body, size_t length,
                                      bool *undecided);
/* The codec that could read a body which `taken`, the one that its type named, could not; NULL
   where its first bytes do not say. */
const struct codec *codec_mistaken(const struct codec *taken, const void *body, size_t length);
/* What to say to the sender of a body that no codec reads; "" where nothing is known of it. */
const char *codec_advice(const char *content_type, const void *body, size_t length);
/* The codec of the answer: by Accept with q-values, else that of the request. NULL: not acceptable.
 * `has_map`: the answer may be drawn. */
const struct codec *codec_for_answer(const char *accept, const struct codec *request_codec,
                                     bool has_map);

/* Whether Accept (NULL: none) allows an answer of this codec. */
bool codec_is_acceptable(const char *accept, const struct codec *codec);

/* A label from text of any length; what does not fit is left out, and an ellipsis says so. */
struct codec_label codec_label_of(const char *text, size_t length);
/* The label of a token of a batch item; NULL when none were given. They fit the call. */
const struct codec_label *codec_labels_at(const struct codec_labels *labels, size_t batch,
                                          size_t token);
/* Refuses (BAD_SHAPE) labels that are not as many as the call has tokens. */
enum attn_status codec_labels_check(const struct codec_request *request,
                                    const struct attn_call *call, struct attn_error *error);

void codec_request_close(struct codec_request *request);
/*
 * For lay_out of answers whose tensors are computed into scratch: takes scratch_bytes and capacity,
 * which stand in the answer, and gives every wanted tensor its place in the scratch, each of its
 * bytes rounded up to CODEC_ALIGNMENT. Errors: NO_MEMORY; the answer is closed then.
 */
enum { CODEC_ALIGNMENT = 64 };
enum attn_status codec_answer_take(struct codec_answer *answer, struct attn_result *result,
                                   struct attn_error *error);
/* Gives the buffers back to the pool. Clears *answer. */
void codec_answer_close(struct codec_answer *answer);

#endif
