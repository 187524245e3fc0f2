/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text by FreeType. A face is no thread's but its drawing's; it is opened on the typeface's bytes,
 * which all drawings share. Letters are not hinted and not shaped: they stand one after the other
 * at parts of a pixel.
 */
#include <ft2build.h>
#include FT_FREETYPE_H
#include FT_OUTLINE_H

#include <stdio.h>
#include <stdlib.h>

#include "core/checked.h"
#include "server/codecs/codec_png_canvas.h"

enum {
    FONT_MOST = 64 << 20,
    PART = 64, /* of a pixel, FreeType's unit */
    REPLACEMENT = 0xFFFD,
    ELLIPSIS = 0x2026
};

struct png_text {
    FT_Library library;
    FT_Face face;
    int size; /* that the face is set to */
};

/* Letters that are left. */
struct letters {
    const unsigned char *at, *end;
};

struct png_text *png_text_open(const struct typeface *typeface) {
    struct png_text *const text = typeface == NULL ? NULL : calloc(1, sizeof *text);
    if (text == NULL)
        return NULL;
    if (FT_Init_FreeType(&text->library) == 0 &&
        FT_New_Memory_Face(text->library, typeface->bytes, (FT_Long)typeface->length, 0,
                           &text->face) == 0 &&
        FT_IS_SCALABLE(text->face))
        return text;
    png_text_close(text);
    return NULL;
}

void png_text_close(struct png_text *text) {
    if (text == NULL)
        return;
    if (text->library != NULL)
        FT_Done_FreeType(text->library); /* and its face */
    free(text);
}

static bool read_whole(struct typeface *typeface, FILE *file) {
    enum { MORE = 1 << 20 };
    size_t got;
    do {
        unsigned char *const larger = realloc(typeface->bytes, typeface->length + MORE);
        if (larger == NULL)
            return false;
        typeface->bytes = larger;
        got = fread(larger + typeface->length, 1, MORE, file);
        typeface->length += got;
    } while (got > 0 && typeface->length <= FONT_MOST);
    return got == 0 && ferror(file) == 0;
}

bool typeface_load(struct typeface *typeface, const char *path) {
    *typeface = (struct typeface){NULL, 0};
    FILE *const file = fopen(path, "rb");
    if (file == NULL)
        return false;
    const bool whole = read_whole(typeface, file);
    fclose(file);
    struct png_text *const text = whole ? png_text_open(typeface) : NULL;
    const bool is_font = text != NULL;
    png_text_close(text);
    if (!is_font)
        typeface_free(typeface);
    return is_font;
}

void typeface_free(struct typeface *typeface) {
    free(typeface->bytes);
    *typeface = (struct typeface){NULL, 0};
}

/* The next character of UTF-8; a byte that begins none is one by itself. */
static uint32_t next_character(struct letters *letters) {
    static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    const unsigned first = *letters->at++;
    const size_t more = first < 0x80   ? 0
                        : first < 0xC2 ? 4
                        : first < 0xE0 ? 1
                        : first < 0xF0 ? 2
                        : first < 0xF5 ? 3
                                       : 4;
    if (more > 3 || (size_t)(letters->end - letters->at) < more)
        return REPLACEMENT;
    uint32_t character = more == 0 ? first : first & (0x3Fu >> more);
    for (size_t i = 0; i < more; i++) {
        if ((letters->at[i] & 0xC0) != 0x80)
            return REPLACEMENT;
        character = character << 6 | (letters->at[i] & 0x3Fu);
    }
    if (character < least[more] || character > 0x10FFFF || (character & 0xFFFFF800) == 0xD800)
        return REPLACEMENT;
    letters->at += more;
    return character;
}

