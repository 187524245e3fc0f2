# SPDX-License-Identifier: Apache-2.0
"""Kept queries and keys under another mask: a capture whose maps and statistics have the bits of a
call that came with that mask, and nothing of the first one's."""
import io
import json

import numpy as np
import pytest
from support.captures import HQ, TK, TQ, B, get, keep, operands
from support.client import words
from support.daemon import Daemon
from support.sessions import Session, rows

WINDOW = {"all": [{"type": "causal", "align": "top_left"},
                  {"type": "window", "left": 20, "right": -1}]}
HIDE = {"type": "hide", "tensor": (np.arange(TQ * TK) % 3 == 0).reshape(TQ, TK).tolist()}


@pytest.fixture
def client(keeping):
    keeping.client.send("DELETE", "/v1/captures")
    return keeping.client


def remask(client, url, status=201, **options):
    answer = client.send("POST", f"{url}/remask", json.dumps(options),
                         {"Content-Type": "application/json"})
    assert answer.status == status, (answer.status, answer.body[:500])
    return answer


def head_map(client, url, batch, head):
    path = f"{url}/map?format=npy&width=4096&height=4096&batch={batch}&head={head}"
    return np.load(io.BytesIO(get(client, path).body))


def assert_is(client, url, answer, heads=HQ, batches=B):
    """The capture's maps have the answer's bits."""
    for b in range(batches):
        for h in range(heads):
            want = answer["weights"].reshape(batches, heads, *answer["weights"].shape[-2:])[b, h]
            assert head_map(client, url, b, h).tobytes() == want.tobytes(), (b, h)


@pytest.mark.parametrize("kernel", [None, "fused", "decode", "blas", "reference"])
@pytest.mark.parametrize("options", [
    {"mask": WINDOW}, {"mask": {"type": "padding", "kv_lengths": [100, 7]}}, {"mask": HIDE},
    {"mask": [{"type": "window", "left": 9, "right": 9}], "q_offset": [60, -3]},
    {"mask": {"all": []}, "alibi": [0.5, 1, 0, 0.1], "q_offset": 0}])
def test_its_maps_are_those_of_a_call_with_the_mask(client, kernel, options):
    more = {"sink": [0.5, 1, -2, 0], "softcap": 3, **({} if kernel is None else {"kernel": kernel})}
    first, url = keep(client, more)
    made = remask(client, url, **options)
    other = made.headers["Location"]
    stays = {} if options["mask"] is WINDOW else {"q_offset": TK - TQ}
    want = client.attention(*operands(), {**more, **stays, **options,
                                          "return": ["weights", "stats"]})
    assert made.json["mask"] == want.meta["mask"]
    assert_is(client, other, want)
    stats = get(client, f"{other}/stats?batch=1").json["stats"]
    for name, values in stats.items():
        assert np.array_equal(words(values), want.stats[name].reshape(B, HQ)[1], equal_nan=True)
    assert_is(client, url, first)


@pytest.mark.parametrize("rope", [{"theta": 100}, {"theta": 100, "q_offset": [7, -2]}])
@pytest.mark.parametrize("options", [
    {"mask": WINDOW}, {"mask": {"all": []}, "q_offset": [60, -3]}, {"mask": HIDE}])
def test_rope_turns_queries_where_they_stand(client, rope, options):
    """Where the new mask places them, unless rope had positions of its own."""
    _, url = keep(client, {"rope": rope})
    between = remask(client, url, mask={"type": "prefix", "length": 40}).headers["Location"]
    stays = {"q_offset": TK - TQ} if options["mask"] is HIDE else {}
    want = client.attention(*operands(), {"rope": rope, **stays, **options, "return": ["weights"]})
    for source in (url, between):
        assert_is(client, remask(client, source, **options).headers["Location"], want)


def test_rope_knows_no_position_that_far(client):
    _, url = keep(client, {"rope": {}})
    answer = remask(client, url, 422, mask={"all": []}, q_offset=2**53)
    assert (answer.json["pointer"], "2^53" in answer.json["detail"]) == ("/q_offset", True)


def test_it_is_described_as_what_it_came_from(client):
    labels = {"q": [f"q{n}" for n in range(TQ)], "k": [f"k{n}" for n in range(TK)]}
    _, url = keep(client, {"labels": labels}, name="layer ä", run="r", layer=3, k_grid=[7, 20])
    answer = remask(client, url, mask=WINDOW)
    assert answer.headers["Location"] == f"/v1/captures/{answer.json['id']}"
    shown = get(client, answer.headers["Location"]).json
    assert answer.json.items() <= shown.items()
    assert shown["name"] == f"layer ä: {shown['mask']}"
    assert (shown["run"], shown["layer"], shown["k_grid"]) == (None, 3, [7, 20])
    assert (shown["q_tokens"], shown["k_tokens"]) == (labels["q"], labels["k"])
    assert remask(client, url, mask=WINDOW, name="mine").json["name"] == "mine"
    listed = get(client, "/v1/captures").json["captures"]
    assert [one["name"] for one in listed] == ["mine", shown["name"], "layer ä"]
    _, url = keep(client, name="ä" * 100)
    name = remask(client, url, mask=HIDE).json["name"]
    assert name.startswith("ä" * 50 + ": hide") and len(name.encode()) <= 200


