# SPDX-License-Identifier: Apache-2.0
"""Safetensors: a length, a JSON header, the numbers. Arrays that come back are views of the
answer; bfloat16 needs the package ml_dtypes."""
from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np

from attentiond._types import Array

MEDIA_TYPE = "application/vnd.safetensors"
ALIGNMENT = 64


def _bfloat16() -> dict[str, np.dtype[Any]]:
    try:
        import ml_dtypes
    except ImportError:
        return {}
    return {"BF16": np.dtype(ml_dtypes.bfloat16)}


_DTYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"), "F32": np.dtype("<f4"), "F16": np.dtype("<f2"),
    "BOOL": np.dtype("?"), "U8": np.dtype("u1"), "I8": np.dtype("i1"), "U16": np.dtype("<u2"),
    "I16": np.dtype("<i2"), "U32": np.dtype("<u4"), "I32": np.dtype("<i4"),
    "U64": np.dtype("<u8"), "I64": np.dtype("<i8"), **_bfloat16(),
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


def _prepare(name: str, array: Array) -> tuple[str, Array]:
    little = array.dtype.newbyteorder("<") if array.dtype.byteorder == ">" else array.dtype
    if little not in _NAMES:
        raise TypeError(f"{name} has the dtype {array.dtype}, which the daemon does not take; "
                        "convert it, for example with .astype('float32')")
    return _NAMES[little], np.ascontiguousarray(array, little)


def dumps(tensors: dict[str, Array], metadata: dict[str, str]) -> list[bytes | memoryview]:
    """The file in parts, to be sent one after the other: large tensors are not copied."""
    header: dict[str, Any] = {"__metadata__": metadata}
    parts: list[bytes | memoryview] = []
    at = 0
    for name, given in sorted(tensors.items(), key=lambda item: -item[1].dtype.itemsize):
        dtype, array = _prepare(name, given)
        header[name] = {"dtype": dtype, "shape": list(array.shape),
                        "data_offsets": [at, at + array.nbytes]}
        if array.nbytes:
            parts.append(array.reshape(-1).view(np.uint8).data)
        at += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    return [struct.pack("<Q", len(text)) + text, *parts]


def loads(body: bytes) -> tuple[dict[str, Array], dict[str, str]]:
    """The tensors by name, read-only, and the metadata."""
    size = struct.unpack_from("<Q", body)[0]
    header = json.loads(body[8:8 + size])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        if entry["dtype"] not in _DTYPES:
            raise TypeError(f"the answer's {name} is {entry['dtype']}: install ml_dtypes to read "
                            "it, or ask for another output_dtype")
        begin, end = entry["data_offsets"]
        part = np.frombuffer(memoryview(body)[8 + size + begin:8 + size + end],
                             _DTYPES[entry["dtype"]])
        tensors[name] = part.reshape(entry["shape"])
    return tensors, metadata
