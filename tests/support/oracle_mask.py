# SPDX-License-Identifier: Apache-2.0
"""Which positions a mask expression leaves visible, written as plainly as possible.

The answer is always the whole boolean matrix [B,Hq,Tq,Tk]: slow, large and easy to check by eye.
It trusts its input; refusing bad requests is the daemon's business and is tested apart.
"""
import numpy as np


class Shape:
    """The sizes a mask needs, and the absolute position of query 0 per batch item."""

    def __init__(self, B, Hq, Tq, Tk):
        self.B, self.Hq, self.Tq, self.Tk = B, Hq, Tq, Tk
        self.full = (B, Hq, Tq, Tk)
        self.offsets = np.zeros(B, dtype=np.int64)

    def rows(self):
        return np.arange(self.Tq).reshape(1, 1, self.Tq, 1)

    def keys(self):
        return np.arange(self.Tk).reshape(1, 1, 1, self.Tk)

    def positions(self):
        return self.offsets.reshape(self.B, 1, 1, 1) + self.rows()


def normalise(expr):
    """The short forms: a bare word is a type, a bare list is `all`, no mask hides nothing."""
    if expr is None:
        return {"all": []}
    if isinstance(expr, str):
        return {"type": expr}
    if isinstance(expr, list):
        return {"all": expr}
    return expr


def conjunction(expr):
    """The parts that all have to hold, read through nested `all`s."""
    expr = normalise(expr)
    if "all" in expr:
        return [part for inner in expr["all"] for part in conjunction(inner)]
    return [expr]


def per_batch(value, B):
    """An integer, or a list of length 1 or B, as one integer per batch item."""
    return np.broadcast_to(np.asarray(value, dtype=np.int64).reshape(-1), (B,)).copy()


def query_offsets(options, shape):
    """The absolute position of query 0: q_offset, or what a causal mask's align makes of it."""
    if "q_offset" in options:
        return per_batch(options["q_offset"], shape.B)
    parts = conjunction(options.get("mask"))
    aligns = [p["align"] for p in parts if p.get("type") == "causal" and "align" in p]
    if "bottom_right" not in aligns:
        return np.zeros(shape.B, dtype=np.int64)
    keys, queries = shape.Tk, shape.Tq
    for part in parts:
        if part.get("type") == "padding" and "kv_lengths" in part:
            keys = per_batch(part["kv_lengths"], shape.B)
            queries = per_batch(part.get("q_lengths", shape.Tq), shape.B)
    return np.broadcast_to(keys - queries, (shape.B,)).astype(np.int64)


def causal(part, shape, tensor):
    return shape.keys() <= shape.positions()


def window(part, shape, tensor):
    left, right = part["left"], part["right"]
    distance = shape.positions() - shape.keys()
    visible = np.ones(np.broadcast_shapes(distance.shape, (1, 1, 1, 1)), dtype=bool)
    if left >= 0:
        visible = visible & (distance <= left)
    if right >= 0:
        visible = visible & (-distance <= right)
    return visible


def padding(part, shape, tensor):
    if "keep" in part:
        keep = np.asarray(tensor(part["keep"])) != 0
        return keep.reshape(-1, 1, 1, shape.Tk)
    kv_lengths = per_batch(part["kv_lengths"], shape.B).reshape(shape.B, 1, 1, 1)
    q_lengths = per_batch(part.get("q_lengths", shape.Tq), shape.B).reshape(shape.B, 1, 1, 1)
    return (shape.keys() < kv_lengths) & (shape.rows() < q_lengths)


def prefix(part, shape, tensor):
    return shape.keys() < per_batch(part["length"], shape.B).reshape(shape.B, 1, 1, 1)


def segments(part, shape, tensor):
    q_ids = np.asarray(tensor(part["q"])).reshape(-1, 1, shape.Tq, 1)
    kv_ids = np.asarray(tensor(part.get("kv", part["q"]))).reshape(-1, 1, 1, shape.Tk)
    return q_ids == kv_ids


def global_tokens(part, shape, tensor):
    tokens = np.asarray(tensor(part["tokens"])).reshape(-1)
    return np.isin(shape.positions(), tokens) | np.isin(shape.keys(), tokens)


def dilated(part, shape, tensor):
    distance = np.abs(shape.positions() - shape.keys())
    return (distance <= part["width"]) & (distance % part["stride"] == 0)


def block_causal(part, shape, tensor):
    return shape.keys() // part["block"] <= shape.positions() // part["block"]


def allow(part, shape, tensor):
    return np.asarray(tensor(part["tensor"])) != 0


def hide(part, shape, tensor):
    return np.asarray(tensor(part["tensor"])) == 0


PREDICATES = {
    "causal": causal, "window": window, "padding": padding, "prefix": prefix,
    "segments": segments, "global": global_tokens, "dilated": dilated,
    "block_causal": block_causal, "allow": allow, "hide": hide,
}


def visible(expr, shape, tensor):
    """[B,Hq,Tq,Tk] booleans; `tensor` turns a name or an inline value into an array."""
    expr = normalise(expr)
    if "not" in expr:
        return ~visible(expr["not"], shape, tensor)
    if "all" in expr:
        answer = np.ones(shape.full, dtype=bool)
        for part in expr["all"]:
            answer = answer & visible(part, shape, tensor)
        return answer
    if "any" in expr:
        answer = np.zeros(shape.full, dtype=bool)
        for part in expr["any"]:
            answer = answer | visible(part, shape, tensor)
        return answer
    return np.broadcast_to(PREDICATES[expr["type"]](expr, shape, tensor), shape.full)
