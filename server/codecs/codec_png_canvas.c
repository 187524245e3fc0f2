/* SPDX-License-Identifier: Apache-2.0 */
/* Rectangles on a picture. */
#include "server/codecs/codec_png_canvas.h"

#include <string.h>

#include "core/checked.h"

void png_canvas_fill(const struct png_canvas *canvas, size_t left, size_t top, size_t width,
                     size_t height, unsigned char index) {
    if (left >= canvas->width)
        return;
    const size_t visible = attn_min_size(width, canvas->width - left);
    for (size_t y = top; y < top + height && y < canvas->height; y++)
        memset(canvas->pixels + y * canvas->width + left, index, visible);
}

void png_canvas_hatch(const struct png_canvas *canvas, size_t left, size_t top, size_t width,
                      size_t height) {
    enum { PERIOD = 6 };
    for (size_t y = top; y < top + height && y < canvas->height; y++)
        for (size_t x = left; x < left + width && x < canvas->width; x++)
            canvas->pixels[y * canvas->width + x] =
                (x + y) % PERIOD == 0 ? (unsigned char)PNG_HATCH : (unsigned char)PNG_HIDDEN;
}

void png_canvas_frame(const struct png_canvas *canvas, size_t left, size_t top, size_t width,
                      size_t height) {
    png_canvas_fill(canvas, left - 1, top - 1, width + 2, 1, PNG_FRAME);
    png_canvas_fill(canvas, left - 1, top + height, width + 2, 1, PNG_FRAME);
    png_canvas_fill(canvas, left - 1, top - 1, 1, height + 2, PNG_FRAME);
    png_canvas_fill(canvas, left + width, top - 1, 1, height + 2, PNG_FRAME);
}
