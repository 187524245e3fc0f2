/* SPDX-License-Identifier: Apache-2.0 */
/* A team of one that does the pieces from the last to the first, so that none can lean on the one
 * before it; it counts the most that it was given at once. */
#ifndef TESTS_SUPPORT_BACKWARD_TEAM_H
#define TESTS_SUPPORT_BACKWARD_TEAM_H

#include "server/numbers/number_team.h"

/* `most`: a size_t. */
static inline void run_backwards(void *most, size_t count, void (*piece)(void *, size_t),
                                 void *argument) {
    if (count > *(size_t *)most)
        *(size_t *)most = count;
    for (size_t n = count; n-- > 0;)
        piece(argument, n);
}

#endif
