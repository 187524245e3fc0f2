/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Online-softmax tiles for one real type; included by blas.c with
 *   REAL, SUFFIX, ROWOPS (member of struct attn_rowops), GEMM, LOAD, REAL_DTYPE, and
 *   REAL_MIN and REAL_MAX, the smallest and the largest positive normal number.
 *
 * Per key block (Milakov & Gimelshein 2018, Dao et al. 2022):
 *   S = Q K^T                      [M][keys], one product for all heads of the group
 *   S -> softcap, bias, ALiBi, hidden := -inf
 *   m' = max(m, max S)             a row that is still -inf takes base 0
 *   P = exp(S - m'), l = l exp(m - m') + sum P, O = O exp(m - m') + P V
 */
#define F(name) BLAS_PASTE(name, SUFFIX)

/* The workspace, cut up; M = G * row_tile. */
struct F(tiles) {
    const struct attn_task *task;
    const struct attn_rowops *ops;
    size_t M, G;
    REAL *q;        /* [M][D], scaled or not */
    REAL *s;        /* [M][key_tile] */
    REAL *panel;    /* [key_tile][max(D, Dv)] a widened or cleaned block of k or v */
    REAL *addend;   /* [key_tile] one row of bias */
    uint64_t *bits; /* [row_tile][words of key_tile] */
    uint64_t *scratch;
    REAL *o, *m, *l; /* the partial's; NULL in scores */
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
    tiles.bits = take_area(&cursor, areas.bits);
    tiles.scratch = take_area(&cursor, areas.scratch);
    return tiles;
}

/* Packs the group's query rows, multiplied by `scale`. */
static void F(pack_queries)(struct F(tiles) * tiles, REAL scale) {
    const struct attn_task *task = tiles->task;
    const struct attn_operand *q = &task->call->q;
    const size_t D = task->call->D;
    for (size_t row = 0; row < tiles->M; row++) {
        const size_t h = task->hkv * tiles->G + row / task->rows;
        const void *from = operand_row(q, task->b, h, task->row + row % task->rows);
        LOAD(q->dtype, from, q->sd, D, tiles->q + row * D);
        if (scale != 1)
            tiles->ops->ROWOPS.scale(tiles->q + row * D, D, scale);
    }
}

/* Rows [key, key + keys) of k or v: in place where BLAS can read them, else widened. */
static struct F(block)
    F(load_block)(const struct F(tiles) * tiles, const struct attn_operand *operand, size_t width,
                  size_t key, size_t keys) {
    const struct attn_task *task = tiles->task;
    const void *from = operand_row(operand, task->b, task->hkv, key);
    if (operand->dtype == REAL_DTYPE && fits_blas(operand, width))
        return (struct F(block)){from, (int)operand->st};
    for (size_t j = 0; j < keys; j++)
        LOAD(operand->dtype, operand_row(operand, task->b, task->hkv, key + j), operand->sd, width,
             tiles->panel + j * width);
    return (struct F(block)){tiles->panel, (int)attn_max_size(width, 1)};
}

/* S = Q K^T for a piece; rows of S are `keys` apart. */
static void F(multiply_keys)(const struct F(tiles) * tiles, const struct piece *piece) {
    const size_t D = tiles->task->call->D;
    if (D == 0) {
        memset(tiles->s, 0, piece->rows * piece->keys * sizeof(REAL));
        return;
    }
    const struct F(block) k =
        F(load_block)(tiles, &tiles->task->call->k, D, piece->key, piece->keys);
    GEMM(CblasRowMajor, CblasNoTrans, CblasTrans, (int)piece->rows, (int)piece->keys, (int)D, 1,
         tiles->q + piece->row * D, (int)D, k.data, k.stride, 0, tiles->s, (int)piece->keys);
}

static void F(add_bias)(const struct F(tiles) * tiles, size_t h, size_t t, size_t key, size_t keys,
                        REAL *s) {
    const struct attn_tensor *bias = &tiles->task->call->bias;
    const ptrdiff_t at = attn_tensor_offset(bias, tiles->task->b, h, t, key);
    const char *from = (const char *)bias->data + at * (ptrdiff_t)attn_dtype_size(bias->dtype);
    LOAD(bias->dtype, from, bias->stride[3], keys, tiles->addend);
    tiles->ops->ROWOPS.add_bias(s, tiles->addend, keys);
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
        if (biased)
            F(add_bias)(tiles, h, t, piece->key, piece->keys, s);
        if (call->alibi != NULL)
            F(add_alibi)(tiles, h, t, piece->key, piece->keys, s);
    }
    const bool hides = piece->class != ATTN_TILE_FULL && stage >= ATTN_STAGE_MASKED;
    for (size_t g = 0; g < tiles->G && hides; g++)
        F(mask_head)(tiles, piece, g);
}

