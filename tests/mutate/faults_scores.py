# SPDX-License-Identifier: Apache-2.0
"""Faults in rotary positions and additive scores; rows as in faults_arithmetic.py."""
ROPE = "core/rope.c"
TILES = "core/kernels/blas_tiles.h"
SET = "core/kernels/rowops_set.h"

FAULTS = [
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
