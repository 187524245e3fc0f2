/* SPDX-License-Identifier: Apache-2.0 */
/* Drawing: cells, then what tells which they are. */
#include "server/codecs/codec_png_draw.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/checked.h"

enum { LETTER_DROP = 4 }; /* from the middle of a line of PNG_TEXT down to its letters' foot */

static void write_text(const struct png_drawing *drawing, size_t x, size_t y,
                       const struct png_style *style, const char *text) {
    png_text_write(drawing->text, drawing->canvas, x, y, style, text, strlen(text));
}

static void draw_cell(const struct png_drawing *drawing, size_t x, size_t y, unsigned char index) {
    const size_t width = drawing->layout->k.cell, height = drawing->layout->q.cell;
    if (index == PNG_HIDDEN)
        png_canvas_hatch(drawing->canvas, x, y, width, height);
    else
        png_canvas_fill(drawing->canvas, x, y, width, height, index);
}

static void draw_cells(const struct png_drawing *drawing, size_t panel, size_t left, size_t top) {
    const struct png_axis *const q = &drawing->layout->q, *const k = &drawing->layout->k;
    const size_t elements = png_map_elements(drawing->map);
    for (size_t row = 0; row < q->cells && elements > 0; row++)
        for (size_t col = 0; col < k->cells; col++)
            draw_cell(drawing, left + col * k->cell, top + row * q->cell,
                      png_map_index(drawing->map, drawing->scale,
                                    (panel * q->cells + row) * k->cells + col));
}

/* A tick's text: the token's label, its number, or where labels have gaps both. */
static size_t tick_text(const struct png_axis *axis, size_t batch, size_t token, char *text,
                        size_t size) {
    const struct codec_label *const label = codec_labels_at(axis->labels, batch, token);
    size_t length = 0;
    if (label == NULL || axis->step > 1)
        length = (size_t)snprintf(text, size, label == NULL ? "%zu" : "%zu ", token);
    if (label != NULL) {
        memcpy(text + length, label->text, label->length);
        length += label->length;
    }
    return length;
}

enum { TICK_TEXT_ROOM = 96 };

static void draw_rows_axis(const struct png_drawing *drawing, size_t batch, size_t left,
                           size_t top) {
    const struct png_axis *const axis = &drawing->layout->q;
    const struct png_style style = {PNG_TEXT, PNG_RIGHTWARDS, PNG_END, axis->room};
    char text[TICK_TEXT_ROOM];
    for (size_t t = png_axis_first_tick(axis); t < axis->first + axis->tokens; t += axis->step) {
        const size_t y = top + png_axis_place(axis, t);
        const size_t length = tick_text(axis, batch, t, text, sizeof text);
        png_canvas_fill(drawing->canvas, left - 1 - PNG_TICK, y, PNG_TICK, 1, PNG_FRAME);
        png_text_write(drawing->text, drawing->canvas, left - 2 * PNG_TICK, y + LETTER_DROP, &style,
                       text, length);
    }
}

static void draw_columns_axis(const struct png_drawing *drawing, size_t batch, size_t left,
                              size_t bottom) {
    const struct png_axis *const axis = &drawing->layout->k;
    const bool upwards = axis->labels->lists > 0;
    const struct png_style style = {PNG_TEXT, upwards ? PNG_UPWARDS : PNG_RIGHTWARDS,
                                    upwards ? PNG_END : PNG_MIDDLE,
                                    upwards ? axis->room : drawing->layout->panel_width};
    const size_t foot = bottom + 2 * PNG_TICK;
    char text[TICK_TEXT_ROOM];
    for (size_t t = png_axis_first_tick(axis); t < axis->first + axis->tokens; t += axis->step) {
        const size_t x = left + png_axis_place(axis, t);
        const size_t length = tick_text(axis, batch, t, text, sizeof text);
        png_canvas_fill(drawing->canvas, x, bottom + 1, 1, PNG_TICK, PNG_FRAME);
        png_text_write(drawing->text, drawing->canvas, upwards ? x + LETTER_DROP : x,
                       upwards ? foot : foot + PNG_TEXT, &style, text, length);
    }
}

/* "batch 1, head 3"; what there is one of is not said. */
static void panel_title(const struct attn_call *call, size_t batch, size_t place, char *text,
                        size_t size) {
    size_t at = 0;
    text[0] = 0;
    if (call->B > 1)
        at = (size_t)snprintf(text, size, "batch %zu, ", batch);
    if (call->map_over_heads != ATTN_HEADS_EACH)
        snprintf(text + at, size - at, "%s of %zu heads",
                 call->map_over_heads == ATTN_HEADS_MEAN ? "mean" : "max", call->Hq);
    else
        snprintf(text + at, size - at, "head %zu", attn_call_map_head(call, place));
}

