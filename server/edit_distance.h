/* SPDX-License-Identifier: Apache-2.0 */
/* How alike two words are, for "did you mean". */
#ifndef SERVER_EDIT_DISTANCE_H
#define SERVER_EDIT_DISTANCE_H

#include <stddef.h>

enum { EDIT_LONGEST = 64 }; /* what is longer is cut */

/* How few characters have to be put in, taken out, changed or, side by side, swapped to make one
   of the other (F. J. Damerau, CACM 7, 1964, where no place is mended twice). */
size_t edit_distance(const char *a, const char *b);

#endif
