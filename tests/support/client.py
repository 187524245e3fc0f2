# SPDX-License-Identifier: Apache-2.0
"""A client of the service for the tests: one keep-alive connection, every encoding of a tensor.

Tensors are numpy arrays; bfloat16 is uint16. Answers are numpy arrays too, whatever their encoding.
"""
import base64
import http.client
import io
import json
import math
import socket

import numpy as np

from support import safetensors

WIRES = ("safetensors", "nested", "flat", "base64", "npz")
JSON_TYPE, SAFETENSORS_TYPE = "application/json", "application/vnd.safetensors"
NPZ_TYPE, NPY_TYPE = "application/x-npz", "application/x-npy"
PLACES_OF_TENSORS = ("bias", "alibi", "sink", "tensor", "keep", "tokens", "q", "kv", "inv_freq",
                     "w")
RESULTS = ("output", "weights", "scores", "lse", "top_k_weights", "top_k_scores", "top_k_indices",
           "col_sums", "col_means", "k_positions")
INDICES = ("top_k_indices", "k_positions")
DTYPE_NAMES = {np.dtype("uint16"): "bfloat16"}
WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class Answer:
    """One HTTP answer; `tensors` and `meta` are filled when it is a result."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body
        self.tensors, self.meta, self.stats, self.json = {}, {}, {}, None
        kind = headers.get("Content-Type", "").split(";")[0]
        if kind == SAFETENSORS_TYPE:
            self.tensors, metadata = safetensors.parse(body)
            self.meta = json.loads(metadata.get("meta", "{}"))
            self._take_stats(json.loads(metadata.get("stats", "{}")))
        elif kind == NPZ_TYPE:
            with np.load(io.BytesIO(body), allow_pickle=False) as archive:
                self.tensors = dict(archive)
            self.meta = json.loads(str(self.tensors.pop("meta")))
            self._take_stats(json.loads(str(self.tensors.pop("stats", "{}"))))
        elif kind.endswith("json") and body:
            self.json = json.loads(body, parse_constant=refuse, object_pairs_hook=once)
            if status == 200:
                self._take_json()

    def _take_json(self):
        if "meta" not in self.json:
            return
        self.meta = self.json["meta"]
        self._take_stats(self.json.get("stats", {}))
        dtype = np.float64 if self.meta.get("precision") == "float64" else np.float32
        for name, value in self.json.items():
            if name in RESULTS:
                self.tensors[name] = decode(value, np.int32 if name in INDICES else dtype)

    def _take_stats(self, stats):
        self.stats = {name: np.array(words(value), np.float64) for name, value in stats.items()}

    def __getitem__(self, name):
        return self.tensors[name]


def refuse(word):
    raise ValueError(f"{word} is no JSON number")


def once(pairs):
    assert len({name for name, _ in pairs}) == len(pairs), f"a name stands twice in {pairs}"
    return dict(pairs)


def words(value):
    """Nested lists with the three words for non-finite numbers -> nested lists of floats."""
    if isinstance(value, list):
        return [words(item) for item in value]
    return WORDS[value] if isinstance(value, str) else value


def decode(value, dtype):
    """A tensor in any of its three JSON forms."""
    if isinstance(value, list):
        return np.array(words(value), dtype=dtype)
    dtype = np.dtype("<u2" if value["dtype"] == "bfloat16" else value["dtype"])
    if "base64" in value:
        raw = base64.b64decode(value["base64"], validate=True)
        return np.frombuffer(raw, dtype=dtype).reshape(value["shape"])
    data = np.array(words(value["data"]), dtype=np.float64).reshape(value["shape"])
    return safetensors.to_bfloat16(data) if dtype == np.uint16 else data.astype(dtype)


def number(x):
    """A number as JSON has it: non-finite ones as words."""
    if isinstance(x, (bool, int)) or math.isfinite(x):
        return x
    return "NaN" if math.isnan(x) else "Infinity" if x > 0 else "-Infinity"


def nest(value):
    return [nest(item) for item in value] if isinstance(value, list) else number(value)


def encode(array, wire):
    """A tensor in the JSON form `wire`."""
    array = np.asarray(array)
    name = DTYPE_NAMES.get(array.dtype, array.dtype.name)
    if wire == "base64":
        return {"shape": list(array.shape), "dtype": name,
                "base64": base64.b64encode(array.tobytes()).decode()}
    plain = safetensors.from_bfloat16(array) if array.dtype == np.uint16 else array
    if wire == "nested":
        return nest(plain.tolist())
    return {"shape": list(array.shape), "dtype": name, "data": nest(plain.ravel().tolist())}


def inline(value, tensors, wire, place=""):
    """The options with every name of a tensor replaced by the tensor itself."""
    if isinstance(value, dict):
        return {key: inline(item, tensors, wire, key) for key, item in value.items()}
    if isinstance(value, list):
        return [inline(item, tensors, wire) for item in value]
    if place in PLACES_OF_TENSORS and isinstance(value, str):
        return encode(tensors[value], wire)
    return value


def savez(save, tensors, options):
    """A body of numpy.savez or savez_compressed. uint16 is bfloat16 here, which it cannot hold."""
    assert all(np.asarray(tensor).dtype != np.uint16 for tensor in tensors.values())
    body = io.BytesIO()
    save(body, **tensors, options=json.dumps(options))
    return body.getvalue()


def wires_of(dtype):
    """The encodings that have tensors of this type: numpy has no name for bfloat16."""
    return [wire for wire in WIRES if (wire, dtype) != ("npz", "bfloat16")]


def pack_operands(operands, options=None, tensors=None, wire="safetensors"):
    """(body, content type) of a request with these tensors, others that its options name, and its
    options."""
    options, tensors = options or {}, tensors or {}
    if wire == "safetensors":
        return (safetensors.write({**operands, **tensors}, {"attention": json.dumps(options)}),
                SAFETENSORS_TYPE)
    if wire == "npz":
        return savez(np.savez, {**operands, **tensors}, options), NPZ_TYPE
    request = inline(options, tensors, wire)
    request.update((name, encode(tensor, wire)) for name, tensor in operands.items())
    return json.dumps(request, allow_nan=False).encode(), JSON_TYPE


def pack(q, k, v, options=None, tensors=None, wire="safetensors"):
    return pack_operands({"q": q, "k": k, "v": v}, options, tensors, wire)


class Kernel(str):
    """A kernel's name that knows what it computes, and in what."""

    def __new__(cls, name, precisions, scores):
        self = super().__new__(cls, name)
        self.precisions, self.scores = precisions, scores
        return self

    def for_call(self, q, options):
        """This one, or blas for a call that it does not compute."""
        wide = "float64" if np.asarray(q).dtype == np.float64 else "float32"
        score = options.get("score", "scaled_dot")
        score = score["type"] if isinstance(score, dict) else score
        can = options.get("precision", wide) in self.precisions and score in self.scores
        return self if can else "blas"


