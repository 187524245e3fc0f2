# SPDX-License-Identifier: Apache-2.0
"""The options of a call, as types, and how their arrays become tensors of the request."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict, Union

import numpy as np

from attentiond._types import Array

#: A mask expression: "causal", {"type": "window", "left": 2, "right": 0}, a list of them (all of
#: them), {"any": [...]}, {"not": ...}. Arrays may stand wherever the daemon takes a tensor.
MaskExpression = Union[str, Mapping[str, Any], Sequence["MaskExpression"]]

Stage = Literal["raw", "scaled", "capped", "masked", "weights"]
Wanted = Literal["output", "weights", "scores", "lse", "stats", "col_sums"]


class Options(TypedDict, total=False):
    """What `attention` takes beside q, k and v; docs/semantics.md of the daemon explains each."""

    num_heads: int
    num_kv_heads: int
    layout: Literal["bhtd", "bthd"]
    q_offset: int | Sequence[int]
    align: Literal["top_left", "bottom_right"]
    scale: float | Literal["none"]
    softcap: float
    score: str | Mapping[str, Any]
    mask: MaskExpression
    bias: Array
    alibi: bool | Sequence[float] | Array
    sink: Sequence[float] | Array
    rope: Mapping[str, Any]
    precision: Literal["float32", "float64"]
    output_dtype: Literal["float64", "float32", "float16", "bfloat16"]
    weights: bool | Mapping[str, Any]
    labels: Mapping[str, Any]
    capture: Mapping[str, Any]
    timeout_ms: int
    kernel: str


# Arrays of one axis up to this length stand in the text of the options, longer ones and those of
# more axes beside q, k and v.
_INLINE = 64


def _move(value: Any, name: str, tensors: dict[str, Array]) -> Any:
    """The option's value with its arrays replaced by names of tensors."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        if value.ndim == 0 or (value.ndim == 1 and value.size <= _INLINE):
            return value.tolist()
        tensors[name] = value
        return name
    if isinstance(value, Mapping):
        return {key: _move(part, f"{name}.{key}", tensors) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_move(part, f"{name}.{at}", tensors) for at, part in enumerate(value)]
    return value


def split(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Array]]:
    """(options as JSON has them, the tensors they name); None means that an option is not given."""
    tensors: dict[str, Array] = {}
    given = {name: _move(value, name, tensors)
             for name, value in options.items() if value is not None}
    return given, tensors
