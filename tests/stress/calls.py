# SPDX-License-Identifier: Apache-2.0
"""Calls as bytes, with what their answers have to be: the case folders, some that workers take, and
the hostile inputs of the catalogue that are bytes and nothing else."""
import gzip
import json
import random

import load
import numpy as np
from catalogue import row
from catalogue.rows import ROWS
from support import raw, safetensors
from support.client import SAFETENSORS_TYPE, pack

BUSY = 503
LARGEST = 64 << 10  # hostile inputs beyond this are rare ones


class Call:
    """A call's request, the statuses that its answer may have, and the results that its first
    answer had: every other one's have to be the same."""

    def __init__(self, name, request, statuses, judged=True):
        self.name, self.statuses, self.results = name, set(statuses), None
        self.head, self.body = request.split(b"\r\n\r\n", 1)
        self.is_judged = judged

    def bytes(self, *lines):
        """The request with further lines in its head."""
        more = b"".join(b"\r\n" + line.encode() for line in lines)
        return self.head + more + b"\r\n\r\n" + self.body

    def judge(self, status, headers, body, also=()):
        assert status in self.statuses or status in also, \
            f"{self.name}: {status}, expected {self.statuses}: {body[:500]}"
        if status == 200 and self.is_judged:
            found = results_of(headers.get("content-type", ""), body)
            self.results = self.results or found
            assert found == self.results, f"{self.name}: the same call gave other bits"


def results_of(kind, body):
    """What of an answer depends on the call alone."""
    if kind.startswith(SAFETENSORS_TYPE):
        tensors, _ = safetensors.parse(body)
        return {name: tensor.tobytes() for name, tensor in tensors.items()}
    if kind.startswith("application/json"):
        answer = json.loads(body)
        return {name: answer[name] for name in load.COMPARED if name in answer}
    return body


def of_folders(kind):
    return [Call(case.name, case.request, {case.status}) for case in load.cases(kind)]


def tensors(length, width=64, options=None, name="a call of workers", statuses=(200,)):
    draw = np.random.default_rng(length)
    q, k, v = draw.standard_normal((3, 1, 2, length, width)).astype(np.float32)
    body, kind = pack(q, k, v, options or {})
    return Call(name, row.typed(body, kind), statuses)


def long_text():
    """JSON that several workers read and write together."""
    draw = np.random.default_rng(1)
    q, k, v = draw.standard_normal((3, 192, 64)).astype(np.float32)
    body, _ = pack(q, k, v, {"weights": True}, wire="nested")
    return Call("long JSON", raw.post(body), {200})


def packed():
    """A body that a worker unpacks, and an answer that it packs."""
    request = raw.post(gzip.compress(raw.BODY + load.BLANKS), "Content-Encoding: gzip")
    return Call("packed", request.replace(b"\r\n", b"\r\nAccept-Encoding: zstd\r\n", 1), {200},
                judged=False)


def late():
    """Calls whose deadline may pass wherever they are."""
    return [tensors(160, options={"kernel": "reference", "timeout_ms": ms}, name=f"{ms} ms",
                    statuses=(200, 504)) for ms in (1, 2, 5, 10, 20, 50)]


def of_workers():
    return [tensors(96, options={"kernel": "reference", "return": ["output", "lse"]}),
            tensors(128, options={"weights": True}, name="a map"),
            tensors(192, options={"mask": "causal"}, name="causal"),
            Call("picture", raw.post(raw.BODY[:-1] + b',"weights":true}', "Accept: image/png"),
                 {200}, judged=False),
            Call("scaling", raw.post(b'{"d_k":[64],"samples":500}',
                                     path="/v1/experiments/scaling"), {200}, judged=False),
            long_text(), packed()]


def of_operators():
    return [Call(path, raw.get(path), {200}, judged=False) for path in ("/v1", "/healthz",
                                                                        "/readyz", "/openapi.yaml")]


class Hostile:
    """An input of the catalogue: what comes back is the first answer's status, or None, and
    whether the connection stays."""

    def __init__(self, name, item):
        self.name, self.item = name, item
        self.data = item.sent(None) if callable(item.sent) else item.sent
        if not item.stays:
            self.data += raw.get("/v1")  # which must not be executed
        self.is_large = len(self.data) > LARGEST

    def judge(self, status):
        """What would be late may be refused before it is begun."""
        is_refused = self.item.status == 504 and status == BUSY
        assert is_refused or status == self.item.status, \
            f"{self.name}: {status}, expected {self.item.status}"


def hostile():
    """Those that are sent as they are to a daemon without options of its own."""
    found = []
    for line in ROWS:
        for name, item in line.inputs.items():
            plain = item.play is row.send_and_read and not (
                item.daemon or item.with_keys or item.tls or item.alone or item.log)
            if plain and item.has_body:
                found.append(Hostile(f"{line.slug} {name}", item))
    return found


def chooser(seed, *weighted):
    """A function that draws a call: each of `weighted` is (weight, list of calls)."""
    generator = random.Random(seed)
    weights = [weight for weight, _ in weighted]
    lists = [calls for _, calls in weighted]
    return lambda: generator.choice(generator.choices(lists, weights)[0])
