/* SPDX-License-Identifier: Apache-2.0 */
/* The first pass over a JSON text: see json_document.h for what is cut and what is refused. */
#ifndef SERVER_JSON_JSON_SKELETON_H
#define SERVER_JSON_JSON_SKELETON_H

#include "server/json/json_document.h"

/*
 * Copies document->text without its arrays of numbers and long strings into *skeleton, which the
 * caller frees, and records them in document->cuts. Errors: MALFORMED, NO_MEMORY; then *skeleton
 * is NULL.
 */
enum attn_status json_skeleton_cut(struct json_document *document, char **skeleton, size_t *length,
                                   struct attn_error *error);

#endif