def test_it_stays_when_the_first_one_goes(client):
    _, url = keep(client)
    other = remask(client, url, mask=WINDOW).headers["Location"]
    third = remask(client, other, mask={"type": "prefix", "length": 40}).headers["Location"]
    client.send("DELETE", url)
    client.send("DELETE", other)
    want = client.attention(*operands(), {"mask": {"type": "prefix", "length": 40},
                                          "return": ["weights"]})
    assert_is(client, third, want)


def test_values_of_any_width_leave_the_rows_as_they_are(client):
    """Keys are cut into chunks by how wide values are too."""
    rng = np.random.default_rng(4)
    q, k, v = (rng.standard_normal((1, 1, length, width)).astype(np.float32)
               for length, width in ((1, 8), (20000, 8), (20000, 400)))
    answer = client.attention(q, k, v, {"capture": {"name": "wide"}})
    other = remask(client, answer.meta["capture"]["url"],
                   mask={"type": "prefix", "length": 19000}).headers["Location"]
    want = client.attention(q, k, v, {"mask": {"type": "prefix", "length": 19000},
                                      "return": ["weights"]})
    got = np.concatenate([np.load(io.BytesIO(get(
        client, f"{other}/map?format=npy&width=4096&cols={n}:{n + 4000}").body))
        for n in range(0, 20000, 4000)], axis=1)
    assert got.tobytes() == want["weights"].tobytes()


def test_a_step_of_a_session_can_be_masked_anew(client):
    """Its queries stand where they stood."""
    rng = np.random.default_rng(8)
    session = Session(client, rope={"theta": 100.0})
    session.step(rows(rng, 300))
    new = rows(rng, 3)
    answer = session.step(new, **{"capture": {"name": "step"}})
    session.delete()
    url = answer.meta["capture"]["url"]
    other = remask(client, url, mask="causal").headers["Location"]
    for h in range(4):
        assert np.array_equal(head_map(client, url, 0, h), head_map(client, other, 0, h))
    seen = remask(client, url, mask={"type": "window", "left": 5, "right": 0})
    weights = head_map(client, seen.headers["Location"], 0, 0)
    for row in range(3):
        assert np.flatnonzero(weights[row]).tolist() == list(range(295 + row, 301 + row))


def test_halves_stay_near():
    with Daemon("--captures", "--capture-dtype", "float16") as running:
        _, url = keep(running.client)
        made = remask(running.client, url, mask=WINDOW)
        q, k, v = (each.astype(np.float16) for each in operands())
        want = running.client.attention(q, k, v, {"mask": WINDOW, "return": ["weights"],
                                                  "precision": "float32"})
        assert made.json["approximate"] and made.json["dtype"] == "float32"
        assert_is(running.client, made.headers["Location"], want)


@pytest.mark.parametrize(("options", "status", "pointer", "says"), [
    ({}, 422, "/mask", r'"mask": "causal"'),
    ({"mask": "casual"}, 422, "/mask", "causal"),
    ({"mask": {"type": "padding", "kv_lengths": [TK + 1]}}, 422, "/mask/kv_lengths", str(TK)),
    ({"mask": "causal", "q_offset": [0, 0, 0]}, 422, "/q_offset", "(2)"),
    ({"mask": WINDOW, "q_offset": 0}, 422, "/q_offset", "both place the queries"),
    ({"mask": "causal", "alibi": [1, 2]}, 422, "/alibi", "(4)"),
    ({"mask": "causal", "name": 1}, 422, "/name", "text"),
    ({"mask": "causal", "is_causal": True}, 422, "/is_causal", '"mask": "causal"'),
    ({"mask": "causal", "scale": 1}, 422, "/scale", "q_offset, alibi, name"),
    ({"mask": "causal", "timeout_ms": -1}, 422, "/timeout_ms", "at least 1"),
])
def test_refusals(client, options, status, pointer, says):
    _, url = keep(client)
    before = get(client, "/v1/captures").json["sequence"]
    problem = remask(client, url, status, **options).json
    assert problem["pointer"] == pointer and says in problem["detail"], problem
    assert get(client, "/v1/captures").json["sequence"] == before


def test_where_queries_stand_has_to_be_said(client):
    """A kept call that had no use for positions did not say."""
    _, url = keep(client, {"mask": {"type": "prefix", "length": 9}})
    problem = remask(client, url, 422, mask="causal").json
    assert problem["type"].endswith("/ambiguous-alignment") and "bottom_right" in problem["detail"]
    assert remask(client, url, mask={"type": "causal", "align": "bottom_right"})
    _, url = keep(client)
    assert remask(client, url, mask="causal").status == 201
    for said in (0, [0] * B):
        _, url = keep(client, {"mask": {"type": "prefix", "length": 9}, "q_offset": said})
        want = client.attention(*operands(), {"mask": "causal", "q_offset": 0,
                                              "return": ["weights"]})
        assert_is(client, remask(client, url, mask="causal").headers["Location"], want)


def test_there_has_to_be_a_capture_and_room_for_another(client):
    remask(client, "/v1/captures/none", 404, mask="causal")
    with Daemon("--captures", "--capture-bytes", "64KiB") as running:
        q = np.ones((1, 1, 400, 16), np.float32)
        answer = running.client.attention(q, q, q, {"capture": {"name": "a"}})
        url = answer.meta["capture"]["url"]
        full = remask(running.client, url, 503, mask="causal")
        assert "Retry-After" in full.headers and "captures are full" in full.json["detail"]
        assert running.client.get(url).status == 200
