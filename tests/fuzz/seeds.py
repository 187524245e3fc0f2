# SPDX-License-Identifier: Apache-2.0
"""Seeds of the fuzz targets, from the cases of tests/cases and small calls in every encoding.

  build/venv/bin/python tests/fuzz/seeds.py FOLDER     # writes FOLDER/TARGET/NAME
"""
import gzip
import json
import sys
import zlib
from pathlib import Path

import numpy as np
import zstandard

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests")]

from support import client, safetensors  # noqa: E402

OPTIONS = ({}, {"mask": "causal", "weights": True}, {"return": ["output", "lse", "stats"]},
           {"mask": [{"type": "window", "left": 1, "right": 0}, {"type": "prefix", "length": 1}]},
           {"weights": {"pool": {"rows": 2, "cols": 2, "op": "max"}}},
           {"alibi": True, "softcap": 3},
           {"weights": {"top_k": 2}, "precision": "float64"}, {"rope": {"theta": 100.0}})
TYPES = ("float32", "float16", "float64")
NAMES = ("localhost:80\nhttp://localhost:80\na.example,*.b.example\nhttp://a.example\n/v1\n",
         "[::1]\nnull\n\n*\n/v2/models/attention/versions/1/infer\n")
NUMBERS = ("1", "-0.0", "1e308", "4.9e-324", "0.1", "123456789012345678901234567890", "1e-400",
           "9007199254740993", "2.2250738585072011e-308", "[1,2,[3,4]]")
KEYS = ("# people\nalice sha256:" + "0" * 64 + " infer,metrics calls=3 memory_mib=2\n",
        "bob sha256:" + "f" * 64 + " admin requests_per_second=1 burst=2\n")


def calls():
    random = np.random.default_rng(5)
    for dtype in TYPES:
        for number, options in enumerate(OPTIONS):
            operands = {name: random.standard_normal((1, 2, 3, 4)).astype(dtype) for name in "qkv"}
            yield f"{dtype}-{number}", operands, options


def seeds():
    """(target, name, bytes)"""
    for path in sorted((ROOT / "tests/cases").glob("*/*/request.json")):
        yield "json", f"{path.parts[-3]}-{path.parts[-2]}", path.read_bytes()
    for name, operands, options in calls():
        for wire, target in (("safetensors", "safetensors"), ("npz", "npz"), ("nested", "json"),
                             ("base64", "json"), ("flat", "json")):
            body, _ = client.pack_operands(operands, options, wire=wire)
            yield target, f"{wire}-{name}", body
            yield "guess", f"{wire}-{name}", body
        for binary in (False, True):
            yield "oip-attention", f"{binary}-{name}", framed(operands, options, binary)
    onnx = {name: np.ones((1, 2, 3, 4), np.float32) for name in "QKV"}
    for number, options in enumerate(({}, {"is_causal": 1}, {"softcap": 2.0}, {"scale": 0.5})):
        for binary in (False, True):
            yield "oip-onnx", f"{binary}-{number}", framed(onnx, options, binary)
    for number, text in enumerate((b"", b"a", b"attention " * 1000, bytes(5000))):
        yield "gzip", str(number), gzip.compress(text)
        yield "deflate", str(number), zlib.compress(text)
        yield "zstd", str(number), zstandard.compress(text)
    for number, (dtype, length, gap) in enumerate((("float32", 3, 0), ("float16", 0, 0),
                                                   ("float64", 400, 100))):
        yield "snapshot", str(number), snapshot(dtype, length, gap)
    for target in ("masks", "plans"):  # they draw from any bytes
        for number in range(40):
            yield target, str(number), random_bytes(number, 40 * (1 + number % 8))
    for number, text in enumerate(wires()):
        yield "wire", str(number), text
    for target, texts in (("names", NAMES), ("numbers", NUMBERS), ("keys", KEYS)):
        for number, text in enumerate(texts):
            yield target, str(number), text.encode()


def random_bytes(seed, count):
    return np.random.default_rng(seed).bytes(count)


def wires():
    """What a client may say on one connection."""
    call = b'{"q":[[1,0]],"k":[[1,0],[0,1]],"v":[[1],[2]],"weights":true}'
    session = b'{"layers":1,"kv_heads":1,"head_dim":2,"dtype":"float32","id":"s"}'
    packed = gzip.compress(call)
    for path in ("/v1", "/healthz", "/metrics", "/v2/models/attention", "/v1/sessions/s", "/docs",
                 "/v1/captures?limit=2", "/problems/x", "/%00", "*"):
        yield f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    for path, body, more in (
            ("/v1/attention", call, "Content-Type: application/json\r\n"),
            ("/v1/attention?mask=causal&capture=true&encoding=base64", call, ""),
            ("/v1/attention?compress=gzip", packed, "Content-Encoding: gzip\r\n"),
            ("/v1/sessions", session, "Content-Type: application/json\r\n"),
            ("/v1/merge", b"{}", "Accept: application/vnd.safetensors;q=0.5, */*\r\n"),
            ("/v2/repository/index", b"", "traceparent: 00-" + "1" * 32 + "-" + "2" * 16 +
             "-01\r\n")):
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{more}"
        yield f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
        yield (f"{head}Transfer-Encoding: chunked\r\n\r\n{len(body):x};x=y\r\n".encode() + body +
               b"\r\n0\r\nX-Trailer: 1\r\n\r\nGET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    for head in ("Content-Length: 5\r\nContent-Length: 5", "Transfer-Encoding: gzip",
                 "Content-Length: 5\r\nTransfer-Encoding: chunked", "Expect: 100-continue",
                 "Host: other.example", "Content-Length : 5", "A: b\r\n c", "Origin: null"):
        yield f"POST /v1/attention HTTP/1.1\r\nHost: localhost\r\n{head}\r\n\r\nhello".encode()


def snapshot(dtype, length, gap):
    """A session of two layers, whose second one has tokens, of which `gap` have left its window."""
    session = {"layers": 2, "kv_heads": 2, "head_dim": 4, "value_dim": 3, "dtype": dtype,
               "capacity": 1000, "ttl_s": 60, "window": [None, {"left": 20, "sinks": 1}],
               "rope": {"dims": 2}, "lengths": [0, length], "gap_keys": [0, 256 * (gap > 0)],
               "gap_counts": [0, gap]}
    tensors = {f"layers.{layer}.{part}": np.ones((2, rows, width), dtype)
               for layer, rows in ((0, 0), (1, length - gap))
               for part, width in (("k", 4), ("v", 3))}
    return safetensors.write(tensors, {"session": json.dumps(session)})


def framed(operands, options, binary):
    parameters = {name: value if isinstance(value, (bool, int, float, str)) else json.dumps(value)
                  for name, value in options.items()}
    inputs, tail = [], b""
    for name, array in operands.items():
        kind = {"float32": "FP32", "float16": "FP16", "float64": "FP64"}[array.dtype.name]
        row = {"name": name, "shape": list(array.shape), "datatype": kind}
        if binary:
            row["parameters"] = {"binary_data_size": array.nbytes}
            tail += array.tobytes()
        else:
            row["data"] = array.ravel().tolist()
        inputs.append(row)
    head = json.dumps({"inputs": inputs, "parameters": parameters}).encode()
    return b"#%d\n" % len(head) + head + tail if binary else head


def main():
    folder = Path(sys.argv[1])
    for target, name, body in seeds():
        (folder / target).mkdir(parents=True, exist_ok=True)
        (folder / target / name).write_bytes(body)


if __name__ == "__main__":
    main()