class Client:
    def __init__(self, port, timeout=60, path=None):
        """Of a port, or of a Unix socket."""
        self.port, self.timeout, self.path, self.connection = port, timeout, path, None

    def _connect(self):
        self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.timeout)
        if self.path is not None:
            self.connection.sock = socket.socket(socket.AF_UNIX)
            self.connection.sock.settimeout(self.timeout)
            self.connection.sock.connect(str(self.path))
            return
        self.connection.connect()
        self.connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, method, path, body=None, headers=None):
        """One exchange. A connection that the server closed in between is opened again."""
        if self.connection is None or self.connection.sock is None:
            self._connect()
        self.connection.request(method, path, body=body, headers=headers or {})
        response = self.connection.getresponse()
        return Answer(response.status, response.headers, response.read())

    def get(self, path, **headers):
        return self.send("GET", path, headers=headers)

    def attention(self, q, k, v, options=None, tensors=None, wire="safetensors", query=""):
        """A call that must succeed."""
        if isinstance((options or {}).get("kernel"), Kernel) and wire != "nested":
            options = {**options, "kernel": options["kernel"].for_call(q, options)}
        return self._succeed("/v1/attention" + query, pack(q, k, v, options, tensors, wire))

    def merge(self, outputs, lses, options=None, tensors=None, wire="safetensors", query=""):
        """A merge that must succeed."""
        operands = {"outputs": outputs, "lses": lses}
        return self._succeed("/v1/merge" + query, pack_operands(operands, options, tensors, wire))

    def _succeed(self, path, packed):
        body, kind = packed
        answer = self.send("POST", path, body, {"Content-Type": kind})
        assert answer.status == 200, f"{answer.status}: {answer.body[:2000]!r} for {path}"
        return answer

    def close(self):
        if self.connection is not None:
            self.connection.close()
