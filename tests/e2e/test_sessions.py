# SPDX-License-Identifier: Apache-2.0
"""Sessions: every rule of docs/sessions.md, each against plain calls over the same rows."""
import json
import threading
import time

import numpy as np
import pytest
from support import raw, safetensors
from support.client import SAFETENSORS_TYPE, WIRES, pack_operands
from support.contract import schema
from support.daemon import Daemon
from support.sessions import (
    SHAPE,
    Session,
    ask,
    batch,
    join,
    many,
    plain,
    problem,
    restore,
    rows,
)

CLOSE = {"rtol": 2e-6, "atol": 2e-6}


@pytest.fixture
def rng():
    return np.random.default_rng(11)


# ---- resources ----

def test_a_session_is_made_looked_at_listed_and_deleted(client):
    answer = ask(client, "POST", "/v1/sessions", {**SHAPE, "value_dim": 4, "ttl_s": 60})
    assert answer.status == 201
    session = answer.json
    schema("Session").validate(session)
    assert answer.headers["Location"] == f"/v1/sessions/{session['id']}"
    assert len(session["id"]) == 32
    assert session | {"id": 0, "expires_in_s": 0} == {
        "id": 0, **SHAPE, "value_dim": 4, "ttl_s": 60, "expires_in_s": 0, "lengths": [0],
        "pages": 0, "bytes": 0}
    path = answer.headers["Location"]
    assert client.get(path).json["id"] == session["id"]
    listed = client.get("/v1/sessions")
    schema("SessionList").validate(listed.json)
    assert session["id"] in [one["id"] for one in listed.json["sessions"]]
    assert ask(client, "DELETE", path).status == 204
    for method, end in (("GET", ""), ("DELETE", ""), ("POST", "/fork"), ("GET", "/kv")):
        gone = ask(client, method, path + end)
        assert (gone.status, problem(gone)) == (404, "session-not-found")
    assert session["id"] not in [one["id"] for one in client.get("/v1/sessions").json["sessions"]]


def test_creation_with_an_id_may_be_repeated(client):
    asked = {**SHAPE, "id": "repeated", "window": {"left": 100}, "rope": {"theta": 500}}
    first, second = (ask(client, "POST", "/v1/sessions", asked) for _ in range(2))
    assert (first.status, second.status) == (201, 200)
    assert first.json["id"] == second.json["id"] == "repeated"
    for change in ({"capacity": 1001}, {"dtype": "float16"}, {"window": {"left": 99}},
                   {"rope": {"theta": 501}}, {"ttl_s": 1}):
        other = ask(client, "POST", "/v1/sessions", {**asked, **change})
        assert (other.status, problem(other)) == (409, "session-exists")
    assert ask(client, "DELETE", "/v1/sessions/repeated").status == 204


@pytest.mark.parametrize(("change", "pointer", "kind"), [
    ({"layers": 0}, "/layers", "bad-value"), ({"layers": None}, "/layers", "bad-type"),
    ({"kv_heads": 1 << 40}, "/kv_heads", "bad-value"), ({"head_dim": -1}, "/head_dim", "bad-value"),
    ({"dtype": "int8"}, "/dtype", "bad-value"), ({"capacity": 0}, "/capacity", "bad-value"),
    ({"ttl_s": 0}, "/ttl_s", "bad-value"), ({"ttl_s": 1e9}, "/ttl_s", "bad-value"),
    ({"id": "a/b"}, "/id", "bad-value"), ({"id": "x" * 65}, "/id", "bad-value"),
    ({"id": ".."}, "/id", "bad-value"), ({"id": "attention"}, "/id", "bad-value"),
    ({"id": 7}, "/id", "bad-type"), ({"window": {"sinks": 1}}, "/window", "missing-field"),
    ({"window": {"left": 1, "right": 0}}, "/window/right", "unknown-field"),
    ({"window": [None, None]}, "/window", "bad-value"),
    ({"window": [3]}, "/window/0", "bad-type"), ({"rope": {"dims": 3}}, "/rope/dims", "bad-value"),
    ({"num_kv_heads": 2}, "/num_kv_heads", "unknown-field")])
