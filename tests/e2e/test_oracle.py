# SPDX-License-Identifier: Apache-2.0
"""The oracle itself, checked without the daemon: by hand-computed cases, by laws that need no
expected number, and against the reference implementation of the ONNX operator `Attention`."""
import math

import numpy as np
import pytest
from support.oracle import STAGES, alibi_slopes, attention
from support.oracle_mask import Shape, conjunction, query_offsets, visible

INF = math.inf


def flat(values, mask=None, rows=1, keys=None, **options):
    """Zero queries and keys, so weights are even: the visible V's average per row."""
    v = np.array(values, dtype=float).reshape(-1, 1)
    if mask is not None:
        options["mask"] = mask
    return attention(np.zeros((rows, 1)), np.zeros((len(v), 1)), v, options)["output"][:, 0]


@pytest.mark.parametrize("name, got, expected", [
    ("row without a key", flat([5, 7], {"type": "allow", "tensor": [[False, False], [True, True]]},
                               rows=2), [0, 6]),
    ("huge negative bias is finite", flat([2, 4], bias=[[-3.4e38, -3.4e38]]), [3]),
    ("top left", flat([1, 2, 3, 4], {"type": "causal", "align": "top_left"}), [1]),
    ("bottom right", flat([1, 2, 3, 4], {"type": "causal", "align": "bottom_right"}), [2.5]),
    ("more queries than keys", flat([4, 6], {"type": "causal", "align": "bottom_right"}, rows=5),
     [0, 0, 0, 4, 5]),
    ("causal and an empty row",
     flat([4, 6], ["causal", {"type": "allow", "tensor": [[1, 0], [0, 0]]}], rows=2), [4, 0]),
    ("softcap comes before the mask", flat([1, 1000], softcap=0.5, bias=[[0, -INF]]), [1]),
    ("polarity of allow", flat([4, 6], {"type": "allow", "tensor": [[True, False]]}), [4]),
    ("polarity of hide", flat([4, 6], {"type": "hide", "tensor": [[True, False]]}), [6]),
    ("a 0/1 bias is a bias", flat([0, 1], bias=[[1, 0]]), [1 / (1 + math.e)]),
    ("left 1 is two keys", flat([1, 2, 3, 4], {"type": "window", "left": 1, "right": 0}, rows=4),
     [1, 1.5, 2.5, 3.5]),
    ("alibi at an offset", flat([0, 0, 1], alibi=[1], q_offset=2),
     [1 / (1 + math.exp(-1) + math.exp(-2))]),
    ("sink takes its share", flat([3, 6], sink=[0]), [3]),
    ("prefix", flat([1, 3, 100], {"type": "prefix", "length": 2}), [2]),
    ("segments", flat([1, 3, 100], {"type": "segments", "q": [7, 7, 9]}, rows=3), [2, 2, 100]),
    ("global", flat([1, 2, 3, 4], {"type": "global", "tokens": [2]}, rows=4), [3, 3, 2.5, 3]),
    ("global at an offset", flat([1, 2, 3, 6], {"type": "global", "tokens": [3, 0]}, rows=2,
                                 q_offset=2), [3.5, 3]),
    ("dilated", flat([1, 2, 3, 4, 9], {"type": "dilated", "width": 3, "stride": 2}, rows=5),
     [2, 3, 13 / 3, 3, 6]),
    ("block causal", flat([1, 3, 5, 7], {"type": "block_causal", "block": 2}, rows=4),
     [2, 2, 4, 4]),
    ("blocks before the keys", flat([1, 3, 8], {"type": "block_causal", "block": 2}, rows=4,
                                    q_offset=-3), [0, 0, 0, 2]),
    ("any of nothing", flat([1, 3], {"any": []}), [0]),
    ("any of two", flat([1, 3, 8], {"any": [{"type": "prefix", "length": 1}, {
        "not": {"type": "prefix", "length": 2}}]}), [4.5]),
    ("all of nothing", flat([1, 3], {"all": []}), [2]),
    ("not", flat([1, 3, 8], {"not": {"type": "prefix", "length": 2}}), [8]),
    ("padding left", flat([1, 3, 8], {"type": "padding", "keep": [[0, 1, 1]]}), [5.5]),
], ids=lambda x: x.replace(" ", "-") if isinstance(x, str) else "")
def test_by_hand(name, got, expected):
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-15, err_msg=name)


def test_lengths_per_batch_item():
    v = np.array([[1, 3, 99], [1, 3, 5]], dtype=float).reshape(2, 1, 3, 1)
    zero = np.zeros((2, 1, 1, 1))
    answer = attention(zero, np.zeros((2, 1, 3, 1)), v,
                       {"mask": {"type": "padding", "kv_lengths": [2, 3]}})
    assert answer["output"].ravel().tolist() == [2, 3]