/* One step of the online softmax for rows [from, from + rows) of a piece; S becomes P. Their
 * exp(m - m') are one call of exp, and few enough rows that S stays in the first cache between the
 * two passes. */
static void F(soften_rows)(const struct F(tiles) * tiles, const struct piece *piece, size_t from,
                           size_t rows) {
    const struct attn_rowops *ops = tiles->ops;
    const size_t Dv = tiles->task->call->Dv;
    const size_t keys = piece->keys;
    REAL shrink[SOFTEN_ROWS];
    REAL *s = tiles->s + from * keys;
    REAL *m = tiles->m + piece->row + from, *l = tiles->l + piece->row + from;
    REAL *o = tiles->o + (piece->row + from) * Dv;
    for (size_t r = 0; r < rows; r++) {
        const REAL old = m[r];
        m[r] = ops->ROWOPS.max(s + r * keys, keys, old);
        shrink[r] = m[r] == old ? 0 : old - m[r];
    }
    ops->ROWOPS.exp_sum(shrink, rows, 0);
    for (size_t r = 0; r < rows; r++) {
        const REAL base = m[r] == -(REAL)INFINITY ? 0 : m[r];
        const REAL sum = ops->ROWOPS.exp_sum(s + r * keys, keys, base);
        if (shrink[r] != 1 && l[r] != 0)
            ops->ROWOPS.scale(o + r * Dv, Dv, shrink[r]);
        l[r] = l[r] * shrink[r] + sum;
    }
}

static void F(soften)(const struct F(tiles) * tiles, const struct piece *piece) {
    for (size_t from = 0; from < piece->rows; from += SOFTEN_ROWS)
        F(soften_rows)(tiles, piece, from, attn_min_size(SOFTEN_ROWS, piece->rows - from));
}

/* O += P V for the piece's rows of v. */
static void F(add_product)(const struct F(tiles) * tiles, const struct piece *piece,
                           struct F(block) v) {
    const size_t Dv = tiles->task->call->Dv;
    GEMM(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)piece->rows, (int)Dv, (int)piece->keys, 1,
         tiles->s, (int)piece->keys, v.data, v.stride, 1, tiles->o + piece->row * Dv, (int)Dv);
}

/* v with 0 in place of the elements that are not finite, which a weight of 0 would make NaN. */
static struct F(block) F(cleaned)(const struct F(tiles) * tiles, struct F(block) v, size_t keys) {
    const size_t Dv = tiles->task->call->Dv;
    for (size_t j = 0; j < keys; j++)
        for (size_t d = 0; d < Dv; d++) {
            const REAL value = v.data[j * (size_t)v.stride + d];
            tiles->panel[j * Dv + d] = isfinite(value) ? value : 0;
        }
    return (struct F(block)){tiles->panel, (int)Dv};
}

/* Adds p v for the elements of key j's v that are not finite, where p is not 0. */
static void F(add_non_finite_row)(const struct F(tiles) * tiles, const struct piece *piece,
                                  size_t j, const REAL *v) {
    const size_t Dv = tiles->task->call->Dv;
    for (size_t r = 0; r < piece->rows; r++) {
        const REAL p = tiles->s[r * piece->keys + j];
        for (size_t d = 0; d < Dv && p != 0; d++)
            if (!isfinite(v[d]))
                tiles->o[(piece->row + r) * Dv + d] += p * v[d];
    }
}

/* The weights are those against the final maximum: one that ends as 0 adds nothing. */
static void F(add_non_finite)(const struct F(tiles) * tiles, const struct piece *piece,
                              struct F(block) v) {
    const size_t Dv = tiles->task->call->Dv;
    for (size_t r = 0; r < piece->rows; r++) {
        const REAL m = tiles->m[piece->row + r];
        tiles->ops->ROWOPS.exp_sum(tiles->s + r * piece->keys, piece->keys,
                                   m == -(REAL)INFINITY ? 0 : m);
    }
    for (size_t j = 0; j < piece->keys; j++) {
        const REAL *row = v.data + j * (size_t)v.stride;
        if (!tiles->ops->ROWOPS.all_finite(row, Dv))
            F(add_non_finite_row)(tiles, piece, j, row);
    }
}

