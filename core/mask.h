/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mask expressions: which key j a query i may see. An expression is a postfix program over leaves
 * (causal, window, padding, ...) and the combinators all, any, not; it is never turned into a
 * [B,Hq,Tq,Tk] array. Tiles are classified empty, full or partial before any arithmetic; only a
 * partial tile is written out, as one bit per position.
 *
 * Positions: i = row + q_offset[b] and j = key for causal, window, prefix, global, dilated and
 * block_causal; q_lengths, segments and tensors are indexed by the row itself (API of the service,
 * mask expressions).
 */
#ifndef ATTN_CORE_MASK_H
#define ATTN_CORE_MASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"
#include "core/tensor.h"

#define ATTN_MASK_MAX_DEPTH 32
#define ATTN_MASK_MAX_NODES 256

enum attn_mask_kind {
#define ATTN_MASK_KIND(code, name) ATTN_MASK_##code,
#include "core/mask_kinds.def"
#undef ATTN_MASK_KIND
    ATTN_MASK_KIND_COUNT
};

enum attn_align { ATTN_ALIGN_NONE, ATTN_ALIGN_TOP_LEFT, ATTN_ALIGN_BOTTOM_RIGHT };

/* A borrowed list of integers; count 0 with values NULL means "not given". */
struct attn_int_list {
    const int64_t *values;
    size_t count;
};

/* Where a node stands in the tree that the program spells. */
struct attn_mask_place {
    size_t parent; /* index of the combinator that takes this node's result; the root: count */
    size_t depth;  /* combinators above it */
    bool first;    /* no operand of the parent stands before it; true for the root */
};

/* One step of the postfix program. Only the fields of its kind are read; the rest are zero/none. */
struct attn_mask_node {
    enum attn_mask_kind kind;
    enum attn_align align;           /* CAUSAL */
    int64_t left, right;             /* WINDOW: i-j <= left and j-i <= right; -1 is open */
    struct attn_int_list kv_lengths; /* PADDING: j < kv_length; one per batch item or one for all */
    struct attn_int_list q_lengths;  /* PADDING: row < q_length; optional */
    struct attn_int_list lengths;    /* PREFIX: j < length */
    struct attn_int_list tokens;     /* GLOBAL: i or j is one of them; rising, each once */
    int64_t width, stride;           /* DILATED: |i-j| <= width and stride divides i-j */
    int64_t block;                   /* BLOCK_CAUSAL: floor(j/block) <= floor(i/block) */
    struct attn_tensor tensor;       /* PADDING keep [B,Tk]; SEGMENTS q ids; ALLOW, HIDE */
    struct attn_tensor kv;           /* SEGMENTS kv ids; none: the same ids as q's (Tq = Tk) */
    size_t operands;  /* ALL, ANY: how many results are taken from the stack (may be 0) */
    char pointer[64]; /* JSON pointer of this node, for messages: "/mask/all/1" */
    struct attn_mask_place place; /* set by attn_mask_validate; callers leave it alone */
};

/* The program; borrows its nodes. count 0: everything is visible. */
struct attn_mask {
    struct attn_mask_node *nodes;
    size_t count;
};

/* Keys of a cache are numbered as they are kept: from number `key` on, a multiple of the keys that
 * kernels look at together, they stand `count` positions further on. */
struct attn_key_gap {
    size_t key;
    size_t count; /* 0: there is no gap, and a key's number is its position */
};

/* The position of key j. */
static inline int64_t attn_key_position(const struct attn_key_gap *gap, size_t j) {
    return (int64_t)j + (j < gap->key ? 0 : (int64_t)gap->count);
}

/* The sizes and positions an expression is evaluated against. Borrows q_offset (1 or B values). */
struct attn_mask_space {
    size_t B, Hq, Tq, Tk;
    const int64_t *q_offset;
    size_t q_offset_count;
    struct attn_key_gap gap; /* of a cache's keys */
};

/* A rectangle of one head's [Tq,Tk] plane. */
struct attn_mask_tile {
    size_t b, h;
    size_t row, rows;
    size_t key, keys;
};

/* In the order of how much is visible. */
enum attn_tile_class { ATTN_TILE_EMPTY, ATTN_TILE_PARTIAL, ATTN_TILE_FULL };

