/* SPDX-License-Identifier: Apache-2.0 */
/* Between exchange.c and exchange_body.c. */
#ifndef SERVER_EXCHANGE_INTERNAL_H
#define SERVER_EXCHANGE_INTERNAL_H

#include "server/exchange.h"

/* Settles the place in the line for bytes after a sleep, `granted` or left. */
void exchange_body_woken(struct exchange *exchange, bool granted);

#endif
