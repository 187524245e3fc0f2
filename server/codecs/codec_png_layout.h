/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where everything in a picture is, in pixels from its top left corner. It depends on the call and
 * the labels' lengths alone, not on values or the typeface, so that memory is known beforehand.
 * With at most 64 panels of at most 1,024 pixels and some text every product of these sizes fits.
 */
#ifndef SERVER_CODECS_CODEC_PNG_LAYOUT_H
#define SERVER_CODECS_CODEC_PNG_LAYOUT_H

#include "server/codecs/codec.h"

enum {
    PNG_PANELS_MOST = 64,
    PNG_MARGIN = 16,
    PNG_TEXT = 11,    /* sizes of letters: beside axes and below bars, ... */
    PNG_HEADING = 15, /* ... and of the heading */
    PNG_TICK = 4,
    PNG_BAR_WIDTH = 256,
    PNG_BAR_HEIGHT = 12
};

/* One axis of a panel: tokens in cells. */
struct png_axis {
    size_t first, tokens; /* the region's: numbers first, first + 1, ... */
    size_t cells;         /* a token each, or a bin of several */
    size_t cell;          /* pixels of a cell */
    size_t step;          /* tokens whose number is a multiple of it have a tick */
    size_t room;          /* pixels of the text beside it */
    const struct codec_labels *labels;
};

struct png_layout {
    size_t width, height;
    size_t panels, planes; /* all of them, and those of a batch item */
    size_t columns;        /* panels stand side by side in rows of so many */
    size_t panel_width, panel_height;
    size_t panels_top;
    size_t map_left, map_top; /* of the map in its panel */
    struct png_axis q, k;
    size_t bar_top;
};

/* The longest side that a map may have in a picture of so many panels, in pixels and cells. */
size_t png_longest_side(size_t panels);

/* The picture of a call's map, which has been fitted to png_longest_side(). */
void png_layout_make(const struct attn_call *call, const struct codec_request *request,
                     struct png_layout *layout);

/* Where panel `index` begins. */
void png_layout_panel(const struct png_layout *layout, size_t index, size_t *left, size_t *top);

/* The first token with a tick, from `first` on; the axis' end when there is none. */
size_t png_axis_first_tick(const struct png_axis *axis);
/* The pixel from the axis' beginning at which the tick of a token of the region stands. */
size_t png_axis_place(const struct png_axis *axis, size_t token);

#endif
