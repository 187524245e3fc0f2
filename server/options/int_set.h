/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of numbers that mean a set: rising, and each number once. */
#ifndef SERVER_OPTIONS_INT_SET_H
#define SERVER_OPTIONS_INT_SET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool int_set_is_one(const int64_t *values, size_t count);

/*
 * Makes values[0 .. count) a set in place and says how many stay; what is left behind them is
 * unspecified. Takes no memory, and at most 64 passes over the values, whatever they are. Returns
 * false, early, when *cancelled becomes true; cancelled may be NULL.
 */
bool int_set_make(int64_t *values, size_t count, const atomic_bool *cancelled, size_t *kept);

#endif
