/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU as GET /v1 names it: its model and the instruction sets that kernels care for. */
#ifndef SERVER_MACHINE_H
#define SERVER_MACHINE_H

#include <stddef.h>

enum { MACHINE_MODEL_SIZE = 128, MACHINE_FEATURE_COUNT = 8 };

struct machine {
    char model[MACHINE_MODEL_SIZE]; /* "unknown" where the system does not say */
    const char *features[MACHINE_FEATURE_COUNT];
    size_t feature_count;
};

void machine_probe(struct machine *machine);

#endif
