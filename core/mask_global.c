/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Global tokens: a token that is named sees every key and is seen by every query. The list rises,
 * so two binary searches say how much of it a run of positions holds, however long it is. Refuses a
 * list that does not rise and positions at which no key stands.
 */
#include "core/mask_internal.h"

#include <string.h>

enum attn_status attn_mask_validate_global(struct attn_mask_node *node,
                                           const struct attn_mask_space *space,
                                           struct attn_error *error) {
    const struct attn_int_list *tokens = &node->tokens;
    const struct attn_mask_pointer pointer = attn_mask_member(node, "tokens");
    const size_t positions = space->Tk + space->gap.count;
    for (size_t t = 0; t < tokens->count; t++) {
        const int64_t token = tokens->values[t];
        if (token < 0 || (uint64_t)token >= positions)
            return attn_fail(error, ATTN_BAD_MASK, pointer.text,
                             "tokens holds %lld; a global token is the absolute position of a key, "
                             "at least 0 and less than Tk = %zu.",
                             (long long)token, positions);
        if (t > 0 && token <= tokens->values[t - 1])
            return attn_fail(error, ATTN_BAD_MASK, pointer.text,
                             "tokens holds %lld after %lld; they rise, and each stands there once.",
                             (long long)token, (long long)tokens->values[t - 1]);
    }
    return ATTN_OK;
}

/* How many tokens stand before `position`. */
static size_t tokens_before(const struct attn_int_list *tokens, int64_t position) {
    size_t low = 0, high = tokens->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (tokens->values[middle] < position)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Positions [first, last], and how many tokens stand there. */
struct run {
    int64_t first, last;
    size_t tokens;
};

static struct run run_of(const struct attn_int_list *tokens, int64_t first, int64_t last) {
    const size_t end = last == INT64_MAX ? tokens->count : tokens_before(tokens, last + 1);
    return (struct run){first, last, end - tokens_before(tokens, first)};
}

static struct run run_of_rows(const struct attn_mask_node *node,
                              const struct attn_mask_space *space, size_t b, size_t row,
                              size_t rows) {
    return run_of(&node->tokens, attn_mask_position(space, b, row),
                  attn_mask_position(space, b, row + rows - 1));
}

/* Nothing but tokens; several rows that stand at one end of int64 are one position. */
static bool is_full(struct run run) {
    return run.tokens > 0 && run.tokens - 1 == (uint64_t)run.last - (uint64_t)run.first;
}

/* The keys that stand at [begin, end). */
static struct attn_interval keys_at(const struct attn_mask_space *space, int64_t begin,
                                    int64_t end) {
    return attn_interval_make(attn_mask_keys_before(space, begin),
                              attn_mask_keys_before(space, end));
}

/* The keys from the first token on that are tokens without one between that is none. */
static struct attn_interval leading_tokens(const struct attn_mask_space *space,
                                           const struct attn_int_list *tokens) {
    if (tokens->count == 0)
        return attn_interval_make(0, 0);
    const size_t first = (size_t)tokens->values[0];
    size_t low = 1, high = tokens->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if ((size_t)tokens->values[middle] - first == middle)
            low = middle + 1;
        else
            high = middle;
    }
    return keys_at(space, (int64_t)first, (int64_t)(first + low));
}

struct attn_bounds attn_mask_bounds_global(const struct attn_mask_node *node,
                                           const struct attn_mask_space *space, size_t b,
                                           size_t row, size_t rows) {
    const struct attn_int_list *tokens = &node->tokens;
    const struct attn_interval keys = attn_interval_make(0, space->Tk);
    const struct run run = run_of_rows(node, space, b, row, rows);
    if (is_full(run))
        return (struct attn_bounds){.some = keys, .every = keys};
    struct attn_bounds bounds = {.some = keys, .every = leading_tokens(space, tokens)};
    if (run.tokens == 0 && tokens->count > 0)
        bounds.some = keys_at(space, tokens->values[0], tokens->values[tokens->count - 1] + 1);
    else if (run.tokens == 0)
        bounds.some = attn_interval_make(0, 0);
    return bounds;
}

enum attn_tile_class attn_mask_classify_global(const struct attn_mask_node *node,
                                               const struct attn_mask_space *space,
                                               const struct attn_mask_tile *tile, bool thorough) {
    (void)thorough;
    const struct run rows = run_of_rows(node, space, tile->b, tile->row, tile->rows);
    const int64_t first = attn_mask_key_position(space, tile->key);
    const struct run keys = run_of(&node->tokens, first, first + (int64_t)tile->keys - 1);
    if (rows.tokens == 0 && keys.tokens == 0)
        return ATTN_TILE_EMPTY;
    return is_full(rows) || is_full(keys) ? ATTN_TILE_FULL : ATTN_TILE_PARTIAL;
}

/* What a row sees that is no token itself. */
static void show_tokens(const struct attn_int_list *tokens, int64_t key,
                        const struct attn_mask_tile *tile, uint64_t *row) {
    for (size_t t = tokens_before(tokens, key); t < tokens->count; t++) {
        const size_t k = (size_t)(tokens->values[t] - key);
        if (k >= tile->keys)
            break;
        row[k / 64] |= UINT64_C(1) << k % 64;
    }
}

void attn_mask_fill_global(const struct attn_mask_node *node, const struct attn_mask_space *space,
                           const struct attn_mask_tile *tile, uint64_t *bits) {
    const struct attn_int_list *tokens = &node->tokens;
    const size_t words = attn_mask_row_words(tile->keys);
    const uint64_t *plain = NULL; /* a row that is no token; they are all alike */
    size_t next = tokens_before(tokens, attn_mask_position(space, tile->b, tile->row));
    memset(bits, 0, tile->rows * words * sizeof *bits);
    for (size_t r = 0; r < tile->rows && tile->keys > 0; r++) {
        const int64_t position = attn_mask_position(space, tile->b, tile->row + r);
        uint64_t *row = bits + r * words;
        while (next < tokens->count && tokens->values[next] < position)
            next++;
        if (next < tokens->count && tokens->values[next] == position) {
            attn_bits_set(row, 0, tile->keys);
        } else if (plain != NULL) {
            memcpy(row, plain, words * sizeof *row);
        } else {
            show_tokens(tokens, attn_mask_key_position(space, tile->key), tile, row);
            plain = row;
        }
    }
}
