/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a walk over nested arrays, shared by the walk over brackets (number_array.c) and
 * the loop over an innermost array's numbers (number_row.c). Internal to the number_*.c files.
 */
#ifndef SERVER_NUMBERS_NUMBER_ROW_H
#define SERVER_NUMBERS_NUMBER_ROW_H

#include "server/numbers/numbers.h"

struct number_walk {
    const char *text, *at, *end;  /* at is the next byte, or the fault */
    const atomic_bool *cancelled; /* or NULL */
    char *out;
    size_t stored, capacity; /* in elements */
    enum number_type type;
    int rank;                      /* 0 until the first innermost array is seen */
    int depth;                     /* arrays open at `at` */
    size_t count[NUMBER_MAX_RANK]; /* elements passed in each open array */
    size_t shape[NUMBER_MAX_RANK]; /* lengths of the first array closed at each depth … */
    bool known[NUMBER_MAX_RANK];   /* … once there is one */
};

static inline const char *number_skip_space(const char *p, const char *end) {
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
        p++;
    return p;
}

/*
 * Stores the elements at walk->at, the inside of the array of depth walk->depth, up to where no
 * comma follows, and counts them in that array's count. On failure walk->at is at the fault.
 * NUMBER_CANCELLED when it was asked to end.
 */
enum number_result number_parse_row(struct number_walk *walk);

/*
 * What is wrong with the element at walk->at, which stands where an array must: NUMBER_RAGGED for
 * a number, the fault it would be in a row otherwise (then walk->at is at that).
 */
enum number_result number_judge_misplaced(struct number_walk *walk);

#endif
