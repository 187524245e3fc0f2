/* SPDX-License-Identifier: Apache-2.0 */
/* Request ids: the client's X-Request-Id when it is a sane token, else 128 random bits; and the
 * trace id of a W3C traceparent header. */
#ifndef SERVER_REQUEST_ID_H
#define SERVER_REQUEST_ID_H

#include <stdbool.h>

enum { REQUEST_ID_SIZE = 129, TRACE_ID_SIZE = 33 };

/* `given` may be NULL. Refused and replaced: longer than 128, or other characters than letters,
   digits and "-_.:/+=". */
void request_id_choose(const char *given, char id[REQUEST_ID_SIZE]);

/* The trace id of `traceparent` in lower-case hexadecimal; "" and false when there is none or it
   does not follow the W3C recommendation (level 1, section 3.2). */
bool trace_id_read(const char *traceparent, char id[TRACE_ID_SIZE]);

#endif
