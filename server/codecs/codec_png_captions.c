/* SPDX-License-Identifier: Apache-2.0 */
/* What a picture says of itself: which map, how many tokens a cell holds, what colours mean. */
#include <stdio.h>

#include "server/codecs/codec_png_draw.h"

static const char *stage_text(const struct attn_call *call, const struct png_map *map) {
    static const char *const texts[] = {
        [ATTN_STAGE_RAW] = "Raw scores",
        [ATTN_STAGE_SCALED] = "Scaled scores",
        [ATTN_STAGE_CAPPED] = "Scores after softcap",
        [ATTN_STAGE_MASKED] = "Scores after bias and mask",
        [ATTN_STAGE_WEIGHTS] = "Attention weights",
    };
    return texts[map->hides ? ATTN_STAGE_MASKED : call->stage];
}

/* "16 queries", "queries 4 to 7 of 16" */
static int region_text(char *text, size_t size, size_t first, size_t count, size_t all,
                       const char *one, const char *many) {
    if (count == all || count == 0)
        return snprintf(text, size, "%zu %s", count, count == 1 ? one : many);
    if (count == 1)
        return snprintf(text, size, "%s %zu of %zu", one, first, all);
    return snprintf(text, size, "%s %zu to %zu of %zu", many, first, first + count - 1, all);
}

/* The largest bin: tokens to a cell. */
static size_t tokens_per_cell(size_t tokens, size_t cells) {
    return cells == 0 ? 0 : tokens / cells + (tokens % cells != 0);
}

static void axes_text(const struct attn_call *call, char text[PNG_CAPTION_ROOM]) {
    char queries[64], keys[64], pool[80] = "";
    region_text(queries, sizeof queries, call->map_row, call->map_rows, call->Tq, "query",
                "queries");
    region_text(keys, sizeof keys, call->map_col, call->map_cols, call->Tk, "key", "keys");
    if (call->pooled)
        snprintf(pool, sizeof pool, "; a cell is the %s of %zu x %zu",
                 call->pool == ATTN_POOL_MAX ? "max" : "mass",
                 tokens_per_cell(call->map_rows, call->pool_rows),
                 tokens_per_cell(call->map_cols, call->pool_cols));
    snprintf(text, PNG_CAPTION_ROOM, "%s down, %s across%s", queries, keys, pool);
}

void png_captions_make(const struct attn_call *call, const struct png_map *map,
                       const struct png_scale *scale, struct png_captions *captions) {
    char mask[160];
    snprintf(captions->heading, sizeof captions->heading, "%s%s%s", stage_text(call, map),
             call->mask.count == 0 ? "" : ", ",
             call->mask.count == 0 ? "" : attn_mask_text(&call->mask, mask, sizeof mask));
    axes_text(call, captions->axes);
    snprintf(captions->scale, sizeof captions->scale, "%s scale from %.9g to %.9g",
             scale->logarithmic ? "logarithmic" : "linear", scale->low, scale->high);
}
