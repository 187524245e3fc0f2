/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a JSON string without its escapes (RFC 8259 section 7). */
#ifndef SERVER_JSON_JSON_UNESCAPE_H
#define SERVER_JSON_JSON_UNESCAPE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Writes text[0 .. length) with every escape replaced, as UTF-8, to out, which needs `length`
 * bytes, and sets *size. False for an unknown or cut-off escape, a lone surrogate, and NUL. Other
 * bytes are copied unchecked.
 */
bool json_unescape(const char *text, size_t length, char *out, size_t *size);

#endif
