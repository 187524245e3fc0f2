# SPDX-License-Identifier: Apache-2.0
"""Partial results over ranges of keys, merged: the same as one call over all keys.

Where an oracle is at hand its bounds are those of docs/semantics.md (support/agreement.py). Halves
are merged from partial outputs in float32, as an attention that spans machines should: each partial
rounded to half by itself would add errors that no merge can take back.
"""

import numpy as np
import pytest
from support import raw
from support.agreement import assert_agrees
from support.cases import DTYPES, Case, to_dtype, widen
from support.client import WIRES, pack_operands, wires_of
from support.daemon import Daemon

B, HQ, HKV, TQ, TK, D, DV = 2, 4, 2, 9, 61, 16, 5


def whole(dtype, **options):
    """A call whose rows see from none to all of its keys, many of them only keys of one range."""
    rng = np.random.default_rng(5)
    q, k, v = (to_dtype(rng.standard_normal(shape), dtype)
               for shape in ((B, HQ, TQ, D), (B, HKV, TK, D), (B, HKV, TK, DV)))
    allow = rng.random((B, HQ, TQ, TK)) < 0.3
    allow[:, :, 0] = False
    allow[:, :, 1, 20:] = False
    mask = {"type": "allow", "tensor": "allow"}
    return Case((5,), dtype, q, k, v, {"mask": mask, **options}, {"allow": allow})


def partials(client, case, parts, sink_in=None, sink=None):
    """(outputs, lses) of the case's keys in so many ranges of unequal size."""
    cuts = np.sort(np.random.default_rng(parts).choice(np.arange(1, TK), parts - 1, replace=False))
    outputs, lses = [], []
    for n, (a, b) in enumerate(zip([0, *cuts], [*cuts, TK], strict=True)):
        options = {**case.options, "return": ["output", "lse"]}
        if case.dtype != "float64":
            options["output_dtype"] = "float32"
        if n == sink_in:
            options["sink"] = sink
        tensors = {"allow": np.ascontiguousarray(case.tensors["allow"][..., a:b])}
        answer = client.attention(case.q, np.ascontiguousarray(case.k[:, :, a:b]),
                                  np.ascontiguousarray(case.v[:, :, a:b]), options, tensors)
        outputs.append(answer["output"])
        lses.append(answer["lse"])
    return np.stack(outputs), np.stack(lses)


@pytest.mark.parametrize("parts", range(2, 8))
@pytest.mark.parametrize("dtype", DTYPES)
def test_split_keys_merge_into_the_whole(client, dtype, parts):
    case = whole(dtype)
    answer = client.merge(*partials(client, case, parts), {"output_dtype": dtype})
    assert_agrees(case, answer.tensors, ("output", "lse"), f"{parts} parts:")
    assert answer.meta["empty_rows"] == B * HQ
    assert not answer.meta["non_finite"]
    assert answer.meta["shape"] == {"P": parts, "B": B, "H": HQ, "T": TQ, "Dv": DV}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("sink_in", [0, 1, 2])
def test_a_sink_in_one_partial_is_a_sink_at_the_merge(client, dtype, sink_in):
    sink = [0.5, -1.0, 3.0, 40.0]
    case = whole(dtype, sink=sink)
    plain = Case(case.seed, dtype, case.q, case.k, case.v, {"mask": case.options["mask"]},
                 case.tensors)
    in_partial = client.merge(*partials(client, plain, 3, sink_in, sink))
    at_merge = client.merge(*partials(client, plain, 3), {"sink": sink})
    for answer in (in_partial, at_merge):
        assert_agrees(case, answer.tensors, ("output", "lse"))


def test_a_causal_mask_goes_by_the_place_of_the_range(client):
    """A partial call's queries stand at q_offset less its first key; its last range is unseen."""
    case = whole("float64")
    offset, cuts, outputs, lses = 20, (0, 7, 24, 40, TK), [], []
    for a, b in zip(cuts, cuts[1:], strict=False):
        options = {"mask": "causal", "q_offset": offset - a, "return": ["output", "lse"]}
        k, v = (np.ascontiguousarray(x[:, :, a:b]) for x in (case.k, case.v))
        answer = client.attention(case.q, k, v, options)
        outputs.append(answer["output"])
        lses.append(answer["lse"])
    causal = Case(case.seed, "float64", case.q, case.k, case.v,
                  {"mask": "causal", "q_offset": offset})
    assert np.isneginf(lses[-1]).all()
    assert_agrees(causal, client.merge(np.stack(outputs), np.stack(lses)).tensors,
                  ("output", "lse"))


@pytest.mark.parametrize(("dtype", "close"), [("float32", 3e-7), ("float64", 1e-15)])
def test_the_order_of_partials_does_not_matter(client, dtype, close):
    """To the last bits: sums in float64, of numbers of size 1, rounded to the dtype."""
    outputs, lses = partials(client, whole(dtype), 6)
    straight = client.merge(outputs, lses)
    order = np.random.default_rng(1).permutation(6)
    turned = client.merge(outputs[order], lses[order])
    for name in ("output", "lse"):
        np.testing.assert_allclose(turned[name], straight[name], rtol=4 * close, atol=close)


