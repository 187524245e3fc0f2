/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON parser with its memory taken from a storage. Allocating by the piece it is fast, and
 * nothing has to be freed; and a failed allocation leaves the parser at once, which by itself would
 * go on with what it has and may misread the text or stop the process.
 */
#ifndef SERVER_JSON_JSON_LOAD_H
#define SERVER_JSON_JSON_LOAD_H

#include <jansson.h>
#include <stdbool.h>

#include "server/storage.h"

/*
 * Parses a text of any JSON type, refusing names that stand twice. The nodes live in `storage` and
 * are never json_decref()ed. NULL with *exhausted set when there is no memory, else with *cause.
 */
json_t *json_load(struct storage *storage, const char *text, size_t length, json_error_t *cause,
                  bool *exhausted);

#endif
