/* SPDX-License-Identifier: Apache-2.0 */
/* The file: libpng's, with a palette, no filters and fast deflate, into memory of a known size. */
#include <png.h>
#include <string.h>

#include "core/checked.h"
#include "server/codecs/codec_png_canvas.h"

enum { LEVEL = 1 };

bool png_file_room(size_t width, size_t height, size_t *bytes) {
    enum { FRAME = 8192 }; /* palette, description and the other chunks */
    size_t row, whole;
    /* Deflate grows what it cannot shrink by less than an eighth, chunks included. */
    return attn_add_size(width, 1, &row) && attn_mul_size(row, height, &whole) &&
           attn_add_size(whole, whole / 8 + FRAME, bytes);
}

struct output {
    unsigned char *at;
    size_t left;
};

static void write_bytes(png_structp png, png_bytep data, png_size_t count) {
    struct output *const output = png_get_io_ptr(png);
    if (count > output->left)
        png_error(png, "the file is larger than can be");
    memcpy(output->at, data, count);
    output->at += count;
    output->left -= count;
}

static void flush(png_structp png) {
    (void)png;
}

/* libpng would print them. */
static void on_error(png_structp png, png_const_charp text) {
    (void)text;
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp text) {
    (void)png;
    (void)text;
}

static void write_palette(png_structp png, png_infop info, enum png_ramp ramp) {
    png_color colours[PNG_COLOURS];
    for (int i = 0; i < PNG_COLOURS; i++) {
        unsigned char rgb[3];
        png_colour(ramp, i, rgb);
        colours[i] = (png_color){rgb[0], rgb[1], rgb[2]};
    }
    png_set_PLTE(png, info, colours, PNG_COLOURS);
}

static void write_picture(png_structp png, png_infop info, const struct png_canvas *canvas,
                          enum png_ramp ramp, const char *description) {
    png_text text = {.compression = PNG_TEXT_COMPRESSION_NONE, .key = (char *)"Description"};
    text.text = (char *)description;
    text.text_length = strlen(description);
    png_set_IHDR(png, info, (png_uint_32)canvas->width, (png_uint_32)canvas->height, 8,
                 PNG_COLOR_TYPE_PALETTE, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    png_set_compression_level(png, LEVEL);
    png_set_filter(png, PNG_FILTER_TYPE_BASE, PNG_FILTER_NONE);
    png_set_sRGB(png, info, PNG_sRGB_INTENT_PERCEPTUAL);
    write_palette(png, info, ramp);
    png_set_text(png, info, &text, 1);
    png_write_info(png, info);
    for (size_t y = 0; y < canvas->height; y++)
        png_write_row(png, canvas->pixels + y * canvas->width);
    png_write_end(png, NULL);
}

enum attn_status png_file_write(const struct png_canvas *canvas, enum png_ramp ramp,
                                const char *description, void *file, size_t room, size_t *length,
                                struct attn_error *error) {
    struct output output = {file, room};
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, on_error, on_warning);
    png_infop info = png == NULL ? NULL : png_create_info_struct(png);
    /* Where libpng lacks memory it comes back here. */
    volatile bool failed = info == NULL;
    if (!failed) {
        if (setjmp(png_jmpbuf(png)) == 0) {
            png_set_write_fn(png, &output, write_bytes, flush);
            write_picture(png, info, canvas, ramp, description);
        } else {
            failed = true;
        }
    }
    png_destroy_write_struct(&png, &info);
    *length = room - output.left;
    return failed ? attn_fail(error, ATTN_NO_MEMORY, "", "There is no memory for the picture now.")
                  : ATTN_OK;
}
