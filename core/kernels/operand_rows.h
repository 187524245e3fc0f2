/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of operands for one real type; included by operand.c with
 *   REAL, SUFFIX, LOAD and REAL_DTYPE, after the turn of that type.
 */
#define F(name) OPERAND_PASTE(name, SUFFIX)

static const REAL *F(widen)(const struct attn_operand *operand, const void *from, size_t width,
                            REAL *scratch) {
    if (operand->dtype == REAL_DTYPE && operand->sd == 1)
        return from;
    LOAD(operand->dtype, from, operand->sd, width, scratch);
    return scratch;
}

/* The row turned by row `at` of a table. */
static const REAL *F(turned)(const struct attn_task *task, const REAL *row, const void *table,
                             size_t at, REAL *scratch) {
    if (row != scratch)
        memcpy(scratch, row, task->call->D * sizeof *scratch);
    F(turn)(task->rotation, table, at * 2 * task->rotation->pairs, scratch);
    return scratch;
}

const REAL *F(attn_query_row)(const struct attn_task *task, size_t h, size_t t, REAL *scratch) {
    const struct attn_operand *q = &task->call->q;
    const REAL *row = F(widen)(q, attn_operand_row(q, task->b, h, t), task->call->D, scratch);
    if (task->rotation == NULL)
        return row;
    return F(turned)(task, row, task->rotation->q, task->b * task->rotation->q_step + t, scratch);
}

const REAL *F(attn_key_row)(const struct attn_task *task, size_t t, REAL *scratch) {
    const struct attn_operand *k = &task->call->k;
    const REAL *row =
        F(widen)(k, attn_operand_row(k, task->b, task->hkv, t), task->call->D, scratch);
    if (task->rotation == NULL || task->rotation->k == NULL)
        return row;
    return F(turned)(task, row, task->rotation->k, t, scratch);
}

const REAL *F(attn_value_row)(const struct attn_task *task, size_t t, REAL *scratch) {
    const struct attn_operand *v = &task->call->v;
    return F(widen)(v, attn_operand_row(v, task->b, task->hkv, t), task->call->Dv, scratch);
}

#undef F
#undef REAL
#undef SUFFIX
#undef LOAD
#undef REAL_DTYPE
