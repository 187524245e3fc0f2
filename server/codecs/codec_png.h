/* SPDX-License-Identifier: Apache-2.0 */
/* image/png: the map of an attention call as a picture, and the typeface of its text. */
#ifndef SERVER_CODECS_CODEC_PNG_H
#define SERVER_CODECS_CODEC_PNG_H

#include "server/codecs/codec.h"

extern const struct codec CODEC_PNG;

/* A font file in memory. Only read, so that every drawing may have a face of its own on it. */
struct typeface {
    void *bytes; /* owned */
    size_t length;
};

/* Reads a font file; false, and nothing to free, when it cannot be read or is no font. */
bool typeface_load(struct typeface *typeface, const char *path);
void typeface_free(struct typeface *typeface);

#endif
