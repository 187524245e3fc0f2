/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workers as a team for long texts: whoever shares out pieces does them too, and workers that
 * are free meanwhile help. Nobody is waited for but those that have begun a piece, so that a team
 * whose workers are all busy is one thread, and never a deadlock.
 */
#ifndef SERVER_CALLS_CALL_TEAM_H
#define SERVER_CALLS_CALL_TEAM_H

#include "server/numbers/number_team.h"
#include "server/service.h"

/* Borrows `service`, which outlives the team. */
struct number_team call_team(struct service *service, const struct attn_checkpoint *checkpoint);

#endif
