# SPDX-License-Identifier: Apache-2.0
"""Safetensors, written and read here from the format's description so that the daemon's own codec
is checked by something that shares nothing with it. bfloat16 is numpy uint16 (the raw bits)."""
import json
import struct

import numpy as np

NAMES = {
    "F64": np.dtype("<f8"), "F32": np.dtype("<f4"), "F16": np.dtype("<f2"),
    "BF16": np.dtype("<u2"), "BOOL": np.dtype("?"), "U8": np.dtype("u1"), "I8": np.dtype("i1"),
    "I16": np.dtype("<i2"), "I32": np.dtype("<i4"), "I64": np.dtype("<i8"),
    "U32": np.dtype("<u4"), "U64": np.dtype("<u8"),
}
DTYPES = {dtype: name for name, dtype in NAMES.items()}


def write(tensors, metadata=None):
    """{name: array}, {key: string} -> bytes. The header is padded to 8 bytes, the data dense."""
    header, data, at = {}, [], 0
    if metadata:
        header["__metadata__"] = metadata
    for name, array in tensors.items():
        array = np.asarray(array)
        raw = array.astype(array.dtype.newbyteorder("<")).tobytes()
        header[name] = {"dtype": DTYPES[array.dtype.newbyteorder("<")],
                        "shape": list(array.shape), "data_offsets": [at, at + len(raw)]}
        data.append(raw)
        at += len(raw)
    text = json.dumps(header, allow_nan=False).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(data)


def parse(body):
    """bytes -> ({name: array}, {key: string}). Refuses holes, overlaps and a length that is off."""
    size = struct.unpack_from("<Q", body)[0]
    header = json.loads(body[8:8 + size])
    metadata = header.pop("__metadata__", {})
    data, tensors, end = body[8 + size:], {}, 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, stop = entry["data_offsets"]
        assert begin == end, f"{name} begins at {begin}, the tensor before it ends at {end}"
        array = np.frombuffer(data[begin:stop], dtype=NAMES[entry["dtype"]])
        tensors[name], end = array.reshape(entry["shape"]), stop
    assert end == len(data), f"{len(data)} bytes of data, the last tensor ends at {end}"
    return tensors, metadata


def to_bfloat16(x):
    """float -> the uint16 bits of the nearest bfloat16, ties to even; rounds once from float64."""
    x = np.asarray(x, dtype=np.float64)
    single = x.astype(np.float32)
    # round to odd first, so that the second rounding cannot land on a false tie
    inexact = np.isfinite(x) & (single.astype(np.float64) != x)
    bits = single.view(np.uint32)
    away = inexact & (np.abs(single.astype(np.float64)) > np.abs(x))
    bits = np.where(away, bits - np.uint32(1), bits)
    bits = np.where(inexact, bits | np.uint32(1), bits).astype(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    quiet = (bits >> np.uint32(16)) | np.uint32(0x40)
    return np.where(np.isnan(x), quiet, rounded).astype(np.uint16)


def from_bfloat16(bits):
    return (np.asarray(bits, dtype=np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
