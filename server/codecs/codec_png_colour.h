/* SPDX-License-Identifier: Apache-2.0 */
/* What is a colour in a picture: an index into its palette, and which value has which. */
#ifndef SERVER_CODECS_CODEC_PNG_COLOUR_H
#define SERVER_CODECS_CODEC_PNG_COLOUR_H

#include "core/call.h"
#include "core/result.h"

/* The palette: a ramp, then ink from paper to black, then what is outside of both. */
enum {
    PNG_LEVELS = 241, /* of a ramp; odd, so that a diverging one has a middle */
    PNG_PAPER = PNG_LEVELS,
    PNG_INKS = 10,
    PNG_INK = PNG_PAPER + PNG_INKS - 1,
    PNG_HIDDEN, /* the hatch of what the mask hides: its ground, and its lines */
    PNG_HATCH,
    PNG_NOT_FINITE,
    PNG_FRAME,
    PNG_COLOURS
};

enum png_ramp { PNG_SEQUENTIAL, PNG_DIVERGING, PNG_RAMPS };

/* Red, green and blue (codec_png_ramps.c). */
extern const unsigned char png_ramps[PNG_RAMPS][PNG_LEVELS][3];

/* From values to levels. */
struct png_scale {
    enum png_ramp ramp;
    double low, high; /* what the ends of the ramp stand for */
    bool logarithmic; /* from low to high by factors; what is less than low has its colour */
    bool any_hidden, any_not_finite;
};

/* A map that is drawn, and what tells its hidden elements from others. */
struct png_map {
    const struct attn_result_tensor *values;
    const struct attn_result_tensor *scores; /* of weights: -inf where they are hidden; or NULL */
    bool hides;                              /* -inf in `values` is hidden too */
};

/* The map among the results of a call that was selected for a picture. */
struct png_map png_map_of(const struct attn_call *call, const struct attn_result *result);
size_t png_map_elements(const struct png_map *map);

/* The range of the map's finite values, over all panels so that they compare. */
void png_scale_of(const struct png_map *map, const struct attn_call *call, struct png_scale *scale);
/* The palette's index for a value, or for an element, which may be hidden. */
unsigned char png_scale_index(const struct png_scale *scale, double value);
unsigned char png_map_index(const struct png_map *map, const struct png_scale *scale,
                            size_t element);
/* Values that stand beside the colour bar, rising: its ends, and round ones between them. Returns
   how many. */
enum { PNG_NUMBERS_MOST = 8 };
size_t png_scale_numbers(const struct png_scale *scale, double numbers[PNG_NUMBERS_MOST]);

/* Red, green and blue of an index. */
void png_colour(enum png_ramp ramp, int index, unsigned char rgb[3]);

#endif
