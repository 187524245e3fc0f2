/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The online softmax and the product with V for one real type; included by blas.c after
 * blas_tiles.h, with the same definitions.
 *
 * Per key block (Milakov & Gimelshein 2018, Dao et al. 2022), S being its scores:
 *   m' = max(m, max S)             a row that is still -inf takes base 0
 *   P = exp(S - m'), l = l exp(m - m') + sum P, O = O exp(m - m') + P V
 */

/* Rows of a step of the online softmax: as many bytes for either type, so few that S stays in the
 * first cache between its two passes. */
enum { F(SOFTEN_ROWS) = ATTN_SOFTEN_ROWS * sizeof(float) / sizeof(REAL) };

/* One step of the online softmax for rows [from, from + rows) of a piece; S becomes P. Their
 * exp(m - m') are one call of exp. */
static void F(soften_rows)(const struct F(tiles) * tiles, const struct attn_piece *piece,
                           size_t from, size_t rows) {
    const struct attn_rowops *ops = tiles->ops;
    const size_t Dv = tiles->task->call->Dv;
    const size_t keys = piece->keys;
    REAL shrink[F(SOFTEN_ROWS)];
    REAL *s = tiles->s + from * keys;
    REAL *m = tiles->m + piece->row + from, *l = tiles->l + piece->row + from;
    REAL *o = tiles->o + (piece->row + from) * Dv;
    const REAL *fit = tiles->fit + piece->row + from;
    ops->ROWOPS.soften(s, keys, rows, keys, m, l, shrink);
    for (size_t r = 0; r < rows; r++) {
        if (shrink[r] != 1)
            ops->ROWOPS.scale(o + r * Dv, Dv, shrink[r]);
        if (fit[r] != 1)
            ops->ROWOPS.scale(s + r * keys, keys, fit[r]);
    }
}

static void F(soften)(const struct F(tiles) * tiles, const struct attn_piece *piece) {
    for (size_t from = 0; from < piece->rows; from += F(SOFTEN_ROWS))
        F(soften_rows)(tiles, piece, from, attn_min_size(F(SOFTEN_ROWS), piece->rows - from));
}

/* O += P V for the piece's rows of v. */
static void F(add_product)(const struct F(tiles) * tiles, const struct attn_piece *piece,
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
static void F(add_non_finite_row)(const struct F(tiles) * tiles, const struct attn_piece *piece,
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
static void F(add_non_finite)(const struct F(tiles) * tiles, const struct attn_piece *piece,
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
                          const struct attn_piece *piece) {
    const struct attn_call *call = tiles->task->call;
    if (pass != PASS_NON_FINITE)
        F(soften)(tiles, piece);
    if (call->Dv == 0)
        return;
    const struct F(block) v = F(load_block)(tiles, true, piece->key, piece->keys);
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
    const struct attn_piece all = {.rows = tiles->M};
    attn_piece_key_range(task, &all, &begin, &end);
    for (size_t key = begin - begin % tile; key < end; key += tile) {
        if (attn_checkpoint_stops(task->checkpoint))
            break;
        const size_t first = attn_max_size(key, begin);
        struct attn_piece pieces[MAX_PIECES];
        const size_t count = cut_block(task, first, attn_min_size(key + tile, end) - first, pieces);
        for (size_t n = 0; n < count; n++) {
            F(score_keys)(tiles, &pieces[n]);
            F(finish_piece)(tiles, ATTN_STAGE_MASKED, &pieces[n]);
            if (attn_checkpoint_stops(task->checkpoint))
                break;
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
 * Before it is divided by l, a row's sum of finite values may be too large for a real though the
 * average is not. The weights of such rows are to be multiplied by a power of two, which changes no
 * other bit: no sum over Tk keys then exceeds half of the largest real. True when there are any.
 */
static bool F(fit_overflows)(struct F(tiles) * tiles) {
    const size_t Dv = tiles->task->call->Dv;
    const REAL fit = (REAL)ldexp(1, -2 - ilogb((double)tiles->task->call->Tk));
    bool any = false;
    for (size_t row = 0; row < tiles->M; row++)
        if (!isnan(tiles->l[row]) && !tiles->ops->ROWOPS.all_finite(tiles->o + row * Dv, Dv)) {
            tiles->fit[row] = fit;
            any = true;
        }
    return any;
}

static void F(set_fit)(struct F(tiles) * tiles) {
    for (size_t row = 0; row < tiles->M; row++)
        tiles->fit[row] = 1;
}

/*
 * V is not searched for NaN and infinities beforehand. They show in the output, and only then is
 * the task done again, without them and then with them alone: elements that they do not concern
 * get the same bits as ever. Returns the scores computed.
 */
static uint64_t F(attend_tiles)(struct F(tiles) * tiles) {
    const size_t n = tiles->M * tiles->task->call->Dv;
    F(set_fit)(tiles);
    F(pack_scoring)(tiles, tiles->task->call->scale);
    F(clear)(tiles);
    const uint64_t computed = F(walk_keys)(tiles, PASS_PLAIN);
    if (tiles->ops->ROWOPS.all_finite(tiles->o, n) || !F(fit_overflows)(tiles))
        return computed;
    F(set_fit)(tiles);
    F(clear)(tiles);
    F(walk_keys)(tiles, PASS_CLEANED);
    if (F(fit_overflows)(tiles)) {
        F(clear)(tiles);
        F(walk_keys)(tiles, PASS_CLEANED);
    }
    F(walk_keys)(tiles, PASS_NON_FINITE);
    return computed;
}

static void F(attend)(const struct attn_task *task, void *memory, struct attn_partial *partial) {
    struct F(tiles) tiles = F(tiles_open)(task, memory);
    tiles.o = partial->o;
    partial->computed = F(attend_tiles)(&tiles);
    for (size_t row = 0; row < tiles.M; row++) {
        partial->l[row] = (double)tiles.l[row];
        partial->m[row] = isnan(tiles.l[row]) ? (double)NAN : (double)tiles.m[row];
        partial->unit[row] = 1 / (double)tiles.fit[row];
        partial->wide[row] = false;
    }
}

#undef F
#undef REAL
#undef SUFFIX
#undef ROWOPS
#undef GEMM
#undef LOAD
#undef REAL_DTYPE
#undef QUERY_ROW
#undef KEY_ROW
#undef VALUE_ROW
#undef WIDENS
#undef REAL_MIN
#undef REAL_MAX
