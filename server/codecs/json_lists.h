/* SPDX-License-Identifier: Apache-2.0 */
/* A tensor's elements as JSON lists of numbers: nested as its axes are, or all in one. */
#ifndef SERVER_CODECS_JSON_LISTS_H
#define SERVER_CODECS_JSON_LISTS_H

#include "core/result.h"
#include "server/json/json_text.h"
#include "server/numbers/number_team.h"

/* The room that json_lists_write() needs at most; false when it does not fit a size_t. */
bool json_lists_room(const struct attn_result_tensor *tensor, bool nested, size_t *room);

/* The bytes do not depend on `team`, which may help with a long tensor; NULL: nobody does. Where
   its checkpoint stops, what has been written is not whole. */
void json_lists_write(struct json_text *text, const struct attn_result_tensor *tensor, bool nested,
                      const struct number_team *team);

#endif
