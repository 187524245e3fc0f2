/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a whole expression says of a run of rows and of a tile. A result goes straight into what its
 * combinator has gathered so far, so a level of combinators needs one value, however many operands
 * stand there.
 */
#include "core/mask_internal.h"

static struct attn_interval larger(struct attn_interval x, struct attn_interval y) {
    return x.end - x.begin >= y.end - y.begin ? x : y;
}

/* The smallest interval around both. */
static struct attn_interval hull(struct attn_interval x, struct attn_interval y) {
    if (attn_interval_is_empty(x) || attn_interval_is_empty(y))
        return larger(x, y);
    return attn_interval_make(attn_min_size(x.begin, y.begin), attn_max_size(x.end, y.end));
}

/* The smallest interval around what x leaves of [0,Tk). */
static struct attn_interval hull_of_rest(struct attn_interval x, size_t Tk) {
    if (attn_interval_is_empty(x))
        return attn_interval_make(0, Tk);
    return attn_interval_make(x.begin == 0 ? x.end : 0, x.end == Tk ? x.begin : Tk);
}

/* The larger of the two sides that x leaves of [0,Tk). */
static struct attn_interval side_of_rest(struct attn_interval x, size_t Tk) {
    if (attn_interval_is_empty(x))
        return attn_interval_make(0, Tk);
    return larger(attn_interval_make(0, x.begin), attn_interval_make(x.end, Tk));
}

static struct attn_bounds combine_bounds(enum attn_mask_kind kind, struct attn_bounds x,
                                         struct attn_bounds y) {
    if (kind == ATTN_MASK_ALL)
        return (struct attn_bounds){attn_interval_intersect(x.some, y.some),
                                    attn_interval_intersect(x.every, y.every)};
    return (struct attn_bounds){hull(x.some, y.some), larger(x.every, y.every)};
}

/* A combinator's own result from what it has gathered, if it has operands; without them all shows
 * everything. */
static struct attn_bounds finish_bounds(const struct attn_mask_node *node, size_t Tk,
                                        const struct attn_bounds *gathered) {
    if (node->kind == ATTN_MASK_NOT)
        return (struct attn_bounds){hull_of_rest(gathered->every, Tk),
                                    side_of_rest(gathered->some, Tk)};
    if (node->operands > 0)
        return *gathered;
    const struct attn_interval keys = attn_interval_make(0, node->kind == ATTN_MASK_ALL ? Tk : 0);
    return (struct attn_bounds){keys, keys};
}

void attn_mask_key_range(const struct attn_mask *mask, const struct attn_mask_space *space,
                         size_t b, size_t h, size_t row, size_t rows, size_t *begin, size_t *end) {
    (void)h;
    /* Not cleared, which takes longer than all the rest: operands fill a level before it is read.
     */
    struct attn_bounds level[ATTN_MASK_MAX_DEPTH + 1];
    level[0].some = attn_interval_make(0, rows == 0 ? 0 : space->Tk);
    for (size_t i = 0; i < mask->count && rows > 0; i++) {
        const struct attn_mask_node *node = &mask->nodes[i];
        const struct attn_mask_leaf *leaf = attn_mask_leaf(node);
        const size_t depth = node->place.depth;
        const struct attn_bounds bounds = leaf != NULL
                                              ? leaf->bounds(node, space, b, row, rows)
                                              : finish_bounds(node, space->Tk, &level[depth + 1]);
        level[depth] = node->place.first ? bounds
                                         : combine_bounds(mask->nodes[node->place.parent].kind,
                                                          level[depth], bounds);
    }
    *begin = level[0].some.begin;
    *end = level[0].some.end;
}

void attn_mask_spans(const struct attn_mask *mask, const struct attn_mask_space *space, size_t b,
                     size_t row, size_t rows, struct attn_span *spans) {
    const struct attn_mask_leaf *only = mask->count == 1 ? attn_mask_leaf(mask->nodes) : NULL;
    if (only != NULL && only->spans != NULL) {
        only->spans(mask->nodes, space, b, row, rows, spans);
        return;
    }
    for (size_t r = 0; r < rows; r++)
        attn_mask_key_range(mask, space, b, 0, row + r, 1, &spans[r].begin, &spans[r].end);
}

static enum attn_tile_class combine_classes(enum attn_mask_kind kind, enum attn_tile_class x,
                                            enum attn_tile_class y) {
    return (kind == ATTN_MASK_ALL) == (x < y) ? x : y;
}

static enum attn_tile_class finish_class(const struct attn_mask_node *node,
                                         enum attn_tile_class gathered) {
    if (node->kind == ATTN_MASK_NOT)
        return (enum attn_tile_class)(ATTN_TILE_FULL - gathered);
    if (node->operands > 0)
        return gathered;
    return node->kind == ATTN_MASK_ALL ? ATTN_TILE_FULL : ATTN_TILE_EMPTY;
}

/* True when the operands that are left cannot change what the combinator has gathered. */
static bool is_decided(enum attn_mask_kind kind, enum attn_tile_class gathered) {
    return (kind == ATTN_MASK_ALL && gathered == ATTN_TILE_EMPTY) ||
           (kind == ATTN_MASK_ANY && gathered == ATTN_TILE_FULL);
}

enum attn_tile_class attn_mask_classify(const struct attn_mask *mask,
                                        const struct attn_mask_space *space,
                                        const struct attn_mask_tile *tile, bool thorough) {
    if (tile->rows == 0 || tile->keys == 0)
        return ATTN_TILE_EMPTY;
    if (attn_mask_tile_spans(space, tile))
        return ATTN_TILE_PARTIAL;
    enum attn_tile_class level[ATTN_MASK_MAX_DEPTH + 1] = {ATTN_TILE_FULL};
    for (size_t i = 0; i < mask->count; i++) {
        const struct attn_mask_node *node = &mask->nodes[i];
        const struct attn_mask_place *place = &node->place;
        const struct attn_mask_leaf *leaf = attn_mask_leaf(node);
        const enum attn_tile_class class = leaf != NULL
                                               ? leaf->classify(node, space, tile, thorough)
                                               : finish_class(node, level[place->depth + 1]);
        enum attn_tile_class *gathered = &level[place->depth];
        if (place->parent == mask->count) {
            *gathered = class;
            continue;
        }
        const enum attn_mask_kind kind = mask->nodes[place->parent].kind;
        *gathered = place->first ? class : combine_classes(kind, *gathered, class);
        if (is_decided(kind, *gathered))
            i = place->parent - 1;
    }
    return level[0];
}
