/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes and places: how large a cell is, which ticks have text, how panels stand side by side. */
#include "server/codecs/codec_png_layout.h"

#include "core/checked.h"

enum {
    SIDE_MOST = 1024,
    AREA = 3 << 20, /* pixels of all maps together */
    CELL_MOST = 40,
    CELL_THIN = 24, /* a cell is not longer than this if the other side is shorter */
    LETTER = 7,     /* a wide guess at a letter's advance, in PNG_TEXT */
    LETTERS_MOST = 20,
    LINE = 14, /* from one line of text to the next */
    LOOSE_LINE = 22,
    TITLE = 20,
    GAP = 22, /* between panels */
    WIDTH_LEAST = 540,
    HEADER = 48,
    LEGEND = 58
};

size_t png_longest_side(size_t panels) {
    size_t side = 1;
    while (side < SIDE_MOST && (side + 1) * (side + 1) * attn_max_size(panels, 1) <= AREA)
        side++;
    return side;
}

static size_t cell_size(size_t cells, size_t side) {
    return cells == 0 ? 0 : attn_min_size(attn_max_size(side / cells, 1), CELL_MOST);
}

/* Cells are square where that fills the panel, and no strips where it does not. */
static void size_cells(struct png_layout *layout) {
    const size_t side = png_longest_side(layout->panels);
    const size_t width = cell_size(layout->k.cells, side);
    const size_t height = cell_size(layout->q.cells, side);
    layout->k.cell = attn_min_size(width, attn_max_size(height, CELL_THIN));
    layout->q.cell = attn_min_size(height, attn_max_size(width, CELL_THIN));
}

static size_t letters_of(const struct codec_label *label) {
    size_t letters = 0;
    for (size_t i = 0; i < label->length; i++)
        letters += ((unsigned char)label->text[i] & 0xC0) != 0x80;
    return letters;
}

/* Letters of the region's longest label, as far as they are shown. */
static size_t longest_label(const struct png_axis *axis) {
    size_t longest = 0;
    for (size_t list = 0; list < axis->labels->lists; list++)
        for (size_t t = 0; t < axis->tokens && longest < LETTERS_MOST; t++)
            longest = attn_max_size(
                longest, letters_of(codec_labels_at(axis->labels, list, axis->first + t)));
    return attn_min_size(longest, LETTERS_MOST);
}

static size_t digits_of(size_t number) {
    size_t digits = 1;
    for (; number >= 10; number /= 10)
        digits++;
    return digits;
}

/* 1, 2, 5, 10, 20, ...: the first that is not less. */
static size_t round_step(size_t least) {
    static const size_t factors[] = {2, 5, 10};
    size_t power = 1;
    while (power < least) {
        for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
            if (power * factors[i] >= least)
                return power * factors[i];
        power *= 10;
    }
    return power;
}

/* Every token has its text where there is a line for it; else a round number of them shares one,
 * at `pitch` pixels or more. */
static size_t step_for(const struct png_axis *axis, size_t pitch) {
    const size_t pixels = axis->cells * axis->cell;
    if (pixels == 0 || (axis->cells == axis->tokens && axis->cell >= pitch))
        return 1;
    return round_step(axis->tokens * pitch / pixels + (axis->tokens * pitch % pixels != 0));
}

/* Where not every line has its text, lines stand apart. */
static size_t step_of_lines(const struct png_axis *axis) {
    const size_t step = step_for(axis, LINE);
    return step == 1 ? step : step_for(axis, LOOSE_LINE);
}

/* Text along the axis' own direction takes `letter` pixels a letter there; across it takes a line.
 */
static void choose_text(struct png_axis *axis, bool numbers_lie_along) {
    const size_t last = axis->first + (axis->tokens == 0 ? 0 : axis->tokens - 1);
    const size_t number = digits_of(last) * LETTER;
    const bool labelled = axis->labels->lists > 0;
    const bool along = !labelled && numbers_lie_along;
    axis->step = along ? step_for(axis, number + LETTER) : step_of_lines(axis);
    axis->room = along ? (size_t)LINE : number;
    if (labelled)
        axis->room = longest_label(axis) * LETTER + (axis->step > 1 ? number + LETTER : 0);
}

