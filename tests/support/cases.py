# SPDX-License-Identifier: Apache-2.0
"""Random calls for sweeps: shapes, heads, layouts, dtypes, options and masks from a seed.

Every case is a valid request by the contract; what must be refused is tested by case folders.
"""
import json
from dataclasses import dataclass, field

import numpy as np

from support import safetensors

DTYPES = ("float32", "float64", "float16", "bfloat16")
HEADS = ((1, 1), (2, 2), (3, 1), (4, 2), (6, 2), (8, 8))
HEAD_SIZES = (1, 2, 3, 8, 15, 16, 32, 59, 64)


@dataclass
class Case:
    seed: tuple
    dtype: str
    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    options: dict
    tensors: dict = field(default_factory=dict)

    def plain(self):
        """q, k, v as numbers (bfloat16 bits widened)."""
        return [widen(x) for x in (self.q, self.k, self.v)]

    def __str__(self):
        shapes = [list(x.shape) for x in (self.q, self.k, self.v)]
        given = {name: f"{x.dtype}{list(x.shape)}" for name, x in self.tensors.items()}
        return f"seed {self.seed}: {self.dtype} {shapes} {json.dumps(self.options)} {given}"


def widen(x):
    return safetensors.from_bfloat16(x) if x.dtype == np.uint16 else x


def to_dtype(x, dtype):
    return safetensors.to_bfloat16(x) if dtype == "bfloat16" else x.astype(dtype)


