# SPDX-License-Identifier: Apache-2.0
"""Faults in rotary positions and additive scores; rows as in faults_arithmetic.py."""
ROPE = "core/rope.c"
TILES = "core/kernels/blas_tiles.h"
SET = "core/kernels/rowops_set.h"
ROWS = "core/kernels/rowops_rows.h"
CALL = "core/call_rope.c"

FAULTS = [
    ("pairs turn the other way", ROWS, "pair[0] = x * c - y * s;", "pair[0] = x * c + y * s;",
     "a sign"),
    ("pairs are halves, always", ROWS, "across = interleaved ? 1 : pairs;", "across = pairs;",
     "as most models have it"),
    ("a block's turn and a step's are taken off", ROPE, "c * step[n] - s * step[pairs + n]",
     "c * step[n] + s * step[pairs + n]", "a sign"),
    ("keys count from 0", ROPE, "fill(&areas, &rotation, rope->k_offset, call->Tk, areas.k);",
     "fill(&areas, &rotation, 0, call->Tk, areas.k);", "they do elsewhere"),
    ("queries are turned where the mask has them", CALL,
     "own ? rope->q_offset.values : call->space.q_offset", "call->space.q_offset",
     "it is the default"),
    ("frequencies fall half as fast", ROPE, "-2.0 * (double)n", "-1.0 * (double)n",
     "n counts pairs or dimensions"),
    ("positions before 0 mirror those behind it", ROPE, "(position % BLOCK + BLOCK) % BLOCK",
     "(position < 0 ? -position : position) % BLOCK", "the sign of % in C"),
    ("a table has the turns of its first block", ROPE, "if (row == 0 || place == 0)",
     "if (row == 0)", "right for 32 rows"),
    ("all dimensions turn", CALL, "rope->dims_given ? (size_t)rope->dims : D;", "D / 2 * 2;",
     "most models turn them all"),
    ("queries are scaled", TILES, "additive ? 1 : scale", "scale", "those of products are"),
    ("a group has the weights of its first head", TILES, "task->hkv * tiles->G + g, 0)",
     "task->hkv * tiles->G, 0)", "w is often [D]"),
    ("tanh is of a product", ROWS, "F(tanh)(k + q) * w", "F(tanh)(k * q) * w",
     "all other scores are"),
    ("every item stands where the first does", ROPE, "rope->q_offset_count > 1 ? call->Tq : 0",
     "0", "one offset is the usual case"),
    ("angles are rounded", ROPE, "fma((double)position, frequency, -angle)", "0",
     "positions are small in tests"),
    ("a block's first position is the row's", ROPE, "turn_row(position - place,",
     "turn_row(position,", "they are the same at position 0"),
    ("keys are read where they lie", TILES, "values || task->rotation == NULL", "true",
     "it is fast, and right without rope"),
    ("all heads have the weights of the first", TILES, "tiles->w + row / task->rows * D",
     "tiles->w", "w is often [D]"),
    ("weights are not scaled", TILES, "F(pack_weights)(tiles, scale);",
     "F(pack_weights)(tiles, 1);", "the scale of an additive score is 1 unless given"),
    ("a sum that is too low seems hidden", TILES,
     "!tiles->ops->ROWOPS.all_finite(tiles->s, piece->rows * keys)", "false",
     "other sums beyond a float end as NaN by themselves"),
    ("tanh loses what is near 0", SET, "p * power + (power - 1.0f)", "p * power + power - 1.0f",
     "the same in exact arithmetic"),
]
