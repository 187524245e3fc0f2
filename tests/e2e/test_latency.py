# SPDX-License-Identifier: Apache-2.0
"""GET /v1/latency: calls that compute are in it, with their status, stages, shape and capture, and
nothing else is."""
import gzip
import json
import urllib.request

import numpy as np
import pytest
from support.client import pack
from support.daemon import Daemon


@pytest.fixture
def fresh():
    with Daemon("--captures") as running:
        yield running.client


def history(client):
    answer = client.get("/v1/latency")
    assert answer.status == 200
    return answer.json


def calls_of(shown):
    return sum(count for step in shown["buckets"] for count in step["statuses"].values())


def test_calls_are_in_it_and_nothing_else(fresh):
    assert history(fresh)["slowest"] == []
    rng = np.random.default_rng(2)
    sizes = {"one query": (1, 300), "to 128 keys": (4, 128), "to 1,024 keys": (4, 129)}
    for queries, keys in sizes.values():
        q, k, v = (rng.standard_normal((1, 2, n, 8)).astype(np.float32)
                   for n in (queries, keys, keys))
        fresh.attention(q, k, v)
    body, kind = pack(q, k, v, {"scale": "wrong"})
    assert fresh.send("POST", "/v1/attention", body, {"Content-Type": kind}).status == 422
    kept = fresh.attention(q, k, v, {"capture": {"name": "a"}}).meta
    fresh.get("/metrics")
    fresh.get(kept["capture"]["url"] + "/map")
    shown = history(fresh)
    assert calls_of(shown) == 5
    assert sum(step["statuses"].get("422", 0) for step in shown["buckets"]) == 1
    assert {name for step in shown["buckets"] for name in step["shapes"]} == {*sizes, "other"}
    assert len(shown["slowest"]) == 5
    captures = {slow["id"]: slow["capture"] for slow in shown["slowest"]}
    assert captures[kept["id"]] == kept["capture"]["id"]
    assert sum(capture is not None for capture in captures.values()) == 1
    last = shown["buckets"][-1]
    assert last["in_flight"] == 0 and last["capture_bytes"] > 0
    for slow in shown["slowest"]:
        assert slow["total_ms"] > 0 and sum(slow["stages_ms"].values()) <= slow["total_ms"] * 1.01


def test_a_page_may_have_it_packed(fresh):
    request = urllib.request.Request(f"http://127.0.0.1:{fresh.port}/v1/latency",
                                     headers={"Accept-Encoding": "gzip"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert json.loads(gzip.decompress(answer.read()))["step_seconds"] == 10
