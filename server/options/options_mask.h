/* SPDX-License-Identifier: Apache-2.0 */
/* Leaves of mask expressions: which members each type has and how they are read. */
#ifndef SERVER_OPTIONS_OPTIONS_MASK_H
#define SERVER_OPTIONS_OPTIONS_MASK_H

#include "server/options/options.h"

/* Reads an object with a `type` into *node, whose pointer is set. Errors: BAD_MASK and others. */
enum attn_status options_mask_leaf(struct options *options, struct json_value object,
                                   const char *pointer, struct attn_mask_node *node);

/* Refuses a word or type that is no mask expression. */
enum attn_status options_mask_refuse(struct options *options, const char *word,
                                     const char *pointer);

#endif