class Builder:
    """Draws one case. Positions are settled first, since mask leaves depend on them."""

    def __init__(self, seed):
        self.seed = seed
        self.rng = np.random.default_rng(seed)
        self.options, self.tensors = {}, {}

    def chance(self, p):
        return self.rng.random() < p

    def pick(self, items):
        return items[self.rng.integers(len(items))]

    def whole(self, low, high):
        """An integer in [low, high]."""
        return int(self.rng.integers(low, high + 1))

    def per_batch(self, low, high):
        """One value for all, or one per batch item."""
        return [self.whole(low, high) for _ in range(self.pick((1, self.B)))]

    def tensor(self, array):
        name = f"t{len(self.tensors)}"
        self.tensors[name] = array
        return name

    def broadcastable(self):
        """A shape that broadcasts to [B,Hq,Tq,Tk]: leading axes missing, some axes 1. Rank 2 keeps
        its rows, for [1,Tk] and [B,Tk] look like a padding mask."""
        full = [self.B, self.Hq, self.Tq, self.Tk]
        rank = self.pick((2, 3, 4))
        shape = full[4 - rank:]
        if rank > 2:
            shape = [1 if self.chance(0.3) else n for n in shape]
        return shape

    # mask leaves; each returns an expression

    def causal(self):
        return "causal"

    def window(self):
        return {"type": "window", "left": self.whole(-1, self.Tk // 2 + 1),
                "right": self.whole(-1, self.Tk // 2 + 1)}

    def lengths(self):
        part = {"type": "padding", "kv_lengths": self.per_batch(0, self.Tk)}
        if self.chance(0.4):
            part["q_lengths"] = self.per_batch(0, self.Tq)
        return part

    def keep(self):
        bits = self.rng.random((self.B, self.Tk)) < 0.7
        kind = self.pick((np.bool_, np.uint8, np.int32, np.int64))
        return {"type": "padding", "keep": self.tensor(bits.astype(kind))}

    def prefix(self):
        return {"type": "prefix", "length": self.pick(
            (self.whole(0, self.Tk), self.per_batch(0, self.Tk)))}

    def segments(self):
        batched = (self.B,) if self.chance(0.5) else ()
        ids = self.rng.integers(-2, 3, batched + (self.Tq,)).astype(self.pick((np.int32, np.int64)))
        part = {"type": "segments", "q": self.tensor(ids)}
        if self.Tq != self.Tk or self.chance(0.5):
            part["kv"] = self.tensor(self.rng.integers(-2, 3, batched + (self.Tk,)))
        return part

    def global_tokens(self):
        """In any order and with repetitions, as a list or the name of one."""
        tokens = self.rng.integers(0, self.Tk, self.whole(0, min(self.Tk, 5)))
        named = self.chance(0.3)
        return {"type": "global", "tokens": self.tensor(tokens) if named else tokens.tolist()}

    def reach(self, least):
        """Mostly a few positions, else more than there are."""
        return self.whole(least, 9) if self.chance(0.7) else self.pick((self.Tk + 70, 2**63 - 1))

    def dilated(self):
        return {"type": "dilated", "width": self.reach(0), "stride": self.whole(1, 9)}

    def block_causal(self):
        return {"type": "block_causal", "block": self.reach(1)}

    def allow(self):
        bits = self.rng.random(self.broadcastable()) < self.pick((0.05, 0.5, 0.95))
        kind = self.pick((np.bool_, np.uint8, np.int32))
        return {"type": self.pick(("allow", "hide")), "tensor": self.tensor(bits.astype(kind))}

    def expression(self, depth, leaves):
        if depth == 0 or self.chance(0.35):
            return getattr(self, self.pick(leaves))()
        word = self.pick(("all", "any", "not", "list"))
        if word == "not":
            return {"not": self.expression(depth - 1, leaves)}
        parts = [self.expression(depth - 1, leaves) for _ in range(self.whole(0, 3))]
        return parts if word == "list" else {word: parts}

    def positions(self):
        """How query 0 gets its position: not said, q_offset, or a causal mask's align."""
        how = self.pick(("offset", "align", "none" if self.Tq == self.Tk else "offset"))
        if how == "offset":
            self.options["q_offset"] = self.pick(
                (self.whole(-3, self.Tk), self.per_batch(-3, self.Tk)))
        return how

    def mask(self, how):
        """A mask expression, or None. With an align the lengths beside it set the offset, so no
        second list of lengths may stand in the conjunction: the tree below has none."""
        leaves = ["causal", "window", "lengths", "keep", "prefix", "segments", "global_tokens",
                  "dilated", "block_causal", "allow"]
        if how != "align":
            return self.expression(self.whole(0, 3), leaves) if self.chance(0.8) else None
        parts = [{"type": "causal", "align": self.pick(("top_left", "bottom_right"))}]
        if self.chance(0.4):
            parts.append(self.lengths())
        if self.chance(0.5):
            leaves.remove("lengths")
            parts.append(self.expression(2, leaves))
        self.rng.shuffle(parts)
        return self.pick((parts, {"all": parts})) if len(parts) > 1 else parts[0]

    def additive(self):
        if self.chance(0.25):
            bias = self.rng.standard_normal(self.broadcastable()).astype(np.float32)
            bias[self.rng.random(bias.shape) < 0.1] = -np.inf
            self.options["bias"] = self.tensor(bias)
        if self.chance(0.2):
            slopes = [round(float(x), 3) for x in self.rng.random(self.Hq)]
            self.options["alibi"] = self.pick((True, slopes))
        if self.chance(0.2):
            self.options["sink"] = [round(float(x), 3) for x in self.rng.standard_normal(self.Hq)]

    def scoring(self, D):
        """Scores stay within about 10, where one rounding is far below the tolerance's 1e-6; in
        larger ones two honest sums in different orders differ by more than twice, by luck."""
        if self.chance(0.3):
            unscaled = (1, "none") if D <= 8 else (1 / D,)
            self.options["scale"] = self.pick((0, -0.5 / D**0.5, 0.2 / D**0.5, *unscaled))
        if self.chance(0.2):
            self.options["softcap"] = self.pick((0.5, 3, 30.0))

    def rope(self, D):
        """Drawn last, so that older draws stay as they were."""
        if D < 2 or not self.chance(0.25):
            return
        dims = D // 2 * 2 if self.chance(0.6) else 2 * self.whole(1, D // 2)
        rope = {} if dims == D else {"dims": dims}
        how = self.pick(("theta", "inv_freq", "default"))
        if how == "theta":
            rope["theta"] = self.pick((100, 5e5, 1e6))
        if how == "inv_freq":
            speeds = self.rng.random(dims // 2)
            rope["inv_freq"] = self.tensor(speeds) if self.chance(0.3) else speeds.tolist()
        if self.chance(0.5):
            rope["interleaved"] = self.pick((True, False))
        if self.chance(0.4):
            far = self.pick((0, -9, 10**6, 2**52))
            rope["q_offset"] = self.pick((far, [far + n for n in self.per_batch(0, 99)]))
            rope["k_offset"] = far + self.whole(-9, 9)
        self.options["rope"] = rope

    def score(self, D):
        """As rope: drawn last."""
        if not self.chance(0.15):
            return
        rows = self.pick(((), (self.Hq,)))
        w = (self.rng.standard_normal(rows + (D,)) / D**0.5).astype(np.float32)
        self.options["score"] = {"type": "additive",
                                 "w": self.tensor(w) if self.chance(0.5) else w.tolist()}

    def layout(self, native):
        """The native [B,H,T,D] arrays in a rank and layout that can hold them."""
        ways = ["bhtd", "bthd", "heads"]
        if self.B == 1:
            ways.append("rank3")
            if self.Hq == 1:
                ways.append("rank2")
        way = self.pick(ways)
        if way == "rank2":
            return [x[0, 0] for x in native]
        if way == "rank3":
            return [x[0] for x in native]
        if way == "bhtd":
            return native
        swapped = [np.ascontiguousarray(x.transpose(0, 2, 1, 3)) for x in native]
        if way == "bthd":
            self.options["layout"] = "bthd"
            return swapped
        self.options["num_heads"] = self.Hq
        if self.Hkv != self.Hq or self.chance(0.3):
            self.options["num_kv_heads"] = self.Hkv
        return [x.reshape(x.shape[0], x.shape[1], -1) for x in swapped]

    def build(self, Tk, dtype):
        self.Tk = Tk
        self.Tq = self.pick((Tk, 1, 2, 5, 33, self.whole(1, 80)))
        self.B = self.pick((1, 1, 2, 3))
        self.Hq, self.Hkv = self.pick(HEADS)
        D, Dv = self.pick(HEAD_SIZES), self.pick(HEAD_SIZES)
        native = [self.rng.standard_normal(s) for s in (
            (self.B, self.Hq, self.Tq, D), (self.B, self.Hkv, Tk, D), (self.B, self.Hkv, Tk, Dv))]
        mask = self.mask(self.positions())
        if mask is not None:
            self.options["mask"] = mask
        self.additive()
        self.scoring(D)
        q, k, v = (to_dtype(x, dtype) for x in self.layout(native))
        self.rope(D)
        self.score(D)
        return Case(self.seed, dtype, q, k, v, self.options, self.tensors)


def random_case(Tk, dtype, number):
    """The same arguments give the same case."""
    seed = (Tk, DTYPES.index(dtype), number)
    return Builder(seed).build(Tk, dtype)
