# SPDX-License-Identifier: Apache-2.0
"""Pictures of maps against the numbers of another answer to the same request: each cell's colour is
that of its value, what is hidden is no zero, and what cannot be drawn is refused with a sentence.
"""
import json

import numpy as np
import pytest
from support import png
from support.client import JSON_TYPE, SAFETENSORS_TYPE, pack
from support.daemon import Daemon
from support.png import HIDDEN, LEVELS, NOT_FINITE, Picture

PNG_TYPE = "image/png"


def operands(Hq, Hkv, Tq, Tk, B=1, D=8, seed=1, dtype=np.float32):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(dtype)
            for shape in ((B, Hq, Tq, D), (B, Hkv, Tk, D), (B, Hkv, Tk, D))]


def send(client, qkv, options, tensors=None, accept=PNG_TYPE, wire="safetensors"):
    body, kind = pack(*qkv, options, tensors, wire)
    return client.send("POST", "/v1/attention", body, {"Content-Type": kind, "Accept": accept})


def draw(client, qkv, options=None, tensors=None, **more):
    answer = send(client, qkv, options or {}, tensors, **more)
    assert answer.status == 200, answer.body[:500]
    assert answer.headers["Content-Type"] == PNG_TYPE
    return Picture(answer.body)


def numbers(client, qkv, options=None, tensors=None):
    """The map [panels,rows,cols] that a picture of the same request shows, hidden as NaN."""
    options = dict(options or {})
    name = "scores" if options.get("return") == ["scores"] else "weights"
    options["return"] = [name]
    whole = client.attention(*qkv, options, tensors)[name].astype(np.float64)
    return whole.reshape(-1, *whole.shape[-2:])


def half_step(picture, values):
    """How far a value may be from that of its level: half of a step there."""
    if picture.logarithmic:
        return values * ((picture.high / picture.low) ** (0.51 / (LEVELS - 1)) - 1)
    return np.full_like(values, 0.51 * (picture.high - picture.low) / (LEVELS - 1))


def check(picture, expected, hidden=None):
    """Every cell of every panel."""
    hidden = np.zeros_like(expected, bool) if hidden is None else np.broadcast_to(
        hidden, expected.shape)
    panels = picture.panels()
    assert len(panels) == len(expected)
    for panel, values, unseen in zip(panels, expected, hidden, strict=True):
        cells = picture.map(panel, *values.shape)
        np.testing.assert_array_equal(cells == HIDDEN, unseen)
        np.testing.assert_array_equal(cells == NOT_FINITE, ~np.isfinite(values) & ~unseen)
        drawn = cells < LEVELS
        low = picture.low if picture.logarithmic else -np.inf
        values = np.maximum(values, low)
        difference = np.abs(picture.values(cells) - values)[drawn]
        assert (difference <= half_step(picture, values)[drawn]).all(), difference.max()
    assert picture.has_patch(HIDDEN) == hidden.any()
    assert picture.has_patch(NOT_FINITE) == (~np.isfinite(expected) & ~hidden).any()


@pytest.mark.parametrize("wire", ["safetensors", "nested"])
def test_weights_of_every_head(client, wire):
    qkv = operands(6, 2, 16, 16)
    picture = draw(client, qkv, wire=wire)
    expected = numbers(client, qkv)
    check(picture, expected)
    assert picture.low == 0 and picture.high == pytest.approx(expected.max(), rel=1e-6)
    assert picture.text.startswith("Attention weights; 16 queries down, 16 keys across; linear")


def test_the_colours_are_the_ramps(client):
    """What a reader of colours sees: from paper to ink, magenta and greys outside."""
    palette = draw(client, operands(1, 1, 4, 4)).palette.astype(int)
    assert (palette[0] > 230).all() and (palette[LEVELS - 1] < 60).all()
    assert tuple(palette[NOT_FINITE]) == (255, 0, 255) and len(set(palette[HIDDEN])) == 1
    assert tuple(palette[png.PAPER]) == (255, 255, 255)


CAUSAL = {"type": "causal", "align": "bottom_right"}


