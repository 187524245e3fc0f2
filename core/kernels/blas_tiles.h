/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tiles and their scores for one real type, and the maps made of them; included by blas.c with
 *   REAL, SUFFIX, ROWOPS (member of struct attn_rowops), GEMM, LOAD, REAL_DTYPE,
 *   QUERY_ROW, KEY_ROW and VALUE_ROW (operand.h's),
 *   REAL_MIN and REAL_MAX, the smallest and the largest positive normal number, and
 *   WIDENS, whether rows with scores that are not finite are done again in a wider type.
 * blas_tiles_attend.h, which takes these definitions back, comes after it.
 *
 *   S = Q K^T                      [M][keys], one product for all heads of the group;
 *                                  or S = sum of w tanh(q + k), as the call's score says
 *   S -> softcap, ALiBi, bias, hidden := -inf
 */
#define F(name) BLAS_PASTE(name, SUFFIX)

/* The workspace, cut up; M = G * row_tile. */
struct F(tiles) {
    const struct attn_task *task;
    const struct attn_rowops *ops;
    size_t M, G;
    REAL *q;        /* [M][D], scaled or not */
    REAL q_largest; /* magnitude in it */
    REAL *s;        /* [M][key_tile] */
    REAL *panel;    /* [key_tile][max(D, Dv)] a widened or cleaned block of k or v */
    REAL *addend;   /* [key_tile] one row of bias */
    REAL *m, *l;    /* [M] running maximum and sum */
    REAL *w;        /* [G + 1][D] of an additive score: weights, scaled or not; and one row of k */
    REAL *fit;      /* [M] what weights are multiplied by before they meet V; see fit_overflows */
    uint64_t *bits; /* [row_tile][words of key_tile] */
    uint64_t *scratch;
    REAL *o; /* [M][Dv]; NULL in scores */
};

/* A block of k or v as a BLAS operand. */
struct F(block) {
    const REAL *data;
    int stride;
};

static struct F(tiles) F(tiles_open)(const struct attn_task *task, void *memory) {
    const struct attn_call *call = task->call;
    struct F(tiles) tiles = {.task = task, .ops = attn_rowops_best()};
    char *cursor = memory;
    tiles.G = attn_call_group(call);
    tiles.M = tiles.G * task->rows;
    const struct workspace_areas areas = workspace_areas(call, &task->grid, sizeof(REAL));
    tiles.q = take_area(&cursor, areas.q);
    tiles.s = take_area(&cursor, areas.s);
    tiles.panel = take_area(&cursor, areas.panel);
    tiles.addend = take_area(&cursor, areas.addend);
    tiles.m = take_area(&cursor, areas.row);
    tiles.l = take_area(&cursor, areas.row);
    tiles.fit = take_area(&cursor, areas.row);
    tiles.w = take_area(&cursor, areas.w);
    tiles.bits = take_area(&cursor, areas.bits);
    tiles.scratch = take_area(&cursor, areas.scratch);
    return tiles;
}

/* row := row * scale. The product may fit a real where the scale alone does not. */
static void F(scale_query)(const struct F(tiles) * tiles, REAL *row, double scale) {
    const size_t D = tiles->task->call->D;
    const double magnitude = fabs(scale);
    if (scale == 0 || ((double)REAL_MIN <= magnitude && magnitude <= (double)REAL_MAX)) {
        tiles->ops->ROWOPS.scale(row, D, (REAL)scale);
        return;
    }
    for (size_t d = 0; d < D; d++)
        row[d] = (REAL)((double)row[d] * scale);
}

/* Puts a row where it belongs, unless it has been loaded there. */
static void F(place_row)(const REAL *row, size_t width, REAL *place) {
    if (row != place && width > 0)
        memcpy(place, row, width * sizeof *place);
}

/* Packs the group's query rows, multiplied by `scale`. */
static void F(pack_queries)(struct F(tiles) * tiles, double scale) {
    const struct attn_task *task = tiles->task;
    const size_t D = task->call->D;
    for (size_t row = 0; row < tiles->M; row++) {
        REAL *place = tiles->q + row * D;
        const REAL *from =
            QUERY_ROW(task, attn_score_row_head(task, row), attn_score_row_query(task, row), place);
        F(place_row)(from, D, place);
        if (scale != 1)
            F(scale_query)(tiles, place, scale);
    }
    tiles->q_largest = tiles->ops->ROWOPS.magnitude(tiles->q, tiles->M * D);
}

/* The group's weights of an additive score, times `scale`. */
static void F(pack_weights)(const struct F(tiles) * tiles, double scale) {
    const struct attn_task *task = tiles->task;
    const struct attn_tensor *w = &task->call->w;
    const size_t D = task->call->D;
    for (size_t g = 0; g < tiles->G; g++) {
        const ptrdiff_t at = attn_tensor_offset(w, 0, 0, task->hkv * tiles->G + g, 0);
        LOAD(w->dtype, (const char *)w->data + at * (ptrdiff_t)attn_dtype_size(w->dtype),
             w->stride[3], D, tiles->w + g * D);
        if (scale != 1)
            F(scale_query)(tiles, tiles->w + g * D, scale);
    }
}

/* What scores are made of besides keys; `scale` is q's, or that of the weights of q and k. */
static void F(pack_scoring)(struct F(tiles) * tiles, double scale) {
    const bool additive = tiles->task->call->score == ATTN_SCORE_ADDITIVE;
    F(pack_queries)(tiles, additive ? 1 : scale);
    if (additive)
        F(pack_weights)(tiles, scale);
}

/* Rows [key, key + keys) of k or v: in place where BLAS can read them, else loaded. */
static struct F(block)
    F(load_block)(const struct F(tiles) * tiles, bool values, size_t key, size_t keys) {
    const struct attn_task *task = tiles->task;
    const struct attn_call *call = task->call;
    const struct attn_operand *operand = values ? &call->v : &call->k;
    const size_t width = values ? call->Dv : call->D;
    const bool as_it_is = values || task->rotation == NULL;
    if (as_it_is && operand->dtype == REAL_DTYPE && fits_blas(operand, width))
        return (struct F(block)){attn_operand_row(operand, task->b, task->hkv, key),
                                 (int)operand->st};
    for (size_t j = 0; j < keys; j++) {
        REAL *place = tiles->panel + j * width;
        const REAL *from = values ? VALUE_ROW(task, key + j, place) : KEY_ROW(task, key + j, place);
        F(place_row)(from, width, place);
    }
    return (struct F(block)){tiles->panel, (int)attn_max_size(width, 1)};
}

/*
 * A float that is not finite may stand for a score that is one in double, so the row has to be done
 * in double: it is told by NaN, which nothing but a mask takes away. -inf would seem hidden.
 */
static void F(mark_lost)(REAL *s, size_t n) {
    for (size_t e = 0; e < n; e++)
        s[e] = isfinite(s[e]) ? s[e] : (REAL)NAN;
}

/* Whether a product of the piece, or a part of its sum, may exceed the reals: told from the largest
 * elements of q and k, or from the products themselves where those are fewer. */
static bool F(may_overflow)(const struct F(tiles) * tiles, const struct piece *piece,
                            struct F(block) k) {
    const size_t D = tiles->task->call->D;
    REAL largest = 0;
    if (piece->rows < D)
        return isinf(tiles->ops->ROWOPS.magnitude(tiles->s, piece->rows * piece->keys));
    if ((size_t)k.stride == D)
        largest = tiles->ops->ROWOPS.magnitude(k.data, piece->keys * D);
    for (size_t j = 0; j < piece->keys && (size_t)k.stride != D; j++) {
        const REAL one = tiles->ops->ROWOPS.magnitude(k.data + j * (size_t)k.stride, D);
        largest = one > largest ? one : largest;
    }
    return (double)D * (double)largest * (double)tiles->q_largest > (double)REAL_MAX / 2;
}

/* S = Q K^T for a piece; rows of S are `keys` apart. */
static void F(multiply_keys)(const struct F(tiles) * tiles, const struct piece *piece) {
    const size_t D = tiles->task->call->D;
    if (D == 0) {
        memset(tiles->s, 0, piece->rows * piece->keys * sizeof(REAL));
        return;
    }
    const struct F(block) k = F(load_block)(tiles, false, piece->key, piece->keys);
    GEMM(CblasRowMajor, CblasNoTrans, CblasTrans, (int)piece->rows, (int)piece->keys, (int)D, 1,
         tiles->q + piece->row * D, (int)D, k.data, k.stride, 0, tiles->s, (int)piece->keys);
    if (WIDENS && F(may_overflow)(tiles, piece, k))
        F(mark_lost)(tiles->s, piece->rows * piece->keys);
}

/* S = sum of w tanh(q + k) for a piece, from keys that lie side by side. */
static void F(add_keys)(const struct F(tiles) * tiles, const struct piece *piece) {
    const struct attn_task *task = tiles->task;
    const size_t D = task->call->D, keys = piece->keys;
    for (size_t j = 0; j < keys; j++) {
        const REAL *k = KEY_ROW(task, piece->key + j, tiles->w + tiles->G * D);
        for (size_t d = 0; d < D; d++)
            tiles->panel[d * keys + j] = k[d];
    }
    for (size_t r = 0; r < piece->rows; r++) {
        const size_t row = piece->row + r;
        tiles->ops->ROWOPS.tanh_sum(tiles->s + r * keys, keys, tiles->q + row * D,
                                    tiles->w + row / task->rows * D, tiles->panel, keys, D);
    }
    if (WIDENS && !tiles->ops->ROWOPS.all_finite(tiles->s, piece->rows * keys))
        F(mark_lost)(tiles->s, piece->rows * keys);
}

/* S of a piece by the call's score: raw, or scaled as q or the weights were packed. */
static void F(score_keys)(const struct F(tiles) * tiles, const struct piece *piece) {
    if (tiles->task->call->score == ATTN_SCORE_ADDITIVE)
        F(add_keys)(tiles, piece);
    else
        F(multiply_keys)(tiles, piece);
}

static void F(add_bias)(const struct F(tiles) * tiles, size_t h, size_t t, size_t key, size_t keys,
                        REAL *s) {
    const struct attn_tensor *bias = &tiles->task->call->bias;
    const ptrdiff_t at = attn_tensor_offset(bias, tiles->task->b, h, t, key);
    const char *from = (const char *)bias->data + at * (ptrdiff_t)attn_dtype_size(bias->dtype);
    LOAD(bias->dtype, from, bias->stride[3], keys, tiles->addend);
    const double *exact = (const void *)from;
    for (size_t j = 0; j < keys && WIDENS && bias->dtype == ATTN_FLOAT64; j++)
        if (isinf(tiles->addend[j]) && isfinite(exact[(ptrdiff_t)j * bias->stride[3]]))
            tiles->addend[j] = (REAL)NAN; /* lost */
    tiles->ops->ROWOPS.add_bias(s, tiles->addend, keys, WIDENS ? (REAL)NAN : -(REAL)INFINITY);
}

/* s[j] += -slope |i - j|, i the query's absolute position. */
static void F(add_alibi)(const struct F(tiles) * tiles, size_t h, size_t t, size_t key, size_t keys,
                         REAL *s) {
    const struct attn_call *call = tiles->task->call;
    const double slope = call->alibi[h];
    const double distance =
        (double)t + (double)attn_call_q_offset(call, tiles->task->b) - (double)key;
    for (size_t j = 0; j < keys; j++)
        s[j] -= (REAL)(slope * fabs(distance - (double)j));
    if (WIDENS && !tiles->ops->ROWOPS.all_finite(s, keys))
        F(mark_lost)(s, keys);
}

/* Hides what the mask of head g hides in its rows of a piece. */
static void F(mask_head)(const struct F(tiles) * tiles, const struct piece *piece, size_t g) {
    const struct attn_call *call = tiles->task->call;
    const struct attn_mask_tile tile = mask_tile(tiles->task, piece, g);
    const bool shared = g > 0 && !attn_mask_varies_by_head(&call->mask);
    if (!shared)
        attn_mask_fill(&call->mask, &call->space, &tile, tiles->bits, tiles->scratch);
    const size_t words = attn_mask_row_words(tile.keys);
    for (size_t r = 0; r < tile.rows; r++)
        tiles->ops->ROWOPS.hide(tiles->s + (g * tile.rows + r) * tile.keys, tiles->bits + r * words,
                                tile.keys);
}

/* From products to the scores of `stage`, up to MASKED. */
static void F(finish_scores)(const struct F(tiles) * tiles, enum attn_stage stage,
                             const struct piece *piece) {
    const struct attn_task *task = tiles->task;
    const struct attn_call *call = task->call;
    const bool biased = !attn_tensor_is_none(&call->bias);
    /* A cap beyond the reals' range acts as the last one inside: as none, or as 0. */
    const REAL cap = (REAL)fmin(fmax(call->softcap, REAL_MIN), REAL_MAX);
    for (size_t r = 0; r < piece->rows && stage >= ATTN_STAGE_CAPPED; r++) {
        const size_t h = task->hkv * tiles->G + (piece->row + r) / task->rows;
        const size_t t = task->row + (piece->row + r) % task->rows;
        REAL *s = tiles->s + r * piece->keys;
        if (call->softcap > 0)
            tiles->ops->ROWOPS.softcap(s, piece->keys, cap);
        if (stage == ATTN_STAGE_CAPPED)
            continue;
        if (call->alibi != NULL) /* before the bias, whose -inf is no loss */
            F(add_alibi)(tiles, h, t, piece->key, piece->keys, s);
        if (biased)
            F(add_bias)(tiles, h, t, piece->key, piece->keys, s);
    }
    const bool hides = piece->class != ATTN_TILE_FULL && stage >= ATTN_STAGE_MASKED;
    for (size_t g = 0; g < tiles->G && hides; g++)
        F(mask_head)(tiles, piece, g);
}

/* exp(s - m) / l; what is hidden weighs 0 even in a row that is NaN. */
static void F(weigh_row)(const struct F(tiles) * tiles, REAL *s, size_t keys, REAL m, REAL l) {
    for (size_t j = 0; j < keys && isnan(l); j++)
        s[j] = s[j] == -(REAL)INFINITY ? 0 : l;
    if (isnan(l))
        return;
    tiles->ops->ROWOPS.exp_sum(s, keys, m == -(REAL)INFINITY ? 0 : m);
    tiles->ops->ROWOPS.scale(s, keys, l == 0 ? 0 : 1 / l);
}

/* Computes a piece of a map and puts it into its place. */
static void F(map_piece)(const struct F(tiles) * tiles, const struct attn_score_block *block,
                         const struct piece *piece) {
    F(score_keys)(tiles, piece);
    F(finish_scores)(tiles, block->stage, piece);
    for (size_t r = 0; r < piece->rows; r++) {
        const size_t row = piece->row + r;
        REAL *s = tiles->s + r * piece->keys;
        if (block->stage == ATTN_STAGE_WEIGHTS) {
            F(weigh_row)(tiles, s, piece->keys, (REAL)block->m[row], (REAL)block->l[row]);
        }
        memcpy((REAL *)block->out + row * block->keys + (piece->key - block->key), s,
               piece->keys * sizeof *s);
    }
}

/* Of what may be hidden, just the products that attend makes: other sizes may round otherwise, and
 * a row's weights would not sum to 1. */
static void F(scores)(const struct attn_task *task, void *memory,
                      const struct attn_score_block *block) {
    struct F(tiles) tiles = F(tiles_open)(task, memory);
    struct piece pieces[MAX_PIECES] = {
        {.rows = tiles.M, .key = block->key, .keys = block->keys, .class = ATTN_TILE_FULL}};
    size_t count = 1;
    F(pack_scoring)(&tiles, block->stage == ATTN_STAGE_RAW ? 1 : task->call->scale);
    if (block->stage >= ATTN_STAGE_MASKED) {
        const REAL hidden = block->stage == ATTN_STAGE_WEIGHTS ? 0 : -(REAL)INFINITY;
        for (size_t n = 0; n < tiles.M * block->keys; n++)
            ((REAL *)block->out)[n] = hidden;
        size_t begin, end;
        group_key_range(task, &begin, &end);
        begin = attn_max_size(begin, block->key);
        end = attn_min_size(end, block->key + block->keys);
        count = begin < end ? cut_block(task, begin, end - begin, pieces) : 0;
    }
    for (size_t n = 0; n < count && !attn_checkpoint_stops(task->checkpoint); n++)
        F(map_piece)(&tiles, block, &pieces[n]);
}
