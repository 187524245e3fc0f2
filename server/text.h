/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text that grows while it is written: problems, metrics, log lines, descriptions. Running out of
 * memory is remembered, not reported at every call: ask `failed` once at the end.
 */
#ifndef SERVER_TEXT_H
#define SERVER_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Zero-initialised is empty. `data` is owned, from malloc, without a NUL. */
struct text {
    char *data;
    size_t length, capacity;
    bool failed;
};

void text_add(struct text *text, const char *bytes, size_t count);
void text_format(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Adds a JSON string with its quotes. Control characters are escaped; what is no UTF-8 becomes
   U+FFFD, so that any bytes give valid JSON. */
void text_json(struct text *text, const char *string);
/* Adds a label value of the Prometheus text format with its quotes. */
void text_label(struct text *text, const char *string);
/* Forgets the contents, keeps the memory. */
void text_clear(struct text *text);
void text_close(struct text *text);

#endif
