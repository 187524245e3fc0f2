# SPDX-License-Identifier: Apache-2.0
"""Calls that mostly make sense, with one thing in ten a little wrong: what a schema alone would
hardly ever draw. Each is (tensors, options); `to_json` and `to_safetensors` write it down."""
import base64
import io
import json

import numpy as np
from hypothesis import strategies as st
from support import safetensors
from support.client import encode

DTYPES = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("bool", "uint8", "int8", "int16", "uint32", "int32", "int64", "uint64")
SIZES = st.sampled_from((0, 1, 1, 2, 2, 3, 4, 5, 8))
SPECIAL = st.sampled_from((0.0, -0.0, 1.0, 65504.0, -1e-30, float("inf"), float("-inf"),
                           float("nan")))


def seldom(draw):
    return draw(st.integers(0, 19)) == 0


def nudged(draw, value, by=1):
    """The number, now and then one that is next to it."""
    return max(0, value + draw(st.sampled_from((-by, by)))) if seldom(draw) else value


def values(draw, shape, dtype):
    """An array; from few draws, so that large ones cost no more."""
    few = draw(st.lists(st.one_of(st.integers(-3, 3).map(float), SPECIAL), min_size=1, max_size=5))
    data = np.resize(np.array(few), shape)
    if "float" in dtype:
        with np.errstate(all="ignore"):
            return safetensors.to_bfloat16(data) if dtype == "bfloat16" else data.astype(dtype)
    return np.resize(np.array(draw(st.lists(st.integers(0, 1), min_size=1, max_size=5))),
                     shape).astype(dtype)