def test_q_lengths_empty_the_rows_behind():
    answer = attention(np.zeros((3, 1)), np.zeros((2, 1)), np.array([[4.0], [6.0]]),
                       {"mask": {"type": "padding", "kv_lengths": [2], "q_lengths": [2]}})
    assert answer["output"].ravel().tolist() == [5, 5, 0]
    assert answer["lse"].tolist()[2] == -INF


def test_sinks_logit_is_the_lse_of_an_empty_row():
    options = {"mask": {"any": []}, "sink": [1.5]}
    answer = attention(np.zeros((1, 1)), np.zeros((2, 1)), np.ones((2, 1)), options)
    assert answer["lse"].tolist() == [1.5] and answer["output"].tolist() == [[0]]


def test_non_finite_values():
    k, v = np.zeros((3, 1)), np.array([[1.0], [2.0], [np.nan]])
    hidden = {"mask": {"type": "prefix", "length": 2}}
    assert attention(np.ones((1, 1)), k, v, hidden)["output"].tolist() == [[1.5]]
    assert np.isnan(attention(np.ones((1, 1)), k, v)["output"]).all()
    for poison, out, lse in ((np.nan, np.nan, np.nan), (INF, np.nan, np.nan), (-INF, 1.0, 0.0)):
        k = np.array([[0.0], [poison]])
        answer = attention(np.ones((1, 1)), k, np.array([[1.0], [9.0]]))
        np.testing.assert_equal(answer["output"].item(), out)
        np.testing.assert_equal(answer["lse"].item(), lse)


def test_one_dimensional_heads_by_group():
    v = np.array([1.0, 2.0]).reshape(2, 1, 1)
    answer = attention(np.zeros((4, 1, 1)), np.zeros((2, 1, 1)), v)
    assert answer["output"].ravel().tolist() == [1, 1, 2, 2]


def test_rank_three_with_heads_is_split_not_reshaped():
    zero, v = np.zeros((1, 2, 2)), np.array([[[10.0, 20.0], [30.0, 40.0]]])
    assert attention(zero, zero, v, {"num_heads": 2})["output"].tolist() == [[[20, 30], [20, 30]]]


def test_default_scale_is_of_the_key_size():
    q, v = np.ones((1, 4)), np.eye(2, 9)
    answer = attention(q, np.array([[1.0] * 4, [0.0] * 4]), v)
    assert answer["stages"]["scaled"].tolist() == [[2, 0]]
    assert answer["stages"]["raw"].tolist() == [[4, 0]]


def test_alibi_slopes_of_the_paper():
    assert alibi_slopes(8).tolist() == [2.0 ** -i for i in range(1, 9)]
    twelve = [2.0 ** -i for i in range(1, 9)] + [2.0 ** -(i + 0.5) for i in range(0, 4)]
    np.testing.assert_allclose(alibi_slopes(12), twelve, rtol=1e-15)


def test_align_takes_its_offset_from_the_lengths_beside_it():
    shape = Shape(2, 1, 2, 5)
    mask = [{"type": "causal", "align": "bottom_right"},
            {"type": "padding", "kv_lengths": [5, 1], "q_lengths": [2, 1]}]
    assert query_offsets({"mask": mask}, shape).tolist() == [3, 0]
    assert query_offsets({"mask": mask[0]}, shape).tolist() == [3, 3]
    assert query_offsets({"mask": mask[0], "q_offset": 7}, shape).tolist() == [7, 7]
    assert [p["type"] for p in conjunction({"all": [mask, "causal"]})] == [
        "causal", "padding", "causal"]


def test_windows_written_out():
    shape = Shape(1, 1, 3, 4)
    shape.offsets[:] = 1
    got = visible({"type": "window", "left": 0, "right": 1}, shape, lambda t: t)[0, 0].astype(int)
    assert got.tolist() == [[0, 1, 1, 0], [0, 0, 1, 1], [0, 0, 0, 1]]
    assert visible({"type": "window", "left": -1, "right": -1}, shape, lambda t: t).all()


@pytest.fixture
def tensors():
    rng = np.random.default_rng(5)
    return [rng.standard_normal(s) for s in ((2, 4, 5, 3), (2, 2, 7, 3), (2, 2, 7, 6))]


def test_layouts_carry_the_same_numbers(tensors):
    there = attention(*tensors, {"scale": 0.3})
    moved = attention(*[x.transpose(0, 2, 1, 3) for x in tensors],
                      {"scale": 0.3, "layout": "bthd"})
    merged = attention(*[x.transpose(0, 2, 1, 3).reshape(2, x.shape[2], -1) for x in tensors],
                       {"scale": 0.3, "num_heads": 4, "num_kv_heads": 2})
    assert np.array_equal(there["output"], moved["output"].transpose(0, 2, 1, 3))
    assert np.array_equal(merged["output"], moved["output"].reshape(2, 5, -1))
    assert np.array_equal(there["weights"], merged["weights"])


