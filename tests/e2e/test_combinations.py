# SPDX-License-Identifier: Apache-2.0
"""Pitfalls that show in combinations: options that only work beside others, two ways to say one
mask that differ, memory that grows with the number of heads, and fields that must be refused."""
import itertools

import numpy as np
import pytest
from support.agreement import assert_agrees
from support.cases import Case
from support.daemon import Daemon

OPTIONS = {
    "causal": {"mask": ["causal"]},
    "window": {"mask": [{"type": "window", "left": 3, "right": 5}]},
    "lengths": {"mask": [{"type": "padding", "kv_lengths": [30, 17], "q_lengths": [33, 20]}]},
    "prefix": {"mask": [{"type": "prefix", "length": [9, 21]}]},
    "segments": {"mask": [{"type": "segments", "q": "ids"}]},
    "global": {"mask": [{"type": "global", "tokens": [30, 4, 0]}]},
    "dilated": {"mask": [{"type": "dilated", "width": 20, "stride": 3}]},
    "block_causal": {"mask": [{"type": "block_causal", "block": 5}]},
    "hide": {"mask": [{"type": "hide", "tensor": "hidden"}]},
    "bias": {"bias": "bias"}, "alibi": {"alibi": True}, "sink": {"sink": [0.5, -1, 0, 2]},
    "rope": {"rope": {"theta": 100, "dims": 6}},
    "additive": {"score": {"type": "additive", "w": [0.5, -0.25, 1, 0.125, -1, 0, 0.75, 0.3]}},
    "softcap": {"softcap": 1.5}, "scale": {"scale": 0.9}, "q_offset": {"q_offset": [4, -2]},
}


def merged(names):
    options = {}
    for name in names:
        for key, value in OPTIONS[name].items():
            options[key] = options.get(key, []) + value if key == "mask" else value
    return options


@pytest.mark.parametrize("names", [
    *itertools.combinations(OPTIONS, 1), *itertools.combinations(OPTIONS, 2)], ids="+".join)
def test_26_every_option_alone_and_in_pairs(client, kernels, names):
    rng = np.random.default_rng(26)
    q, k, v = (rng.standard_normal(s).astype(np.float32)
               for s in ((2, 4, 33, 8), (2, 2, 33, 8), (2, 2, 33, 5)))
    options = merged(names)
    tensors = {"ids": np.arange(33) // 8, "hidden": rng.random((4, 1, 33)) < 0.4,
               "bias": rng.standard_normal((2, 1, 33, 33)).astype(np.float32)}
    used = {name: x for name, x in tensors.items() if f"'{name}'" in str(options)}
    case = Case((26,), "float32", q, k, v, options, used)
    for kernel in kernels:
        answer = client.attention(q, k, v, {**options, "kernel": kernel, "return": [
            "output", "lse", "weights", "scores"]}, used)
        assert_agrees(case, answer.tensors, label=kernel)


@pytest.mark.parametrize("Tq, Tk, offset", [(6, 9, 3), (9, 6, -3), (97, 97, 0), (33, 130, 97)])
def test_28_causal_with_padding_is_the_explicit_and(client, kernels, Tq, Tk, offset):
    rng = np.random.default_rng(28)
    q, k, v = (rng.standard_normal((2, 2, t, 8)).astype(np.float32) for t in (Tq, Tk, Tk))
    keep = rng.random((2, Tk)) < 0.6
    triangle = np.arange(Tk) <= np.arange(Tq)[:, None] + offset
    both = (keep[:, None, None, :] & triangle).astype(np.uint8)
    for kernel in kernels:
        said = client.attention(q, k, v, {"kernel": kernel, "q_offset": offset, "mask": {
            "all": ["causal", {"type": "padding", "keep": "keep"}]}}, {"keep": keep})
        drawn = client.attention(q, k, v, {"kernel": kernel, "mask": {
            "type": "allow", "tensor": "both"}}, {"both": both})
        np.testing.assert_allclose(said["output"], drawn["output"], rtol=0, atol=1e-6)


@pytest.mark.parametrize("T", [*range(1, 71), 97, 129, 257])
def test_38_a_drawn_triangle_is_causal(client, kernels, T):
    rng = np.random.default_rng(T)
    q, k, v = (rng.standard_normal((2, T, 4)).astype(np.float32) for _ in range(3))
    for kernel in kernels:
        said = client.attention(q, k, v, {"mask": "causal", "kernel": kernel})
        drawn = client.attention(
            q, k, v, {"mask": {"type": "allow", "tensor": "m"}, "kernel": kernel},
            {"m": np.tri(T, dtype=bool)})
        np.testing.assert_allclose(said["output"], drawn["output"], rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    "order", itertools.permutations(("full", "empty", "partial")), ids="-".join)
