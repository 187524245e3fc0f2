# SPDX-License-Identifier: Apache-2.0
"""Laws of attention that hold without knowing any expected number, per kernel and dtype.

The tolerance is that of two float32 sums of 70 terms of size about 1 taken in different orders:
70 roundings of 6e-8 in the worst case, so 1e-5 with room for the exponential; 1e-13 in float64.
Where both sides add the same numbers in the same order they have the same bits.
"""
import numpy as np
import pytest
from support.cases import to_dtype, widen
from support.oracle_rope import rotate

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


def equal(left, right):
    """The same bits."""
    for x, y in zip(left, right, strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()


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


def test_a_constant_added_to_a_row_moves_its_lse(call):
    run, same, q, k, v = call
    shift = np.linspace(-3, 3, 19, dtype=q.dtype)
    bias = np.broadcast_to(shift.reshape(19, 1), (19, 70)).copy()
    moved = run(q, k, v, {"bias": "shift"}, {"shift": bias}, "lse")
    same((lse + shift for lse in run(q, k, v, name="lse")), moved)


def test_a_sink_is_a_key_of_that_logit_with_no_value(call):
    run, same, q, k, v = call
    logits = [0.5, -1.0, 2.0, 0.0]
    more = [np.concatenate([x, np.zeros_like(x[:, :, :1])], axis=2) for x in (k, v)]
    bias = np.zeros((4, 1, 71), dtype=q.dtype)
    bias[:, 0, 70] = logits
    for name in ("output", "lse"):
        same(run(q, k, v, {"sink": logits}, name=name),
             run(q, *more, {"bias": "b"}, {"b": bias}, name))


def test_alibi_is_a_bias(call):
    run, same, q, k, v = call
    slopes = [0.5, 0.25, 1.0, 0.125]
    distance = np.abs(np.arange(19).reshape(19, 1) + 7 - np.arange(70))
    bias = (-np.reshape(slopes, (4, 1, 1)) * distance).astype(q.dtype)
    same(run(q, k, v, {"alibi": slopes, "q_offset": 7}), run(q, k, v, {"bias": "b"}, {"b": bias}))


def test_turning_queries_and_keys_together_changes_nothing(call):
    run, same, q, k, v = call
    turn, _ = np.linalg.qr(np.random.default_rng(4).standard_normal((16, 16)))
    same(run(q, k, v), run((q @ turn).astype(q.dtype), (k @ turn).astype(q.dtype), v))


def test_a_softcap_far_above_the_scores_changes_nothing(call):
    """c tanh(s/c) is s - s^3/3c^2: at |s| < 8 and c = 1e8 below 2e-14, and 1e-8 of a float32's."""
    run, same, q, k, v = call
    same(run(q, k, v), run(q, k, v, {"softcap": 1e8}))


def test_opposite_scale_is_opposite_queries(call):
    run, _, q, k, v = call
    equal(run(q, k, v, {"scale": -0.5}), run(-q, k, v, {"scale": 0.5}))


def test_powers_of_two_go_through(call):
    """They change exponents only, so every rounding stays where it was."""
    run, _, q, k, v = call
    equal((4 * y for y in run(q, k, v)), run(q, k, 4 * v))
    equal(run(2 * q, k, v, {"scale": 0.25}), run(q, k, v, {"scale": 0.5}))
    equal(run(q, 2 * k, v, {"scale": 0.25}), run(q, k, v, {"scale": 0.5}))


@pytest.mark.parametrize("mask", [
    {"type": "window", "left": 69, "right": 69}, {"type": "window", "left": -1, "right": -1},
    {"type": "window", "left": 2**31, "right": 2**40}, {"type": "prefix", "length": 70},
    {"type": "padding", "kv_lengths": [70]}, {"type": "padding", "keep": "keys"},
    {"type": "padding", "kv_lengths": [70, 70], "q_lengths": [19]},
    {"type": "allow", "tensor": "ones"}, {"not": {"type": "hide", "tensor": "ones"}}, {"all": []},
    {"type": "segments", "q": "rows", "kv": "keys"}, {"not": {"any": []}},
], ids=str)
def test_a_mask_that_hides_nothing_is_none(call, mask):
    run, _, q, k, v = call
    tensors = {"ones": np.ones((19, 70), bool), "keys": np.ones((2, 70), np.int32),
               "rows": np.ones((2, 19), np.int32)}
    used = {name: x for name, x in tensors.items() if f"'{name}'" in str(mask)}
    for name in ("output", "lse", "weights"):
        equal(run(q, k, v, name=name), run(q, k, v, {"mask": mask, "q_offset": 0}, used, name))


@pytest.mark.parametrize("left, right", [(0, 0), (3, 0), (0, 5), (-1, 0), (63, 64)])
def test_a_window_is_its_drawn_band(call, left, right):
    """Not the same bits: a window is known to hide ends of tiles, which then are not computed."""
    run, same, q, k, v = call
    ahead = np.arange(70) - np.arange(19).reshape(19, 1) - 30
    band = (ahead <= right) & ((ahead >= -left) | (left < 0))
    window = {"mask": {"type": "window", "left": left, "right": right}, "q_offset": 30}
    drawn = {"mask": {"type": "allow", "tensor": "band"}}
    same(run(q, k, v, window), run(q, k, v, drawn, {"band": band}))


def test_causal_is_a_window_open_to_the_left(call):
    run, _, q, k, v = call
    for offset in (-4, 0, 51):
        window = {"mask": {"type": "window", "left": -1, "right": 0}, "q_offset": offset}
        equal(run(q, k, v, {"mask": "causal", "q_offset": offset}), run(q, k, v, window))


def test_items_and_heads_keep_their_own(call):
    """Whatever stands where: another order of items, or of groups of heads, is only that."""
    run, _, q, k, v = call
    options = {"mask": "causal", "q_offset": 51}
    equal((y[::-1] for y in run(q, k, v, options)), run(q[::-1], k[::-1], v[::-1], options))
    swapped = [2, 3, 0, 1]
    equal((y[:, swapped] for y in run(q, k, v, options)),
          run(q[:, swapped], k[:, ::-1], v[:, ::-1], options))


ROPES = ({}, {"theta": 500000, "dims": 6}, {"interleaved": True},
         {"interleaved": True, "dims": 10, "inv_freq": [1, 0.5, 0.25, 0.1, -0.01]})


@pytest.mark.parametrize("rope", ROPES, ids=str)
@pytest.mark.parametrize("shift", [1, -1000, 2**31, 2**52])
def test_rope_is_about_distances(call, rope, shift):
    run, same, q, k, v = call
    near = {"rope": {**rope, "q_offset": [51, 7], "k_offset": 3}}
    far = {"rope": {**rope, "q_offset": [51 + shift, 7 + shift], "k_offset": 3 + shift}}
    same(run(q, k, v, near), run(q, k, v, far))


@pytest.mark.parametrize("rope", ROPES, ids=str)
def test_rope_is_turning_before_the_call(call, rope):
    run, same, q, k, v = call
    turned = [rotate(q, [51, 51], rope).astype(q.dtype), rotate(k, [0, 0], rope).astype(k.dtype)]
    for name in ("output", "scores"):
        same(run(q, k, v, {"rope": rope, "q_offset": 51}, name=name), run(*turned, v, name=name))


def test_theta_is_its_frequencies(call):
    run, _, q, k, v = call
    for dims in (16, 6):
        given = [500000.0 ** (-2.0 * n / dims) for n in range(dims // 2)]
        equal(run(q, k, v, {"rope": {"dims": dims, "theta": 500000}, "q_offset": 9}),
              run(q, k, v, {"rope": {"dims": dims, "inv_freq": given}, "q_offset": 9}))


def test_pairing_is_an_order_of_dimensions(call):
    run, same, q, k, v = call
    apart = [*range(0, 16, 2), *range(1, 16, 2)]
    same(run(q, k, v, {"rope": {"interleaved": True}, "q_offset": 51}),
         run(q[..., apart], k[..., apart], v, {"rope": {}, "q_offset": 51}))


def test_rope_turns_its_dimensions_and_no_others(call):
    """Where they are 0 there is nothing to turn; and no speed is no turn."""
    run, _, q, k, v = call
    bare = [np.where(np.arange(16) < 6, 0, x).astype(x.dtype) for x in (q, k)]
    for name in ("output", "scores"):
        equal(run(*bare, v, name=name),
              run(*bare, v, {"rope": {"dims": 6}, "q_offset": 51}, name=name))
        equal(run(q, k, v, name=name),
              run(q, k, v, {"rope": {"inv_freq": [0] * 8}, "q_offset": 51}, name=name))


def test_rope_keeps_lengths(call):
    """A row against itself, where it stands: its own square, however it is turned."""
    run, same, q, _, v = call
    k = np.ascontiguousarray(q[:, ::2])
    options = {"rope": {"q_offset": 1234, "k_offset": 1234}, "scale": 1}
    for scores in run(k, k, v[:, :, :19], options, name="scores"):
        diagonal = np.diagonal(scores, axis1=2, axis2=3)
        np.testing.assert_allclose(diagonal, np.square(k, dtype=np.float64).sum(-1),
                                   rtol=1e-6 if q.dtype == np.float32 else 1e-14)


def test_rope_by_chunks_is_one_shot(call):
    run, same, q, k, v = call
    whole = run(q, k, v, {"rope": {}, "mask": "causal", "q_offset": 51})
    parts = [run(q[:, :, a:b], k[:, :, :51 + b], v[:, :, :51 + b],
                 {"rope": {}, "mask": "causal", "q_offset": 51 + a}) for a, b in ((0, 7), (7, 19))]
    same(whole, (np.concatenate(chunks, axis=2) for chunks in zip(*parts, strict=True)))


WEIGHTS = np.linspace(-0.7, 0.9, 16).tolist()
ADDITIVE = {"score": {"type": "additive", "w": WEIGHTS}}


def test_additive_scores_are_those_of_the_formula(call):
    run, same, q, k, v = call
    w = np.asarray(WEIGHTS, dtype=q.dtype)
    k_wide = np.repeat(k, 2, axis=1)
    scores = (w * np.tanh(q[:, :, :, None] + k_wide[:, :, None])).sum(-1)
    same(run(q, k, v, ADDITIVE, name="scores"), (scores for _ in run(q, k, v)))


def test_additive_scores_are_odd(call):
    """tanh is odd, to the bit, and so is what is summed of it."""
    run, _, q, k, v = call
    equal(run(q, k, v, {**ADDITIVE, "scale": -1}, name="scores"),
          run(-q, -k, v, ADDITIVE, name="scores"))


def test_an_additive_score_knows_sums_only(call):
    """A shift from every key to every query, exact in both."""
    run, _, q, k, v = call
    q, k = (np.round(x * 64) / 64 for x in (q, k))
    equal(run(q, k, v, ADDITIVE), run(q + 2, k - 2, v, ADDITIVE))


def test_no_weights_are_even_weights(call):
    run, same, q, k, v = call
    none = {"score": {"type": "additive", "w": [0] * 16}}
    average = np.repeat(v.mean(axis=2, keepdims=True), 2, axis=1)
    same(run(q, k, v, none), (np.broadcast_to(average, (2, 4, 19, 9)) for _ in run(q, k, v)))


def test_weights_per_head_are_heads_of_their_own(call):
    run, _, q, k, v = call
    each = [[x * (h + 1) for x in WEIGHTS] for h in range(4)]
    whole = list(run(q, k, v, {"score": {"type": "additive", "w": each}}))
    for h in range(4):
        alone = run(q[:, h:h + 1], k[:, h // 2:h // 2 + 1], v[:, h // 2:h // 2 + 1],
                    {"score": {"type": "additive", "w": each[h]}})
        same_head = (y[:, h:h + 1] for y in whole)
        for x, y in zip(same_head, alone, strict=True):
            np.testing.assert_allclose(x, y, rtol=0, atol=1e-6)


# Every kind of float16 beside ordinary numbers: both denormals' ends, the largest, both infinities,
# NaN. They stand in values, one column each, so that the others stay as they are.
SPECIAL = (6e-8, -6.1e-5, 65504.0, np.inf, -np.inf, np.nan, -0.0)


@pytest.mark.parametrize("queries", [1, 40])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_are_the_numbers_that_they_are(client, kernels, queries, dtype):
    rng = np.random.default_rng(30)
    q, k, v = (rng.standard_normal((1, 1, T, 19)) for T in (queries, 21, 21))
    for column, value in enumerate(SPECIAL):
        v[0, 0, 3 + column, column] = value
    halves = [to_dtype(x, dtype) for x in (q, k, v)]
    floats = [widen(x).astype(np.float32) for x in halves]
    for kernel in kernels:
        options = {"kernel": kernel, "output_dtype": "float32"}
        left, right = (client.attention(*x, options)["output"] for x in (halves, floats))
        np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-6)
        assert (~np.isfinite(left)).all((0, 1, 2)).tolist() == [3 <= c <= 5 for c in range(19)]


@pytest.mark.parametrize("queries", [1, 40])
def test_what_is_hidden_may_be_nan_in_any_column(client, kernels, queries):
    """Head h has it in column h, over several registers and a rest."""
    rng = np.random.default_rng(31)
    q, k, v = (rng.standard_normal((1, 150, T, D)).astype(np.float32)
               for T, D in ((queries, 3), (5, 3), (5, 150)))
    options = {"mask": {"type": "padding", "keep": [[1, 1, 0, 1, 1]]}}
    broken = v.copy()
    broken[0, range(150), 2, range(150)] = np.nan
    for kernel in kernels:
        asked = {**options, "kernel": kernel}
        equal([client.attention(q, k, v, asked)["output"]],
              [client.attention(q, k, broken, asked)["output"]])


@pytest.mark.parametrize("queries", [1, 3, 40])
def test_keys_in_front_of_a_window_might_as_well_not_be_there(client, kernels, queries):
    rng = np.random.default_rng(32)
    q, k, v = (rng.standard_normal((1, 2, T, 9)).astype(np.float32) for T in (queries, 150, 150))
    reach = 20 + queries  # the first query sees 21 keys
    for kernel in kernels:
        whole, part = (
            client.attention(q, k[:, :, -n:], v[:, :, -n:], {
                "kernel": kernel, "q_offset": n - queries,
                "mask": {"type": "window", "left": 20, "right": 0}})["output"]
            for n in (150, reach))
        np.testing.assert_allclose(whole, part, rtol=0, atol=1e-5)