class Maker:
    """Draws the parts of one attention call."""

    def __init__(self, draw):
        self.draw, self.tensors, self.options = draw, {}, {}
        self.B, self.Hkv = (draw(st.sampled_from((1, 1, 2, 3))) for _ in range(2))
        self.Hq = self.Hkv * draw(st.sampled_from((1, 1, 2, 3)))
        self.Tq, self.Tk, self.D, self.Dv = (draw(SIZES) for _ in range(4))
        if draw(st.booleans()):
            self.Tk = self.Tq
        self.rank = draw(st.sampled_from((2, 3, 3, 4, 4)))
        self.dtype = draw(st.sampled_from(DTYPES))

    def pick(self, *choices):
        return self.draw(st.sampled_from(choices))

    def make(self):
        self._operands()
        for part in (self._mask, self._positions, self._scores, self._answer):
            if self.draw(st.integers(0, 2)) > 0:
                part()
        if seldom(self.draw):
            self.options["kernel"] = self.pick("reference", "blas", "fused", "decode", "none")
        return self.tensors, self.options

    def _shape(self, heads, length, width):
        sizes = [nudged(self.draw, size) for size in (heads, length, width)]
        heads, length, width = sizes
        if self.rank == 2:
            return [length, width]
        if self.rank == 3:
            return [self.B, length, heads * width] if self.split else [heads, length, width]
        batch = nudged(self.draw, self.B)
        return ([batch, length, heads, width] if self.options.get("layout") == "bthd"
                else [batch, heads, length, width])

    def _operands(self):
        self.split = self.rank == 3 and self.draw(st.booleans())
        if self.split:
            self.options["num_heads"] = self.Hq
            if self.Hkv != self.Hq or seldom(self.draw):
                self.options["num_kv_heads"] = self.Hkv
        elif self.rank == 4 and self.draw(st.booleans()) or seldom(self.draw):
            self.options["layout"] = self.pick("bhtd", "bthd")
        if self.rank == 3 and not self.split or self.rank == 2:
            self.B = 1
        if self.rank == 2:
            self.Hq = self.Hkv = 1
        for name, shape in (("q", (self.Hq, self.Tq, self.D)), ("k", (self.Hkv, self.Tk, self.D)),
                            ("v", (self.Hkv, self.Tk, self.Dv))):
            dtype = self.pick(*DTYPES) if seldom(self.draw) else self.dtype
            self.tensors[name] = values(self.draw, self._shape(*shape), dtype)

    def _named(self, array):
        name = f"t{len(self.tensors)}"
        self.tensors[name] = array
        return "absent" if seldom(self.draw) else name

    def _lengths(self, most):
        count = nudged(self.draw, self.pick(1, max(self.B, 1)))
        drawn = [nudged(self.draw, self.draw(st.integers(0, most)), most) for _ in range(count)]
        return drawn[0] if count == 1 and self.draw(st.booleans()) else drawn

    def _ids(self, length):
        shape = [nudged(self.draw, length)]
        if self.draw(st.booleans()):
            shape.insert(0, self.pick(1, self.B))
        return self._named(values(self.draw, shape, self.pick(*INTEGERS)))

    def _leaf(self):
        kind = self.pick("causal", "window", "padding", "keep", "prefix", "segments", "global",
                         "dilated", "block_causal", "allow", "hide")
        small = st.integers(0, 4)
        if kind == "causal":
            align = self.pick(None, "top_left", "bottom_right", "bottom_right")
            return {"type": kind, "align": align} if align else kind
        if kind == "window":
            return {"type": kind, "left": self.draw(small) - 1, "right": self.draw(small) - 1}
        if kind == "padding":
            mask = {"type": kind, "kv_lengths": self._lengths(self.Tk)}
            if self.draw(st.booleans()):
                mask["q_lengths"] = self._lengths(self.Tq)
            return mask
        if kind == "keep":
            return {"type": "padding", "keep": self._ids(self.Tk)}
        if kind == "prefix":
            return {"type": kind, "length": self._lengths(self.Tk)}
        if kind == "segments":
            mask = {"type": kind, "q": self._ids(self.Tq)}
            if self.Tq != self.Tk or self.draw(st.booleans()):
                mask["kv"] = self._ids(self.Tk)
            return mask
        if kind == "global":
            tokens = self.draw(st.lists(st.integers(0, max(self.Tk - 1, 0)), max_size=3))
            return {"type": kind, "tokens": tokens}
        if kind == "dilated":
            return {"type": kind, "width": self.draw(small), "stride": self.draw(small) + 1}
        if kind == "block_causal":
            return {"type": kind, "block": self.draw(small) + 1}
        return {"type": kind, "tensor": self._grid(self.pick(*INTEGERS))}

    def _grid(self, dtype):
        """Something that broadcasts to [B,Hq,Tq,Tk], mostly."""
        full = [self.pick(1, size) for size in (self.B, self.Hq, self.Tq, self.Tk)]
        full = [nudged(self.draw, size) for size in full]
        return self._named(values(self.draw, full[self.draw(st.integers(0, 4)):], dtype))

    def _mask(self):
        leaves = [self._leaf() for _ in range(self.pick(1, 1, 2, 3))]
        way = self.pick("one", "list", "all", "any", "not", "deep")
        self.options["mask"] = {
            "one": leaves[0], "list": leaves, "all": {"all": leaves}, "any": {"any": leaves},
            "not": {"not": leaves[0]}, "deep": {"all": [{"any": leaves}, {"not": leaves[-1]}]},
        }[way]

    def _positions(self):
        if self.draw(st.booleans()):
            self.options["q_offset"] = self._lengths(6)
        if self.draw(st.booleans()):
            rope = self.options["rope"] = {}
            if self.draw(st.booleans()):
                rope["dims"] = 2 * self.draw(st.integers(1, 4))
            pairs = rope.get("dims", self.D) // 2
            way = self.pick("theta", "inv_freq", "none")
            if way == "inv_freq":
                rope[way] = [self.draw(st.floats(-2, 2))] * nudged(self.draw, pairs)
            elif way == "theta":
                rope[way] = self.draw(st.sampled_from((1e-9, 1.0, 1e4, 1e300)))
            if self.draw(st.booleans()):
                rope["interleaved"] = self.draw(st.booleans())
            if self.draw(st.booleans()):
                rope["q_offset"] = self._lengths(3)
                rope["k_offset"] = self.draw(st.sampled_from((0, -3, 2 ** 53, -(2 ** 53))))

    def _per_head(self):
        count = nudged(self.draw, self.pick(1, max(self.Hq, 1)))
        few = st.one_of(st.integers(-3, 3), st.sampled_from(("-Infinity", "Infinity", "NaN")))
        return [self.draw(few) if seldom(self.draw) else 0.5] * count

    def _scores(self):
        if self.draw(st.booleans()):
            self.options["scale"] = self.pick(0, -1.5, 1e-3, "none", 1e300)
        if self.draw(st.booleans()):
            self.options["softcap"] = self.pick(1e-3, 30, 1e300)
        if self.draw(st.booleans()):
            self.options["bias"] = self._grid(self.pick(*DTYPES))
        if self.draw(st.booleans()):
            self.options["alibi"] = self.pick(True, False, "list")
            if self.options["alibi"] == "list":
                self.options["alibi"] = self._per_head()
        if self.draw(st.booleans()):
            self.options["sink"] = self._per_head()
        if seldom(self.draw):
            shape = self.pick([self.D], [self.Hq, self.D], [self.D + 1])
            w = np.ones(shape) if self.draw(st.booleans()) else values(self.draw, shape, "float32")
            self.options["score"] = {"type": "additive", "w": self._named(w)}
        if self.draw(st.booleans()):
            self.options["precision"] = self.pick("float32", "float64")

    def _answer(self):
        names = ("output", "weights", "scores", "lse", "stats", "col_sums")
        if self.draw(st.booleans()):
            self.options["return"] = self.draw(st.lists(st.sampled_from(names), min_size=1,
                                                        max_size=6))
        if self.draw(st.booleans()):
            self.options["weights"] = self._selection()
        if self.draw(st.booleans()):
            self.options["output_dtype"] = self.pick(*DTYPES)
        if self.draw(st.booleans()):
            self.options["encoding"] = self.pick("nested", "flat", "base64")
        if seldom(self.draw):
            count = nudged(self.draw, self.Tq)
            self.options["labels"] = {"q": ["a"] * count, "k": [["b"] * self.Tk] * self.B}
        if seldom(self.draw):
            self.options["timeout_ms"] = self.pick(1, 60_000)

    def _range(self, size):
        ends = sorted(self.draw(st.integers(0, size)) for _ in range(2))
        return [ends[0], nudged(self.draw, ends[1])]

    def _selection(self):
        if self.draw(st.booleans()):
            return self.draw(st.booleans())
        chosen = {"stage": self.pick("raw", "scaled", "capped", "masked", "weights")}
        rows, cols = self.Tq, self.Tk
        if self.draw(st.booleans()):
            chosen["rows"] = self._range(rows)
            rows = chosen["rows"][1] - chosen["rows"][0]
        if self.draw(st.booleans()):
            chosen["cols"] = self._range(cols)
            cols = chosen["cols"][1] - chosen["cols"][0]
        if self.draw(st.booleans()):
            heads = st.lists(st.integers(0, max(self.Hq - 1, 0)), min_size=1, max_size=4)
            chosen["heads"] = self.pick("mean", "max", 0, self.draw(heads))
        way = self.pick("pool", "top_k", "all")
        if way == "pool":
            chosen["pool"] = {"rows": self.draw(st.integers(1, max(rows, 1))),
                              "cols": self.draw(st.integers(1, max(cols, 1))),
                              "op": self.pick("max", "mass")}
        elif way == "top_k":
            chosen["top_k"] = self.draw(st.integers(1, 6))
        return chosen


