/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked about a capture: which one the path names, and a query string, by a table. */
#ifndef SERVER_CAPTURES_CAPTURE_QUERY_H
#define SERVER_CAPTURES_CAPTURE_QUERY_H

#include "server/calls/call_work.h"

struct capture_argument {
    const char *name;
    /* Fills in its part of what `into` points to; errors at `pointer`. */
    enum attn_status (*take)(void *into, const char *value, const char *pointer,
                             struct attn_error *error);
};

/* Reads the query string. Errors: UNKNOWN_FIELD with the names there are, OPTION_TWICE, and those
   of the arguments. */
enum attn_status capture_query_read(const struct exchange *exchange,
                                    const struct capture_argument *arguments, size_t count,
                                    void *into, struct attn_error *error);

/* A whole number of digits alone. Errors: BAD_VALUE. */
enum attn_status capture_query_number(const char *value, const char *pointer, uint64_t most,
                                      uint64_t *out, struct attn_error *error);
/* "a:b", half-open. */
enum attn_status capture_query_range(const char *value, const char *pointer, int64_t range[2],
                                     struct attn_error *error);
/* One of the words, which end with NULL. */
enum attn_status capture_query_word(const char *value, const char *pointer,
                                    const char *const *words, size_t *index,
                                    struct attn_error *error);

/* Answers the exchange with an error. */
void capture_refuse(struct exchange *exchange, const struct attn_error *error);

/* For encode: makes JSON the call's answer, and takes it over. Errors: NO_MEMORY. */
enum attn_status capture_answer_take(struct call_work *work, struct text *text);

/* The capture that the path names, with a reference; NULL when the exchange has been refused. */
struct capture *capture_of_path(struct exchange *exchange);
/* The same with a call of `size` bytes about it, for call_work_begin(), which holds the reference
   until its close; NULL, without a capture, when the exchange has been refused. */
void *capture_work_create(struct exchange *exchange, const struct call_kind *kind, size_t size,
                          struct capture **capture);

#endif
