# SPDX-License-Identifier: Apache-2.0
"""Answers with a Content-Encoding: only where the request had one or ?compress= says so, never a
refusal or what operations read, and the same bytes as without."""
import gzip
import json

import numpy as np
import pytest
from support import packing, raw
from support.client import JSON_TYPE, SAFETENSORS_TYPE, Answer, pack
from support.daemon import Daemon
from support.sessions import Session

CODINGS = ("gzip", "deflate", "zstd")
FORM_OF = {"gzip": "gzip", "deflate": "zlib", "zstd": "zstd"}
# What a request says, and how its answer comes: Content-Encoding, Accept-Encoding, ?compress=.
ROWS = [
    (None, None, None, None),
    (None, "gzip, deflate, br, zstd", None, None),  # what HTTP libraries send unasked
    (None, "gzip", None, None),
    ("gzip", None, None, None),
    ("gzip", "identity", None, None),
    ("gzip", "gzip, deflate", None, "gzip"),
    ("x-gzip", "gzip", None, "gzip"),
    ("gzip", "x-gzip", None, "gzip"),
    ("gzip", "gzip;q=0", None, None),
    ("gzip", "gzip;q=0, *", None, None),
    ("gzip", "*;q=0.1", None, "gzip"),
    ("gzip", "zstd", None, None),
    ("deflate", "gzip, deflate", None, "deflate"),
    ("zstd", "gzip, deflate, br, zstd", None, "zstd"),
    ("identity", "gzip", None, None),
    (None, None, "gzip", "gzip"),
    (None, "identity", "zstd", "zstd"),  # what http.client sends unasked
    (None, None, "DEFLATE", "deflate"),
    ("gzip", "gzip", "none", None),
    ("gzip", "gzip", "zstd", "zstd"),
]


def ask(daemon, body, kind, content=None, accept=None, compress=None, path="/v1/attention",
        more=()):
    """Without an HTTP library, which would add an Accept-Encoding of its own."""
    lines = [*more, f"Accept-Encoding: {accept}"] if accept else [*more]
    if content:
        lines.append(f"Content-Encoding: {content}")
        form = FORM_OF.get(content, "gzip")
        body = body if content == "identity" else packing.FORMS[form][1](body)
    path += f"?compress={compress}" if compress else ""
    request = raw.post(body, *lines, path=path).replace(JSON_TYPE.encode(), kind.encode(), 1)
    with raw.Connection(daemon.port) as connection:
        return connection.ask(request)


def unpacked(answer):
    coding = answer.headers.get("content-encoding")
    body = packing.unpack(coding, answer.body) if coding else answer.body
    return Answer(answer.status, {"Content-Type": answer.headers["content-type"]}, body)


def zeros(T=40, wire="safetensors"):
    """A call whose answer packs to little."""
    q = np.zeros((T, 8), np.float32)
    return pack(q, q, q, {"return": ["output", "weights"]}, {}, wire)


@pytest.mark.parametrize("content, accept, compress, expected", ROWS)
def test_when_answers_are_packed(daemon, content, accept, compress, expected):
    answer = ask(daemon, *zeros(), content, accept, compress)
    assert answer.status == 200, answer.body
    assert answer.headers.get("content-encoding") == expected
    consulted = compress is None and content not in (None, "identity")
    # Of a loopback address it varies with Origin too.
    assert answer.headers.get("vary") == ("Accept-Encoding, Origin" if consulted else "Origin")
    assert unpacked(answer)["weights"].shape == (40, 40)


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("wire", ["safetensors", "nested", "base64"])
@pytest.mark.parametrize("T", [3, 40, 700])
def test_the_same_bits(daemon, T, wire, coding):
    """Inline and, at 700, by a worker."""
    q = np.random.default_rng(T).standard_normal((T, 8)).astype(np.float32).round(1)
    body, kind = pack(q, q, q, {"return": ["output", "weights", "lse"]}, {}, wire)
    plain = unpacked(ask(daemon, body, kind))
    answer = ask(daemon, body, kind, compress=coding)
    for name, tensor in plain.tensors.items():
        assert unpacked(answer)[name].tobytes() == tensor.tobytes()
    if T > 3:
        assert answer.headers["content-encoding"] == coding
        assert len(answer.body) < len(plain.body)
    assert "encode;dur=" in answer.headers["server-timing"]


@pytest.mark.parametrize("coding", CODINGS)
def test_what_would_not_get_smaller_stays_as_it_is(daemon, coding):
    """One query and one key: the answer is the value's bits, which are noise."""
    noise = np.random.default_rng(5).integers(0, 2**16, (1, 100_000)).astype(np.uint16) & 0xbf7f
    one = np.zeros((1, 1), np.uint16)
    body, kind = pack(one, one, noise)
    plain, answer = ask(daemon, body, kind), ask(daemon, body, kind, compress=coding)
    assert unpacked(answer)["output"].tobytes() == unpacked(plain)["output"].tobytes()
    assert len(answer.body) <= len(plain.body) + 64  # the times in it have other lengths


@pytest.mark.parametrize("coding", CODINGS)
def test_merge_and_the_experiment_too(daemon, coding):
    merge = json.dumps({"outputs": [[[3] * 300], [[6] * 300]], "lses": [[0], [0]]}).encode()
    answer = ask(daemon, merge, JSON_TYPE, compress=coding, path="/v1/merge")
    assert answer.headers["content-encoding"] == coding
    assert unpacked(answer)["output"].tolist() == [[4.5] * 300]
    scaling = json.dumps({"d_k": [4, 8], "samples": 100}).encode()
    answer = ask(daemon, scaling, JSON_TYPE, compress=coding, path="/v1/experiments/scaling")
    assert answer.headers["content-encoding"] == coding
    assert len(unpacked(answer).json["results"]) == 2


