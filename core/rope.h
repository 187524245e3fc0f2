/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rotary positions (Su et al. 2021): dimensions of q and k are turned in pairs, pair n of the row
 * at position p by the angle p * f[n], so that q.k depends on the distance of their positions.
 *
 * The frequencies f are doubles, theta^(-2n/dims) or the caller's. From there on nothing is lost:
 * p * f is taken to the last bit whatever the position, sine and cosine are doubles, and a table of
 * them is rounded once, to the kernel's real. A position's turns depend on it and the frequencies
 * alone.
 */
#ifndef ATTN_CORE_ROPE_H
#define ATTN_CORE_ROPE_H

#include "core/call.h"

/* Positions beyond it have neighbours that double cannot tell apart. */
#define ATTN_ROPE_FURTHEST ((int64_t)1 << 53)

/* The turns of a call's rows, made once and read by all its tasks. A row of a table is [pairs]
 * cosines and [pairs] sines, reals of the kernel. */
struct attn_rotation {
    size_t pairs;
    bool interleaved; /* pairs are (2n, 2n + 1); otherwise (n, n + pairs) */
    bool wide;        /* reals are double */
    const void *q;    /* [batch items or 1][Tq] */
    size_t q_step;    /* rows from item to item */
    const void *k;    /* [Tk], or NULL: keys have been turned */
};

/* Bytes of the tables and of what making them needs; SIZE_MAX when they do not fit. */
size_t attn_rotation_bytes(const struct attn_call *call, size_t real);

/* Makes the tables in `memory` of that size, aligned to 64. Nothing may be refused any more. */
struct attn_rotation attn_rotation_make(const struct attn_call *call, size_t real, void *memory);

#endif