/* What is drawn for a character: tokens are often ends of lines and tabs. 0: nothing. */
static uint32_t shown_as(uint32_t character) {
    static const struct {
        uint32_t first, last, shown;
    } ranges[] = {
        {'\t', '\t', 0x21E5},   {'\n', '\n', 0x21B5},      {'\r', '\r', 0x21B5},
        {0, 0x1F, REPLACEMENT}, {0x7F, 0x9F, REPLACEMENT}, {0xAD, 0xAD, 0},
        {0x61C, 0x61C, 0},      {0x200B, 0x200F, 0},       {0x2028, 0x2029, 0x21B5},
        {0x202A, 0x202E, 0},    {0x2060, 0x206F, 0},       {0xFE00, 0xFE0F, 0},
        {0xFEFF, 0xFEFF, 0},    {0xFFF9, 0xFFFB, 0},       {0xE0000, 0xE0FFF, 0},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (character >= ranges[i].first && character <= ranges[i].last)
            return ranges[i].shown;
    return character;
}

/* The next glyph into the face's slot, moved to the right by a part of a pixel; its advance in
 * parts, or -1 when there is nothing to draw. */
static long load_glyph(struct png_text *text, uint32_t character) {
    const uint32_t shown = shown_as(character);
    if (shown == 0 ||
        FT_Load_Char(text->face, shown, FT_LOAD_NO_HINTING | FT_LOAD_NO_BITMAP) != 0 ||
        text->face->glyph->format != FT_GLYPH_FORMAT_OUTLINE)
        return -1;
    return text->face->glyph->advance.x;
}

/* What of the letters fits into `room` pixels, and how wide that is, in parts. */
static long measure(struct png_text *text, struct letters *letters, size_t room, bool *cut) {
    const long most = (long)room * PART;
    const long dots = load_glyph(text, ELLIPSIS);
    struct letters rest = *letters, fitting = *letters;
    long width = 0, fitting_width = 0;
    fitting.end = letters->at;
    while (rest.at < rest.end && width <= most) {
        const long advance = load_glyph(text, next_character(&rest));
        width += advance < 0 ? 0 : advance;
        if (width + dots <= most) {
            fitting.end = rest.at;
            fitting_width = width;
        }
    }
    *cut = width > most;
    if (!*cut)
        return width;
    *letters = fitting;
    return fitting_width + dots;
}

static void put_ink(const struct png_canvas *canvas, ptrdiff_t x, ptrdiff_t y, unsigned coverage) {
    if (x < 0 || y < 0 || (size_t)x >= canvas->width || (size_t)y >= canvas->height)
        return;
    unsigned char *const pixel = canvas->pixels + (size_t)y * canvas->width + (size_t)x;
    const unsigned ink = PNG_PAPER + (coverage * (PNG_INKS - 1) + 127) / 255;
    if (*pixel < PNG_PAPER || *pixel > PNG_INK || *pixel < ink)
        *pixel = (unsigned char)ink;
}

/* Where a text is, and how far it has come along its line. */
struct pen {
    const struct png_canvas *canvas;
    ptrdiff_t x, y;
    enum png_direction direction;
    long along; /* parts; less than 0 before (x, y) */
};

static void put_bitmap(const struct pen *pen, FT_GlyphSlot slot, ptrdiff_t along) {
    for (unsigned row = 0; row < slot->bitmap.rows; row++)
        for (unsigned column = 0; column < slot->bitmap.width; column++) {
            const unsigned char ink =
                slot->bitmap.buffer[(ptrdiff_t)row * slot->bitmap.pitch + (ptrdiff_t)column];
            const ptrdiff_t right = along + slot->bitmap_left + (ptrdiff_t)column;
            const ptrdiff_t down = (ptrdiff_t)row - slot->bitmap_top;
            if (ink > 0 && pen->direction == PNG_RIGHTWARDS)
                put_ink(pen->canvas, pen->x + right, pen->y + down, ink);
            else if (ink > 0)
                put_ink(pen->canvas, pen->x + down, pen->y - right, ink);
        }
}

static void put_character(struct png_text *text, struct pen *pen, uint32_t character) {
    const long advance = load_glyph(text, character);
    const long part = ((pen->along % PART) + PART) % PART;
    if (advance < 0)
        return;
    FT_Outline_Translate(&text->face->glyph->outline, part, 0);
    if (FT_Render_Glyph(text->face->glyph, FT_RENDER_MODE_NORMAL) == 0 &&
        text->face->glyph->bitmap.pixel_mode == FT_PIXEL_MODE_GRAY)
        put_bitmap(pen, text->face->glyph, (pen->along - part) / PART);
    pen->along += advance;
}

void png_text_write(struct png_text *text, const struct png_canvas *canvas, size_t x, size_t y,
                    const struct png_style *style, const char *letters, size_t length) {
    const unsigned char *const first = (const unsigned char *)letters;
    struct letters rest = {first, first + length};
    bool cut;
    if (text == NULL)
        return;
    if (text->size != style->size && FT_Set_Pixel_Sizes(text->face, 0, (FT_UInt)style->size) != 0)
        return;
    text->size = style->size;
    const long width = measure(text, &rest, style->room, &cut);
    struct pen pen = {canvas, (ptrdiff_t)x, (ptrdiff_t)y, style->direction, 0};
    pen.along = style->anchor == PNG_START ? 0 : style->anchor == PNG_END ? -width : -width / 2;
    while (rest.at < rest.end)
        put_character(text, &pen, next_character(&rest));
    if (cut)
        put_character(text, &pen, ELLIPSIS);
}
