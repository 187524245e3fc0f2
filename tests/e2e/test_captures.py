# SPDX-License-Identifier: Apache-2.0
"""Captures over HTTP: what is kept is what the answer was made of, in every encoding and whatever
the call had; maps of any part at any size, cells, statistics; and that what is hidden says so."""
import io
import json
import math

import numpy as np
import pytest
from support import oip, raw
from support.captures import (
    HIDDEN, HKV, HQ, MASK, TK, TQ, B, D, compare, get, keep, operands, tile)
from support.client import Client, pack, words
from support.daemon import Daemon


@pytest.fixture
def client(keeping):
    keeping.client.send("DELETE", "/v1/captures")
    return keeping.client


def pooled(plane, height, width, op):
    rows = [r * plane.shape[0] // height for r in range(height + 1)]
    cols = [c * plane.shape[1] // width for c in range(width + 1)]
    if op == "max":
        return np.array([[plane[rows[r]:rows[r + 1], cols[c]:cols[c + 1]].max()
                          for c in range(width)] for r in range(height)])
    return np.array([[plane[rows[r]:rows[r + 1], cols[c]:cols[c + 1]].sum(axis=1).mean()
                      for c in range(width)] for r in range(height)])


@pytest.mark.parametrize("wire", ["safetensors", "nested", "base64", "npz"])
def test_every_encoding_can_ask_for_it(client, wire):
    answer, url = keep(client, wire=wire, name="layer ä", run="r", layer=3, q_grid=[7, 20])
    shown = get(client, url).json
    assert (shown["name"], shown["run"], shown["layer"]) == ("layer ä", "r", 3)
    assert (shown["q_grid"], shown["k_grid"]) == ([7, 20], None)
    sizes = ("batch", "heads", "kv_heads", "queries", "keys", "head_dim")
    assert [shown[name] for name in sizes] == [B, HQ, HKV, TQ, TK, D]
    assert shown["dtype"] == "float32" and not shown["approximate"]
    assert "causal" in shown["mask"] and shown["scale"] == 0.25
    assert shown["q_tokens"] is None and not shown["has_tokens"]
    got = tile(get(client, f"{url}/map?batch=1&head=2"))
    assert got.shape == (TQ, TK) and (got[5] == HIDDEN).any()
    want = answer["weights"][1, 2].astype(np.float16).view(np.uint16)
    want[np.isneginf(answer["scores"][1, 2])] = HIDDEN
    assert np.array_equal(got, want)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_numbers_have_the_answers_bits(client, dtype):
    options = {"softcap": 3, "alibi": True, "sink": [0.5, 1, -2, 0], "rope": {"dims": 8}}
    answer, url = keep(client, options, dtype=dtype)
    for b, h in ((0, 0), (1, 3)):
        array = np.load(io.BytesIO(get(
            client, f"{url}/map?batch={b}&head={h}&format=npy").body))
        assert array.dtype == answer["weights"].dtype
        assert array.tobytes() == answer["weights"][b, h].tobytes()
        nested = get(client, f"{url}/map?batch={b}&head={h}&format=json&stage=masked"
                             "&rows=3:9&cols=100:140").json
        part = answer["scores"][b, h, 3:9, 100:140]
        assert np.array(words(nested["weights"])).astype(part.dtype).tobytes() == part.tobytes()


def test_a_cell_has_the_answers_bits(client):
    answer, url = keep(client, {"softcap": 3, "sink": [0.5, 1, -2, 0]})
    for b, h, i, j in ((0, 0, 149, 209), (1, 2, 40, 77), (1, 1, 10, 200)):
        cell = get(client, f"{url}/cell?batch={b}&head={h}&row={i}&col={j}").json
        weight = answer["weights"][b, h, i, j]
        assert np.float32(cell["weight"]).tobytes() == weight.tobytes()
        score = answer["scores"][b, h, i, j]
        assert np.float32(words([cell["masked"]])[0]).tobytes() == score.tobytes()
        assert cell["hidden"] == bool(np.isneginf(score))
        assert math.isclose(cell["scaled"], cell["raw"] / 4, rel_tol=1e-5)
        assert math.isclose(cell["capped"], 3 * math.tanh(cell["scaled"] / 3), rel_tol=1e-5)
        assert math.isclose(cell["row"]["lse"], answer["lse"][b, h, i], rel_tol=1e-5)
        order = np.argsort(-answer["weights"][b, h, i], kind="stable")[:10]
        assert [top["key"] for top in cell["top"]] == order.tolist()
        assert cell["top"][0]["weight"] == cell["top"][0]["weight"]


def looks(client, url):
    """All that can be seen of a capture; its bytes."""
    seen = [get(client, f"{url}{rest}").body for rest in (
        "/cell?batch=1&head=2&row=20&col=30", "/stats", "/map?head=1", "/map?head=1&preview=1",
        "/map?head=1&format=npy", "/map?head=mean&format=json&width=7", "/map?format=png")]
    same = compare(client, url, json.dumps({"with": url.rsplit("/", 1)[1]}))
    changed = client.send("POST", f"{url}/remask", b'{"mask": "causal", "name": "other"}',
                          {"Content-Type": "application/json"})
    assert same["allclose"] and changed.status == 201
    seen.append(get(client, f"{changed.headers['Location']}/map?format=npy").body)
    return seen


@pytest.mark.parametrize("shown", [
    {"return": ["output", "weights", "lse", "col_sums", "stats"], "weights": {"top_k": 2}},
    {"return": ["scores"], "weights": {"top_k": 200, "heads": [3], "rows": [5, 9]}},
    {"return": ["weights"], "weights": {"pool": {"rows": 3, "cols": 2, "op": "mass"}}},
    {"return": ["weights"], "weights": {"heads": "max", "cols": [200, 210], "stage": "raw"}},
    {"return": ["output"]}])
def test_what_the_answer_showed_of_the_map_is_not_kept(client, shown):
    _, whole = keep(client)
    _, url = keep(client, shown)
    for n, (got, want) in enumerate(zip(looks(client, url), looks(client, whole), strict=True)):
        if n == 5:  # in JSON, where the id of the request and the times stand too
            got, want = (json.loads(text)["weights"] for text in (got, want))
        assert got == want, n


def test_statistics_are_the_answers(client):
    answer, url = keep(client)
    for b in (1, 0, 1):
        got = get(client, f"{url}/stats?batch={b}").json
        assert got["heads"] == HQ and set(got["stats"]) == set(answer.stats)
        for name, values in answer.stats.items():
            assert np.array_equal(words(got["stats"][name]), values[b], equal_nan=True), name


@pytest.mark.parametrize("op", ["max", "mass"])
def test_bins(client, op):
    answer, url = keep(client)
    got = get(client, f"{url}/map?batch=1&head=1&rows=10:140&cols=5:205&height=7&width=12"
                      f"&op={op}&format=npy")
    assert got.headers["X-Map-Shape"] == "7,12" and got.headers["X-Map-Exact"] == "1"
    assert (got.headers["X-Map-Rows"], got.headers["X-Map-Cols"]) == ("10:140", "5:205")
    want = pooled(answer["weights"][1, 1, 10:140, 5:205], 7, 12, op)
    assert np.allclose(np.load(io.BytesIO(got.body)), want, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("head", ["mean", "max"])
def test_all_heads_together(client, head):
    answer, url = keep(client)
    got = np.load(io.BytesIO(get(client, f"{url}/map?batch=1&head={head}&format=npy").body))
    want = getattr(answer["weights"][1], head)(axis=0)
    assert np.allclose(got, want, rtol=1e-6, atol=0)


def test_a_picture(client):
    _, url = keep(client)
    answer = get(client, f"{url}/map?head=1&format=png&width=64&height=64")
    assert answer.headers["Content-Type"] == "image/png" and answer.body[:4] == b"\x89PNG"


def test_a_preview_is_of_rows_that_are_there(client):
    answer, url = keep(client)
    got = get(client, f"{url}/map?preview=1&height=30&width=10")
    assert got.headers["X-Map-Exact"] == "0"
    middle = [(r * TQ // 30 + (r + 1) * TQ // 30) // 2 for r in range(30)]
    want = pooled(answer["weights"][0, 0][middle], 30, 10, "max").astype(np.float16)
    seen = tile(got)
    assert np.array_equal(seen[seen != HIDDEN], want.view(np.uint16)[seen != HIDDEN])


@pytest.mark.parametrize("options", [
    {"mask": {"all": []}}, {"mask": "causal"}, {"mask": "causal", "softcap": 5},
    {"mask": {"all": []}, "bias": [[0] * 70 + ["-Infinity"] * 30] * 100}])
def test_minus_infinity_of_arithmetic_is_not_hidden(client, options):
    """Key 3 is far below every query, and seen by those that the mask and the bias leave."""
    q, k = np.ones((1, 1, 100, 1), np.float32), np.zeros((1, 1, 100, 1), np.float32)
    q[...], k[0, 0, 3] = 1e20, -1e20
    answer = client.attention(q, k, k, {**options, "return": ["scores", "weights"],
                                        "capture": {"name": "far"}}, wire="nested")
    url = answer.meta["capture"]["url"]
    hidden = np.triu(np.ones((100, 100), bool), 1) if options["mask"] == "causal" else \
        np.zeros((100, 100), bool)
    hidden[:, 70:] |= "bias" in options
    for stage, name in (("masked", "scores"), ("weights", "weights")):
        got = tile(get(client, f"{url}/map?stage={stage}"))
        want = answer[name][0, 0].astype(np.float16).view(np.uint16)
        want[hidden] = HIDDEN
        assert np.array_equal(got, want), stage
    for row, col in ((2, 3), (3, 3), (50, 3), (50, 80)):
        cell = get(client, f"{url}/cell?row={row}&col={col}").json
        assert cell["hidden"] == hidden[row, col], (row, col)


def test_minus_infinity_in_heads_that_see_other_keys(client):
    q, k = np.full((1, 2, 8, 1), 1e20, np.float32), np.zeros((1, 1, 8, 1), np.float32)
    k[0, 0, 3] = -1e20
    hide = np.zeros((2, 1, 8), int)
    hide[1, 0, 5] = 1
    answer = client.attention(q, k, k, {"mask": {"type": "hide", "tensor": hide.tolist()},
                                        "capture": {"name": "heads"}}, wire="nested")
    for head, hidden in ((0, []), (1, [5])):
        got = tile(get(client, f"{answer.meta['capture']['url']}/map?head={head}"))
        assert np.flatnonzero(got[2] == HIDDEN).tolist() == hidden and got[2, 3] == 0, head
    for heads in "mean", "max":
        got = tile(get(client, f"{answer.meta['capture']['url']}/map?head={heads}&stage=masked"))
        assert np.isneginf(got.view(np.float16)[2, 3]), heads


def test_labels_are_tokens(client):
    labels = {"q": [f"q{n}" for n in range(TQ)],
              "k": [[f"k{b}{n}<&\"" for n in range(TK)] for b in range(B)]}
    _, url = keep(client, {"labels": labels})
    shown = get(client, url).json
    assert shown["q_tokens"] == labels["q"] and shown["k_tokens"] == labels["k"]
    assert get(client, "/v1/captures").json["captures"][0]["has_tokens"]


def test_the_list(client):
    start = get(client, "/v1/captures").json["sequence"]
    urls = [keep(client, name=name)[1] for name in "abc"]
    answer = get(client, "/v1/captures")
    assert [item["name"] for item in answer.json["captures"]] == ["c", "b", "a"]
    assert answer.json["enabled"] and answer.json["sequence"] > start
    assert get(client, f"/v1/captures?since={answer.json['sequence']}").json["captures"] == []
    headers = {"If-None-Match": answer.headers["ETag"]}
    assert client.send("GET", "/v1/captures", headers=headers).status == 304
    assert client.send("PUT", urls[0] + "/pin").status == 204
    again = client.send("GET", "/v1/captures", headers=headers)
    assert again.status == 200 and again.json["captures"][2]["pinned"]
    since = get(client, f"/v1/captures?since={answer.json['sequence']}").json["captures"]
    assert [item["name"] for item in since] == ["a"]
    assert client.send("DELETE", urls[0] + "/pin").status == 204
    assert client.send("DELETE", urls[1]).status == 204
    assert get(client, urls[1], 404).json["type"].endswith("/not-found")
    assert client.send("DELETE", "/v1/captures").status == 204
    assert get(client, "/v1/captures").json["captures"] == []


@pytest.mark.parametrize("query,status,place", [
    ("map?width=0", 422, "/width"), ("map?height=4097", 422, "/height"),
    ("map?rows=5", 422, "/rows"), ("map?rows=9:5", 422, "/rows"),
    (f"map?cols=0:{TK + 1}", 422, "/cols"), ("map?cols=4:4", 422, "/cols"),
    ("map?head=4", 422, "/head"), ("map?head=first", 422, "/head"), ("map?batch=2", 422, "/batch"),
    ("map?stage=logits", 422, "/stage"), ("map?op=mean", 422, "/op"),
    ("map?format=csv", 422, "/format"), ("map?hight=3", 422, None),
    ("map?head=1&head=2", 400, "/head"), ("cell?row=150", 422, "/row"),
    ("cell?col=-1", 422, "/col"), ("cell?head=9", 422, "/head"), ("stats?batch=2", 422, "/batch"),
    ("stats?head=1", 422, None),
])
def test_refusals(client, query, status, place):
    _, url = keep(client)
    answer = get(client, f"{url}/{query}", status)
    assert answer.json.get("pointer") == place, answer.json


@pytest.mark.parametrize("capture,place", [
    ({}, "/capture"), ({"name": 3}, "/capture/name"), ({"name": "x" * 201}, "/capture/name"),
    ({"name": "a", "q_grid": [3]}, "/capture/q_grid"), ({"name": "a", "tag": 1}, "/capture/tag"),
    ({"name": "a", "k_grid": [30, 30]}, "/capture/k_grid"),
    ({"name": "a", "layer": -1}, "/capture/layer"), ("yes", "/capture"),
])
def test_what_a_capture_is_called_is_checked(client, capture, place):
    body, kind = pack(*operands(), {"capture": capture})
    answer = client.send("POST", "/v1/attention", body, {"Content-Type": kind})
    assert answer.status == 422 and answer.json["pointer"] == place, answer.json


def test_nothing_is_kept_where_captures_are_off(daemon):
    answer = daemon.client.attention(*operands(), {"capture": {"name": "a"}})
    assert "off" in answer.meta["capture"]
    shown = get(daemon.client, "/v1/captures").json
    assert shown["captures"] == [] and not shown["enabled"]


def test_half_the_bytes_are_near_and_say_so():
    with Daemon("--captures", "--capture-dtype", "float16") as running:
        answer, url = keep(running.client)
        assert get(running.client, url).json["approximate"]
        got = np.load(io.BytesIO(get(running.client, f"{url}/map?format=npy").body))
        assert np.allclose(got, answer["weights"][0, 0], atol=3e-3)


def test_a_long_map_has_an_overview(client):
    """Levels of detail give the bins that the map itself gives."""
    rng = np.random.default_rng(3)
    q, k, v = (rng.standard_normal((1, 2, 2600, 4)).astype(np.float32) * 3 for _ in range(3))
    options = {"mask": "causal", "return": ["output"], "capture": {"name": "long"}}
    url = client.attention(q, k, v, options).meta["capture"]["url"]
    whole = get(client, f"{url}/map?head=1&width=256&height=128")
    assert whole.headers["X-Map-Exact"] == "1"
    exact = np.load(io.BytesIO(
        get(client, f"{url}/map?head=1&width=256&height=128&format=npy").body))
    bins = tile(whole)
    assert np.array_equal(bins[bins != HIDDEN],
                          exact.astype(np.float16).view(np.uint16)[bins != HIDDEN])
    assert (exact[bins == HIDDEN] == 0).all() and (bins == HIDDEN).any()
    assert np.array_equal(tile(get(client, f"{url}/map?head=1&width=256&height=128")), bins)
    quick = get(client, f"{url}/map?head=1&width=100&height=100&preview=1")
    assert quick.headers["X-Map-Exact"] == "0"
    direct = np.load(io.BytesIO(
        get(client, f"{url}/map?head=1&width=100&height=100&format=npy").body))
    seen = tile(quick).view(np.float16).astype(np.float32)
    assert (seen[tile(quick) != HIDDEN] >= direct[tile(quick) != HIDDEN] * 0.999).all()


def test_what_nobody_waits_for_ends(keeping):
    rng = np.random.default_rng(3)
    q, k, v = (rng.standard_normal((1, 8, 2500, 64)).astype(np.float32) for _ in range(3))
    options = {"return": ["lse"], "capture": {"name": "long"}}
    url = keeping.client.attention(q, k, v, options).meta["capture"]["url"]
    gone = ('attention_http_requests_total{route="/v1/captures/{id}/stats",method="GET",'
            'code="499"}')
    impatient = Client(keeping.port, timeout=0.01)
    for _ in range(3):
        with pytest.raises(OSError):
            impatient.get(f"{url}/stats")
        impatient.close()
    raw.until(lambda: raw.samples(keeping.client).get(gone, 0) == 3)
    answer = get(keeping.client, f"{url}/map?rows=0:64&cols=0:64")
    assert answer.headers["X-Map-Shape"] == "64,64"


def test_the_output_has_the_same_bits(client):
    kept, _ = keep(client)
    plain = client.attention(*operands(), {"mask": MASK, "return": ["output", "lse"]})
    for name in ("output", "lse"):
        assert kept[name].tobytes() == plain[name].tobytes()


@pytest.mark.parametrize("sizes", [(0, 2, 3, 4, 8), (1, 2, 0, 4, 8), (1, 2, 3, 0, 8),
                                   (1, 2, 3, 4, 0)])
def test_axes_of_no_size(client, sizes):
    batch, heads, queries, keys, width = sizes
    q, k, v = (np.zeros((batch, heads, n, width), np.float32) for n in (queries, keys, keys))
    url = client.attention(q, k, v, {"capture": {"name": "none"}}).meta["capture"]["url"]
    shown = get(client, url).json
    assert (shown["batch"], shown["queries"], shown["keys"]) == (batch, queries, keys)
    is_there = 0 not in (batch, queries, keys)
    get(client, f"{url}/map", 200 if is_there else 422)
    get(client, f"{url}/cell", 200 if is_there else 422)
    get(client, f"{url}/stats", 200 if batch else 422)
    same = compare(client, url, json.dumps({"with": url.rsplit("/", 1)[1]}))
    assert same["allclose"] and (same["max_at"] is None) == (not is_there)


def test_the_open_inference_protocol_can_ask_for_it(client):
    q, k, v = operands()
    options = {"mask": "causal", "q_offset": 60, "capture": {"name": "by the protocol"}}
    oip.infer(client, {"q": q, "k": k, "v": v}, options)
    shown = get(client, "/v1/captures").json["captures"]
    assert [item["name"] for item in shown] == ["by the protocol"]


def test_a_pin_has_no_body(client):
    _, url = keep(client)
    refused = client.send("PUT", url + "/pin", "true", {"Content-Type": "application/json"})
    assert refused.status == 413 and "no body" in refused.json["detail"]
    assert "safetensors" not in refused.json["detail"]
