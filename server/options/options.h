/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of a call, the same for every encoding: members of a JSON object, or of the query
 * string, become an attn_request. Values that are there are given; nothing else is assumed.
 *
 * Refused: unknown names (with the nearest known one, or what another library's name is here), an
 * option given twice, options of training, and values of a wrong type. Whether the values fit the
 * tensors is decided by attn_call_init.
 */
#ifndef SERVER_OPTIONS_OPTIONS_H
#define SERVER_OPTIONS_OPTIONS_H

#include "server/codecs/codec.h"
#include "server/json/json_tensor.h"

enum { OPTIONS_MAX = 48, OPTIONS_OWN_TEXTS = 16 };

/* A tensor that was looked up by name, and the list made of it: every later mention is this one,
   so that naming a tensor often costs no memory. */
struct options_named {
    const char *name; /* borrowed from the document */
    enum json_tensor_role role;
    struct attn_tensor tensor;
    const int64_t *ints;      /* as a list, once asked for */
    struct attn_int_list set; /* as a set, once asked for */
};

/* Looks up a tensor by its name in the request; *found false when there is none. */
struct options_tensors {
    enum attn_status (*find)(void *closure, const char *name, enum json_tensor_role role,
                             struct attn_tensor *out, bool *found);
    void *closure;
    bool names_are_places; /* errors about a tensor name point to the name, not to the option */
};

struct options {
    const struct codec_schema *schema;
    struct codec_request *request;
    struct json_reader reader;
    struct options_tensors tensors;
    struct options_named *named; /* in the reader's storage */
    size_t named_count;
    enum attn_dtype real; /* of tensors without dtype, once precision is known */
    struct json_value given[OPTIONS_MAX];
    struct json_document *texts; /* one per option that was given as text; owned */
    size_t text_count;
};

/* Borrows everything. `request` has been initialised. */
void options_init(struct options *options, const struct codec_schema *schema,
                  struct codec_request *request, struct json_reader reader,
                  struct options_tensors tensors);
void options_close(struct options *options);

/*
 * Notes the value of `name`; *known false when there is no such option. Errors: OPTION_TWICE.
 */
enum attn_status options_give(struct options *options, const char *name, struct json_value value,
                              bool *known);

/*
 * The same for an option written as text, as in the query string; `place` and the name title it in
 * errors. Besides those MALFORMED.
 */
enum attn_status options_give_text(struct options *options, const char *place, const char *name,
                                   const char *value, bool *known);
/* A JSON text that lives as long as the options; at most OPTIONS_OWN_TEXTS besides those given. */
enum attn_status options_open_text(struct options *options, const char *title, const char *text,
                                   struct json_value *out);

/* The query string's options. Errors as options_give, UNKNOWN_FIELD, MALFORMED. */
enum attn_status options_give_query(struct options *options, const struct codec_input *input);

/* Reads every given value into the request. */
enum attn_status options_apply(struct options *options);

/* Refuses a request without the operand `name`. */
enum attn_status options_refuse_missing(const struct options *options, const char *name,
                                        const char *pointer);

/* Refuses a name that is neither an option nor a tensor; says what it is elsewhere, if anything. */
enum attn_status options_refuse_unknown(const struct options *options, const char *name,
                                        const char *pointer);

/*
 * The candidate that `name` is most likely a misspelling of, by edit distance; NULL when none is
 * near. `candidates` ends with NULL.
 */
const char *options_nearest(const char *name, const char *const *candidates);

/* A tensor that an option holds: inline, or the name of one in the request. */
enum attn_status options_tensor(struct options *options, struct json_value value,
                                enum json_tensor_role role, const char *pointer,
                                struct attn_tensor *out);
/* Whole numbers inline, one alone, or the name of a rank-1 tensor. */
enum attn_status options_ints(struct options *options, struct json_value value, const char *pointer,
                              struct attn_int_list *out);
/* The same as a set: rising, and each number once. */
enum attn_status options_int_set(struct options *options, struct json_value value,
                                 const char *pointer, struct attn_int_list *out);
/* Numbers inline, one alone, or the name of a rank-1 tensor. */
enum attn_status options_reals(struct options *options, struct json_value value,
                               const char *pointer, struct attn_real_list *out);

/* The mask expression as a postfix program in the reader's storage (options_mask.c). */
enum attn_status options_read_mask(struct options *options, struct json_value value);

#endif
