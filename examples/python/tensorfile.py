# SPDX-License-Identifier: Apache-2.0
"""Safetensors in numpy: a length, a JSON header, the numbers. Enough for weights and for requests;
the half type that numpy lacks, bfloat16, is not read."""
import json
import struct

import numpy as np

TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "U8": "u1",
         "BOOL": "?"}
NAMES = {np.dtype(numpy_name): name for name, numpy_name in TYPES.items()}


def loads(data):
    """bytes or any buffer -> ({name: array}, {key: string}); the arrays are views of the buffer."""
    size = struct.unpack_from("<Q", data)[0]
    header = json.loads(bytes(data[8:8 + size]))
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        part = data[8 + size + begin:8 + size + end]
        tensors[name] = np.frombuffer(part, TYPES[entry["dtype"]]).reshape(entry["shape"])
    return tensors, metadata


def load(path):
    """The same from a file, which is mapped rather than read."""
    return loads(np.memmap(path, dtype=np.uint8, mode="r"))


def dumps(tensors, metadata=None):
    """{name: array}, {key: string} -> bytes, padded so that every number is aligned."""
    header, parts, at = {"__metadata__": metadata or {}}, [], 0
    for name, array in sorted(tensors.items(), key=lambda item: -item[1].itemsize):
        array = np.ascontiguousarray(array)
        header[name] = {"dtype": NAMES[array.dtype], "shape": list(array.shape),
                        "data_offsets": [at, at + array.nbytes]}
        parts.append(array.tobytes())
        at += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % 64)
    return struct.pack("<Q", len(text)) + text + b"".join(parts)