def test_what_no_session_can_be_is_refused(client, change, pointer, kind):
    answer = ask(client, "POST", "/v1/sessions", {**SHAPE, **change})
    assert (answer.status, problem(answer), answer.json["pointer"]) == (422, kind, pointer)


@pytest.mark.parametrize("name", ["layers", "kv_heads", "head_dim", "dtype", "capacity"])
def test_what_a_session_needs(client, name):
    answer = ask(client, "POST", "/v1/sessions", {k: v for k, v in SHAPE.items() if k != name})
    assert (answer.status, problem(answer), answer.json["pointer"]) == (
        422, "missing-field", f"/{name}")


# ---- steps ----

@pytest.mark.parametrize("wire", WIRES)
def test_steps_are_one_long_call(client, rng, wire):
    session = Session(client, wire, layers=2)
    sent = {0: [], 1: []}
    for count in (5, 1, 1, 70, 1):
        for layer in (0, 1):
            new = rows(rng, count)
            position = sum(one["k"].shape[1] for one in sent[layer])
            answer = session.step(new, layer=layer, position=position, weights=True)
            sent[layer].append(new)
            whole = plain(client, new["q"], join(sent[layer]), weights=True)
            np.testing.assert_allclose(answer["output"], whole["output"], **CLOSE)
            np.testing.assert_allclose(answer["weights"], whole["weights"], **CLOSE)
            assert answer.meta["session"] == {"layer": layer, "position": position,
                                              "length": position + count}
    assert session.lengths() == [78, 78]
    session.delete()


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_what_is_kept_has_the_sessions_dtype(client, rng, dtype):
    session = Session(client, dtype=dtype)
    new = rows(rng, 9)
    answer = session.step(new)
    assert answer["output"].dtype == np.float32
    tensors, _ = safetensors.parse(session.snapshot())
    np.testing.assert_array_equal(tensors["layers.0.k"], new["k"].astype(dtype))
    whole = plain(client, new["q"], {n: new[n].astype(dtype).astype(np.float32) for n in "kv"})
    np.testing.assert_allclose(answer["output"], whole["output"], **CLOSE)
    session.delete()


def test_options_of_a_plain_call(client, rng):
    session = Session(client)
    first, new = rows(rng, 6), rows(rng, 3)
    session.step(first)
    options = {"scale": 0.3, "softcap": 5.0, "alibi": True, "sink": [0.1, 0.2, 0.3, 0.4],
               "return": ["output", "lse", "stats", "col_sums"], "weights": {"top_k": 2}}
    answer = session.step(new, **options)
    whole = plain(client, new["q"], join([first, new]), **options)
    for name in whole.tensors:
        np.testing.assert_allclose(answer[name], whole[name], rtol=1e-5, atol=1e-5)
    whole = client.attention(new["q"], *join([first, new]).values())
    every = session.step({"q": new["q"]}, append=False, position=6, causal=False)
    np.testing.assert_allclose(every["output"], whole["output"], **CLOSE)
    image = ask(client, "POST", session.path + "/attention",
                {"q": new["q"].tolist(), "append": False, "weights": True}, Accept="image/png")
    assert (image.status, image.headers["Content-Type"]) == (200, "image/png")
    session.delete()


def test_rope_turns_keys_once_and_queries_where_they_stand(client, rng):
    rope = {"theta": 100.0, "dims": 6}
    session = Session(client, rope=rope)
    sent = []
    for count in (4, 1, 2):
        new = rows(rng, count)
        answer = session.step(new)
        sent.append(new)
        whole = plain(client, new["q"], join(sent), rope=rope)
        np.testing.assert_allclose(answer["output"], whole["output"], rtol=1e-5, atol=1e-5)
    for refused in ({"rope": rope}, {"q_offset": 0}):
        answer = session.send(rows(rng, 1), refused)
        assert (answer.status, problem(answer)) == (422, "unknown-field")
    assert session.lengths() == [7]
    session.delete()


