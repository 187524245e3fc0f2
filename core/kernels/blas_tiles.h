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
static struct F(block) F(load_block)(struct F(tiles) * tiles, const struct attn_operand *operand,
                                     size_t width, size_t key, size_t keys) {
    const struct attn_task *task = tiles->task;
    const void *from = operand_row(operand, task->b, task->hkv, key);
    if (operand->dtype == REAL_DTYPE && fits_blas(operand, width))
        return (struct F(block)){from, (int)operand->st};
    for (size_t j = 0; j < keys; j++)
        LOAD(operand->dtype, operand_row(operand, task->b, task->hkv, key + j), operand->sd, width,
             tiles->panel + j * width);
    return (struct F(block)){tiles->panel, (int)attn_max_size(width, 1)};
}

/* S = Q K^T for keys [key, key + keys); rows of S are `keys` apart. */
static void F(multiply_keys)(struct F(tiles) * tiles, size_t key, size_t keys) {
    const size_t D = tiles->task->call->D;
    if (D == 0) {
        memset(tiles->s, 0, tiles->M * keys * sizeof(REAL));
        return;
    }
    const struct F(block) k = F(load_block)(tiles, &tiles->task->call->k, D, key, keys);
    GEMM(CblasRowMajor, CblasNoTrans, CblasTrans, (int)tiles->M, (int)keys, (int)D, 1, tiles->q,
         (int)D, k.data, k.stride, 0, tiles->s, (int)keys);
}

