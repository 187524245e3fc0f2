# SPDX-License-Identifier: Apache-2.0
"""Calls of the Open Inference Protocol: drawn as the service's own calls are, and judged as those.

Their errors have a status and a sentence, but no type: what is judged is whether there is one.
"""
import json
import math

import numpy as np
from calls import is_float
from faults import SIZES, Tensor, from_bytes, numbers
from request import Request, load, scalar
from support.safetensors import from_bfloat16

LENGTH = "Inference-Header-Content-Length"
DATATYPES = {"float32": "FP32", "float64": "FP64", "float16": "FP16", "bfloat16": "BF16",
             "bool": "BOOL", "uint8": "UINT8", "int8": "INT8", "int16": "INT16",
             "uint16": "UINT16", "uint32": "UINT32", "int32": "INT32", "uint64": "UINT64",
             "int64": "INT64"}
DTYPES = {datatype: name for name, datatype in DATATYPES.items()}
# Calls with other members, or with inputs that the protocol gives a meaning, are not judged.
JUDGED_MEMBERS = {"id", "parameters", "inputs"}
OWN_NAMES = {"bias", "allow", "hide", "keep", "kv_lengths", "q_lengths", "q_segments",
             "kv_segments", "q_offset", "alibi", "sink"}


def dtype_of(array):
    return "bfloat16" if array.dtype == np.uint16 else array.dtype.name


def written(name, array, binary):
    """An input's JSON; its bytes follow where `binary`."""
    made = {"name": name, "shape": list(array.shape), "datatype": DATATYPES[dtype_of(array)]}
    if binary:
        return {**made, "parameters": {"binary_data_size": array.nbytes}}
    plain = from_bfloat16(array) if array.dtype == np.uint16 else array
    flat = plain.ravel().tolist()
    return {**made, "data": [word(item) for item in flat] if is_float(array) else flat}


def word(item):
    if np.isfinite(item):
        return item
    return "NaN" if np.isnan(item) else "Infinity" if item > 0 else "-Infinity"


def to_request(tensors, options, binary):
    """The JSON of a call: options are parameters, all but simple ones as texts of JSON."""
    parameters = {name: json.dumps(value) if isinstance(value, (dict, list)) else value
                  for name, value in options.items() if name != "encoding"}
    return {"inputs": [written(name, array, binary) for name, array in tensors.items()],
            "parameters": parameters}


def to_binary(tensors, options):
    """The JSON, then the inputs'."""
    text = json.dumps(to_request(tensors, options, True)).encode()
    return text + b"".join(np.ascontiguousarray(array).tobytes() for array in tensors.values())


def json_length(body):
    """How many bytes of a binary body are JSON; None when it does not begin with any."""
    try:
        return json.JSONDecoder().raw_decode(body.decode("latin-1"))[1]
    except ValueError:
        return None


def read_input(entry, rest, faults):
    """(its Tensor, the bytes behind its own); raises ValueError when its size is another."""
    dtype, shape = DTYPES[entry["datatype"]], entry["shape"]
    elements = math.prod(shape)
    if "data" in entry:
        if len(entry["data"]) != elements or any(isinstance(x, list) for x in entry["data"]):
            raise ValueError("nested, or of another length")
        return Tensor(shape, dtype, numbers(entry["data"], dtype, faults)), rest
    size = entry["parameters"]["binary_data_size"]
    if size != elements * SIZES[dtype] or len(rest) < size:
        raise ValueError("another size")
    return from_bytes(rest[:size], dtype, shape), rest[size:]


def answer_of(body, length):
    """A binary answer: what the outputs say of their bytes is all that there is."""
    outputs = json.loads(body[:length])["outputs"]
    sizes = [output["parameters"]["binary_data_size"] for output in outputs
             if "data" not in output]
    assert length + sum(sizes) == len(body)
    for output in outputs:
        size = output.get("parameters", {}).get("binary_data_size")
        elements = math.prod(output["shape"])
        assert size in (None, elements * SIZES[DTYPES[output["datatype"]]])


def option(value):
    """A text is read as in a query string."""
    if not isinstance(value, str):
        return value
    return load(value) if value[:1] in ("{", "[", '"') and value else scalar(value)


def request_of(body, length, known, faults):
    """A Request as other encodings give it, or None when this one is not for the judge. `length`:
    how many bytes of the body are JSON."""
    try:
        document, rest = load(body[:length]), body[length:]
        entries = {entry["name"]: entry for entry in document["inputs"]}
        parameters = document.get("parameters", {})
        if set(document) - JUDGED_MEMBERS or len(entries) < len(document["inputs"]) or \
                set(parameters) - known or {"encoding"} & set(parameters) or \
                OWN_NAMES & set(entries):
            return None
        tensors = {}
        for name, entry in entries.items():
            tensors[name], rest = read_input(entry, rest, faults)
        if rest:
            return None
        options = {name: option(value) for name, value in parameters.items()}
    except Exception:  # whatever is wrong with it, the schema or schemathesis' checks say so
        return None
    return Request.of_parts(tensors, options, ("q", "k", "v"), known, faults)