/* What a piece whose scores stand in S adds to the output. */
static void F(add_values)(const struct F(tiles) * tiles, enum pass pass,
                          const struct piece *piece) {
    const struct attn_call *call = tiles->task->call;
    if (pass != PASS_NON_FINITE)
        F(soften)(tiles, piece);
    if (call->Dv == 0)
        return;
    const struct F(block) v = F(load_block)(tiles, &call->v, call->Dv, piece->key, piece->keys);
    if (pass == PASS_NON_FINITE)
        F(add_non_finite)(tiles, piece, v);
    else
        F(add_product)(tiles, piece, pass == PASS_CLEANED ? F(cleaned)(tiles, v, piece->keys) : v);
}

/* All key blocks of the task. Returns the scores computed. */
static uint64_t F(walk_keys)(const struct F(tiles) * tiles, enum pass pass) {
    const struct attn_task *task = tiles->task;
    const size_t tile = task->grid.key_tile;
    uint64_t computed = 0;
    size_t begin, end;
    group_key_range(task, &begin, &end);
    for (size_t key = begin - begin % tile; key < end; key += tile) {
        if (atomic_load_explicit(task->cancelled, memory_order_relaxed))
            break;
        const size_t first = attn_max_size(key, begin);
        struct piece pieces[MAX_PIECES];
        const size_t count = cut_block(task, first, attn_min_size(key + tile, end) - first, pieces);
        for (size_t n = 0; n < count; n++) {
            F(multiply_keys)(tiles, &pieces[n]);
            F(finish_scores)(tiles, ATTN_STAGE_MASKED, &pieces[n]);
            F(add_values)(tiles, pass, &pieces[n]);
            computed += (uint64_t)pieces[n].rows * pieces[n].keys;
        }
    }
    return computed;
}

static void F(clear)(struct F(tiles) * tiles) {
    memset(tiles->o, 0, tiles->M * tiles->task->call->Dv * sizeof(REAL));
    for (size_t row = 0; row < tiles->M; row++) {
        tiles->m[row] = -(REAL)INFINITY;
        tiles->l[row] = 0;
    }
}

/*
 * V is not searched for NaN and infinities beforehand. They show in the output, and only then is
 * the task done again, without them and then with them alone: elements that they do not concern
 * get the same bits as ever.
 */
static void F(attend)(const struct attn_task *task, void *memory, struct attn_partial *partial) {
    struct F(tiles) tiles = F(tiles_open)(task, memory);
    tiles.o = partial->o;
    tiles.m = partial->m;
    tiles.l = partial->l;
    F(pack_queries)(&tiles, (REAL)task->call->scale);
    F(clear)(&tiles);
    partial->computed = F(walk_keys)(&tiles, PASS_PLAIN);
    if (!tiles.ops->ROWOPS.all_finite(tiles.o, tiles.M * task->call->Dv)) {
        F(clear)(&tiles);
        F(walk_keys)(&tiles, PASS_CLEANED);
        F(walk_keys)(&tiles, PASS_NON_FINITE);
    }
    for (size_t row = 0; row < tiles.M; row++)
        if (isnan(tiles.l[row]))
            tiles.m[row] = (REAL)NAN;
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
    F(multiply_keys)(tiles, piece);
    F(finish_scores)(tiles, block->stage, piece);
    const REAL *const m = block->m, *const l = block->l;
    for (size_t r = 0; r < piece->rows; r++) {
        const size_t row = piece->row + r;
        REAL *s = tiles->s + r * piece->keys;
        if (block->stage == ATTN_STAGE_WEIGHTS) {
            F(weigh_row)(tiles, s, piece->keys, m[row], l[row]);
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
    F(pack_queries)(&tiles, block->stage == ATTN_STAGE_RAW ? 1 : (REAL)task->call->scale);
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
    for (size_t n = 0; n < count; n++)
        F(map_piece)(&tiles, block, &pieces[n]);
}

#undef F
#undef REAL
#undef SUFFIX
#undef ROWOPS
#undef GEMM
#undef LOAD
#undef REAL_DTYPE
#undef REAL_MIN
#undef REAL_MAX