static void F(add_bias)(struct F(tiles) * tiles, size_t h, size_t t, size_t key, size_t keys,
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

/* Hides what head h's mask hides in rows [0, rows) of its part of S. */
static void F(mask_head)(struct F(tiles) * tiles, size_t g, size_t key, size_t keys) {
    const struct attn_task *task = tiles->task;
    const struct attn_call *call = task->call;
    const struct attn_mask_tile tile = {.b = task->b,
                                        .h = task->hkv * tiles->G + g,
                                        .row = task->row,
                                        .rows = task->rows,
                                        .key = key,
                                        .keys = keys};
    const bool shared = g > 0 && !attn_mask_varies_by_head(&call->mask);
    if (!shared)
        attn_mask_fill(&call->mask, &call->space, &tile, tiles->bits, tiles->scratch);
    const size_t words = attn_mask_row_words(keys);
    for (size_t r = 0; r < task->rows; r++)
        tiles->ops->ROWOPS.hide(tiles->s + (g * task->rows + r) * keys, tiles->bits + r * words,
                                keys);
}

/* From products to the scores of `stage`, up to MASKED. `partial`: some position may be hidden. */
static void F(finish_scores)(struct F(tiles) * tiles, enum attn_stage stage, size_t key,
                             size_t keys, bool partial) {
    const struct attn_task *task = tiles->task;
    const struct attn_call *call = task->call;
    const bool biased = !attn_tensor_is_none(&call->bias);
    /* A cap beyond the reals' range acts as the last one inside: as none, or as 0. */
    const REAL cap = (REAL)fmin(fmax(call->softcap, REAL_MIN), REAL_MAX);
    for (size_t row = 0; row < tiles->M && stage >= ATTN_STAGE_CAPPED; row++) {
        const size_t h = task->hkv * tiles->G + row / task->rows;
        const size_t t = task->row + row % task->rows;
        REAL *s = tiles->s + row * keys;
        if (call->softcap > 0)
            tiles->ops->ROWOPS.softcap(s, keys, cap);
        if (stage == ATTN_STAGE_CAPPED)
            continue;
        if (biased)
            F(add_bias)(tiles, h, t, key, keys, s);
        if (call->alibi != NULL)
            F(add_alibi)(tiles, h, t, key, keys, s);
    }
    for (size_t g = 0; g < tiles->G && partial && stage >= ATTN_STAGE_MASKED; g++)
        F(mask_head)(tiles, g, key, keys);
}

/* One step of the online softmax for rows [row, row + rows); S becomes P. Their exp(m - m') are one
 * call of exp, and few enough rows that S stays in the first cache between the two passes. */
static void F(soften_rows)(const struct F(tiles) * tiles, size_t row, size_t rows, size_t keys) {
    const struct attn_rowops *ops = tiles->ops;
    const size_t Dv = tiles->task->call->Dv;
    REAL shrink[SOFTEN_ROWS];
    REAL *m = tiles->m + row, *l = tiles->l + row;
    for (size_t r = 0; r < rows; r++) {
        const REAL old = m[r];
        m[r] = ops->ROWOPS.max(tiles->s + (row + r) * keys, keys, old);
        shrink[r] = m[r] == old ? 0 : old - m[r];
    }
    ops->ROWOPS.exp_sum(shrink, rows, 0);
    for (size_t r = 0; r < rows; r++) {
        const REAL base = m[r] == -(REAL)INFINITY ? 0 : m[r];
        const REAL sum = ops->ROWOPS.exp_sum(tiles->s + (row + r) * keys, keys, base);
        if (shrink[r] != 1 && l[r] != 0)
            ops->ROWOPS.scale(tiles->o + (row + r) * Dv, Dv, shrink[r]);
        l[r] = l[r] * shrink[r] + sum;
    }
}

static void F(soften)(const struct F(tiles) * tiles, size_t keys) {
    for (size_t row = 0; row < tiles->M; row += SOFTEN_ROWS)
        F(soften_rows)(tiles, row, attn_min_size(SOFTEN_ROWS, tiles->M - row), keys);
}

/* O += P V for the block's rows of v. */
static void F(add_product)(const struct F(tiles) * tiles, struct F(block) v, size_t keys) {
    const size_t Dv = tiles->task->call->Dv;
    GEMM(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)tiles->M, (int)Dv, (int)keys, 1, tiles->s,
         (int)keys, v.data, v.stride, 1, tiles->o, (int)Dv);
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
static void F(add_non_finite_row)(const struct F(tiles) * tiles, size_t j, size_t keys,
                                  const REAL *v) {
    const size_t Dv = tiles->task->call->Dv;
    for (size_t row = 0; row < tiles->M; row++) {
        const REAL p = tiles->s[row * keys + j];
        for (size_t d = 0; d < Dv && p != 0; d++)
            if (!isfinite(v[d]))
                tiles->o[row * Dv + d] += p * v[d];
    }
}

/* The weights are those against the final maximum: one that ends as 0 adds nothing. */
static void F(add_non_finite)(const struct F(tiles) * tiles, struct F(block) v, size_t keys) {
    const size_t Dv = tiles->task->call->Dv;
    for (size_t row = 0; row < tiles->M; row++) {
        const REAL m = tiles->m[row];
        tiles->ops->ROWOPS.exp_sum(tiles->s + row * keys, keys, m == -(REAL)INFINITY ? 0 : m);
    }
    for (size_t j = 0; j < keys; j++) {
        const REAL *row = v.data + j * (size_t)v.stride;
        if (!tiles->ops->ROWOPS.all_finite(row, Dv))
            F(add_non_finite_row)(tiles, j, keys, row);
    }
}

/* What a block whose scores stand in S adds to the output. */
static void F(add_values)(struct F(tiles) * tiles, enum pass pass, size_t key, size_t keys) {
    const struct attn_call *call = tiles->task->call;
    if (pass != PASS_NON_FINITE)
        F(soften)(tiles, keys);
    if (call->Dv == 0)
        return;
    const struct F(block) v = F(load_block)(tiles, &call->v, call->Dv, key, keys);
    if (pass == PASS_NON_FINITE)
        F(add_non_finite)(tiles, v, keys);
    else
        F(add_product)(tiles, pass == PASS_CLEANED ? F(cleaned)(tiles, v, keys) : v, keys);
}

/* All key blocks of the task. Returns the scores computed. */
static uint64_t F(walk_keys)(struct F(tiles) * tiles, enum pass pass) {
    const struct attn_task *task = tiles->task;
    const size_t tile = task->grid.key_tile;
    uint64_t computed = 0;
    size_t begin, end;
    group_key_range(task, &begin, &end);
    for (size_t key = begin - begin % tile; key < end; key += tile) {
        if (atomic_load_explicit(task->cancelled, memory_order_relaxed))
            break;
        const size_t first = attn_max_size(key, begin);
        const size_t keys = attn_min_size(key + tile, end) - first;
        const enum attn_tile_class class = group_class(task, first, keys);
        if (class == ATTN_TILE_EMPTY)
            continue;
        F(multiply_keys)(tiles, first, keys);
        F(finish_scores)(tiles, ATTN_STAGE_MASKED, first, keys, class == ATTN_TILE_PARTIAL);
        F(add_values)(tiles, pass, first, keys);
        computed += (uint64_t)tiles->M * keys;
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

/* Row of the answer: `keys` scores from `skipped` on, hidden around them. */
static void F(place_row)(const struct attn_score_block *block, size_t skipped, size_t keys,
                         const REAL *s, REAL *out) {
    const REAL hidden = block->stage == ATTN_STAGE_WEIGHTS ? 0 : -(REAL)INFINITY;
    for (size_t j = 0; j < skipped; j++)
        out[j] = hidden;
    memcpy(out + skipped, s, keys * sizeof *s);
    for (size_t j = skipped + keys; j < block->keys; j++)
        out[j] = hidden;
}

/* Of what may be hidden, just the product that attend makes: another size may round otherwise, and
 * a row's weights would not sum to 1. */
static void F(scores)(const struct attn_task *task, void *memory,
                      const struct attn_score_block *block) {
    struct F(tiles) tiles = F(tiles_open)(task, memory);
    size_t begin = 0, end = task->call->Tk;
    if (block->stage >= ATTN_STAGE_MASKED)
        group_key_range(task, &begin, &end);
    const size_t first = attn_min_size(attn_max_size(block->key, begin), block->key + block->keys);
    const size_t last = attn_max_size(attn_min_size(block->key + block->keys, end), first);
    const size_t keys = last - first;
    if (keys > 0) {
        F(pack_queries)(&tiles, block->stage == ATTN_STAGE_RAW ? 1 : (REAL)task->call->scale);
        F(multiply_keys)(&tiles, first, keys);
        F(finish_scores)(&tiles, block->stage, first, keys, task->call->mask.count > 0);
    }
    for (size_t row = 0; row < tiles.M; row++) {
        REAL *s = tiles.s + row * keys;
        if (block->stage == ATTN_STAGE_WEIGHTS)
            F(weigh_row)
        (&tiles, s, keys, ((const REAL *)block->m)[row], ((const REAL *)block->l)[row]);
        F(place_row)(block, first - block->key, keys, s, (REAL *)block->out + row * block->keys);
    }
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