const char *attn_mask_kind_name(enum attn_mask_kind kind);

/* True when some leaf depends on absolute positions (then Tq != Tk needs an alignment). */
bool attn_mask_uses_positions(const struct attn_mask *mask);
/* True when some leaf of a validated mask differs between heads / between batch items. That
 * q_offset differs between batch items is not the mask's to know. */
bool attn_mask_varies_by_head(const struct attn_mask *mask);
bool attn_mask_varies_by_batch(const struct attn_mask *mask);
/* True when every row of a validated mask sees one run of keys and attn_mask_key_range is tight. */
bool attn_mask_is_intervals(const struct attn_mask *mask);

/*
 * Checks shapes, dtypes, lengths (within [0,Tk] / [0,Tq]), list lengths (1 or B), window >= -1,
 * tokens (rising positions of keys), width >= 0, stride and block >= 1, the stack discipline and
 * depth; replaces each node's tensors in place by views broadcast to [B,Hq,Tq,Tk] (keep and
 * segments: [B,1,1,T]) and notes each node's place, so it runs once per mask. Alignment is request
 * validation's business. Errors: BAD_MASK with the node's pointer, or that of its member, and a
 * sentence that says how to mend it; an `allow` or `hide` of shape [B,Tk] that is not [Tq,Tk] as
 * well is refused with a hint to {"type":"padding","keep":...}.
 */
enum attn_status attn_mask_validate(struct attn_mask *mask, const struct attn_mask_space *space,
                                    struct attn_error *error);

/*
 * A conservative interval [*begin, *end) of keys outside of which rows [row, row+rows) of head h in
 * batch item b see nothing. Empty when begin == end. Costs O(nodes), and O(log tokens) for global.
 */
void attn_mask_key_range(const struct attn_mask *mask, const struct attn_mask_space *space,
                         size_t b, size_t h, size_t row, size_t rows, size_t *begin, size_t *end);

/* The run of keys that a query row sees; none where end <= begin. */
struct attn_span {
    size_t begin, end;
};

/* What attn_mask_key_range says of each of the rows [row, row + rows), quicker. */
void attn_mask_spans(const struct attn_mask *mask, const struct attn_mask_space *space, size_t b,
                     size_t row, size_t rows, struct attn_span *spans);

/*
 * Classifies a tile. Never wrong about EMPTY and FULL; may say PARTIAL of a tile that is either.
 * Exact for a single leaf, but for segments whose ids are in no order and for allow and hide:
 * their elements inside the tile are read only when `thorough`, else they count as PARTIAL. Costs
 * O(nodes), plus O(rows + keys) for keep and segments and O(log tokens) for global. A tile without
 * positions is EMPTY.
 */
enum attn_tile_class attn_mask_classify(const struct attn_mask *mask,
                                        const struct attn_mask_space *space,
                                        const struct attn_mask_tile *tile, bool thorough);

/*
 * Nanoseconds that classifying and writing out a tile may take, estimated from above: for planning.
 */
double attn_mask_classify_cost(const struct attn_mask *mask, size_t rows, size_t keys,
                               bool thorough);
double attn_mask_fill_cost(const struct attn_mask *mask, size_t rows, size_t keys);

/* 64-bit words of one row of a tile's bit picture, and of the scratch that attn_mask_fill needs
 * for a validated mask (SIZE_MAX when that does not fit). */
size_t attn_mask_row_words(size_t keys);
size_t attn_mask_scratch_words(const struct attn_mask *mask, size_t rows, size_t keys);

/*
 * Writes the tile's visibility: bit (k % 64) of bits[r * row_words + k / 64] is 1 when key `key +
 * k` is visible to row `row + r`; bits past `keys` are 0. `scratch` has attn_mask_scratch_words
 * words. The tile lies on one side of a cache's gap.
 */
void attn_mask_fill(const struct attn_mask *mask, const struct attn_mask_space *space,
                    const struct attn_mask_tile *tile, uint64_t *bits, uint64_t *scratch);

/* "causal & window(2,0)" for meta.mask; truncated with "..." when it does not fit. Returns text. */
const char *attn_mask_text(const struct attn_mask *mask, char *text, size_t size);

#endif