def test_a_window_keeps_positions_and_says_them(client, rng):
    session = Session(client, window={"left": 20, "sinks": 3}, capacity=5000)
    sent, length = [], 0
    for count in (300, 300, 300, 1):
        new = rows(rng, count)
        answer = session.step(new, weights=True)
        sent.append(new)
        length += count
    whole = join(sent)
    seen = [*range(3), *range(length - 21, length)]
    exact = client.attention(new["q"], *(np.ascontiguousarray(whole[n][:, seen]) for n in "kv"))
    np.testing.assert_allclose(answer["output"], exact["output"], **CLOSE)
    positions = answer["k_positions"]
    assert positions.dtype == np.int32 and len(positions) < length
    assert (np.diff(positions) > 0).all() and positions[-1] == length - 1
    weights = answer["weights"][0, 0]
    assert set(positions[weights > 0]) == set(seen)
    as_json = ask(client, "POST", session.path + "/attention",
                  {"q": new["q"].tolist(), "append": False, "position": length - 1}).json
    kept = as_json["k_positions"]  # fewer: nobody behind the last step can see what has left since
    assert set(seen) <= set(kept) < set(positions.tolist()) and kept == sorted(kept)
    cut = session.post("truncate", {"length": 400})
    assert (cut.status, problem(cut)) == (409, "session-evicted")
    again = Session(client)
    answer = restore(client, session.snapshot(), "?id=windowed")
    assert answer.status == 201, answer.body
    again.path = "/v1/sessions/windowed"
    one = rows(rng, 1)
    np.testing.assert_array_equal(again.step(one)["output"], session.step(one)["output"])
    for one in (again, session):
        one.delete()


def test_position_says_where_a_step_stands(client, rng):
    session = Session(client)
    new = rows(rng, 3)
    first = session.step(new, position=0)
    for position in (0, 2, 4):
        answer = session.send(rows(rng, 1), {"position": position})
        assert (answer.status, problem(answer)) == (409, "session-length")
        assert answer.json["length"] == 3
    assert session.lengths() == [3]
    again = session.step({"q": new["q"]}, append=False, position=0)
    np.testing.assert_array_equal(again["output"], first["output"])
    session.step(rows(rng, 2), position=3)
    late = session.step({"q": new["q"]}, append=False, position=0)
    np.testing.assert_array_equal(late["output"], first["output"])
    beyond = session.send({"q": new["q"]}, {"append": False, "position": 6})
    assert (beyond.status, beyond.json["length"]) == (409, 5)
    session.delete()


def test_a_step_may_bring_nothing(client, rng):
    session = Session(client)
    for brought, length in ((0, 0), (2, 2), (0, 2), (1, 3)):
        assert session.step(rows(rng, brought))["output"].shape[-2] == brought
        assert session.lengths() == [length]
    session.delete()


@pytest.mark.parametrize(("tensors", "options", "pointer"), [
    ("qv", {}, "/k"), ("qk", {}, "/v"), ("q", {}, "/k"), ("qkv", {"append": False}, "/k"),
    ("qkv", {"layer": 1}, "/layer"), ("qkv", {"position": -1}, "/position"),
    ("qkv", {"causal": 1}, "/causal"), ("qkv", {"num_heads": 4}, "/num_heads"),
    ("kv", {}, "/q")])
def test_a_step_that_says_it_wrong(client, rng, tensors, options, pointer):
    session = Session(client, "nested")
    new = rows(rng, 2)
    answer = session.send({name: new[name] for name in tensors}, options)
    assert (answer.status, answer.json["pointer"]) == (422, pointer)
    assert session.lengths() == [0]
    session.delete()


def test_shapes_have_to_be_the_sessions(client, rng):
    session = Session(client)
    new = rows(rng, 2)
    wrong = [{"k": new["k"][:1]}, {"k": new["k"][..., :4]}, {"v": new["v"][:, :1]},
             {"q": new["q"][:3]}, {"q": new["q"][:, :1]}, {"k": new["k"].astype(np.float64)}]
    for change in wrong:
        answer = session.send({**new, **change}, {})
        assert answer.status == 422, answer.body
    assert session.lengths() == [0]
    no_queries = session.step({**new, "q": new["q"][:, :0]})
    assert no_queries["output"].shape == (4, 0, 8)
    by_token = {name: np.ascontiguousarray(x[None].swapaxes(1, 2)) for name, x in new.items()}
    session.step(by_token, layout="bthd")
    assert session.lengths() == [4]
    session.delete()


