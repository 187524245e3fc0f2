/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a picture on its canvas: heading, panels with their axes, colour bar. */
#ifndef SERVER_CODECS_CODEC_PNG_DRAW_H
#define SERVER_CODECS_CODEC_PNG_DRAW_H

#include "server/codecs/codec_png_canvas.h"
#include "server/codecs/codec_png_layout.h"

enum { PNG_CAPTION_ROOM = 256 };

/* What is written about the whole picture. */
struct png_captions {
    char heading[PNG_CAPTION_ROOM], axes[PNG_CAPTION_ROOM], scale[PNG_CAPTION_ROOM];
};

void png_captions_make(const struct attn_call *call, const struct png_map *map,
                       const struct png_scale *scale, struct png_captions *captions);

/* What drawing goes by. */
struct png_drawing {
    const struct attn_call *call;
    const struct png_layout *layout;
    const struct png_map *map;
    const struct png_scale *scale;
    const struct png_captions *captions;
    const struct png_canvas *canvas;
    struct png_text *text; /* NULL: none is written */
};

/* All of it, on a canvas of the layout's size. */
void png_draw(const struct png_drawing *drawing);

#endif
