# SPDX-License-Identifier: Apache-2.0
"""Captures in float16: their maps are whole maps of queries and keys that were rounded, and what
float16 does not hold is kept as it came."""
import io
import math

import numpy as np
import pytest
from support.captures import compare, get
from support.daemon import Daemon
from support.sessions import Session, rows

HEADS, TOKENS, WIDTH = 2, 20, 64


@pytest.fixture(scope="module")
def half():
    with Daemon("--captures", "--capture-bytes", "64MiB", "--capture-dtype", "float16") as running:
        yield running


@pytest.fixture
def client(half):
    half.client.send("DELETE", "/v1/captures")
    return half.client


def normal(scale=1.0, dtype=np.float32, seed=0):
    rng = np.random.default_rng(seed)
    return (scale * rng.standard_normal((1, HEADS, TOKENS, WIDTH))).astype(dtype)


def keep(client, q, k, **options):
    """(weights of the answer; the capture's path; whether it is only near)"""
    answer = client.attention(q, k, k, {"return": ["weights"], "capture": {"name": "a"}, **options})
    url = answer.meta["capture"]["url"]
    return answer["weights"], url, get(client, url).json["approximate"]


def whole(client, url, head, stage="weights"):
    path = f"{url}/map?format=npy&width=4096&head={head}&stage={stage}"
    return np.load(io.BytesIO(get(client, path).body)).squeeze().astype(np.float64)


def rounded(q, k, scale):
    scores = (q.astype(np.float16).astype(np.float64)
              @ k.astype(np.float16).astype(np.float64).swapaxes(-1, -2)) * scale
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True))[0]


@pytest.mark.parametrize("kernel", [None, "decode", "fused", "blas", "reference"])
@pytest.mark.parametrize("size", [1, 10, 30])
def test_weights_sum_to_one(client, kernel, size):
    """Large scores too, whose rounding moves weights."""
    q, k = normal(size, seed=1), normal(size, seed=2)
    _, url, near = keep(client, q, k, **({} if kernel is None else {"kernel": kernel}))
    want = rounded(q, k, 1 / math.sqrt(WIDTH))
    assert near
    for head in range(HEADS):
        got = whole(client, url, head)
        np.testing.assert_allclose(got.sum(-1), 1, rtol=1e-5)
        np.testing.assert_allclose(got, want[head], rtol=2e-3, atol=1e-6)


def test_cells_statistics_and_comparisons_are_of_the_same_map(client):
    q, k = normal(20, seed=3), normal(20, seed=4)
    _, url, near = keep(client, q, k, sink=[1.0, 30.0], mask="causal")
    assert near
    for head, row, key in ((0, 19, 7), (1, 19, 7), (1, 0, 0)):
        cell = get(client, f"{url}/cell?head={head}&row={row}&col={key}").json
        found = cell["row"]
        weight = whole(client, url, head)[row, key]
        assert math.isclose(cell["weight"], weight, rel_tol=1e-6)
        assert math.isclose(math.exp(cell["masked"] - found["max"]) / found["sum"], weight,
                            rel_tol=1e-4, abs_tol=1e-30)
        assert math.isclose(found["lse"], found["max"] + math.log(found["sum"]), rel_tol=1e-6)
        assert max(top["weight"] for top in cell["top"]) <= 1
    stats = get(client, f"{url}/stats").json["stats"]
    for head in range(HEADS):
        largest = whole(client, url, head).max(-1).mean()
        assert math.isclose(stats["confidence"][head], largest, rel_tol=1e-5)
    sent = io.BytesIO()
    np.save(sent, np.stack([whole(client, url, head) for head in range(HEADS)]).astype("<f4")[None])
    found = compare(client, url, sent.getvalue(), "application/x-npy", "?rtol=0&atol=1e-6")
    assert found["allclose"], found


@pytest.mark.parametrize("sizes", [(1e5, 1e-5), (1e-5, 1e5), (1e-8, 1), (1, 1e-7)])
def test_what_float16_does_not_hold_is_kept_as_it_came(client, sizes):
    q, k = normal(sizes[0], seed=5), normal(sizes[1], seed=6)
    weights, url, near = keep(client, q, k, scale=1 / (sizes[0] * sizes[1]) / 8)
    assert not near
    for head in range(HEADS):
        assert np.array_equal(whole(client, url, head), weights[0, head])


def test_one_row_is_enough(client):
    q, k = normal(seed=7), normal(seed=8)
    k[0, 1, 13] = 0
    assert keep(client, q, k)[2]
    k[0, 1, 13, 5] = 1e-6
    assert not keep(client, q, k)[2]
    k[0, 1, 13, 5] = 1e-3
    assert keep(client, q, k)[2]
    k[0, 1, 13, 5] = 65519
    assert keep(client, q, k)[2]
    k[0, 1, 13, 5] = 65520
    assert not keep(client, q, k)[2]


@pytest.mark.parametrize("dtype,near", [("float64", True), ("float32", True), ("float16", False)])
def test_what_has_as_few_bytes_is_kept_as_it_came(client, dtype, near):
    q, k = normal(dtype=dtype, seed=9), normal(dtype=dtype, seed=10)
    assert keep(client, q, k)[2] == near


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_step_of_a_session(client, dtype):
    """Rows of pages are looked at one by one, and a long cache in more than one page."""
    rng = np.random.default_rng(13)
    session = Session(client, dtype=dtype, capacity=2000)
    session.step(rows(rng, 700))
    options = {"return": ["weights"], "capture": {"name": "step"}}
    answer = session.step(rows(rng, 3), **options)
    url = answer.meta["capture"]["url"]
    assert get(client, url).json["approximate"]
    want = answer["weights"].reshape(-1, 3, 703)
    for head in range(len(want)):
        got = whole(client, url, head)
        np.testing.assert_allclose(got.sum(-1), 1, rtol=1e-5)
        np.testing.assert_allclose(got, want[head], atol=3e-3)
    tiny = rows(rng, 1)
    tiny["k"] = tiny["k"] * tiny["k"].dtype.type(1e-7)
    session.step(tiny)
    answer = session.step(rows(rng, 2), **options)
    url = answer.meta["capture"]["url"]
    assert not get(client, url).json["approximate"]
    assert np.array_equal(whole(client, url, 0), answer["weights"].reshape(-1, 2, 706)[0])
    session.delete()