/* Whether each batch item begins a row, or several share one as a whole. */
static bool keeps_batch_items(const struct png_layout *layout, size_t columns) {
    return layout->planes == layout->panels || layout->planes % columns == 0 ||
           columns % layout->planes == 0;
}

/* As many columns as give a picture about as wide as high, and few empty places in its last row. */
static size_t choose_columns(const struct png_layout *layout) {
    size_t best = 1, least = SIZE_MAX;
    for (size_t columns = 1; columns <= layout->panels; columns++) {
        if (!keeps_batch_items(layout, columns))
            continue;
        const size_t rows = layout->panels / columns + (layout->panels % columns != 0);
        const size_t width = columns * layout->panel_width, height = rows * layout->panel_height;
        const size_t longer = attn_max_size(width, height + height / 4);
        const size_t empty = rows * columns - layout->panels;
        const size_t cost = longer + longer * empty / (2 * layout->panels);
        if (cost < least) {
            least = cost;
            best = columns;
        }
    }
    return best;
}

static void stack(struct png_layout *layout) {
    layout->map_left = layout->q.room + 2 * PNG_TICK;
    layout->map_top = TITLE;
    layout->panel_width = layout->map_left + layout->k.cells * layout->k.cell + GAP;
    layout->panel_height =
        layout->map_top + layout->q.cells * layout->q.cell + 2 * PNG_TICK + layout->k.room + GAP;
    layout->columns = layout->panels == 0 ? 0 : choose_columns(layout);
    const size_t rows =
        layout->panels == 0 ? 0 : (layout->panels + layout->columns - 1) / layout->columns;
    layout->panels_top = PNG_MARGIN + HEADER;
    layout->bar_top = layout->panels_top + rows * layout->panel_height;
    layout->width =
        attn_max_size(2 * PNG_MARGIN + layout->columns * layout->panel_width, (size_t)WIDTH_LEAST);
    layout->height = layout->bar_top + LEGEND;
}

void png_layout_make(const struct attn_call *call, const struct codec_request *request,
                     struct png_layout *layout) {
    const bool empty = call->pool_rows == 0 || call->pool_cols == 0;
    const size_t planes = attn_call_map_planes(call), panels = call->B * planes;
    const size_t side = png_longest_side(panels);
    *layout = (struct png_layout){.panels = panels, .planes = planes};
    layout->q = (struct png_axis){.first = call->map_row,
                                  .tokens = call->map_rows,
                                  .cells = call->pool_rows,
                                  .labels = &request->q_labels};
    layout->k = (struct png_axis){.first = call->map_col,
                                  .tokens = call->map_cols,
                                  .cells = call->pool_cols,
                                  .labels = &request->k_labels};
    if (empty) { /* of a map without elements a side of any length may be left */
        layout->q.cells = layout->q.tokens = attn_min_size(layout->q.cells, side);
        layout->k.cells = layout->k.tokens = attn_min_size(layout->k.cells, side);
    }
    size_cells(layout);
    choose_text(&layout->q, false);
    choose_text(&layout->k, true);
    stack(layout);
}

void png_layout_panel(const struct png_layout *layout, size_t index, size_t *left, size_t *top) {
    *left = PNG_MARGIN + index % layout->columns * layout->panel_width;
    *top = layout->panels_top + index / layout->columns * layout->panel_height;
}

size_t png_axis_first_tick(const struct png_axis *axis) {
    const size_t end = axis->first + axis->tokens;
    const size_t past = axis->first % axis->step;
    return past == 0 ? axis->first : attn_min_size(axis->first + (axis->step - past), end);
}

size_t png_axis_place(const struct png_axis *axis, size_t token) {
    /* Bin r holds tokens from floor(r n / h) on, so a token's bin is the last that begins there. */
    const size_t bin = ((token - axis->first + 1) * axis->cells - 1) / axis->tokens;
    return bin * axis->cell + axis->cell / 2;
}
