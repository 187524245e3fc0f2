/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tiles and their scores for one real type, and the maps made of them; included by blas.c with
 *   GEMM, REAL_DTYPE, QUERY_ROW, KEY_ROW and VALUE_ROW (operand.h's)
 * and with finish.h, which comes before it, and its definitions. blas_tiles_attend.h comes after it
 * and takes all of them back.
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
    tiles.q = attn_area_take(&cursor, areas.q);
    tiles.s = attn_area_take(&cursor, areas.s);
    tiles.panel = attn_area_take(&cursor, areas.panel);
    tiles.addend = attn_area_take(&cursor, areas.addend);
    tiles.m = attn_area_take(&cursor, areas.row);
    tiles.l = attn_area_take(&cursor, areas.row);
    tiles.fit = attn_area_take(&cursor, areas.row);
    tiles.w = attn_area_take(&cursor, areas.w);
    tiles.bits = attn_area_take(&cursor, areas.bits);
    tiles.scratch = attn_area_take(&cursor, areas.scratch);
    return tiles;
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
            F(scale_row)(tiles->ops, place, D, scale);
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
            F(scale_row)(tiles->ops, tiles->w + g * D, D, scale);
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
    const struct F(block) panel = {tiles->panel, (int)attn_max_size(width, 1)};
    const bool as_it_is = (values || task->rotation == NULL) && fits_blas(operand, width);
    if (as_it_is && operand->dtype == REAL_DTYPE)
        return (struct F(block)){attn_operand_row(operand, task->b, task->hkv, key),
                                 (int)operand->st};
    if (as_it_is && operand->dtype == ATTN_FLOAT32 && operand->st == (ptrdiff_t)width) {
        tiles->ops->ROWOPS.widen(attn_operand_row(operand, task->b, task->hkv, key), keys * width,
                                 tiles->panel);
        return panel;
    }
    for (size_t j = 0; j < keys; j++) {
        REAL *place = tiles->panel + j * width;
        const REAL *from = values ? VALUE_ROW(task, key + j, place) : KEY_ROW(task, key + j, place);
        F(place_row)(from, width, place);
    }
    return panel;
}

/* Whether a product of the piece, or a part of its sum, may exceed the reals: told from the largest
 * elements of q and k, or from the products themselves where those are fewer. */
static bool F(may_overflow)(const struct F(tiles) * tiles, const struct attn_piece *piece,
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
static void F(multiply_keys)(const struct F(tiles) * tiles, const struct attn_piece *piece) {
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
static void F(add_keys)(const struct F(tiles) * tiles, const struct attn_piece *piece) {
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
static void F(score_keys)(const struct F(tiles) * tiles, const struct attn_piece *piece) {
    if (tiles->task->call->score == ATTN_SCORE_ADDITIVE)
        F(add_keys)(tiles, piece);
    else
        F(multiply_keys)(tiles, piece);
}

/* From products to the scores of `stage`, up to MASKED. */
static void F(finish_piece)(const struct F(tiles) * tiles, enum attn_stage stage,
                            const struct attn_piece *piece) {
    const struct F(finish) finish = {.task = tiles->task,
                                     .ops = tiles->ops,
                                     .addend = tiles->addend,
                                     .bits = tiles->bits,
                                     .scratch = tiles->scratch,
                                     .s = tiles->s,
                                     .stride = piece->keys};
    F(finish_scores)(&finish, stage, piece);
}

/* Computes a piece of a map and puts it into its place. */
static void F(map_piece)(const struct F(tiles) * tiles, const struct attn_score_block *block,
                         const struct attn_piece *piece) {
    F(score_keys)(tiles, piece);
    F(finish_piece)(tiles, block->stage, piece);
    for (size_t r = 0; r < piece->rows; r++) {
        const size_t row = piece->row + r;
        REAL *s = tiles->s + r * piece->keys;
        if (block->stage == ATTN_STAGE_WEIGHTS)
            F(weigh_row)(tiles->ops, s, piece->keys, (REAL)block->m[row], (REAL)block->l[row]);
        memcpy((REAL *)block->out + row * block->keys + (piece->key - block->key), s,
               piece->keys * sizeof *s);
    }
}

/* Of what may be hidden, just the products that attend makes: other sizes may round otherwise, and
 * a row's weights would not sum to 1. */
static void F(scores)(const struct attn_task *task, void *memory,
                      const struct attn_score_block *block) {
    struct F(tiles) tiles = F(tiles_open)(task, memory);
    struct attn_piece pieces[MAX_PIECES] = {
        {.rows = tiles.M, .key = block->key, .keys = block->keys, .class = ATTN_TILE_FULL}};
    size_t count = 1;
    F(pack_scoring)(&tiles, block->stage == ATTN_STAGE_RAW ? 1 : task->call->scale);
    if (block->stage >= ATTN_STAGE_MASKED) {
        const REAL hidden = block->stage == ATTN_STAGE_WEIGHTS ? 0 : -(REAL)INFINITY;
        for (size_t n = 0; n < tiles.M * block->keys; n++)
            ((REAL *)block->out)[n] = hidden;
        size_t begin, end;
        attn_piece_key_range(task, &pieces[0], &begin, &end);
        begin = attn_max_size(begin, block->key);
        end = attn_min_size(end, block->key + block->keys);
        count = begin < end ? cut_block(task, begin, end - begin, pieces) : 0;
    }
    for (size_t n = 0; n < count && !attn_checkpoint_stops(task->checkpoint); n++)
        F(map_piece)(&tiles, block, &pieces[n]);
}
