/* SPDX-License-Identifier: Apache-2.0 */
/* The table of powers of ten; its rows are made at build time by tools/generate_powers.c. */
#include "server/numbers/number_powers.h"

const struct number_power number_powers[NUMBER_POWER_LAST - NUMBER_POWER_FIRST + 1] = {
#include "number_powers.inc"
};
