# SPDX-License-Identifier: Apache-2.0
"""What is done with sessions as a whole: cut, forked, kept and brought back, stepped together."""
import json
import threading
from contextlib import closing

import numpy as np
import pytest
from support import safetensors
from support.client import Client, pack_operands
from support.contract import schema
from support.daemon import Daemon
from support.sessions import (
    Session,
    ask,
    batch,
    join,
    many,
    plain,
    problem,
    restore,
    rewrite,
    rows,
)

CLOSE = {"rtol": 2e-6, "atol": 2e-6}


@pytest.fixture
def rng():
    return np.random.default_rng(11)


# ---- cuts, forks, snapshots ----

def test_a_cut_takes_back_what_was_appended(client, rng):
    session = Session(client, layers=2)
    first, second, third = (rows(rng, count) for count in (70, 5, 2))
    for layer in (0, 1):
        session.step(first, layer=layer)
    session.step(second, layer=0)
    answer = session.post("truncate", {"length": 71})
    assert (answer.status, problem(answer), answer.json["length"]) == (409, "session-length", 70)
    answer = session.post("truncate", {"length": 66})
    assert (answer.status, answer.json["lengths"]) == (200, [66, 66])
    got = session.step(third, layer=0, position=66)
    kept = {name: x[:, :66] for name, x in first.items()}
    exact = plain(client, third["q"], join([kept, third]))
    np.testing.assert_allclose(got["output"], exact["output"], **CLOSE)
    for body, pointer in (({}, "/length"), ({"length": -1}, "/length"),
                          ({"length": "all"}, "/length"), ({"to": 3}, "/to")):
        wrong = session.post("truncate", body)
        assert (wrong.status, wrong.json["pointer"]) == (422, pointer)
    session.delete()


def test_a_fork_goes_its_own_way(client, rng):
    session = Session(client)
    first, mine, its = rows(rng, 67), rows(rng, 1), rows(rng, 1)
    session.step(first)
    answer = session.post("fork")
    assert answer.status == 201
    assert answer.json["lengths"] == [67] and answer.json["id"] != session.id
    assert answer.headers["Location"] == f"/v1/sessions/{answer.json['id']}"
    fork = Session(client)
    fork.delete()
    fork.path = answer.headers["Location"]
    for one, new in ((session, mine), (fork, its)):
        got = one.step(new)
        exact = plain(client, new["q"], join([first, new]))
        np.testing.assert_allclose(got["output"], exact["output"], **CLOSE)
    session.delete()
    assert fork.lengths() == [68]
    named = fork.post("fork", {"id": "named-fork", "ttl_s": 7})
    assert (named.status, named.json["id"], named.json["ttl_s"]) == (201, "named-fork", 7)
    again = fork.post("fork", {"id": "named-fork"})
    assert (again.status, problem(again)) == (409, "session-exists")
    fork.delete()
    assert ask(client, "DELETE", "/v1/sessions/named-fork").status == 204


def test_a_snapshot_brings_a_session_back(client, rng):
    session = Session(client, layers=2, id="kept", dtype="bfloat16", rope={"theta": 10.0})
    session.step(rows(rng, 65), layer=0)
    session.step(rows(rng, 3), layer=1)
    snapshot = session.snapshot()
    taken = restore(client, snapshot)
    assert (taken.status, problem(taken)) == (409, "session-exists")
    facts = session.facts()
    session.delete()
    back = restore(client, snapshot)
    assert (back.status, back.json["id"], back.json["lengths"]) == (201, "kept", [65, 3])
    assert {k: v for k, v in back.json.items() if k != "expires_in_s"} == {
        k: v for k, v in facts.items() if k != "expires_in_s"}
    assert session.snapshot() == snapshot
    copy = restore(client, snapshot, "?id=copy&ttl_s=5")
    assert (copy.status, copy.json["id"], copy.json["ttl_s"]) == (201, "copy", 5)
    new = rows(rng, 1)
    other = Session(client)
    other.delete()
    other.path = "/v1/sessions/copy"
    np.testing.assert_array_equal(session.step(new, layer=0)["output"],
                                  other.step(new, layer=0)["output"])
    for one in (session, other):
        one.delete()


