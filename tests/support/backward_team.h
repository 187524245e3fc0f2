/* SPDX-License-Identifier: Apache-2.0 */
/* A team of one that does the pieces from the last to the first, so that none can lean on the one
 * before it; it counts the most that it was given at once. */
#ifndef TESTS_SUPPORT_BACKWARD_TEAM_H
#define TESTS_SUPPORT_BACKWARD_TEAM_H

#include "server/numbers/number_team.h"

/* The team's context: a size_t. */
static inline void run_backwards(const struct number_team *team, size_t count,
                                 void (*piece)(void *, size_t), void *argument) {
    size_t *const most = team->context;
    if (count > *most)
        *most = count;
    for (size_t n = count; n-- > 0;)
        piece(argument, n);
}

#endif
