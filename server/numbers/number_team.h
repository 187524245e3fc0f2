/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that long texts may be shared out to. Who they are is the caller's business. */
#ifndef SERVER_NUMBERS_NUMBER_TEAM_H
#define SERVER_NUMBERS_NUMBER_TEAM_H

#include <stddef.h>

#include "core/checkpoint.h"

struct number_team {
    /* Calls piece(argument, 0 … count - 1), in any order and on any threads, this one among them;
     * returns when all have returned. Threads pass their checkpoints between pieces. */
    void (*share)(const struct number_team *team, size_t count,
                  void (*piece)(void *argument, size_t index), void *argument);
    void *context;
    size_t piece_bytes;                       /* of text, that are worth a piece */
    const struct attn_checkpoint *checkpoint; /* of this thread, or NULL */
};

#endif