def test_what_a_mask_hides_is_no_zero(client):
    """Underflow in a visible key, with grouped heads in a batch: a weight of 0 that is seen."""
    qkv = operands(4, 2, 9, 12, B=2)
    qkv[0][0, 0, 4] *= 1e4
    seen = np.tri(9, 12, 3, bool)
    expected = numbers(client, qkv, {"mask": CAUSAL})
    assert (expected[0, 4][seen[4]] == 0).any()
    picture = draw(client, qkv, {"mask": CAUSAL})
    check(picture, expected, ~seen)
    assert picture.text.startswith("Attention weights, causal(bottom_right);")


def test_a_bias_hides_too_and_rows_may_see_nothing(client):
    qkv = operands(2, 2, 6, 7)
    bias = np.zeros((6, 7), np.float32)
    bias[1, 3] = bias[4] = -np.inf
    picture = draw(client, qkv, {"bias": "bias"}, {"bias": bias})
    check(picture, numbers(client, qkv, {"bias": "bias"}, {"bias": bias}), bias == -np.inf)


@pytest.mark.parametrize("stage", ["raw", "scaled", "capped", "masked"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_diverge_from_zero(client, stage, dtype):
    qkv = operands(2, 1, 10, 10, dtype=dtype)
    options = {"mask": "causal", "softcap": 4, "weights": {"stage": stage}}
    hidden = ~np.tri(10, dtype=bool) if stage == "masked" else None
    picture = draw(client, qkv, options)
    expected = numbers(client, qkv, options)
    check(picture, expected, hidden)
    assert picture.high == -picture.low == pytest.approx(
        np.abs(expected[np.isfinite(expected)]).max(), rel=1e-6)


def test_return_of_scores_draws_them(client):
    qkv = operands(1, 1, 5, 8)
    options = {"return": ["scores"], "mask": {"type": "padding", "kv_lengths": [6]}}
    picture = draw(client, qkv, options)
    check(picture, numbers(client, qkv, options), np.arange(8) >= 6)
    assert picture.text.startswith("Scores after bias and mask, padding(kv 6);")
    # Of two maps the weights, and of anything else none.
    everything = {**options, "return": ["output", "scores", "weights", "lse"]}
    assert draw(client, qkv, everything).text.startswith("Attention weights")


@pytest.mark.parametrize("heads", [[3, 0], "mean", "max"], ids=str)
def test_heads(client, heads):
    """A mean of heads is hidden where it is in all of them."""
    qkv = operands(4, 4, 6, 6, B=2)
    allow = np.random.default_rng(3).random((4, 6, 6)) < 0.5
    options = {"mask": {"type": "allow", "tensor": "allow"}, "weights": {"heads": heads}}
    hidden = ~allow[heads] if isinstance(heads, list) else (~allow).all(0, keepdims=True)
    tensors = {"allow": allow}
    expected = numbers(client, qkv, options, tensors)
    check(draw(client, qkv, options, tensors), expected, np.concatenate([hidden, hidden]))


@pytest.mark.parametrize("shape", [(1, 1), (1, 40), (40, 1), (3, 100), (100, 16), (1, 1000),
                                   (130, 129), (600, 1024)], ids=str)
def test_shapes(client, shape):
    qkv = operands(1, 1, *shape)
    picture = draw(client, qkv)
    check(picture, numbers(client, qkv))
    assert picture.logarithmic == (shape[1] > 128)


def test_a_region(client):
    qkv = operands(2, 1, 20, 30)
    options = {"weights": {"rows": [4, 17], "cols": [3, 4], "heads": [1]}}
    picture = draw(client, qkv, options)
    check(picture, numbers(client, qkv, options))
    assert "queries 4 to 16 of 20 down, key 3 of 30 across" in picture.text


def test_not_a_number_is_marked(client):
    qkv = operands(1, 1, 8, 8)
    qkv[0][0, 0, 5, 2] = np.nan
    picture = draw(client, qkv, {"mask": "causal"})
    expected = numbers(client, qkv, {"mask": "causal"})
    assert np.isnan(expected).sum() == 6
    check(picture, expected, ~np.tri(8, dtype=bool))
    check(draw(client, qkv), numbers(client, qkv))


@pytest.mark.parametrize(("Hq", "Tq", "Tk", "side", "each"), [
    (1, 4096, 4096, 1024, "4 x 4"), (12, 1100, 520, 512, "3 x 2"), (1, 1, 5000, 1024, "1 x 5")])
def test_a_large_map_is_pooled_by_itself(client, Hq, Tq, Tk, side, each):
    qkv = operands(Hq, 1, Tq, Tk)
    options = {"mask": CAUSAL}
    picture = draw(client, qkv, options)
    assert f"; a cell is the max of {each};" in picture.text and picture.logarithmic
    bins = [-(-n // -(-n // side)) for n in (Tq, Tk)]
    pool = {"rows": bins[0], "cols": bins[1], "op": "max"}
    expected = numbers(client, qkv, {**options, "weights": {"pool": pool}})
    rows, cols = (np.arange(n + 1) * total // n for n, total in zip(bins, (Tq, Tk), strict=True))
    hidden = cols[None, :-1] > rows[1:, None] - 1 + Tk - Tq
    check(picture, expected, hidden)


def test_a_pool_that_was_asked_for_is_kept(client):
    qkv = operands(1, 1, 300, 300)
    options = {"weights": {"pool": {"rows": 30, "cols": 50, "op": "mass"}}}
    picture = draw(client, qkv, options)
    check(picture, numbers(client, qkv, options))
    assert "a cell is the mass of 10 x 6" in picture.text


@pytest.mark.parametrize("shape", [(1, 1, 0, 5), (1, 1, 5, 0), (1, 0, 3, 3), (0, 1, 3, 3),
                                   (1, 1, 0, 0)], ids=str)
def test_axes_of_size_zero(client, shape):
    B, H, Tq, Tk = shape
    picture = draw(client, operands(H, H or 1, Tq, Tk, B=B))
    assert not (picture.indices == HIDDEN).any()


TOKENS = ["[CLS]", "the", "cat", "sat", "."]
HOSTILE = ["\u202eevil", "a" * 500, "\0".join("ab"), "\ud83d\ude00", "中文", "ﷺ" * 40, "\x1b[31m",
           "", "<script>", "%s%n", "\n\r\t", "e" + "\u0301" * 200]


def test_labels_are_drawn(client):
    qkv = operands(1, 1, 5, 5)
    plain = draw(client, qkv)
    both = draw(client, qkv, {"labels": {"q": TOKENS, "k": [TOKENS]}})
    assert both.ink_outside_of_panels() > plain.ink_outside_of_panels()
    for labels in ({"q": TOKENS}, {"k": TOKENS}, {"q": TOKENS, "k": TOKENS[::-1]}):
        assert draw(client, qkv, {"labels": labels}).indices.tobytes() != both.indices.tobytes()
    check(both, numbers(client, qkv))


def test_labels_of_anything(client):
    qkv = operands(1, 1, len(HOSTILE), len(HOSTILE))
    for texts in (HOSTILE, ["NaN"] * len(HOSTILE)):
        for wire in ("safetensors", "nested"):
            texts = [text.replace("\0", "\x7f") for text in texts]
            picture = draw(client, qkv, {"labels": {"q": texts, "k": texts}}, wire=wire)
            check(picture, numbers(client, qkv))


def test_labels_pass_through_other_answers(client):
    qkv = operands(1, 1, 5, 5, B=2)
    plain = client.attention(*qkv)
    for wire in ("safetensors", "nested"):
        named = client.attention(*qkv, {"labels": {"q": TOKENS, "k": [TOKENS] * 2}}, wire=wire)
        np.testing.assert_array_equal(named["output"], plain["output"])


def test_the_same_request_gives_the_same_bytes(client):
    qkv = operands(8, 2, 40, 300)
    options = {"labels": {"q": [str(n) for n in range(40)]}}
    assert len({send(client, qkv, options).body for _ in range(3)}) == 1


@pytest.mark.parametrize(("options", "type", "pointer", "part"), [
    ({"weights": {"top_k": 2}}, "bad-value", "/weights/top_k", "Leave top_k out"),
    ({"return": ["weights", "stats"]}, "bad-value", "/return", "holds no stats"),
    ({"return": ["col_sums"]}, "bad-value", "/return", "holds no col_sums"),
    ({"weights": {"pool": {"rows": 1, "cols": 1025}}}, "result-too-large", "/weights/pool",
     "at most 1024 rows and cols"),
    ({"labels": {"q": TOKENS[:4]}}, "bad-shape", "/labels/q", "Tq = 5"),
    ({"labels": {"k": TOKENS}}, "bad-shape", "/labels/k", "Tk = 1100"),
    ({"labels": {"q": [TOKENS, TOKENS]}}, "bad-shape", "/labels/q", "B = 1 batch items, but 2"),
    ({"weights": {"stage": "softmax"}}, "bad-value", "/weights/stage", "Expected"),
])
def test_what_is_no_picture_is_refused(client, options, type, pointer, part):
    answer = send(client, operands(1, 1, 5, 1100), options)
    assert answer.status == (413 if type == "result-too-large" else 422)
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.json["type"] == f"/problems/{type}"
    assert answer.json["pointer"] == pointer and part in answer.json["detail"]


def test_too_many_panels(client):
    qkv = operands(33, 1, 3, 3, B=2)
    answer = send(client, qkv, {})
    assert (answer.status, answer.json["pointer"], answer.json["limit"]) == (
        413, "/weights/heads", 64)
    assert "33 heads in each of 2 batch items" in answer.json["detail"]
    check(draw(client, qkv, {"weights": {"heads": "mean"}}),
          numbers(client, qkv, {"weights": {"heads": "mean"}}))
    assert len(draw(client, qkv, {"weights": {"heads": list(range(32))}}).panels()) == 64


@pytest.mark.parametrize(("accept", "kind"), [
    ("image/*", PNG_TYPE), ("image/png, */*;q=0.1", PNG_TYPE), ("*/*", SAFETENSORS_TYPE),
    ("text/html, image/webp, */*;q=0.8", SAFETENSORS_TYPE),
    ("image/png;q=0.5, application/json", JSON_TYPE)])
def test_accept(client, accept, kind):
    answer = send(client, operands(1, 1, 2, 2), {}, accept=accept)
    assert answer.headers["Content-Type"] == kind


@pytest.mark.parametrize("path", ["/v1/merge", "/v1/experiments/scaling"])
def test_only_maps_are_drawn(client, path):
    answer = client.send("POST", path, b"{}", {"Content-Type": JSON_TYPE, "Accept": PNG_TYPE})
    assert answer.status == 406 and PNG_TYPE not in answer.json["detail"].split(";")[0]


def test_without_a_font_there_is_no_text():
    qkv = operands(1, 1, 5, 5)
    with Daemon("--font", "/nowhere/font.ttf") as daemon:
        for _ in range(2):
            picture = draw(daemon.client, qkv, {"labels": {"q": TOKENS}})
            check(picture, numbers(daemon.client, qkv))
            assert picture.ink_outside_of_panels() == 0
        events = [json.loads(line) for line in daemon.output().splitlines() if line[:1] == "{"]
    assert [e["detail"] for e in events if e.get("event") == "font"] == [
        "pictures have no text: there is no font at /nowhere/font.ttf"]


def test_pixels_are_charged_to_the_budget():
    """64 KiB of weights are some megabytes of pixels."""
    qkv = operands(64, 1, 16, 16)
    with Daemon("--memory-budget", "4MiB", "--max-result", "1MiB", "--max-body", "1MiB",
                "--json-max-body", "1MiB") as daemon:
        one = {"weights": {"heads": [5]}}
        check(draw(daemon.client, qkv, one), numbers(daemon.client, qkv, one))
        answer = send(daemon.client, qkv, {})
        numbers(daemon.client, qkv)
    assert answer.status == 413 and answer.json["type"] == "/problems/result-too-large"
