/* SPDX-License-Identifier: Apache-2.0 */
/* The powers of ten that a word holds, for reading and for printing. Internal to the number_*.c
   files. */
#ifndef SERVER_NUMBERS_NUMBER_TENS_H
#define SERVER_NUMBERS_NUMBER_TENS_H

#include <stdint.h>

static const uint64_t number_tens[] = {UINT64_C(1),
                                       UINT64_C(10),
                                       UINT64_C(100),
                                       UINT64_C(1000),
                                       UINT64_C(10000),
                                       UINT64_C(100000),
                                       UINT64_C(1000000),
                                       UINT64_C(10000000),
                                       UINT64_C(100000000),
                                       UINT64_C(1000000000),
                                       UINT64_C(10000000000),
                                       UINT64_C(100000000000),
                                       UINT64_C(1000000000000),
                                       UINT64_C(10000000000000),
                                       UINT64_C(100000000000000),
                                       UINT64_C(1000000000000000),
                                       UINT64_C(10000000000000000),
                                       UINT64_C(100000000000000000),
                                       UINT64_C(1000000000000000000),
                                       UINT64_C(10000000000000000000)};

#endif
