/* SPDX-License-Identifier: Apache-2.0 */
/* The table of options: what each is called and how its value is read. */
#ifndef SERVER_OPTIONS_TABLE_H
#define SERVER_OPTIONS_TABLE_H

#include "server/options.h"

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

/* In the order in which they are applied: precision decides how later tensors are read. */
extern const struct option OPTIONS_TABLE[];
extern const size_t OPTIONS_COUNT;

/* `return` and `weights` (options_map.c). */
enum attn_status options_apply_return(struct options *options, struct json_value value,
                                      const char *pointer);
enum attn_status options_apply_weights(struct options *options, struct json_value value,
                                       const char *pointer);

#endif