def test_merges_can_be_merged(client):
    case = whole("float64")
    outputs, lses = partials(client, case, 5)
    first = client.merge(outputs[:2], lses[:2])
    rest = client.merge(outputs[2:], lses[2:])
    answer = client.merge(np.stack([first["output"], rest["output"]]),
                          np.stack([first["lse"], rest["lse"]]))
    assert_agrees(case, answer.tensors, ("output", "lse"))


@pytest.mark.parametrize(("dtype", "wire"),
                         [(dtype, wire) for dtype in DTYPES for wire in wires_of(dtype)])
def test_one_partial_comes_back_bit_for_bit(client, dtype, wire):
    rng = np.random.default_rng(3)
    outputs = to_dtype(rng.standard_normal((1, 2, 3, 5, 4)), dtype)
    lses = rng.standard_normal((1, 2, 3, 5)).astype(np.float32)
    # Nested lists carry no dtype: they are float32, and halves come back as that.
    typed = dtype if wire != "nested" else "float64" if dtype == "float64" else "float32"
    options = {"precision": "float64"} if typed == "float64" else {}
    answer = client.merge(outputs, lses, options, wire=wire)
    np.testing.assert_array_equal(widen(answer["output"]), widen(outputs[0]))
    assert answer["output"].dtype == to_dtype(np.zeros(1), typed).dtype
    np.testing.assert_array_equal(answer["lse"], lses[0])


@pytest.mark.parametrize("wire", WIRES)
def test_values_that_are_not_finite(client, wire):
    outputs = np.array([[[np.nan], [1], [1]], [[np.inf], [2], [3]]], dtype=np.float32)
    lses = np.array([[-np.inf, 0, np.nan], [-np.inf, -np.inf, 0]], dtype=np.float32)
    answer = client.merge(outputs, lses, wire=wire)
    np.testing.assert_array_equal(answer["output"], [[0], [1], [np.nan]])
    np.testing.assert_array_equal(answer["lse"], [-np.inf, 0, np.nan])
    assert (answer.meta["empty_rows"], answer.meta["non_finite"]) == (1, True)


def test_every_encoding_gives_the_same_bits(client):
    outputs, lses = partials(client, whole("float32"), 3)
    answers = [client.merge(outputs, lses, {"sink": [0.25]}, wire=wire) for wire in WIRES]
    answers.append(client.merge(outputs, lses, query="?sink=0.25"))
    answers.append(client.merge(outputs, lses, {"sink": "s"}, {"s": np.array([0.25])}))
    for answer in answers[1:]:
        for name in ("output", "lse"):
            np.testing.assert_array_equal(answer[name], answers[0][name])


@pytest.mark.parametrize("lead", [(), (3,), (2, 3)])
def test_ranks(client, lead):
    rng = np.random.default_rng(3)
    outputs, lses = rng.standard_normal((4, *lead, 7, 2)), rng.standard_normal((4, *lead, 7))
    answer = client.merge(outputs, lses)
    weights = np.exp(lses) / np.exp(lses).sum(0)
    expected = (weights[..., None] * outputs).sum(0)
    assert answer["output"].shape == expected.shape
    np.testing.assert_allclose(answer["output"], expected, rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(answer["lse"], np.log(np.exp(lses).sum(0)), rtol=1e-14, atol=1e-15)


def test_a_large_merge_is_the_workers(client):
    """A small one never waits in a queue; of a large one every row is there, with the same bits."""
    rng = np.random.default_rng(4)
    outputs = rng.standard_normal((3, 8, 1024, 64), dtype=np.float32)
    lses = rng.standard_normal((3, 8, 1024), dtype=np.float32)
    answer = client.merge(outputs, lses)
    assert answer.meta["timings_ms"]["queue"] > 0
    assert answer.meta["flops"] == 2 * outputs.size
    for head, row in ((0, 0), (3, 511), (7, 1020)):
        part = np.s_[:, head, row:row + 4]
        small = client.merge(np.ascontiguousarray(outputs[part]), np.ascontiguousarray(lses[part]))
        assert small.meta["timings_ms"]["queue"] == 0
        for name in ("output", "lse"):
            np.testing.assert_array_equal(answer[name][head, row:row + 4], small[name])


def test_requests_are_counted_under_their_route(client):
    series = 'attention_http_requests_total{route="/v1/merge",method="POST",code="200"}'
    client.merge(np.ones((2, 1, 1)), np.zeros((2, 1)))
    before = raw.samples(client)[series]
    client.merge(np.ones((2, 1, 1)), np.zeros((2, 1)))
    assert raw.samples(client)[series] == before + 1


def test_too_much_work_is_refused_before_any():
    """32 operations for each partial of a row, and two for each of its numbers."""
    with Daemon("--max-flops", "1000000") as daemon:
        for rows, status in ((31250, 200), (31251, 413)):
            operands = {"outputs": np.zeros((1, rows, 0)), "lses": np.zeros((1, rows))}
            body, kind = pack_operands(operands)
            answer = daemon.client.send("POST", "/v1/merge", body, {"Content-Type": kind})
            assert answer.status == status
        assert (answer.json["type"], answer.json["limit"]) == ("/problems/too-much-work", 1000000)


def test_an_output_without_elements_is_finite(client):
    answer = client.merge(np.zeros((2, 1, 1, 3, 0)), np.full((2, 1, 1, 3), np.nan))
    assert answer["output"].shape == (1, 1, 3, 0) and np.isnan(answer["lse"]).all()
    assert not answer.meta["non_finite"]
