/* SPDX-License-Identifier: Apache-2.0 */
/* Request ids: the client's X-Request-Id when it is a sane token, else 128 random bits. */
#ifndef SERVER_REQUEST_ID_H
#define SERVER_REQUEST_ID_H

#include <stddef.h>
#include <stdint.h>

enum { REQUEST_ID_SIZE = 129 };

/* `given` may be NULL. Refused and replaced: longer than 128, or other characters than letters,
   digits and "-_.:/+=". */
void request_id_choose(const char *given, char id[REQUEST_ID_SIZE]);

/* Random bits for ids, which are no secrets. */
void request_id_bits(uint64_t *bits, size_t count);

#endif
