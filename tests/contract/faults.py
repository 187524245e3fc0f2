# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a request that its schema cannot say, and a tensor as the contract has it.

Nothing here is taken from the daemon but its limits: an answer is right when this agrees with it.
"""
import base64
import binascii
import math
import re

import numpy as np
from support import safetensors

MAX_RANK = 5
INT64 = (-(2 ** 63), 2 ** 63 - 1)
WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
# Beside its schema a value may be wrong in any of these ways; which one is told first is free.
BY_SCHEMA = frozenset({"bad-type", "bad-value", "bad-mask", "bad-shape", "bad-dtype",
                       "unknown-field", "missing-field", "training-only", "malformed",
                       "number-range"})
FLOATS = {"float32": np.float32, "float64": np.float64, "float16": np.float16}
SIZES = {"float32": 4, "float64": 8, "float16": 2, "bfloat16": 2, "bool": 1, "uint8": 1, "int8": 1,
         "uint16": 2, "int16": 2, "uint32": 4, "int32": 4, "uint64": 8, "int64": 8}
STRICT_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")


class Faults:
    """`must`: each of these is wrong. `may`: a limit that this model only estimates."""

    def __init__(self):
        self.must, self.may = set(), set()

    def add(self, *names):
        self.must.update(names)


class Tensor:
    """A shape, a dtype and, unless something is wrong with them, the elements in C order."""

    def __init__(self, shape, dtype, data=None):
        self.shape, self.dtype, self.data = list(shape), dtype, data

    @property
    def rank(self):
        return len(self.shape)

    @property
    def is_float(self):
        return "float" in self.dtype

    @property
    def elements(self):
        return math.prod(self.shape)


def flatten(value, faults):
    """Nested lists -> (shape, elements); None when they are ragged or too deep."""
    shape, level = [], [value]
    while level and all(isinstance(item, list) for item in level):
        if len({len(item) for item in level}) > 1:
            faults.add("bad-shape")
            return None
        shape.append(len(level[0]))
        level = [inner for item in level for inner in item]
    if any(isinstance(item, list) for item in level) or len(shape) > MAX_RANK:
        faults.add("bad-shape")
        return None
    return shape, level


def leaves_of(value):
    """What stands in the lists, from the first on."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, list):
            waiting.extend(reversed(item))
        else:
            yield item


def is_whole(item):
    return isinstance(item, int) and not isinstance(item, bool)


def real(item, dtype, faults):
    """One number of a float tensor, rounded once."""
    if isinstance(item, bool):
        faults.add("bad-type")
        return math.nan
    if isinstance(item, str):
        if item not in WORDS:
            faults.add("bad-value")
        return WORDS.get(item, math.nan)
    try:
        wide = float(item)
    except OverflowError:
        wide = math.inf
    if math.isinf(wide):
        faults.add("number-range")
        return wide
    if dtype == "bfloat16":
        narrow = float(safetensors.from_bfloat16(safetensors.to_bfloat16(wide)))
    else:
        with np.errstate(over="ignore"):
            narrow = float(FLOATS[dtype](wide))
    if math.isinf(narrow):
        faults.add("bad-value")
    return narrow


def integer_range(dtype):
    bits = 8 * SIZES[dtype]
    if dtype == "uint64":
        return 0, INT64[1]  # written in JSON; base64 has all 64 bits
    return (0, 2 ** bits - 1) if dtype[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def whole(item, dtype, faults):
    """One number of an integer tensor."""
    if dtype == "bool":
        if isinstance(item, bool) or (is_whole(item) and item in (0, 1)):
            return int(item)
        faults.add("bad-type", "bad-value")
        return 0
    if not is_whole(item):
        faults.add("bad-type")
        return 0
    least, most = integer_range(dtype)
    if not least <= item <= most:
        faults.add("bad-value", "number-range")
    return item


def numbers(items, dtype, faults):
    read = real if "float" in dtype else whole
    return [read(item, dtype, faults) for item in items]


def guess(items, role, default):
    """The dtype of numbers that came without one."""
    if role == "real":
        return default
    return "bool" if items and isinstance(items[0], bool) else "int64"


def from_bytes(raw, dtype, shape):
    if dtype == "bfloat16":
        data = safetensors.from_bfloat16(np.frombuffer(raw, "<u2"))
    else:
        data = np.frombuffer(raw, np.dtype(dtype).newbyteorder("<"))
    return Tensor(shape, dtype, data.tolist())


def tensor(value, role, default, faults):
    """A tensor written in JSON; None when it cannot be one."""
    if isinstance(value, list):
        flat = flatten(value, faults)
        if flat is None:
            leaves = list(leaves_of(value))
            numbers(leaves, guess(leaves, role, default), faults)
            return None
        shape, items = flat
        dtype = guess(items, role, default)
        return Tensor(shape, dtype, numbers(items, dtype, faults))
    shape = value["shape"]
    if len(shape) > MAX_RANK:
        faults.add("bad-shape")
        return None
    if "base64" in value:
        return from_base64(value, value.get("dtype", default), faults)
    dtype = value.get("dtype") or guess(value["data"], role, default)
    if beyond_count(shape, dtype, faults) or len(value["data"]) != math.prod(shape):
        faults.add("bad-shape")
        numbers(value["data"], dtype, faults)  # which of them is told first is free
        return None
    return Tensor(shape, dtype, numbers(value["data"], dtype, faults))


def beyond_count(shape, dtype, faults):
    """The axes' product must be countable, whether or not one of them is 0."""
    bytes_ = math.prod(axis for axis in shape if axis) * SIZES[dtype]
    if bytes_ < 2 ** 63:
        return False
    if 0 not in shape:
        return True
    faults.may.add("bad-shape")
    return False


def from_base64(value, dtype, faults):
    text = value["base64"]
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raw = None
    if raw is None or base64.b64encode(raw).decode() != text or not STRICT_BASE64.fullmatch(text):
        faults.add("malformed")
        return None
    shape = value["shape"]
    if beyond_count(shape, dtype, faults) or len(raw) != math.prod(shape) * SIZES[dtype]:
        faults.add("bad-shape")
        return None
    return from_bytes(raw, dtype, shape)


def broadcasts(shape, full):
    """Aligned at the right."""
    return len(shape) <= len(full) and all(
        axis in (1, size) for axis, size in zip(reversed(shape), reversed(full), strict=False))
