# SPDX-License-Identifier: Apache-2.0
"""What calls give back."""
from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from attentiond import _safetensors
from attentiond._types import Array


@dataclass(frozen=True, eq=False)
class Attention:
    """The answer of an attention call. Tensors are read-only numpy arrays, None when they were not
    asked for; leading axes that q lacks are left out. T is Tq, and Tk stands for keys."""

    output: Array | None         #: q's layout and dtype, unless output_dtype says otherwise
    weights: Array | None        #: [B,Hq,Tq,Tk], or the part or the bins that were asked for
    scores: Array | None         #: the same at the stage `masked`
    lse: Array | None            #: [B,Hq,Tq], ln of the sum of exponentials
    stats: dict[str, Any] | None      #: per batch item and head
    meta: dict[str, Any]              #: what the daemon understood, and how long it took
    tensors: dict[str, Array] = field(repr=False)  #: all of them, by their names on the wire
    _draw: Callable[[], bytes | None] = field(default=lambda: None, repr=False)

    @staticmethod
    def _read(body: bytes) -> Attention:
        tensors, texts = _safetensors.loads(body)
        return Attention(
            output=tensors.get("output"), weights=tensors.get("weights"),
            scores=tensors.get("scores"), lse=tensors.get("lse"),
            stats=json.loads(texts["stats"]) if "stats" in texts else None,
            meta=json.loads(texts["meta"]), tensors=tensors)

    def _repr_png_(self) -> bytes | None:
        """The map as a picture, for notebooks: the daemon draws it from the same call."""
        return self._draw()


@dataclass(frozen=True, eq=False)
class Merged:
    """Partial results over disjoint ranges of keys, made one."""

    output: Array
    lse: Array
    meta: dict[str, Any]

    @staticmethod
    def _read(body: bytes) -> Merged:
        tensors, texts = _safetensors.loads(body)
        return Merged(tensors["output"], tensors["lse"], json.loads(texts["meta"]))
