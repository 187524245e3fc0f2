/* SPDX-License-Identifier: Apache-2.0 */
/* The sets of row operations that this machine has, for tests that loop over them. */
#ifndef TESTS_UNIT_CORE_ROWOPS_FIXTURE_H
#define TESTS_UNIT_CORE_ROWOPS_FIXTURE_H

#include <check.h>

#include "core/kernels/rowops.h"

enum { LONGEST = 75 }; /* four vectors of AVX-512 and a part of one */

/* The set under test; the loop index runs over more sets than any machine has. */
static inline const struct attn_rowops *rowops_under_test(int index) {
    const struct attn_rowops *set = attn_rowops_at((size_t)index);
    return set != NULL ? set : attn_rowops_best();
}

/* A suite that runs each test for every set. */
static inline Suite *rowops_suite_of(const char *name, const TTest *const *tests, size_t count) {
    Suite *suite = suite_create(name);
    TCase *cases = tcase_create("every instruction set");
    int sets = 0;
    while (attn_rowops_at((size_t)sets) != NULL)
        sets++;
    for (size_t n = 0; n < count; n++)
        tcase_add_loop_test(cases, tests[n], 0, sets);
    suite_add_tcase(suite, cases);
    return suite;
}

#endif
