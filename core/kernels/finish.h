/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From products to scores and weights, for one real type, whatever kernel made the products:
 * softcap, ALiBi, bias, hidden := -inf. Included with
 *   REAL, SUFFIX, ROWOPS (member of struct attn_rowops), LOAD,
 *   REAL_MIN and REAL_MAX, the smallest and the largest positive normal number, and
 *   WIDENS, whether rows with scores that are not finite are done again in a wider type.
 */
#define F(name) FINISH_PASTE(name, SUFFIX)

static bool F(holds_scale)(double scale) {
    const double magnitude = fabs(scale);
    return scale == 0 || ((double)REAL_MIN <= magnitude && magnitude <= (double)REAL_MAX);
}

/* row := row * scale. The product may fit a real where the scale alone does not. */
static void F(scale_row)(const struct attn_rowops *ops, REAL *row, size_t n, double scale) {
    if (F(holds_scale)(scale)) {
        ops->ROWOPS.scale(row, n, (REAL)scale);
        return;
    }
    for (size_t e = 0; e < n; e++)
        row[e] = (REAL)((double)row[e] * scale);
}

/* exp(s - m) / l; what is hidden weighs 0 even in a row that is NaN. */
static void F(weigh_row)(const struct attn_rowops *ops, REAL *s, size_t keys, REAL m, REAL l) {
    for (size_t j = 0; j < keys && isnan(l); j++)
        s[j] = s[j] == -(REAL)INFINITY ? 0 : l;
    if (isnan(l))
        return;
    ops->ROWOPS.exp_sum(s, keys, m == -(REAL)INFINITY ? 0 : m);
    ops->ROWOPS.scale(s, keys, l == 0 ? 0 : 1 / l);
}

/* A piece of the scores and what finishing it needs; the areas are the kernel's workspace. */
struct F(finish) {
    const struct attn_task *task;
    const struct attn_rowops *ops;
    REAL *addend;      /* [keys of a tile] one row of bias */
    uint64_t *bits;    /* [rows of a tile][words of its keys] */
    uint64_t *scratch; /* attn_mask_scratch_words */
    /* [query rows of the task] what each sees, or NULL: bits say it */
    const struct attn_span *spans;
    REAL *s; /* the piece's scores, rows `stride` apart */
    size_t stride;
};

/*
 * A float that is not finite may stand for a score that is one in double, so its row has to be done
 * in double: it is told by NaN, which nothing but a mask takes away. -inf would seem hidden.
 */
static void F(mark_lost)(REAL *s, size_t n) {
    for (size_t e = 0; e < n; e++)
        s[e] = isfinite(s[e]) ? s[e] : (REAL)NAN;
}

static void F(add_bias)(const struct F(finish) * finish, size_t h, size_t t,
                        const struct attn_piece *piece, REAL *s) {
    const struct attn_tensor *bias = &finish->task->call->bias;
    const ptrdiff_t at = attn_tensor_offset(bias, finish->task->b, h, t, piece->key);
    const char *from = (const char *)bias->data + at * (ptrdiff_t)attn_dtype_size(bias->dtype);
    LOAD(bias->dtype, from, bias->stride[3], piece->keys, finish->addend);
    const double *exact = (const void *)from;
    for (size_t j = 0; j < piece->keys && WIDENS && bias->dtype == ATTN_FLOAT64; j++)
        if (isinf(finish->addend[j]) && isfinite(exact[(ptrdiff_t)j * bias->stride[3]]))
            finish->addend[j] = (REAL)NAN; /* lost */
    finish->ops->ROWOPS.add_bias(s, finish->addend, piece->keys,
                                 WIDENS ? (REAL)NAN : -(REAL)INFINITY);
}

