/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Base64 with the standard alphabet and padding (RFC 4648 section 4). Decoding is strict: it
 * refuses any other byte (white space and the URL alphabet included), missing or misplaced
 * padding, and non-zero bits in the last character, so that one byte string has one text.
 */
#ifndef SERVER_CODECS_BASE64_H
#define SERVER_CODECS_BASE64_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Stores past the last decoded byte that base64_decode() may make; leave that much room. */
enum { BASE64_SLACK = 8 };

/* Characters that `size` bytes take; false when that does not fit a size_t. */
bool base64_encoded_size(size_t size, size_t *length);

/* At most the bytes that length characters stand for; out of base64_decode() needs this room. */
size_t base64_decoded_room(size_t length);

/* Writes exactly base64_encoded_size(size) characters, no NUL, and returns their number. */
size_t base64_encode(const void *bytes, size_t size, char *out);

/*
 * Decodes length characters into out, which needs base64_decoded_room(length) bytes, and sets
 * *size. Returns false and sets *fault to the offset of the first character at fault (length,
 * when the text ends too soon); out's contents are then unspecified.
 */
bool base64_decode(const char *text, size_t length, void *out, size_t *size, size_t *fault);

#endif