@st.composite
def attention(draw):
    return Maker(draw).make()


@st.composite
def merge(draw):
    shape = [draw(st.sampled_from((1, 1, 2, 3))), *(draw(SIZES) for _ in range(
        draw(st.sampled_from((2, 3, 4)))))]
    outputs = values(draw, shape, draw(st.sampled_from(DTYPES)))
    lses = values(draw, [nudged(draw, size) for size in shape[:-1]],
                  draw(st.sampled_from(DTYPES)))
    tensors, options = {"outputs": outputs, "lses": lses}, {}
    if draw(st.booleans()):
        heads = shape[-3] if len(shape) > 3 else 1
        options["sink"] = [0.5] * nudged(draw, draw(st.sampled_from((1, max(heads, 1)))))
    for name, choices in (("precision", ("float32", "float64")), ("output_dtype", DTYPES),
                          ("encoding", ("nested", "flat", "base64"))):
        if draw(st.booleans()):
            options[name] = draw(st.sampled_from(choices))
    return tensors, options


def as_integers(array, wire):
    """A tensor of whole numbers as JSON; base64 only with its dtype."""
    if wire == "base64":
        return {"shape": list(array.shape), "dtype": array.dtype.name,
                "base64": base64.b64encode(array.tobytes()).decode()}
    data = array.tolist() if wire == "nested" else array.ravel().tolist()
    return data if wire == "nested" else {"shape": list(array.shape), "dtype": array.dtype.name,
                                          "data": data}


def is_float(array):
    return array.dtype.kind == "f" or array.dtype == np.uint16  # bfloat16's bits


def to_json(tensors, options, wire):
    body = dict(options)
    for name, array in tensors.items():
        body[name] = encode(array, wire) if is_float(array) else as_integers(array, wire)
    return body


def to_safetensors(tensors, options):
    return safetensors.write(tensors, {"attention": json.dumps(options)} if options else None)


def to_npz(tensors, options):
    """bfloat16, which numpy has not, becomes float32."""
    plain = {name: safetensors.from_bfloat16(array) if array.dtype == np.uint16 else array
             for name, array in tensors.items()}
    file = io.BytesIO()
    np.savez(file, **plain, **({"options": json.dumps(options)} if options else {}))
    return file.getvalue()


def broken(draw, body):
    """The same file, cut short or with a byte changed; or what it was."""
    way = draw(st.sampled_from(("cut", "front", "any")))
    at = draw(st.integers(0, len(body)))
    if way == "cut" or not body:
        return body[:at]
    at %= min(len(body), 64) if way == "front" else len(body)
    return body[:at] + bytes([body[at] ^ (1 << draw(st.integers(0, 7)))]) + body[at + 1:]