def test_a_session_is_full_at_its_capacity(client, rng):
    session = Session(client, capacity=10)
    session.step(rows(rng, 8))
    before = session.snapshot()
    answer = session.send(rows(rng, 3), {})
    assert (answer.status, problem(answer), answer.json["limit"]) == (409, "session-full", 10)
    assert session.snapshot() == before
    session.step(rows(rng, 2))
    assert session.lengths() == [10]
    session.delete()


def test_a_late_step_leaves_nothing(client, rng):
    with Daemon("--threads", "1", "--inline-microseconds", "0") as running:
        session = Session(running.client, capacity=100000)
        session.step(rows(rng, 4))
        before = session.snapshot()
        answer = session.send(rows(rng, 6000), {"kernel": "reference", "timeout_ms": 50})
        assert (answer.status, problem(answer)) == (504, "deadline-exceeded")
        assert session.lengths() == [4]
        assert session.snapshot() == before  # waits until the worker has let go
        session.step(rows(rng, 1), position=4)


def test_steps_of_one_session_wait_for_each_other(rng):
    """Many connections append at once; the answers are those of some order, and none is lost."""
    with Daemon("--threads", "2", "--inline-microseconds", "0") as running:
        session = Session(running.client, capacity=100000)
        answers = []

        def work(number):
            new = rows(np.random.default_rng(number), 40)
            with raw.Connection(running.port, 60) as connection:
                body, kind = pack_operands(new)
                answers.append(connection.ask(raw.post(body, path=session.path + "/attention")
                                              .replace(b"application/json", kind.encode(), 1)))

        threads = [threading.Thread(target=work, args=(n,)) for n in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {answer.status for answer in answers} == {200}
        metas = [json.loads(safetensors.parse(answer.body)[1]["meta"]) for answer in answers]
        assert sorted(meta["session"]["position"] for meta in metas) == list(range(0, 480, 40))
        assert session.lengths() == [480]


# ---- ends and limits ----

def test_an_unused_session_expires(client, rng):
    session = Session(client, ttl_s=0.4, id="short")
    session.step(rows(rng, 1))
    for _ in range(3):
        time.sleep(0.2)
        session.step(rows(rng, 1))  # each is a use
    time.sleep(0.6)
    for answer in (client.get(session.path), session.send(rows(rng, 1), {}),
                   many(client, ["short"], batch(rng, 1))):
        assert (answer.status, problem(answer)) == (410, "session-expired")
    assert Session(client, id="short").lengths() == [0]
    Session(client, id="shorter").delete()
    session.delete()


def test_sessions_have_their_limits(rng):
    with Daemon("--max-sessions", "3", "--sessions-memory", "4MiB") as running:
        client = running.client
        sessions = [Session(client, capacity=1 << 20, head_dim=64) for _ in range(3)]
        answer = ask(client, "POST", "/v1/sessions", SHAPE)
        assert (answer.status, problem(answer), answer.json["limit"]) == (
            503, "too-many-sessions", 3)
        assert int(answer.headers["Retry-After"]) >= 1
        wide = {**SHAPE, "head_dim": 64}
        answer = sessions[0].send(rows(rng, 20000, shape=wide), {})
        assert (answer.status, problem(answer)) == (503, "no-room-for-sessions")
        assert sessions[0].lengths() == [0]
        sessions[0].step(rows(rng, 1000, shape=wide))
        sessions[0].delete()
        sessions[1].step(rows(rng, 1000, shape=wide))
        samples = client.get("/metrics").body.decode()
        assert 'attention_sessions_ended_total{reason="deleted"} 1\n' in samples
        assert "attention_sessions 2\n" in samples
        assert "attention_session_tokens_total 2000\n" in samples


def test_the_group_is_passed_over(client):
    answer = ask(client, "GET", "/v1/sessions", **{"X-Session-Group": "user-17"})
    assert answer.status == 200


def test_a_media_type_that_is_none_here(client, rng):
    session = Session(client)
    body = safetensors.write({"x": np.ones(1, np.float32)})
    answer = ask(client, "POST", session.path + "/truncate", body, SAFETENSORS_TYPE)
    assert answer.status == 415
    assert ask(client, "GET", session.path + "/kv", Accept="image/png").status == 406
    session.delete()