static void draw_panel(const struct png_drawing *drawing, size_t batch, size_t place) {
    const struct png_layout *const layout = drawing->layout;
    const struct png_style style = {PNG_TEXT + 1, PNG_RIGHTWARDS, PNG_START, layout->panel_width};
    const size_t panel = batch * attn_call_map_planes(drawing->call) + place;
    const size_t width = layout->k.cells * layout->k.cell;
    const size_t height = layout->q.cells * layout->q.cell;
    char title[96];
    size_t left, top;
    png_layout_panel(layout, panel, &left, &top);
    left += layout->map_left;
    top += layout->map_top;
    panel_title(drawing->call, batch, place, title, sizeof title);
    write_text(drawing, left, top - 6, &style, title);
    png_canvas_frame(drawing->canvas, left, top, width, height);
    draw_cells(drawing, panel, left, top);
    draw_rows_axis(drawing, batch, left, top);
    draw_columns_axis(drawing, batch, left, top + height);
}

/* A tick of the colour bar at a value, with its number below. */
static void draw_bar_number(const struct png_drawing *drawing, size_t left, double value) {
    const struct png_style style = {PNG_TEXT, PNG_RIGHTWARDS, PNG_MIDDLE, PNG_BAR_WIDTH};
    const size_t level = png_scale_index(drawing->scale, value);
    const size_t x = left + level * (PNG_BAR_WIDTH - 1) / (PNG_LEVELS - 1);
    const size_t bottom = drawing->layout->bar_top + PNG_BAR_HEIGHT;
    const bool and_less = drawing->scale->logarithmic && value == drawing->scale->low;
    char text[32];
    snprintf(text, sizeof text, "%s%.3g", and_less ? "\u2264 " : "", value);
    png_canvas_fill(drawing->canvas, x, bottom + 1, 1, PNG_TICK, PNG_FRAME);
    write_text(drawing, x, bottom + 2 * PNG_TICK + PNG_TEXT, &style, text);
}

static void draw_bar(const struct png_drawing *drawing, size_t left) {
    const size_t top = drawing->layout->bar_top;
    double numbers[PNG_NUMBERS_MOST];
    const size_t count = png_scale_numbers(drawing->scale, numbers);
    png_canvas_frame(drawing->canvas, left, top, PNG_BAR_WIDTH, PNG_BAR_HEIGHT);
    for (size_t x = 0; x < PNG_BAR_WIDTH; x++)
        png_canvas_fill(drawing->canvas, left + x, top, 1, PNG_BAR_HEIGHT,
                        (unsigned char)(x * PNG_LEVELS / PNG_BAR_WIDTH));
    for (size_t i = 0; i < count; i++)
        draw_bar_number(drawing, left, numbers[i]);
}

/* A patch of a colour outside of the ramp, and what it means. */
static void draw_patch(const struct png_drawing *drawing, size_t left, unsigned char index,
                       const char *meaning) {
    const struct png_style style = {PNG_TEXT, PNG_RIGHTWARDS, PNG_START, PNG_BAR_WIDTH};
    const size_t top = drawing->layout->bar_top, size = PNG_BAR_HEIGHT;
    png_canvas_frame(drawing->canvas, left, top, size, size);
    if (index == PNG_HIDDEN)
        png_canvas_hatch(drawing->canvas, left, top, size, size);
    else
        png_canvas_fill(drawing->canvas, left, top, size, size, index);
    write_text(drawing, left + size + 6, top + size - 2, &style, meaning);
}

static void draw_legend(const struct png_drawing *drawing) {
    enum { PATCH = 80, INDENT = 20 };
    const struct png_style style = {PNG_TEXT, PNG_RIGHTWARDS, PNG_START, PNG_BAR_WIDTH};
    size_t left = PNG_MARGIN + INDENT;
    draw_bar(drawing, left);
    left += PNG_BAR_WIDTH + PNG_MARGIN;
    if (drawing->scale->logarithmic) {
        write_text(drawing, left, drawing->layout->bar_top + PNG_BAR_HEIGHT - 2, &style,
                   "log scale");
        left += PATCH;
    }
    if (drawing->scale->any_hidden) {
        draw_patch(drawing, left, PNG_HIDDEN, "hidden");
        left += PATCH;
    }
    if (drawing->scale->any_not_finite)
        draw_patch(drawing, left, PNG_NOT_FINITE, "NaN or infinite");
}

void png_draw(const struct png_drawing *drawing) {
    const struct png_canvas *const canvas = drawing->canvas;
    const size_t room = canvas->width - 2 * PNG_MARGIN;
    const struct png_style heading = {PNG_HEADING, PNG_RIGHTWARDS, PNG_START, room};
    const struct png_style line = {PNG_TEXT + 1, PNG_RIGHTWARDS, PNG_START, room};
    memset(canvas->pixels, PNG_PAPER, canvas->width * canvas->height);
    write_text(drawing, PNG_MARGIN, PNG_MARGIN + PNG_HEADING - 2, &heading,
               drawing->captions->heading);
    write_text(drawing, PNG_MARGIN, PNG_MARGIN + 2 * PNG_HEADING + 4, &line,
               drawing->captions->axes);
    for (size_t batch = 0; batch < drawing->call->B; batch++)
        for (size_t place = 0; place < attn_call_map_planes(drawing->call); place++)
            draw_panel(drawing, batch, place);
    draw_legend(drawing);
}
