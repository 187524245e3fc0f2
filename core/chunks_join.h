/* SPDX-License-Identifier: Apache-2.0 */
/* Joining chunks for one real type; included by chunks.c with REAL, SUFFIX and ROWOPS. */
#define F(name) CHUNKS_PASTE(name, SUFFIX)

/* The row's m and l, and what each chunk's output counts; a row with a NaN is NaN. */
static void F(weigh)(const struct attn_partial *parts, size_t count, size_t row,
                     struct attn_partial *whole, REAL *weight) {
    double m = -INFINITY, l = 0;
    for (size_t n = 0; n < count; n++)
        m = parts[n].m[row] > m ? parts[n].m[row] : m;
    for (size_t n = 0; n < count; n++)
        weight[n] = (REAL)(parts[n].m[row] - (m == -INFINITY ? 0 : m));
    attn_rowops_best()->ROWOPS.exp_sum(weight, count, 0);
    for (size_t n = 0; n < count; n++)
        l += (double)weight[n] * parts[n].l[row];
    whole->l[row] = l;
    whole->m[row] = isnan(l) ? (double)NAN : m;
}

/* o = sum of the chunks' outputs over `unit`; false when an element is not finite. */
static bool F(add_up)(const struct attn_partial *parts, size_t count, size_t row, size_t Dv,
                      const REAL *weight, double unit, REAL *o) {
    const struct attn_rowops *ops = attn_rowops_best();
    memset(o, 0, Dv * sizeof *o);
    for (size_t n = 0; n < count; n++)
        if (weight[n] != 0) /* what weighs nothing may be infinite */
            ops->ROWOPS.add_scaled(o, (const REAL *)parts[n].o + row * Dv, Dv,
                                   weight[n] * (REAL)(parts[n].unit[row] / unit));
    return ops->ROWOPS.all_finite(o, Dv);
}

static bool F(are_finite)(const struct attn_partial *parts, size_t count, size_t row, size_t Dv) {
    for (size_t n = 0; n < count; n++)
        if (!attn_rowops_best()->ROWOPS.all_finite((const REAL *)parts[n].o + row * Dv, Dv))
            return false;
    return true;
}

/* True when all of the row is told by its chunks. One whose sum no real can hold gets a unit that
 * changes no other bit, as in a kernel. */
static bool F(join_row)(const struct attn_call *call, const struct attn_partial *parts,
                        size_t count, size_t row, struct attn_partial *whole) {
    REAL weight[ATTN_CHUNKS_MOST];
    REAL *o = (REAL *)whole->o + row * call->Dv;
    F(weigh)(parts, count, row, whole, weight);
    whole->unit[row] = 1;
    whole->wide[row] = false;
    for (size_t n = 0; n < count; n++)
        whole->wide[row] |= parts[n].wide[row];
    if (whole->wide[row])
        return isnan(whole->l[row]);
    if (F(add_up)(parts, count, row, call->Dv, weight, 1, o) || isnan(whole->l[row]))
        return true;
    if (!F(are_finite)(parts, count, row, call->Dv))
        return false;
    whole->unit[row] = ldexp(1, 2 + ilogb((double)call->Tk));
    F(add_up)(parts, count, row, call->Dv, weight, whole->unit[row], o);
    return true;
}

/* From a row computed from all keys: the elements that are not finite, or everything. */
static void F(mend_row)(const struct attn_partial *again, size_t row, size_t Dv,
                        struct attn_partial *whole) {
    const REAL *from = (const REAL *)again->o + row * Dv;
    REAL *to = (REAL *)whole->o + row * Dv;
    if (isnan(whole->l[row]))
        return;
    const bool all = whole->wide[row] || again->unit[row] != 1;
    for (size_t d = 0; d < Dv; d++)
        if (all || !isfinite(to[d]))
            to[d] = from[d];
    if (!all)
        return;
    whole->m[row] = again->m[row];
    whole->l[row] = again->l[row];
    whole->unit[row] = again->unit[row];
    whole->wide[row] = again->wide[row];
}

static void F(join)(const struct attn_task *task, void *workspace, const struct attn_partial *parts,
                    size_t count, struct attn_partial *whole) {
    const size_t M = attn_call_group(task->call) * task->rows;
    const size_t Dv = task->call->Dv;
    bool told = true;
    for (size_t row = 0; row < M; row++)
        told &= F(join_row)(task->call, parts, count, row, whole);
    if (told)
        return;
    struct attn_partial again = parts[0]; /* its memory is free now */
    task->kernel->attend(task, workspace, &again);
    for (size_t row = 0; row < M; row++)
        F(mend_row)(&again, row, Dv, whole);
}

#undef F
#undef REAL
#undef SUFFIX
#undef ROWOPS
