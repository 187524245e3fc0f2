/* SPDX-License-Identifier: Apache-2.0 */
/* What the mask and the bias of a kept call hide. A score of -inf alone does not say so: arithmetic
   makes it too, of a key that is seen. */
#ifndef SERVER_CAPTURES_CAPTURE_HIDDEN_H
#define SERVER_CAPTURES_CAPTURE_HIDDEN_H

#include "core/call.h"

/* Whether anything of the call may be hidden. */
bool capture_may_hide(const struct attn_call *call);

/* Bit j: `row` does not see key `key + j` in one of the heads that the call has a map of; at most
   64 keys. */
uint64_t capture_hidden_keys(const struct attn_call *call, size_t row, size_t key, size_t keys);

/* Gives `visible` to bins of TILE_HIDDEN that are one position, which is seen: of a call with a map
   of one batch item. A bin of several is hidden where all that is seen in it is -inf. */
void capture_show_seen(const struct attn_call *call, uint16_t visible, uint16_t *bins);

#endif
