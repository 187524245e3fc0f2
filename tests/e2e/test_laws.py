# SPDX-License-Identifier: Apache-2.0
"""Laws of attention that hold without knowing any expected number, per kernel and dtype.

The tolerance is that of two float32 sums of 70 terms of size about 1 taken in different orders:
70 roundings of 6e-8 in the worst case, so 1e-5 with room for the exponential; 1e-13 in float64.
"""
import numpy as np
import pytest

TOLERANCE = {"float32": 1e-5, "float64": 1e-13}
SHAPES = ((2, 4, 19, 16), (2, 2, 70, 16), (2, 2, 70, 9))


@pytest.fixture(params=["float32", "float64"])
def call(request, client, kernels):
    """The call under test, its inputs and the closeness to ask for."""
    rng = np.random.default_rng(21)
    q, k, v = (rng.standard_normal(s).astype(request.param) for s in SHAPES)

    def all_kernels(q, k, v, options=None, tensors=None, name="output"):
        for kernel in kernels:
            asked = {**(options or {}), "kernel": kernel, "return": [name]}
            yield client.attention(q, k, v, asked, tensors)[name]

    def same(left, right):
        for x, y in zip(left, right, strict=True):
            np.testing.assert_allclose(x, y, rtol=0, atol=TOLERANCE[request.param])

    return all_kernels, same, q, k, v


def test_the_order_of_keys_does_not_matter(call):
    run, same, q, k, v = call
    order = np.random.default_rng(2).permutation(70)
    same(run(q, k, v), run(q, k[:, :, order], v[:, :, order]))


def test_a_constant_added_to_a_row_changes_nothing(call):
    run, same, q, k, v = call
    shift = np.linspace(-3, 3, 19, dtype=q.dtype).reshape(19, 1)
    shift = np.broadcast_to(shift, (19, 70)).copy()
    same(run(q, k, v), run(q, k, v, {"bias": "shift"}, {"shift": shift}))


def test_a_key_twice_is_a_bias_of_ln_2(call):
    run, same, q, k, v = call
    twice = [np.concatenate([x, x[:, :, 5:6]], axis=2) for x in (k, v)]
    bias = np.zeros((19, 70), dtype=q.dtype)
    bias[:, 5] = np.log(2)
    same(run(q, *twice), run(q, k, v, {"bias": "b"}, {"b": bias}))


def test_groups_are_repeated_heads(call):
    run, same, q, k, v = call
    same(run(q, k, v), run(q, np.repeat(k, 2, axis=1), np.repeat(v, 2, axis=1)))


def test_ones_give_one(call):
    run, same, q, k, v = call
    same(run(q, k, np.ones_like(v), {"softcap": 3}), (1.0 for _ in run(q, k, v)))


def test_a_constant_value_comes_back(call):
    run, same, q, k, v = call
    constant = np.broadcast_to(v[:, :, :1], v.shape).copy()
    expected = np.broadcast_to(np.repeat(v[:, :, :1], 2, axis=1), (2, 4, 19, 9))
    same(run(q, k, constant), (expected for _ in run(q, k, v)))


def test_the_identity_as_values_returns_the_map(call):
    run, same, q, k, _ = call
    identity = np.broadcast_to(np.eye(70, dtype=q.dtype), (2, 2, 70, 70)).copy()
    options = {"mask": {"type": "window", "left": 9, "right": 30}, "q_offset": 5}
    same(run(q, k, identity, options), run(q, k, identity, options, name="weights"))


def test_hidden_keys_appended_change_nothing(call):
    run, same, q, k, v = call
    more = [np.concatenate([x, 50 * np.ones_like(x[:, :, :13])], axis=2) for x in (k, v)]
    mask = {"mask": {"type": "padding", "kv_lengths": [70]}}
    same(run(q, k, v), run(q, *more, mask))


def test_rows_sum_to_one_and_lse_turns_scores_into_weights(call):
    run, same, q, k, v = call
    weights = list(run(q, k, v, name="weights"))
    same((w.sum(-1) for w in weights), (1.0 for _ in weights))
    pairs = zip(run(q, k, v, name="scores"), run(q, k, v, name="lse"), strict=True)
    same((np.exp(s - lse[..., None]) for s, lse in pairs), weights)


def test_chunked_prefill_is_one_shot(call):
    run, same, q, k, v = call
    mask = {"mask": "causal"}
    whole = run(q, k, v, {**mask, "q_offset": 51})
    parts = [run(q[:, :, a:b], k[:, :, :51 + b], v[:, :, :51 + b], {**mask, "q_offset": 51 + a})
             for a, b in ((0, 7), (7, 19))]
    same(whole, (np.concatenate(chunks, axis=2) for chunks in zip(*parts, strict=True)))
