# SPDX-License-Identifier: Apache-2.0
"""The requests that are tortured: every route, every codec and coding, and refusals. A row is a
request as bytes with the status that it has when nothing fails."""
import base64
import gzip
import re
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import zstandard
from support import oip, raw
from support.client import JSON_TYPE, NPY_TYPE, NPZ_TYPE, SAFETENSORS_TYPE, pack, pack_operands

FILES = Path(__file__).resolve().parents[2] / "server" / "page_files.def"
PNG_TYPE = "image/png"
MODEL = "/v2/models/attention"
BLANKS = b" " * (300 << 10)  # so that a worker unpacks it


@dataclass(frozen=True)
class Exchange:
    name: str
    path: str
    sent: bytes
    status: int = 200
    place: str = "plain"     # which of the daemons it is sent to
    method: str = "POST"
    stays: bool = True       # the connection takes another request afterwards
    stable: bool = True      # a second answer is the same
    has_body: bool = True
    has_names: bool = False  # of captures, in the place of their ids; see captures.py
    before: tuple = ()       # requests that are sent before it each time
    state: tuple = ()        # whose answers have to be those of before where it was refused
    after: tuple = ()        # requests that take away what it made


def get(path, *headers, name=None, method="GET", **more):
    return Exchange(name or f"{method} {path}", path, raw.get(path, *headers, method=method),
                    method=method, has_body=method != "HEAD", **more)


def post(name, body, *headers, path="/v1/attention", kind=JSON_TYPE, **more):
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", *headers]
    if kind:
        lines.append(f"Content-Type: {kind}")
    lines.append(f"Content-Length: {len(body)}")
    return Exchange(name, path.split("?")[0], "\r\n".join(lines).encode() + b"\r\n\r\n" + body,
                    **more)


