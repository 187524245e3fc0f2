# SPDX-License-Identifier: Apache-2.0
"""Steps of sessions that are kept: their maps have the answers' bits, in every type of a cache, and
stay what they were when the session goes on or ends."""
import io

import numpy as np
import pytest
from support.client import words
from support.daemon import Daemon
from support.sessions import Session, ask, rows

HEADS = 4


@pytest.fixture
def client(keeping):
    keeping.client.send("DELETE", "/v1/captures")
    return keeping.client


@pytest.fixture
def rng():
    return np.random.default_rng(8)


def get(client, path):
    answer = client.get(path)
    assert answer.status == 200, (answer.status, answer.body[:500])
    return answer


def head_map(client, path, head):
    return np.load(io.BytesIO(get(client, f"{path}/map?head={head}&format=npy").body))


def kept_step(client, session, new, **options):
    """(the answer of a step with its whole maps; the capture's path)"""
    asked = {name: value for name, value in options.items() if value is not None}
    answer = session.step(new, **{"return": ["output", "weights", "scores", "lse"],
                                  "capture": {"name": "step"}, **asked})
    return answer, answer.meta["capture"]["url"]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("kernel", [None, "reference"])
def test_a_step_can_be_kept(client, rng, dtype, kernel):
    """Its map has the answer's bits, whatever becomes of the session."""
    session = Session(client, dtype=dtype, rope={"theta": 100.0})
    session.step(rows(rng, 300))
    answer, url = kept_step(client, session, rows(rng, 3), softcap=4, kernel=kernel)
    one, one_url = kept_step(client, session, rows(rng, 1), kernel=kernel)
    truncated = ask(client, "POST", session.path + "/truncate", {"length": 290})
    assert truncated.status == 200
    session.step(rows(rng, 40))
    session.delete()
    for kept, path, queries, keys in ((answer, url, 3, 303), (one, one_url, 1, 304)):
        shown = get(client, path).json
        assert (shown["queries"], shown["keys"]) == (queries, keys) and not shown["approximate"]
        for head in range(HEADS):
            want = kept["weights"].reshape(HEADS, queries, keys)[head]
            assert head_map(client, path, head).tobytes() == want.tobytes()
        cell = get(client, f"{path}/cell?head=1&row=0&col=299").json
        score = kept["scores"].reshape(HEADS, queries, keys)[1, 0, 299]
        assert np.dtype(score.dtype).type(words([cell["masked"]])[0]) == score


def test_a_step_over_a_window_can_be_kept(client, rng):
    session = Session(client, window={"left": 20, "sinks": 3}, capacity=5000)
    for count in (700, 700, 100, 1):
        session.step(rows(rng, count))
    answer, url = kept_step(client, session, rows(rng, 2))
    session.step(rows(rng, 700))
    keys = answer["weights"].shape[-1]
    assert keys < 1000
    for head in range(HEADS):
        want = answer["weights"].reshape(HEADS, 2, keys)[head]
        assert head_map(client, url, head).tobytes() == want.tobytes()
    session.delete()


def test_a_step_that_fails_is_not_kept(client, rng):
    session = Session(client)
    refused = session.send(rows(rng, 2), {"position": 7, "capture": {"name": "wrong"}})
    assert refused.status == 409
    assert get(client, "/v1/captures").json["captures"] == []
    session.delete()


def test_half_the_bytes_are_near_and_say_so(rng):
    with Daemon("--captures", "--capture-dtype", "float16") as running:
        session = Session(running.client)
        session.step(rows(rng, 30))
        answer, url = kept_step(running.client, session, rows(rng, 2))
        assert get(running.client, url).json["approximate"]
        got = head_map(running.client, url, 0)
        assert got.shape == (2, 32) and np.allclose(got, answer["weights"][0], atol=3e-3)
        assert got.tobytes() != answer["weights"][0].tobytes()
