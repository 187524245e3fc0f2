/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of keys and values into pages, by way of one real type; included by kv_write.c with REAL,
 * SUFFIX, LOAD, STORE and ROWOPS.
 */
#define F(name) KV_PASTE(name, SUFFIX)

/* The row of k, turned where there are turns. */
static void F(load_key)(const struct source *source, size_t h, size_t t, REAL *row) {
    const struct attn_rotation *turns = source->turns;
    LOAD(source->k.dtype, row_of(&source->k, h, t), source->k.sd, source->model->D, row);
    if (turns != NULL)
        attn_rowops_best()->ROWOPS.rotate(
            row, (const REAL *)turns->k + (t - source->first) * 2 * turns->pairs, turns->pairs,
            turns->interleaved);
}

/* Keys [t, t + count) into lanes of one panel from `lane` on: a whole panel is laid out as it will
 * lie and converted as one run. */
static void F(put_keys)(const struct source *source, size_t h, size_t t, size_t count, size_t lane,
                        char *panel) {
    const struct attn_kv_model *model = source->model;
    const size_t D = model->D;
    REAL *row = source->row, *whole = row + D;
    for (size_t r = 0; r < count; r++) {
        F(load_key)(source, h, t + r, row);
        if (count < ATTN_KV_PANEL)
            STORE(model->spec.dtype, panel + (lane + r) * model->element, ATTN_KV_PANEL, D, row);
        for (size_t d = 0; d < D && count == ATTN_KV_PANEL; d++)
            whole[d * ATTN_KV_PANEL + r] = row[d];
    }
    if (count == ATTN_KV_PANEL)
        STORE(model->spec.dtype, panel, 1, D * ATTN_KV_PANEL, whole);
}

static void F(put_values)(const struct source *source, size_t h, size_t t, size_t count, char *to) {
    const struct attn_kv_model *model = source->model;
    const size_t Dv = model->Dv;
    for (size_t r = 0; r < count; r++, to += Dv * model->element) {
        LOAD(source->v.dtype, row_of(&source->v, h, t + r), source->v.sd, Dv, source->row);
        STORE(model->spec.dtype, to, 1, Dv, source->row);
    }
}

#undef F
#undef REAL
#undef SUFFIX
#undef LOAD
#undef STORE
#undef ROWOPS