def test_selection_crops_the_whole_map(tensors):
    whole = attention(*tensors, {"sink": [0.5]})
    part = attention(*tensors, {"sink": [0.5], "weights": {
        "stage": "masked", "heads": [3, 0], "rows": [1, 4], "cols": [2, 7]}})
    assert np.array_equal(part["weights"], whole["scores"][:, [3, 0], 1:4, 2:7])
    assert set(part["stages"]) == set(STAGES)


def test_value_of_one_gives_one_and_identity_gives_the_map(tensors):
    q, k, _ = tensors
    seven = np.broadcast_to(np.eye(7), (2, 2, 7, 7))
    answer = attention(q, k, seven, {"softcap": 2.0})
    np.testing.assert_allclose(answer["output"], answer["weights"], atol=1e-15)
    np.testing.assert_allclose(answer["weights"].sum(-1), 1, atol=1e-15)
    np.testing.assert_allclose(np.exp(answer["stages"]["masked"] - answer["lse"][..., None]),
                               answer["weights"], atol=1e-14)


def onnx_attention(q, k, v, mask=None, lengths=None, **attributes):
    """The reference evaluator on a one-node model, float32."""
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper
    from onnx.reference import ReferenceEvaluator

    feeds = {"Q": q, "K": k, "V": v, "M": mask, "": None, "N": lengths}
    names = ["Q", "K", "V", "M" if mask is not None else "", "", "", "N"]
    names = names if lengths is not None else names[:4]
    node = helper.make_node("Attention", names, ["Y", "", "", "S"], **attributes)
    kinds = {np.dtype("float32"): TensorProto.FLOAT, np.dtype(bool): TensorProto.BOOL,
             np.dtype("int64"): TensorProto.INT64}
    feeds = {name: x for name, x in feeds.items() if x is not None and name in names}
    inputs = [helper.make_tensor_value_info(n, kinds[x.dtype], x.shape) for n, x in feeds.items()]
    outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("Y", "S")]
    graph = helper.make_graph([node], "attention", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)])
    assert onnx.defs.onnx_opset_version() >= 25
    with np.errstate(all="ignore"):
        return ReferenceEvaluator(model).run(None, feeds)


SECOND_OPINIONS = {
    "plain": ({}, {}),
    "scaled": ({"scale": 0.7}, {"scale": 0.7}),
    "causal": ({"mask": {"type": "causal", "align": "top_left"}}, {"is_causal": 1}),
    "softcap": ({"softcap": 1.5}, {"softcap": 1.5}),
    "window": ({"mask": {"type": "window", "left": 2, "right": 1}, "q_offset": 0},
               {"left_window_size": 2, "right_window_size": 1}),
    "bias": ({"bias": "M"}, {"mask": (1, 4, 6, 9)}),
    "allow": ({"mask": {"type": "allow", "tensor": "M"}}, {"mask": (2, 1, 6, 9), "bool": True}),
    "lengths": ({"mask": {"type": "padding", "kv_lengths": [4, 9]}}, {"lengths": [4, 9]}),
    "bottom right": ({"mask": [{"type": "causal", "align": "bottom_right"},
                               {"type": "padding", "kv_lengths": [7, 9]}]},
                     {"lengths": [7, 9], "is_causal": 1}),
}


@pytest.mark.parametrize("name", SECOND_OPINIONS)
@pytest.mark.parametrize("mode, stage", [(2, "masked"), (3, "weights")])
def test_onnx_agrees(name, mode, stage):
    rng = np.random.default_rng(11)
    options, attributes = SECOND_OPINIONS[name]
    attributes = dict(attributes)
    q, k, v = (rng.standard_normal(s).astype(np.float32)
               for s in ((2, 4, 6, 8), (2, 2, 9, 8), (2, 2, 9, 5)))
    mask = attributes.pop("mask", None)
    if mask is not None:
        mask = rng.standard_normal(mask).astype(np.float32)
        mask = mask > 0.3 if attributes.pop("bool", False) else mask
    lengths = attributes.pop("lengths", None)
    lengths = None if lengths is None else np.array(lengths, dtype=np.int64)
    theirs = onnx_attention(q, k, v, mask, lengths, qk_matmul_output_mode=mode, **attributes)
    ours = attention(q, k, v, options, {"M": mask})
    # float32 with eight-term products of normal numbers: a few ulps of 4, no more
    np.testing.assert_allclose(ours["output"], theirs[0], rtol=0, atol=3e-6)
    np.testing.assert_allclose(ours["stages"][stage], theirs[1], rtol=0, atol=3e-6)