@pytest.mark.parametrize("method, what, query", [
    ("DELETE", "", "length=1"), ("DELETE", "", "if=1"), ("GET", "", "layer=0"),
    ("GET", "/kv", "length=1"), ("GET", "/kv", "timeout_ms=soon")])
def test_a_condition_that_is_none_is_refused(client, rng, method, what, query):
    session = Session(client)
    session.step(rows(rng, 2))
    wrong = ask(client, method, f"{session.path}{what}?{query}")
    assert (wrong.status, wrong.json["pointer"]) == (422, "/" + query.split("=")[0])
    assert ask(client, "GET", "/v1/sessions?limit=1").status == 422
    assert session.lengths() == [2]
    assert ask(client, "GET", f"{session.path}/kv?timeout_ms=60000").status == 200
    session.delete()


def damage(**changes):
    def change(tensors, session):
        session.update(changes)
    return change


def drop(tensors, session):
    del tensors["layers.0.v"]


def widen(tensors, session):
    tensors["layers.0.k"] = np.zeros((2, 4, 9), np.float32)


def flatten(tensors, session):
    tensors["layers.0.k"] = tensors["layers.0.k"].ravel()


@pytest.mark.parametrize("change", [
    damage(lengths=[5]), damage(lengths=[3]), damage(lengths=[-1]), damage(lengths=[1 << 62]),
    damage(lengths=[]), damage(lengths=[4, 4]), damage(lengths="4"), damage(layers=2),
    damage(layers=1 << 40), damage(kv_heads=3), damage(head_dim=4), damage(capacity=3),
    damage(gap_counts=[1]), damage(gap_keys=[9], gap_counts=[1], lengths=[5]),
    damage(gap_counts=[-1], lengths=[3]), damage(gap_counts=[1 << 62], lengths=[1 << 62]),
    damage(gap_keys=[0, 0]), damage(unheard=1), damage(dtype="float8"), drop, widen, flatten])
def test_a_snapshot_that_does_not_fit_together_is_refused(client, rng, change):
    session = Session(client)
    session.step(rows(rng, 4))
    before = len(client.get("/v1/sessions").json["sessions"])
    answer = restore(client, rewrite(session.snapshot(), change))
    assert answer.status in (409, 422), answer.body
    assert len(client.get("/v1/sessions").json["sessions"]) == before
    session.delete()


def test_what_is_no_snapshot_is_refused(client):
    plain_file = safetensors.write({"q": np.ones((1, 1), np.float32)})
    for body, status in ((plain_file, 422), (b"\x00" * 16, 400), (plain_file[:20], 400)):
        assert restore(client, body).status == status
    npz = ask(client, "POST", "/v1/sessions", b"PK\3\4", "application/x-npz")
    assert (npz.status, problem(npz)) == (415, "unsupported-media-type")


def test_a_step_of_a_long_session_beside_snapshots(client, rng):
    """A snapshot is that of one moment, whatever is appended while it is taken."""
    session = Session(client, capacity=100000)
    session.step(rows(rng, 3000))
    stop = threading.Event()

    def append():
        own = np.random.default_rng(3)
        with closing(Client(client.port)) as mine:
            while not stop.is_set():
                body, kind = pack_operands(rows(own, 3))
                mine.send("POST", session.path + "/attention", body, {"Content-Type": kind})

    thread = threading.Thread(target=append)
    thread.start()
    try:
        for _ in range(20):
            tensors, metadata = safetensors.parse(session.snapshot())
            length = json.loads(metadata["session"])["lengths"][0]
            assert length % 3 == 0
            assert tensors["layers.0.k"].shape == (2, length, 8)
            assert not (tensors["layers.0.k"][:, -1] == 0).all()
    finally:
        stop.set()
        thread.join()
    session.delete()


# ---- many at once ----

@pytest.fixture
def three(client, rng):
    sessions = [Session(client) for _ in range(3)]
    for count, session in zip((1, 70, 5), sessions, strict=True):
        session.step(rows(rng, count))
    yield sessions
    for session in sessions:
        session.delete()


def fork_of(session):
    fork = Session(session.client, wire=session.wire)
    fork.delete()
    fork.path = session.post("fork").headers["Location"]
    return fork


