/* SPDX-License-Identifier: Apache-2.0 */
/* See figure.h. */
#include "bench/figure.h"

#include <stdio.h>

void figure_print(const struct figure *figure) {
    printf("%s: %.3f %s", figure->what, figure->value, figure->unit);
    if (figure->at_least > 0)
        printf(" (goal at least %g)", figure->at_least);
    if (figure->at_most > 0)
        printf(" (goal at most %g)", figure->at_most);
    if (figure->rounds + figure->discarded > 0)
        printf(", %zu rounds, %zu discarded", figure->rounds, figure->discarded);
    printf("%s%s\n", figure->beside == NULL ? "" : "; ",
           figure->beside == NULL ? "" : figure->beside);
}