def test_22_heads_of_one_group_with_masks_of_their_own(client, kernels, order):
    """Three query heads share a key/value head, so a kernel may treat them as one: each must still
    see its own mask, in tiles that all of it fills, that none of it touches, and between."""
    rng = np.random.default_rng(22)
    q, k, v = (rng.standard_normal(s).astype(np.float32)
               for s in ((3, 70, 8), (1, 600, 8), (1, 600, 5)))
    heads = {"full": np.ones((70, 600), bool), "empty": np.zeros((70, 600), bool),
             "partial": np.arange(600) % 300 < rng.integers(1, 300, (70, 1))}
    masks = np.stack([heads[name] for name in order])
    case = Case((22,), "float32", q, k, v, {"mask": {"type": "allow", "tensor": "m"}}, {"m": masks})
    for kernel in kernels:
        answer = client.attention(q, k, v, {**case.options, "kernel": kernel, "return": [
            "output", "lse", "weights", "scores"]}, case.tensors)
        assert_agrees(case, answer.tensors, label=kernel)


def peak_memory(process):
    with open(f"/proc/{process.pid}/status") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    raise AssertionError("no VmHWM")


@pytest.mark.parametrize("kind", ["allow", "bias"])
def test_36_a_mask_for_all_heads_is_not_copied_per_head(kind):
    """16 heads of 2048 x 2048 in float32 would be 268 MB; the request itself is at most 18 MB, and
    a body may be held twice while it is received."""
    T, H = 2048, 16
    rng = np.random.default_rng(36)
    q, k, v = (rng.standard_normal((H, T, 4)).astype(np.float32) for _ in range(3))
    if kind == "allow":
        options, m = {"mask": {"type": "allow", "tensor": "m"}}, rng.random((T, T)) < 0.9
    else:
        options, m = {"bias": "m"}, rng.standard_normal((T, T)).astype(np.float32)
    with Daemon("--threads", "1") as daemon:
        daemon.client.attention(q[:, :64], k[:, :64], v[:, :64])
        before = peak_memory(daemon.process)
        answer = daemon.client.attention(q, k, v, options, {"m": m})
        assert np.isfinite(answer["output"]).all()
        assert peak_memory(daemon.process) - before < 128 * 2**20


@pytest.mark.parametrize("field", ["dropout", "dropout_p"])
def test_35_dropout_is_refused_and_said_to_belong_to_training(client, field):
    answer = client.send("POST", "/v1/attention", '{"q":[[1]],"k":[[1]],"v":[[1]],"%s":0.1}'
                         % field, {"Content-Type": "application/json"})
    assert answer.status == 422 and answer.json["pointer"] == f"/{field}"
    assert "training" in answer.json["detail"]


@pytest.mark.parametrize("padding", [
    {"kv_lengths": [-1]}, {"kv_lengths": [5]}, {"kv_lengths": [2, 2]}, {"kv_lengths": [2**62]},
    {"kv_lengths": [2], "q_lengths": [-1]}, {"kv_lengths": [2], "q_lengths": [3]},
    {"kv_lengths": []}, {"kv_lengths": [1.5]}, {"kv_lengths": ["2"]},
], ids=str)
def test_33_lengths_out_of_range_are_refused(client, padding):
    from support.client import pack
    body, kind = pack(np.ones((1, 1, 2, 2)), np.ones((1, 1, 4, 2)), np.ones((1, 1, 4, 2)),
                      {"mask": {"type": "padding", **padding}}, wire="flat")
    answer = client.send("POST", "/v1/attention", body, {"Content-Type": kind})
    assert answer.status == 422, answer.body
    assert answer.json["pointer"].startswith("/mask")


@pytest.mark.parametrize("shape", [
    [2**33, 2**33], [2**63 - 1, 4], [2**16, 2**16, 2**16, 2**16], [2**64, 1], [-1, 4]], ids=str)
def test_20_21_shapes_whose_product_overflows_are_refused(client, shape):
    import json
    request = {"q": {"shape": shape, "dtype": "float32", "data": [1, 2, 3, 4]},
               "k": [[1, 2, 3, 4]], "v": [[1]]}
    answer = client.send("POST", "/v1/attention", json.dumps(request),
                         {"Content-Type": "application/json"})
    assert answer.status in (400, 413, 422), answer.body
    assert answer.json["pointer"].startswith("/q")