def chunked(name, body):
    """The body in pieces of 100 bytes, which the codec gets as they come."""
    head = ("POST /v1/attention HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
            f"Content-Type: {JSON_TYPE}\r\n\r\n").encode()
    pieces = [body[at:at + 100] for at in range(0, len(body), 100)]
    return Exchange(name, "/v1/attention", head + b"".join(
        b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n")


def operands(Tq=3, Tk=5, D=8, H=2):
    rng = np.random.default_rng(11)
    return [rng.standard_normal((1, H, length, D)).astype(np.float32) for length in (Tq, Tk, Tk)]


def options_of_all_kinds():
    """(options, tensors) that need most of what a call may bring along."""
    rng = np.random.default_rng(12)
    tensors = {"more": rng.standard_normal((3, 5)).astype(np.float32),
               "seen": np.ones((1, 5), np.uint8), "sinks": np.zeros(2, np.float32)}
    mask = [{"any": [{"type": "window", "left": 1, "right": 1}, "causal"]},
            {"type": "padding", "keep": "seen"}]
    return {"mask": mask, "q_offset": 2, "bias": "more", "sink": "sinks", "weights": {"top_k": 2},
            "return": ["output", "lse", "weights", "stats", "col_sums"],
            "labels": {"q": ["a", "b", "c"], "k": ["d", "e", "f", "g", "h"]}}, tensors


def attention():
    qkv, (options, tensors) = operands(), options_of_all_kinds()
    for wire in ("nested", "flat", "base64", "safetensors", "npz"):
        body, kind = pack(*qkv, options, tensors, wire)
        for accept in (JSON_TYPE, SAFETENSORS_TYPE, NPZ_TYPE):
            yield post(f"attention {wire} to {accept.rpartition('/')[2]}", body,
                       f"Accept: {accept}", kind=kind)
    body, kind = pack(*qkv, {"return": ["output"]})
    yield post("attention to npy", body, f"Accept: {NPY_TYPE}", kind=kind)
    body, kind = pack(*qkv, {"weights": True, "labels": {"q": list("abc"), "k": list("defgh")}})
    yield post("attention to a picture", body, f"Accept: {PNG_TYPE}", kind=kind)
    yield post("query options", body, kind=kind,
               path="/v1/attention?scale=0.5&mask=causal&q_offset=2")
    yield chunked("chunked", pack(*qkv, {}, {}, "nested")[0])
    for kernel in ("reference", "blas"):
        body, kind = pack(*qkv, {"kernel": kernel})
        yield post(f"kernel {kernel}", body, kind=kind)
    body, kind = pack(*qkv, {"rope": {"theta": 10000}, "q_offset": 2})
    yield post("rope", body, kind=kind)


def by_workers():
    """Calls that are too large for the I/O thread."""
    qkv = operands(Tq=128, Tk=300, D=64)
    for wire in ("nested", "safetensors", "npz"):
        body, kind = pack(*qkv, {"weights": True}, {}, wire)
        yield post(f"by workers, {wire}", body, kind=kind)
    body, kind = pack(*qkv, {"return": ["output"], "score": "scaled_dot", "kernel": "blas"})
    yield post("by workers, blas", body, f"Accept: {SAFETENSORS_TYPE}", kind=kind)
    body, kind = pack(*qkv, {"weights": True})
    yield post("by workers, a packed answer", body, f"Accept: {SAFETENSORS_TYPE}",
               "Accept-Encoding: zstd", kind=kind)


def codings():
    body, kind = pack(*operands(), {"weights": True}, {}, "nested")
    packers = {"gzip": gzip.compress, "deflate": zlib.compress, "zstd": zstandard.compress}
    for coding, packer in packers.items():
        yield post(f"in {coding}", packer(body), f"Content-Encoding: {coding}", kind=kind)
        yield post(f"in {coding}, by a worker", packer(body + BLANKS),
                   f"Content-Encoding: {coding}", kind=kind)
        yield post(f"out {coding}", body, f"Accept-Encoding: {coding}", kind=kind)


def merge():
    rng = np.random.default_rng(13)
    given = {"outputs": rng.standard_normal((2, 1, 2, 3, 4)).astype(np.float32),
             "lses": rng.standard_normal((2, 1, 2, 3)).astype(np.float32)}
    for wire in ("nested", "safetensors", "npz"):
        body, kind = pack_operands(given, None, None, wire)
        yield post(f"merge {wire}", body, path="/v1/merge", kind=kind)


def scaling():
    path = "/v1/experiments/scaling"
    yield post("scaling", b'{"d_k":[4,8],"samples":10}', path=path)
    yield post("scaling by a worker", b'{"d_k":[64],"samples":20000}', path=path)


SLOW = post("slow", b'{"d_k":[64],"samples":40000}', path="/v1/experiments/scaling")


def inference():
    q, k, v = operands()
    inputs = {"q": q, "k": k, "v": v}
    onnx = {"Q": q, "K": k, "V": v}
    for model, given in (("attention", inputs), ("onnx_attention", onnx)):
        for path in (f"/v2/models/{model}", f"/v2/models/{model}/versions/1"):
            for binary in (False, True):
                body, headers = oip.pack(given, {"binary_data_output": binary}, None, binary)
                yield post(f"{path}/infer, {'bytes' if binary else 'numbers'}", body,
                           *(f"{name}: {value}" for name, value in headers.items() if binary),
                           path=f"{path}/infer", kind="application/octet-stream" if binary else
                           JSON_TYPE)
    body, _ = oip.pack(inputs, {"mask": "causal", "q_offset": 2, "weights": {"top_k": 2}},
                       ["output", "top_k_weights"], False, id="a name")
    yield post("infer with options", body, path=f"{MODEL}/infer")
    yield post("infer with junk", b'{"inputs":[1]}', path=f"{MODEL}/infer", status=422)


def models():
    for path in ("/v2/models/attention", "/v2/models/onnx_attention/versions/1"):
        for rest in ("", "/ready", "/config"):
            yield get(path + rest)
        yield get(path + "/stats", stable=False)
    yield get("/v2/models/attention/versions/1")
    yield get("/v2/models")
    yield get("/v2/models/stats", stable=False)
    for path in ("/v2", "/v2/", "/v2/health/live", "/v2/health/ready"):
        yield get(path)
    yield post("repository index", b"", path="/v2/repository/index")
    for what in ("load", "unload"):
        yield post(f"repository {what}", b"", path=f"/v2/repository/models/attention/{what}")
    yield get("/v2/models/nothing", status=404)


def asset():
    """The path of a file of the dashboard, in which its content's sum stands."""
    return re.search(r'"(/assets/[^"]+)"', FILES.read_text())[1]


def pages():
    for path in ("/v1", "/openapi.yaml", "/docs", "/healthz", "/readyz"):
        yield get(path)
        yield get(path, "Accept-Encoding: gzip", name=f"{path} in gzip")
    yield get("/", "Accept: text/html")
    yield get(asset(), name="a file of the dashboard")
    yield get("/assets/nothing.js", status=404)
    yield get("/v1/latency", stable=False)
    yield get("/metrics", stable=False)
    yield get("/metrics", "Accept-Encoding: gzip", name="/metrics in gzip", stable=False)
    yield get("/v1", method="HEAD")
    yield get("/v1/attention", "Origin: http://localhost:3000",
              "Access-Control-Request-Method: POST", method="OPTIONS", name="a preflight",
              status=204)


def refusals():
    yield get("/nothing", status=404)
    yield get("/v1/attention", status=405)
    yield post("an answer that there is not", b"{}", "Accept: text/html", status=406)
    yield get("/healthz?a=%00", status=400)
    yield post("no JSON", b'{"q":', status=400)
    yield post("unknown field", b'{"q":[[1]],"k":[[1]],"v":[[1]],"qq":1}', status=422)
    yield post("wrong shapes", b'{"q":[[1,2]],"k":[[1]],"v":[[1]]}', status=422)
    yield post("no safetensors", b"\0" * 16, kind=SAFETENSORS_TYPE, status=400)
    yield post("no archive", b"PK\3\4" + b"\0" * 64, kind=NPZ_TYPE, status=400)
    yield post("no gzip", b"junk", "Content-Encoding: gzip", status=400)
    yield post("unknown coding", b"junk", "Content-Encoding: lzma", status=415)
    yield post("unknown type", b"junk", kind="application/pdf", status=415)
    yield post("two lengths", b"{}", "Content-Length: 2", status=400, stays=False)
    yield post("too many options", b"{}", path="/v1/attention?" + "a=1&" * 200, status=400)


def with_keys(key):
    """For a daemon with keys: `key` is good for inference."""
    line = f"Authorization: Bearer {key}"
    body, kind = pack(*operands(), {}, {}, "nested")
    yield post("with a key", body, line, kind=kind, place="keys")
    yield post("without a key", body, kind=kind, status=401, place="keys")
    yield post("with a wrong key", body, "Authorization: Bearer atn_" + "a" * 43, kind=kind,
               status=401, place="keys")
    yield post("with a password", body,
               "Authorization: Basic " + base64.b64encode(f"x:{key}".encode()).decode(),
               kind=kind, place="keys", status=401)
    yield get("/v1", line, name="a scope that is not needed", place="keys")


def with_tls():
    body, kind = pack(*operands(), {}, {}, "nested")
    yield get("/v1", name="under TLS, GET /v1", place="tls")
    yield post("under TLS, attention", body, kind=kind, place="tls")
    yield from (post(f"under TLS, {row.name}", b"", place="tls", path=row.path, kind=None)
                for row in models() if row.name == "repository index")


PLAIN = [*attention(), *by_workers(), *codings(), *merge(), *scaling(), *inference(), *models(),
         *pages(), *refusals()]
