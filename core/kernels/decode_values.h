/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decode kernel's sums of weighted values. Part of decode_set.h, which includes it after the
 * scores, whose vectors and constants it uses.
 */
/* sum[r][..] += p[r] * v[at ..], `p` a row of S apart; elements of v that are not finite are 0 when
 * `clean` is set. What lies at `far` is asked for, if anything. */
DECODE_INLINE void add_value(vector sum[MOST][MOST], const int rows, const int parts,
                             const float *p, const char *v, const char *far, size_t at, size_t n,
                             const enum attn_dtype dtype, const bool clean) {
    vector value[MOST];
#pragma GCC unroll 8
    for (int part = 0; part < parts; part++) {
        value[part] = load_part(v, at + (size_t)part * LANES, n, dtype);
        if (far != NULL)
            ask_for(far, at + (size_t)part * LANES, dtype);
        if (clean)
            value[part] =
                (vector)((mask_vector)value[part] & (mask_vector)(value[part] * 0.0f == 0.0f));
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int part = 0; part < parts; part++)
            sum[r][part] += p[(size_t)r * STRIDE] * value[part];
}

/* A single row's values come from memory as its keys do: two runs of them by turns. */
DECODE_INLINE void add_values_by_turns(vector sum[MOST][MOST], const int parts, const float *p,
                                       const struct attn_direct_rows *v, size_t keys, size_t at,
                                       size_t n, const enum attn_dtype dtype, const bool clean) {
    const size_t half = (keys + 1) / 2;
    for (size_t j = 0; j < half; j++) {
        const char *row = v->data + (ptrdiff_t)j * v->stride;
        add_value(sum, 1, parts, p + j, row, NULL, at, n, dtype, clean);
        if (half + j < keys)
            add_value(sum, 1, parts, p + half + j, row + (ptrdiff_t)half * v->stride, NULL, at, n,
                      dtype, clean);
    }
}

/* The same of all rows, one behind the other, and those ahead are asked for. */
DECODE_INLINE void add_values(vector sum[MOST][MOST], const int rows, const int parts,
                              const float *p, const struct attn_direct_rows *v, size_t keys,
                              size_t at, size_t n, const enum attn_dtype dtype, const bool clean) {
    ptrdiff_t ahead = far_ahead(v, (size_t)parts * LANES * size_of(dtype));
    const ptrdiff_t all = (ptrdiff_t)keys * v->stride;
    const char *const end = v->next == NULL ? NULL : v->data + all;
    if (end != NULL) /* no further than the rows that will be read next, nor than stay in cache */
        ahead = ahead < NEAR ? ahead : NEAR;
    if (end != NULL && ahead > all)
        ahead = all;
    for (size_t j = 0; j < keys; j++) {
        const char *row = v->data + (ptrdiff_t)j * v->stride, *far = row + ahead;
        if (end != NULL && far >= end)
            far = v->next + (far - end);
        add_value(sum, rows, parts, p + j, row, far, at, n, dtype, clean);
    }
}

DECODE_INLINE void sum_values(vector sum[MOST][MOST], const int rows, const int parts,
                              const float *p, const struct attn_direct_rows *v, size_t keys,
                              size_t at, size_t n, const enum attn_dtype dtype, const bool clean) {
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int part = 0; part < parts; part++)
            sum[r][part] = (vector){0};
    if (goes_by_turns(rows, dtype))
        add_values_by_turns(sum, parts, p, v, keys, at, n, dtype, clean);
    else
        add_values(sum, rows, parts, p, v, keys, at, n, dtype, clean);
}

DECODE_INLINE bool has_nan(vector v) {
#if DECODE_BYTES == 64
    return _mm512_cmp_ps_mask((__m512)v, (__m512)v, _CMP_UNORD_Q) != 0;
#elif DECODE_BYTES == 32
    return _mm256_movemask_ps(_mm256_cmp_ps((__m256)v, (__m256)v, _CMP_UNORD_Q)) != 0;
#else
    const mask_vector nan = v != v;
    uint64_t words[sizeof nan / sizeof(uint64_t)];
    memcpy(words, &nan, sizeof nan);
    return (words[0] | words[1]) != 0;
#endif
}

/* A value that is not finite leaves no sum finite, whatever its weight: the first row's tell. */
DECODE_INLINE bool are_finite(const vector sum[MOST], const int parts) {
    vector nothing = {0};
#pragma GCC unroll 8
    for (int part = 0; part < parts; part++)
        nothing += sum[part] * 0.0f;
    return !has_nan(nothing);
}

/* Columns [at, at + parts vectors), or the last n of them. Returns whether V was cleaned. */
DECODE_INLINE bool gather_columns(const int rows, const int parts, const float *p,
                                  const float *shrink, const struct attn_direct_rows *v,
                                  size_t keys, float *o, size_t width, size_t at, size_t n,
                                  const enum attn_dtype dtype) {
    vector sum[MOST][MOST];
    sum_values(sum, rows, parts, p, v, keys, at, n, dtype, false);
    const bool cleaned = !are_finite(sum[0], parts);
    if (cleaned)
        sum_values(sum, rows, parts, p, v, keys, at, n, dtype, true);
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int part = 0; part < parts; part++) {
            float *to = o + (size_t)r * width + at + (size_t)part * LANES;
            vector old;
            memcpy(&old, to, sizeof old);
            old = old * shrink[r] + sum[r][part];
            memcpy(to, &old, sizeof old);
        }
    return cleaned;
}

DECODE_INLINE bool gather(const int rows, const int parts, const float *p, const float *shrink,
                          const struct attn_direct_rows *v, size_t keys, float *o, size_t Dv,
                          size_t width, const enum attn_dtype dtype) {
    bool cleaned = false;
    size_t at = 0;
#define COLUMNS(vectors)                                      \
    for (; at + (vectors)*LANES <= Dv; at += (vectors)*LANES) \
        cleaned |= gather_columns(rows, vectors, p, shrink, v, keys, o, width, at, LANES, dtype);
    if (parts >= 8)
        COLUMNS(8)
    if (parts >= 4)
        COLUMNS(4)
    if (parts >= 2)
        COLUMNS(2)
    COLUMNS(1)
#undef COLUMNS
    if (at < Dv)
        cleaned |= gather_columns(rows, 1, p, shrink, v, keys, o, width, at, Dv - at, dtype);
    return cleaned;
}
