/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of options: what each is called and how its value is read. */
#ifndef SERVER_OPTIONS_OPTIONS_TABLE_H
#define SERVER_OPTIONS_OPTIONS_TABLE_H

#include "server/options/options.h"

enum option_query {
    OPTION_BODY_ONLY,
    OPTION_SCALAR, /* in the query string as written; JSON when it starts like JSON */
    OPTION_LIST    /* the same, and commas separate the elements of a list */
};

struct option {
    const char *name;
    enum option_query query;
    enum attn_status (*apply)(struct options *options, struct json_value value,
                              const char *pointer);
};

/* A name that there is not, and a sentence without its full stop about what to say instead. */
struct options_hint {
    const char *name, *sentence;
};

struct codec_operand {
    const char *name;
    size_t offset;    /* of its struct attn_tensor in struct codec_request */
    bool is_optional; /* a request may come without it: then there is no tensor */
};

/* What the requests of one kind of call hold: all that decoders know of it. */
struct codec_schema {
    const char *title, *members; /* "Attention" needs the tensors "q, k and v" */
    const char *unknown;         /* what else would have had a place, for a name that has none */
    const struct codec_operand *operands;
    size_t operand_count;
    /* In the order in which they are applied: precision decides how later tensors are read. */
    const struct option *options;
    size_t option_count;
    const struct options_hint *hints; /* ends with a NULL name */
};

enum { OPERANDS_MAX = 3 };

extern const struct codec_schema ATTENTION_SCHEMA;
/* Sessions (options_session.c): what makes one, a step, a step of many, and what is done with one;
   of those without a body the query string alone. */
extern const struct codec_schema SESSION_SCHEMA, SESSION_STEP_SCHEMA, SESSION_STEPS_SCHEMA,
    SESSION_FORK_SCHEMA, SESSION_TRUNCATE_SCHEMA, SESSION_SNAPSHOT_SCHEMA, SESSION_KV_SCHEMA,
    SESSION_BARE_SCHEMA;
extern const struct options_hint ATTENTION_HINTS[];

/* The number of the operand called `name`, or operand_count. */
size_t schema_operand(const struct codec_schema *schema, const char *name);
/* The number of the option called `name`, or option_count. */
size_t schema_option(const struct codec_schema *schema, const char *name);
/* Where an operand's tensor goes. */
static inline struct attn_tensor *schema_tensor(const struct codec_schema *schema, size_t operand,
                                                struct codec_request *request) {
    return (struct attn_tensor *)(void *)((char *)request + schema->operands[operand].offset);
}

/* Options that kinds of calls share (options_table.c). */
enum attn_status options_apply_layout(struct options *options, struct json_value value,
                                      const char *pointer);
enum attn_status options_apply_q_offset(struct options *options, struct json_value value,
                                        const char *pointer);
enum attn_status options_apply_scale(struct options *options, struct json_value value,
                                     const char *pointer);
enum attn_status options_apply_softcap(struct options *options, struct json_value value,
                                       const char *pointer);
enum attn_status options_apply_mask(struct options *options, struct json_value value,
                                    const char *pointer);
enum attn_status options_apply_bias(struct options *options, struct json_value value,
                                    const char *pointer);
enum attn_status options_apply_alibi(struct options *options, struct json_value value,
                                     const char *pointer);
enum attn_status options_apply_kernel(struct options *options, struct json_value value,
                                      const char *pointer);
enum attn_status options_apply_precision(struct options *options, struct json_value value,
                                         const char *pointer);
enum attn_status options_apply_output_dtype(struct options *options, struct json_value value,
                                            const char *pointer);
enum attn_status options_apply_encoding(struct options *options, struct json_value value,
                                        const char *pointer);
enum attn_status options_apply_sink(struct options *options, struct json_value value,
                                    const char *pointer);
enum attn_status options_apply_timeout(struct options *options, struct json_value value,
                                       const char *pointer);

/* `return` and `weights` (options_map.c). */
enum attn_status options_apply_return(struct options *options, struct json_value value,
                                      const char *pointer);
enum attn_status options_apply_weights(struct options *options, struct json_value value,
                                       const char *pointer);

/* `labels` (options_labels.c). */
enum attn_status options_apply_labels(struct options *options, struct json_value value,
                                      const char *pointer);

/* `capture`, and a name alone (options_capture.c). */
enum attn_status options_apply_capture_name(struct options *options, struct json_value value,
                                            const char *pointer);
enum attn_status options_apply_capture(struct options *options, struct json_value value,
                                       const char *pointer);

/* `score` and `rope` (options_score.c, options_rope.c). */
enum attn_status options_apply_score(struct options *options, struct json_value value,
                                     const char *pointer);
enum attn_status options_apply_rope(struct options *options, struct json_value value,
                                    const char *pointer);

#endif
