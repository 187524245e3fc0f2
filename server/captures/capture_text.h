/* SPDX-License-Identifier: Apache-2.0 */
/* What a capture is, in JSON. */
#ifndef SERVER_CAPTURES_CAPTURE_TEXT_H
#define SERVER_CAPTURES_CAPTURE_TEXT_H

#include "server/captures/captures.h"
#include "server/text.h"

/* Appends an object: as a list shows it, or `whole`, with tokens and options. */
void capture_text_write(struct text *out, struct capture *capture, bool whole);

/* A number; NaN and the infinities as the texts that stand for them. */
void capture_text_number(struct text *out, double value);
void capture_text_numbers(struct text *out, const double *values, size_t count);

#endif