/* s[j] += -slope |i - j|, i the query's absolute position. */
static void F(add_alibi)(const struct F(finish) * finish, size_t h, size_t t,
                         const struct attn_piece *piece, REAL *s) {
    const struct attn_call *call = finish->task->call;
    const double slope = call->alibi[h];
    const double distance = (double)t + (double)attn_call_q_offset(call, finish->task->b) -
                            (double)attn_key_position(&call->space.gap, piece->key);
    for (size_t j = 0; j < piece->keys; j++)
        s[j] -= (REAL)(slope * fabs(distance - (double)j));
    if (WIDENS && !finish->ops->ROWOPS.all_finite(s, piece->keys))
        F(mark_lost)(s, piece->keys);
}

static void F(hide)(const struct F(finish) * finish, const struct attn_piece *piece) {
    const struct attn_call *call = finish->task->call;
    const size_t words = attn_mask_row_words(piece->keys);
    struct attn_segment before = {0}, segment;
    for (size_t from = 0; attn_piece_segment(finish->task, piece, from, &segment);
         from += segment.rows) {
        const struct attn_mask_tile tile =
            attn_segment_tile(finish->task, &segment, piece->key, piece->keys);
        if (from == 0 || !attn_segment_repeats(finish->task, &before, &segment))
            attn_mask_fill(&call->mask, &call->space, &tile, finish->bits, finish->scratch);
        before = segment;
        for (size_t r = 0; r < segment.rows; r++)
            finish->ops->ROWOPS.hide(finish->s + (from + r) * finish->stride,
                                     finish->bits + r * words, piece->keys);
    }
}

/* A key's place among `keys` from `first` on, cut off at both ends. */
static size_t F(place_in)(size_t key, size_t first, size_t keys) {
    return key <= first ? 0 : attn_min_size(key - first, keys);
}

static void F(hide_by_spans)(const struct F(finish) * finish, const struct attn_piece *piece) {
    size_t t = piece->row % finish->task->rows;
    for (size_t r = 0; r < piece->rows; r++) {
        const struct attn_span span = finish->spans[t];
        const size_t begin = F(place_in)(span.begin, piece->key, piece->keys);
        const size_t end = F(place_in)(span.end, piece->key, piece->keys);
        if (begin > 0 || end < piece->keys)
            finish->ops->ROWOPS.keep(finish->s + r * finish->stride, piece->keys, begin, end);
        t = t + 1 < finish->task->rows ? t + 1 : 0;
    }
}

static void F(finish_row)(const struct F(finish) * finish, enum attn_stage stage, size_t row,
                          const struct attn_piece *piece, REAL *s) {
    const struct attn_task *task = finish->task;
    const struct attn_call *call = task->call;
    const size_t h = attn_score_row_head(task, row);
    const size_t t = attn_score_row_query(task, row);
    /* A cap beyond the reals' range acts as the last one inside: as none, or as 0. */
    if (call->softcap > 0)
        finish->ops->ROWOPS.softcap(s, piece->keys,
                                    (REAL)fmin(fmax(call->softcap, REAL_MIN), REAL_MAX));
    if (stage == ATTN_STAGE_CAPPED)
        return;
    if (call->alibi != NULL) /* before the bias, whose -inf is no loss */
        F(add_alibi)(finish, h, t, piece, s);
    if (!attn_tensor_is_none(&call->bias))
        F(add_bias)(finish, h, t, piece, s);
}

/* From products to the scores of `stage`, up to MASKED. */
static void F(finish_scores)(const struct F(finish) * finish, enum attn_stage stage,
                             const struct attn_piece *piece) {
    const struct attn_call *call = finish->task->call;
    const bool changes =
        call->softcap > 0 || !attn_tensor_is_none(&call->bias) || call->alibi != NULL;
    for (size_t r = 0; r < piece->rows && changes && stage >= ATTN_STAGE_CAPPED; r++)
        F(finish_row)(finish, stage, piece->row + r, piece, finish->s + r * finish->stride);
    if (piece->class == ATTN_TILE_FULL || stage < ATTN_STAGE_MASKED)
        return;
    if (finish->spans != NULL)
        F(hide_by_spans)(finish, piece);
    else
        F(hide)(finish, piece);
}

#undef F
