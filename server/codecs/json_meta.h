/* SPDX-License-Identifier: Apache-2.0 */
/* The `meta` object of an answer: what was understood and done, for any encoding. */
#ifndef SERVER_CODECS_JSON_META_H
#define SERVER_CODECS_JSON_META_H

#include "server/codecs/codec.h"
#include "server/json/json_text.h"

/* No meta is longer: four texts with every byte escaped, a kilobyte of names and numbers, and half
   of one about a capture, whose texts are ours. */
enum { JSON_META_ROOM = 4 * (JSON_TEXT_MAX * 6 + 2) + 1024 + 512 };

/* Appends ,"timings_ms":{...}. */
void json_meta_timings(struct json_text *text, const struct codec_report *report);

/* Appends {"id":...,"flops":...}. */
void json_meta_write(struct json_text *text, const struct codec_report *report,
                     const struct attn_result *result);

#endif
