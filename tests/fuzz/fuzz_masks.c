/* SPDX-License-Identifier: Apache-2.0 */
/* Mask expressions that the bytes spell, against their meaning one position at a time. */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "tests/support/mask_model.h"

enum { KEYS = 80, PARTS = 24 };

static void expect(bool holds) {
    if (!holds)
        abort();
}

static void check_bits(const struct mask_model *model, const struct attn_mask_tile *tile) {
    const size_t words = attn_mask_row_words(tile->keys);
    const size_t scratch_words = attn_mask_scratch_words(&model->mask, tile->rows, tile->keys);
    uint64_t *const bits = malloc(tile->rows * words * sizeof *bits);
    uint64_t *const scratch = malloc(scratch_words * sizeof *scratch + 1);
    size_t begin, end, seen = 0;
    expect(bits != NULL && scratch != NULL);
    attn_mask_fill(&model->mask, &model->space, tile, bits, scratch);
    attn_mask_key_range(&model->mask, &model->space, tile->b, tile->h, tile->row, tile->rows,
                        &begin, &end);
    for (size_t r = 0; r < tile->rows; r++)
        for (size_t k = 0; k < words * 64; k++) {
            const size_t key = tile->key + k;
            const bool sees =
                k < tile->keys && model_sees(model, tile->b, tile->h, tile->row + r, key);
            expect((bits[r * words + k / 64] >> k % 64 & 1) == sees);
            expect(!sees || (begin <= key && key < end));
            seen += sees;
        }
    for (int thorough = 0; thorough < 2; thorough++) {
        const enum attn_tile_class class =
            attn_mask_classify(&model->mask, &model->space, tile, thorough);
        expect(class != ATTN_TILE_EMPTY || seen == 0);
        expect(class != ATTN_TILE_FULL || seen == tile->rows * tile->keys);
    }
    free(bits);
    free(scratch);
}

static struct attn_mask_tile any_tile(struct mask_model *model) {
    struct random *const random = &model->random;
    struct attn_mask_tile tile = {.b = random_below(random, model->space.B),
                                  .h = random_below(random, model->space.Hq),
                                  .row = random_below(random, model->space.Tq),
                                  .key = random_below(random, model->space.Tk)};
    tile.rows = 1 + random_below(random, model->space.Tq - tile.row);
    tile.keys = 1 + random_below(random, model->space.Tk - tile.key);
    return tile;
}

void fuzz_masks(const uint8_t *data, size_t size) {
    enum { TILES = 3 };
    static struct mask_model model;
    struct attn_error error = {.status = ATTN_OK};
    struct random random = random_given(data, size);
    char text[200];
    const size_t keys = 1 + random_below(&random, KEYS);
    model_open(&model, random, keys);
    model_add_expression(&model, random_below(&model.random, PARTS));
    expect(attn_mask_validate(&model.mask, &model.space, &error) == ATTN_OK);
    expect(strlen(attn_mask_text(&model.mask, text, sizeof text)) < sizeof text);
    for (int n = 0; n < TILES; n++) {
        const struct attn_mask_tile tile = any_tile(&model);
        check_bits(&model, &tile);
    }
    model_close(&model);
}