def test_one_step_of_many_has_the_bits_of_single_steps(client, rng, three):
    new = batch(rng)
    forks = [fork_of(session) for session in three]
    answer = many(client, [session.id for session in three], new, positions=[1, 70, 5],
                  **{"return": ["output", "lse"]})
    assert answer.status == 200, answer.body
    for n, fork in enumerate(forks):
        one = fork.step({name: x[n] for name, x in new.items()}, **{"return": ["output", "lse"]})
        np.testing.assert_array_equal(answer["output"][n], one["output"])
        np.testing.assert_array_equal(answer["lse"][n], one["lse"])
        fork.delete()
    assert [session.lengths() for session in three] == [[2], [71], [6]]


MAPS = [
    {"return": ["output", "weights", "scores", "stats", "col_sums"]},
    {"return": ["weights", "stats"], "precision": "float64"},
    {"return": ["output", "stats"], "weights": {"top_k": 4}},
    {"weights": {"stage": "scaled", "heads": [2, 0]}},
    {"weights": {"pool": {"rows": 1, "cols": 2, "op": "mass"}, "heads": "mean"}},
]


@pytest.mark.parametrize("wire", ["safetensors", "npz", "flat"])
@pytest.mark.parametrize("options", MAPS)
def test_one_step_of_many_has_the_maps_of_single_steps(client, rng, options, wire):
    sessions = [Session(client, window={"left": 5, "sinks": 1}) for _ in range(3)]
    for session, count in zip(sessions, (2, 700, 4)):
        for new in (count, 1):  # the second lets pages of the first go
            session.step(rows(rng, new))
    new = batch(rng)
    forks = [fork_of(session) for session in sessions]
    answer = many(client, [session.id for session in sessions], new, wire=wire, **options)
    assert answer.status == 200, answer.body
    for n, session in enumerate(forks):
        one = session.step({name: x[n] for name, x in new.items()}, **options)
        for name, expected in one.tensors.items():
            got = answer[name][n]
            if name == "k_positions":
                assert (got[len(expected):] == -1).all()
                got = got[:len(expected)]
            elif got.shape != expected.shape:
                rest = got[..., expected.shape[-1]:]
                hidden = name == "scores" or "scaled" in str(options)
                np.testing.assert_array_equal(rest, -np.inf if hidden else 0)
                got = got[..., :expected.shape[-1]]
            np.testing.assert_array_equal(got, expected)
        for name, values in one.stats.items():
            np.testing.assert_array_equal(answer.stats[name][n], values)
        session.delete()
        sessions[n].delete()
    assert "k_positions" in answer.tensors


def test_one_step_of_many_is_made_by_all_or_none(client, rng, three):
    names = [session.id for session in three]
    before = [session.snapshot() for session in three]
    late = many(client, names, batch(rng), positions=[1, 69, 4])
    assert (late.status, problem(late)) == (409, "session-length")
    assert [(one["id"], one["length"]) for one in late.json["sessions"]] == [
        (names[1], 70), (names[2], 5)]
    schema("Problem").validate(late.json)
    lost = many(client, [names[0], "nowhere", "neither"], batch(rng))
    assert (lost.status, problem(lost)) == (404, "session-not-found")
    assert [one["id"] for one in lost.json["sessions"]] == ["nowhere", "neither"]
    twice = many(client, [names[0]] * 3, batch(rng))
    assert (twice.status, problem(twice)) == (422, "bad-value")
    for options in ({"capture": True}, {"positions": [1, 2]}, {"layer": 3},
                    {"weights": {"cols": [0, 6]}}):
        assert many(client, names, batch(rng), **options).status == 422
    assert many(client, names, batch(rng, 2)).status == 422
    assert many(client, [], batch(rng)).status == 422
    assert [session.snapshot() for session in three] == before


def test_steps_of_many_do_not_wait_for_each_other_in_a_ring(rng):
    with Daemon("--threads", "2", "--inline-microseconds", "0") as running:
        names = [Session(running.client).id for _ in range(6)]
        failures = []

        def work(number):
            order = np.random.default_rng(number)
            with closing(Client(running.port)) as client:
                for _ in range(10):
                    chosen = list(order.permutation(names)[:4])
                    answer = many(client, chosen, batch(order, 4))
                    if answer.status != 200:
                        failures.append(answer.body)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        lengths = [one["lengths"][0] for one in running.client.get("/v1/sessions").json["sessions"]]
        assert sum(lengths) == 6 * 10 * 4
