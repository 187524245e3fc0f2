/* SPDX-License-Identifier: Apache-2.0 */
/* A picture under construction, the text on it, and the file made of it. */
#ifndef SERVER_CODECS_CODEC_PNG_CANVAS_H
#define SERVER_CODECS_CODEC_PNG_CANVAS_H

#include "core/status.h"
#include "server/codecs/codec_png.h"
#include "server/codecs/codec_png_colour.h"

/* Indices of the palette, row by row; borrowed. What lies outside is not drawn. */
struct png_canvas {
    unsigned char *pixels;
    size_t width, height;
};

void png_canvas_fill(const struct png_canvas *canvas, size_t left, size_t top, size_t width,
                     size_t height, unsigned char index);
/* The same with what is hidden: diagonal lines that go on from cell to cell. */
void png_canvas_hatch(const struct png_canvas *canvas, size_t left, size_t top, size_t width,
                      size_t height);
/* The edge around a rectangle, a pixel outside of it. */
void png_canvas_frame(const struct png_canvas *canvas, size_t left, size_t top, size_t width,
                      size_t height);

/* Text goes to the right, or upwards. */
enum png_direction { PNG_RIGHTWARDS, PNG_UPWARDS };
/* Which part of the text stands at its place. */
enum png_anchor { PNG_START, PNG_MIDDLE, PNG_END };

struct png_text;
/* A pen with a face of its own; NULL without a typeface, and when there is no memory. */
struct png_text *png_text_open(const struct typeface *typeface);
void png_text_close(struct png_text *text);

/* How a text is written. */
struct png_style {
    int size; /* pixels of an em */
    enum png_direction direction;
    enum png_anchor anchor;
    size_t room; /* pixels at most; what does not fit is left out, and an ellipsis says so */
};

/*
 * Writes text on the line through (x, y), which lies under the letters. Any bytes will do: what is
 * no UTF-8 and what controls nothing here is drawn as U+FFFD, what has no glyph as the font's box.
 * Letters stand in the order of the text, unshaped. With text NULL nothing is written.
 */
void png_text_write(struct png_text *text, const struct png_canvas *canvas, size_t x, size_t y,
                    const struct png_style *style, const char *letters, size_t length);

/* Bytes that a file of this picture takes at most. */
bool png_file_room(size_t width, size_t height, size_t *bytes);
/* Writes the file with a description for programs; *length of it. Errors: NO_MEMORY. */
enum attn_status png_file_write(const struct png_canvas *canvas, enum png_ramp ramp,
                                const char *description, void *file, size_t room, size_t *length,
                                struct attn_error *error);

#endif
