# SPDX-License-Identifier: Apache-2.0
"""Calls of the service put as requests of the Open Inference Protocol, and its answers taken apart.

Bodies are made here byte by byte; tests/clients has those that real clients make.
"""
import json

import numpy as np

from support.client import JSON_TYPE, nest, words
from support.safetensors import from_bfloat16, to_bfloat16

LENGTH = "Inference-Header-Content-Length"
# numpy has no bfloat16: its bits are uint16 in these tests.
DATATYPES = {"float32": "FP32", "float64": "FP64", "float16": "FP16", "uint16": "BF16",
             "bool": "BOOL", "uint8": "UINT8", "int8": "INT8", "int16": "INT16",
             "uint32": "UINT32", "int32": "INT32", "uint64": "UINT64", "int64": "INT64"}
DTYPES = {datatype: np.dtype(name) for name, datatype in DATATYPES.items()}


def entry(name, array, binary):
    """An input's JSON."""
    array = np.asarray(array)
    made = {"name": name, "shape": list(array.shape), "datatype": DATATYPES[array.dtype.name]}
    if binary:
        return {**made, "parameters": {"binary_data_size": array.nbytes}}
    plain = from_bfloat16(array) if array.dtype == np.uint16 else array
    return {**made, "data": nest(plain.ravel().tolist())}


def parameter(value):
    """Scalars as they are, all else as a JSON string."""
    return json.dumps(value) if isinstance(value, (dict, list)) else value


def pack(inputs, options=None, outputs=None, binary=True, **more):
    """(body, headers): `binary` says of each input, or of all, whether it is sent as bytes."""
    chosen = binary if isinstance(binary, dict) else dict.fromkeys(inputs, binary)
    request = {"inputs": [entry(name, array, chosen[name]) for name, array in inputs.items()],
               "parameters": {name: parameter(value) for name, value in (options or {}).items()},
               **more}
    if outputs is not None:
        request["outputs"] = [output if isinstance(output, dict) else {"name": output}
                              for output in outputs]
    text = json.dumps(request, allow_nan=False).encode()
    blobs = [np.ascontiguousarray(x).tobytes() for name, x in inputs.items() if chosen[name]]
    return b"".join([text, *blobs]), {LENGTH: str(len(text))}


class Outputs(dict):
    """{name: array} of an answer in this order, and its JSON."""

    def __init__(self, answer):
        super().__init__()
        length = answer.headers.get(LENGTH)
        text = answer.body if length is None else answer.body[:int(length)]
        rest = b"" if length is None else answer.body[int(length):]
        self.json = json.loads(text)
        for output in self.json["outputs"]:
            dtype = DTYPES[output["datatype"]]
            size = output.get("parameters", {}).get("binary_data_size")
            if size is None:
                data = np.array(words(output["data"]), np.float64)
                data = to_bfloat16(data) if dtype == np.uint16 else data.astype(dtype)
            else:
                data, rest = np.frombuffer(rest[:size], dtype), rest[size:]
            self[output["name"]] = data.reshape(output["shape"])
        assert rest == b""
        kind = JSON_TYPE if length is None else "application/octet-stream"
        assert answer.headers["Content-Type"] == kind


def infer(client, inputs, options=None, outputs=None, binary=True, model="attention", **more):
    """The outputs of a call that must succeed."""
    body, headers = pack(inputs, options, outputs, binary, **more)
    answer = client.send("POST", f"/v2/models/{model}/infer", body, headers)
    assert answer.status == 200, f"{answer.status}: {answer.body[:2000]!r}"
    return Outputs(answer)
