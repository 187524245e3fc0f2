/* SPDX-License-Identifier: Apache-2.0 */
/* A line of a benchmark's report, which bench/report.py makes a row of a table: what was measured,
 * how much it is, its goal, and the rounds behind it. */
#ifndef BENCH_FIGURE_H
#define BENCH_FIGURE_H

#include <stddef.h>

struct figure {
    const char *what, *unit;
    double value;
    double at_least, at_most; /* the goal; both 0: none */
    size_t rounds, discarded; /* both 0: there were none */
    const char *beside;       /* more about it, or NULL */
};

void figure_print(const struct figure *figure);

#endif
