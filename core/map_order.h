/* SPDX-License-Identifier: Apache-2.0 */
/* How tasks take slots and have their parts committed; internal to map*.c. */
#ifndef ATTN_CORE_MAP_ORDER_H
#define ATTN_CORE_MAP_ORDER_H

#include "core/map.h"

/* Adds what task `index` left in `slot` to what the tasks before it left. */
typedef void attn_map_commit(const void *closure, size_t index, void *slot);

/* plan->carry_bytes that commits alone touch. */
void *attn_map_order_carry(struct attn_map_order *order);
/* The task's slot, of plan->slot_bytes; waits for one. NULL once the call is off. */
void *attn_map_order_enter(struct attn_map_order *order, size_t index,
                           const struct attn_checkpoint *checkpoint);
/* The task's part is complete. Commits it, and others', if it is their turn. */
void attn_map_order_leave(struct attn_map_order *order, size_t index, attn_map_commit *commit,
                          const void *closure);

#endif