@pytest.mark.parametrize("coding", CODINGS)
def test_a_snapshot_too_and_back(client, daemon, coding):
    session = Session(client, id=f"packed-{coding}", capacity=4096)
    flat = {name: np.zeros((heads, 300, 8), np.float32)
            for name, heads in (("q", 4), ("k", 2), ("v", 2))}
    session.step(flat)
    with raw.Connection(daemon.port) as connection:
        # What HTTP libraries send unasked has no say.
        plain = connection.ask(raw.get(f"{session.path}/kv", "Accept-Encoding: gzip, zstd"))
        assert "content-encoding" not in plain.headers
        answer = connection.ask(raw.get(f"{session.path}/kv?compress={coding}"))
    assert answer.headers["content-encoding"] == coding
    assert len(answer.body) < len(plain.body) / 10
    assert packing.unpack(coding, answer.body) == plain.body
    session.delete()
    back = client.send("POST", "/v1/sessions", answer.body,
                       {"Content-Type": SAFETENSORS_TYPE, "Content-Encoding": coding})
    assert (back.status, back.json["lengths"]) == (201, [300])
    assert session.snapshot() == plain.body
    for query, status in (("compress=brotli", 422), ("compress=gzip&compress=gzip", 400)):
        wrong = client.get(f"{session.path}/kv?{query}")
        assert (wrong.status, wrong.json["pointer"]) == (status, "/compress")
    session.delete()


def test_refusals_are_never_packed(daemon):
    bad = b'{"q": [[1]], "k": [[1]], "v": [[1]], "scal": 1}' + b" " * 1000
    answer = ask(daemon, bad, JSON_TYPE, "gzip", "gzip")
    assert (answer.status, answer.problem) == (422, "unknown-field")
    assert "content-encoding" not in answer.headers


@pytest.mark.parametrize("path", ["/v1", "/healthz", "/readyz"])
def test_what_operations_read_is_never_packed(daemon, path):
    with raw.Connection(daemon.port) as connection:
        answer = connection.ask(raw.get(path + "?compress=gzip", "Accept-Encoding: gzip"))
        assert answer.status == 200
        assert "content-encoding" not in answer.headers


def test_metrics_are_packed_for_prometheus(daemon):
    with raw.Connection(daemon.port) as connection:
        plain = connection.ask(raw.get("/metrics"))
        assert "content-encoding" not in plain.headers
        packed = connection.ask(raw.get("/metrics", "Accept-Encoding: gzip"))
        assert packed.headers["content-encoding"] == "gzip"
        assert plain.headers["vary"] == packed.headers["vary"] == "Accept-Encoding, Origin"
        assert b"attention_workers" in gzip.decompress(packed.body)
        assert len(packed.body) < len(plain.body) / 3
        head = connection.ask(raw.get("/metrics", "Accept-Encoding: gzip", method="HEAD"),
                              has_body=False)
        assert head.headers["content-encoding"] == "gzip"


@pytest.mark.parametrize("query, status, problem, words", [
    ("compress=br", 422, "bad-value", 'none, gzip, deflate or zstd; not \\"br\\"'),
    ("compress=", 422, "bad-value", "none, gzip, deflate or zstd"),
    ("compress=gzip&compress=gzip", 400, "option-given-twice", "give it once"),
])
def test_what_compress_may_say(daemon, query, status, problem, words):
    with raw.Connection(daemon.port) as connection:
        answer = connection.ask(raw.post(path=f"/v1/attention?{query}"))
        assert (answer.status, answer.problem) == (status, problem)
        assert words in answer.body.decode()
        assert json.loads(answer.body)["pointer"] == "/compress"
        assert connection.ask(raw.post(path="/v1/attention?scale=1&compress=gzip")).status == 200


def test_compress_in_the_body_is_told_where_it_belongs(client):
    body = json.dumps({"q": [[1]], "k": [[1]], "v": [[1]], "compress": "gzip"})
    answer = client.send("POST", "/v1/attention", body, {"Content-Type": JSON_TYPE})
    assert (answer.status, "query string" in answer.json["detail"]) == (422, True), answer.body


def test_packing_is_charged():
    """The packed answer may need as much again as the plain one."""
    body, kind = zeros(1000)
    with Daemon("--memory-budget", "8MiB", "--max-body", "1MiB", "--json-max-body", "1MiB",
                "--max-result", "5MiB") as daemon:
        assert ask(daemon, body, kind).status == 200
        answer = ask(daemon, body, kind, compress="zstd")
        assert (answer.status, answer.problem) == (413, "result-too-large")
        raw.until(lambda: raw.samples(daemon.client)["attention_in_flight_bytes"] == 0)


def test_a_large_answer_is_packed_by_a_worker():
    with Daemon("--threads", "1") as daemon:
        answer = ask(daemon, *zeros(3000), compress="gzip")
        assert answer.headers["content-encoding"] == "gzip"
        assert len(answer.body) < 1 << 20
        timing = dict(part.split(";dur=") for part in answer.headers["server-timing"].split(", "))
        assert float(timing["encode"]) > 5
        raw.until(lambda: raw.samples(daemon.client)["attention_worker_busy_seconds_total"] >
                  float(timing["encode"]) / 1000)


def test_safetensors_for_json(daemon):
    body, kind = zeros(40, "nested")
    answer = ask(daemon, body, kind, compress="gzip", more=[f"Accept: {SAFETENSORS_TYPE}"])
    assert (answer.headers["content-type"], answer.headers["content-encoding"]) == \
        (SAFETENSORS_TYPE, "gzip")
    assert unpacked(answer)["weights"].shape == (40, 40)
