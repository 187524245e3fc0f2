# SPDX-License-Identifier: Apache-2.0
"""Rotary positions by the book: one complex number per pair of dimensions, times e^(i p f).

The angle is exact: position and frequency as rational numbers, their product reduced by a pi of 100
digits. So it owes nothing to how the daemon keeps large positions apart.
"""
from fractions import Fraction
from functools import lru_cache

import numpy as np

TWO_PI = 2 * Fraction(
    "3.1415926535897932384626433832795028841971693993751058209749445923078164"
    "06286208998628034825342117068")


@lru_cache(maxsize=1 << 16)
def turn(position, frequency):
    """e^(i * position * frequency) as a complex double."""
    angle = Fraction(position) * Fraction(frequency)
    turns = float(angle - TWO_PI * (angle // TWO_PI))
    return complex(np.cos(turns), np.sin(turns))


def frequencies(rope, dims):
    if "inv_freq" in rope:
        return [float(f) for f in rope["inv_freq"]]
    theta = float(rope.get("theta", 10000))
    return [theta ** (-2.0 * n / dims) for n in range(dims // 2)]


def rotate(x, first, rope):
    """x [B,H,T,D] in its dtype; first: the position of row 0 per batch item."""
    D = x.shape[-1]
    dims = rope.get("dims", D)
    speeds = frequencies(rope, dims)
    turns = np.array([[[turn(int(p) + t, f) for f in speeds] for t in range(x.shape[2])]
                      for p in first])
    turns = turns.reshape(len(first), 1, x.shape[2], dims // 2)
    cos, sin = turns.real.astype(x.dtype), turns.imag.astype(x.dtype)
    head = x[..., :dims]
    if rope.get("interleaved", False):
        a, b = head[..., 0::2], head[..., 1::2]
        turned = np.stack([a * cos - b * sin, a * sin + b * cos], axis=-1).reshape(head.shape)
    else:
        a, b = head[..., :dims // 2], head[..., dims // 2:]
        turned = np.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)
    return np.concatenate([turned, x[..., dims:]], axis=-1)


def rotate_both(q, k, rope, offsets, tensor):
    """q and k turned; `offsets` are the call's own, [B]."""
    rope = dict(rope)
    if "inv_freq" in rope:
        rope["inv_freq"] = np.asarray(tensor(rope["inv_freq"]), dtype=np.float64).reshape(-1)
    B = q.shape[0]
    own = tensor(rope["q_offset"]) if "q_offset" in rope else offsets
    own = np.broadcast_to(np.asarray(own, dtype=np.int64).reshape(-1), (B,))
    return rotate(q, own, rope), rotate(k, [rope.get("k_offset", 0)] * B, rope)
