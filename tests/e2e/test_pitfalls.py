# SPDX-License-Identifier: Apache-2.0
"""Wrong answers that attention libraries have given in public, one test each, for every kernel.

Unless said otherwise queries and keys are zero, so that the answer is the average of the visible
values and can be checked by eye. What shows in combinations only is in test_combinations.py.
"""
import itertools
import math

import numpy as np
import pytest
from support import oracle

INF = math.inf
BOTTOM_RIGHT = {"type": "causal", "align": "bottom_right"}
TOP_LEFT = {"type": "causal", "align": "top_left"}


@pytest.fixture
def ask(client, kernels):
    """The answers of every kernel."""
    def call(q, k, v, options=None, tensors=None, outputs=("output",)):
        q, k, v = (np.asarray(x, dtype=np.float32) for x in (q, k, v))
        for kernel in kernels:
            asked = {**(options or {}), "kernel": kernel, "return": list(outputs)}
            yield client.attention(q, k, v, asked, tensors)

    return call


@pytest.fixture
def averages(ask):
    """Asserts the output of a call with zero queries and keys."""
    def check(values, expected, rows=1, tensors=None, exact=True, **options):
        v = np.reshape(values, (-1, 1))
        for answer in ask(np.zeros((rows, 1)), np.zeros((len(v), 1)), v, options, tensors):
            got = answer["output"][:, 0].tolist()
            assert got == expected if exact else got == pytest.approx(expected, abs=1e-6)

    return check


def allow(*rows):
    return {"type": "allow", "tensor": [list(row) for row in rows]}


def random_tensors(*shapes):
    rng = np.random.default_rng(7)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def test_01_a_row_without_a_key_is_zero_and_its_neighbours_are_intact(averages):
    averages([5, 7, 8], [0, 6, 8], rows=3, mask=allow([0, 0, 0], [1, 1, 0], [0, 0, 1]))


def test_02_asking_for_the_map_changes_nothing(ask):
    tensors = {"m": np.array([[False] * 3, [True, False, True]])}
    q, k, v = random_tensors((2, 4), (3, 4), (3, 5))
    options = {"mask": {"type": "allow", "tensor": "m"}}
    without = ask(q, k, v, options, tensors)
    for plain, mapped in zip(without, ask(q, k, v, options, tensors, ("output", "weights"))):
        assert plain["output"].tobytes() == mapped["output"].tobytes()
        assert mapped["weights"][0].tolist() == [0, 0, 0]
        assert mapped["weights"][1, 1] == 0 and np.isfinite(mapped["weights"]).all()


def test_03_a_finite_bias_hides_nothing(averages):
    averages([2, 4], [3], bias="b", tensors={"b": np.full((1, 2), -3.4e38, dtype=np.float32)})


def test_04_alignment_is_explicit(averages):
    averages([1, 2, 3, 4], [1], mask=TOP_LEFT)
    averages([1, 2, 3, 4], [2.5], mask=BOTTOM_RIGHT)


def test_05_more_queries_than_keys(averages):
    averages([4, 6], [0, 0, 0, 4, 5], rows=5, mask=BOTTOM_RIGHT)


def test_06_causal_with_an_empty_row(averages):
    averages([4, 6], [4, 0], rows=2, mask=["causal", allow([1, 0], [0, 0])])


def test_07_softcap_comes_before_the_mask(averages):
    averages([1, 1000], [1], softcap=0.5, bias="b",
             tensors={"b": np.array([[0, -INF]], dtype=np.float32)})
    averages([1, 1000], [1], softcap=0.5, mask=allow([1, 0]))


@pytest.mark.parametrize("score", [-1e5, -1e30])
def test_08_all_scores_hugely_negative(ask, score):
    for answer in ask([[1]], [[score], [score]], [[1], [3]]):
        assert answer["output"].tolist() == [[2]]


def test_09_a_visible_score_below_any_hidden_fill(ask):
    options = {"mask": allow([1, 0])}
    for answer in ask([[1]], [[-2e5], [0]], [[7], [9]], options):
        assert answer["output"].tolist() == [[7]]


def test_10_no_floor_under_the_running_maximum(ask):
    """Scores of -2e4 and -2e4 - ln 3 over tile edges: weights 3:1 wherever they stand."""
    for Tk in (2, 65, 130):
        k = np.full((Tk, 1), -4e4)
        k[0], k[-1] = -2e4, -2e4 - math.log(3)
        v = np.zeros((Tk, 1))
        v[0], v[-1] = 4, 8
        for answer in ask([[1]], k, v, {"scale": 1}):
            # float32 keeps -2e4 - ln 3 to 1e-3, so the weight of 1/4 to a third of that
            assert answer["output"].item() == pytest.approx(5, abs=4e-3)


@pytest.mark.parametrize("Tk", [65, 257, 700])
def test_10_the_largest_score_may_stand_anywhere(ask, Tk):
    """A running maximum that rises late rescales what was summed before. Row i has 3 at key i and
    0 elsewhere, so it weighs key i with e^3 and the others with 1 each."""
    q = 3 * np.eye(Tk)
    v = np.arange(Tk, dtype=np.float64)
    share = math.exp(3) / (math.exp(3) + Tk - 1)
    other = 1 / (math.exp(3) + Tk - 1)
    expected = share * v + other * (v.sum() - v)
    options = {"scale": 1}
    for answer in ask(q, np.eye(Tk), v[:, None], options, outputs=("output", "lse")):
        # values up to 700 in float32: relative 6e-8 times a few roundings
        np.testing.assert_allclose(answer["output"][:, 0], expected, rtol=2e-6)
        np.testing.assert_allclose(answer["lse"], math.log(math.exp(3) + Tk - 1), rtol=1e-6)


HIDING = {
    "lengths": ({"mask": {"type": "padding", "kv_lengths": [90]}}, np.arange(97) >= 90),
    "not keep": ({"mask": {"not": {"type": "padding", "keep": "odd"}}}, np.arange(97) % 7 == 1),
    "hide": ({"mask": {"type": "hide", "tensor": "column"}}, np.arange(97) % 7 == 1),
    "bias": ({"bias": "minus"}, np.arange(97) % 7 == 1),
}


@pytest.mark.parametrize("poison", [math.nan, INF, -INF])
@pytest.mark.parametrize("how", HIDING)
def test_11_what_is_hidden_is_never_read(ask, poison, how):
    q, k, v = random_tensors((3, 33, 8), (3, 97, 8), (3, 97, 5))
    options, hidden = HIDING[how]
    tensors = {"odd": hidden[None].astype(np.uint8), "column": hidden[None, None],
               "minus": np.where(hidden, -INF, 0).astype(np.float32)}
    tensors = {name: x for name, x in tensors.items() if f"'{name}'" in str(options)}
    poisoned = [np.where(hidden[:, None], np.float32(poison), x) for x in (k, v)]
    outputs = ("output", "lse", "weights", "scores")
    clean = ask(q, k, v, options, tensors, outputs)
    dropped = ask(q, k[:, ~hidden], v[:, ~hidden], outputs=outputs)
    for a, b, c in zip(clean, ask(q, *poisoned, options, tensors, outputs), dropped):
        for name in outputs:
            assert a[name].tobytes() == b[name].tobytes(), name
        np.testing.assert_allclose(b["output"], c["output"], rtol=0, atol=1e-6)
        np.testing.assert_allclose(b["lse"], c["lse"], rtol=0, atol=1e-6)


def test_11_what_is_visible_is_not_swallowed(ask):
    spoiled = (math.nan, math.nan, [math.nan, math.nan])
    for poison, (output, lse, weights) in (
            (math.nan, spoiled), (INF, spoiled), (-INF, (1.0, 0.0, [1, 0]))):
        names = ("output", "lse", "weights")
        for answer in ask([[1]], [[0], [poison]], [[1], [9]], outputs=names):
            np.testing.assert_equal(answer["output"].item(), output)
            np.testing.assert_equal(answer["lse"].item(), lse)
            np.testing.assert_equal(answer["weights"][0].tolist(), weights)
            assert answer.meta["non_finite"] == math.isnan(output)
    for poison in (math.nan, INF, -INF):
        for answer in ask([[0]], [[0], [0]], [[1, 1], [1, poison]]):
            np.testing.assert_equal(answer["output"].tolist(), [[1, poison]])
    for answer in ask([[math.nan]], [[0]], np.zeros((1, 0))):
        assert not answer.meta["non_finite"]  # of an output without elements


def test_11_what_is_hidden_weighs_0_in_a_row_of_nan_too(ask):
    """By a mask, by a bias, and by arithmetic: -inf is -inf in every row."""
    options = {"mask": {"type": "padding", "kv_lengths": [4]}, "bias": "b"}
    bias = {"b": np.array([[0, 0, -INF, 0, 0]], dtype=np.float32)}
    for spoiler in (math.nan, INF):
        for answer in ask([[1]], [[spoiler], [0], [1], [-INF], [2]], np.ones((5, 1)), options,
                          bias, ("weights", "scores")):
            assert np.isnan(answer["weights"][0, :2]).all()
            assert answer["weights"][0, 2:].tolist() == [0, 0, 0]
            assert answer["scores"][0, 2:].tolist() == [-INF] * 3


def test_11_one_bad_row_leaves_the_others_alone(ask):
    q, k, v = random_tensors((70, 8), (97, 8), (97, 5))
    bad = q.copy()
    bad[13] = math.nan
    for good, got in zip(ask(q, k, v), ask(bad, k, v)):
        assert np.isnan(got["output"][13]).all()
        keep = np.arange(70) != 13
        assert got["output"][keep].tobytes() == good["output"][keep].tobytes()


def test_13_lse_of_an_empty_row(ask):
    for answer in ask([[0]], [[0]], [[1]], {"mask": {"any": []}}, outputs=("lse", "output")):
        assert answer["lse"].tolist() == [-INF] and answer["output"].tolist() == [[0]]


@pytest.mark.parametrize("sink", [-1e4, 0.0, 1e4, 3e38])
def test_13_a_sink_beside_empty_tiles_does_not_overflow(ask, sink):
    options = {"sink": [sink], "mask": {"type": "window", "left": 0, "right": 0}}
    zero = np.zeros((200, 1))
    for answer in ask(zero, zero, np.ones((200, 1)), options, outputs=("output", "lse")):
        share = 1 / (1 + math.exp(sink)) if sink < 700 else 0.0
        assert answer["output"].ravel().tolist() == pytest.approx([share] * 200, abs=1e-6)
        expected = max(sink, 0) + math.log1p(math.exp(-abs(sink)))
        assert answer["lse"].tolist() == pytest.approx([expected] * 200, rel=1e-6)


def test_13_a_sink_is_the_lse_of_an_empty_row(ask):
    options = {"sink": [2.5], "mask": {"any": []}}
    for answer in ask([[0]], [[0]], [[1]], options, outputs=("output", "lse", "weights")):
        assert (answer["output"].item(), answer["lse"].item(), answer["weights"].item()) == (
            0, 2.5, 0)


@pytest.mark.parametrize("shapes, expected", [
    (((2, 3), (0, 3), (0, 2)), [[0, 0], [0, 0]]), (((0, 3), (2, 3), (2, 2)), []),
], ids=["no keys", "no queries"])
def test_14_axes_of_size_zero_are_answered(ask, shapes, expected):
    for answer in ask(*(np.ones(s) for s in shapes)):
        assert answer["output"].tolist() == expected


def test_14_no_batch_items(ask):
    for answer in ask(*(np.ones((0, 1, 2, 3)) for _ in range(3))):
        assert answer["output"].shape == (0, 1, 2, 3)


def test_15_groups_are_consecutive_heads(ask):
    v = np.array([1, 2]).reshape(2, 1, 1)
    for answer in ask(np.zeros((4, 1, 1)), np.zeros((2, 1, 1)), v):
        assert answer["output"].ravel().tolist() == [1, 1, 2, 2]


def test_16_three_dimensional_inputs_are_split_per_head(ask):
    zero, v = np.zeros((1, 2, 2)), [[[10, 20], [30, 40]]]
    for answer in ask(zero, zero, v, {"num_heads": 2}):
        assert answer["output"].tolist() == [[[20, 30], [20, 30]]]


def test_17_the_default_scale_is_of_the_key_size(ask):
    q, k, v = np.ones((1, 2, 1, 4)), np.ones((1, 2, 1, 4)), np.ones((1, 2, 1, 9))
    for answer in ask(q, k, v, outputs=("scores",)):
        assert answer["scores"].ravel().tolist() == [2, 2]
        assert answer.meta["scale"] == 0.5


def test_18_every_path_scales_alike(client, kernels):
    q, k, v = random_tensors((1, 1, 5, 16), (1, 1, 70, 16), (1, 1, 70, 8))
    ways = [(lambda x: x, {}), (lambda x: x.transpose(0, 2, 1, 3), {"layout": "bthd"}),
            (lambda x: x[0], {}), (lambda x: x[0], {"num_heads": 1}), (lambda x: x[0, 0], {})]
    first = client.attention(q, k, v)["output"].ravel()
    for (arrange, options), kernel in itertools.product(ways, kernels):
        for dtype, atol in ((np.float32, 1e-6), (np.float64, 1e-6), (np.float16, 5e-3)):
            moved = [arrange(x).astype(dtype) for x in (q, k, v)]
            got = client.attention(*moved, {"kernel": kernel, **options})["output"]
            np.testing.assert_allclose(got.ravel(), first, rtol=0, atol=atol)


def test_19_a_product_that_only_fits_when_scaled_first(ask):
    key = np.full((1, 4), 1e19)
    keys = np.concatenate([key, 0.9 * key])
    for answer in ask(key, keys, [[3], [5]]):
        assert answer["output"].tolist() == [[3]]


def test_22_a_mask_of_rank_three_is_per_head_and_of_rank_four_per_batch_item(ask):
    v = np.broadcast_to(np.array([4, 6]).reshape(1, 1, 2, 1), (2, 2, 2, 1))
    zero = np.zeros((2, 2, 2, 1))
    first, second = [[1, 0], [1, 0]], [[0, 1], [0, 1]]
    for shape, expected in (((2, 2, 2), [[4, 6], [4, 6]]), ((2, 1, 2, 2), [[4, 4], [6, 6]])):
        m = np.array([first, second], dtype=np.uint8).reshape(shape)
        options = {"mask": {"type": "allow", "tensor": "m"}}
        for answer in ask(zero, zero, v, options, {"m": m}):
            assert answer["output"][:, :, 0, 0].tolist() == expected


def test_23_polarity_is_in_the_name(averages):
    averages([4, 6], [4], mask={"type": "allow", "tensor": [[True, False]]})
    averages([4, 6], [6], mask={"type": "hide", "tensor": [[True, False]]})


def test_24_a_bias_of_ones_and_zeros_is_a_bias(averages):
    averages([0, 1], [1 / (1 + math.e)], bias=[[1, 0]], exact=False)


def test_25_left_one_is_two_keys(averages):
    averages([1, 2, 3, 4], [1, 1.5, 2.5, 3.5], rows=4,
             mask={"type": "window", "left": 1, "right": 0})


@pytest.mark.parametrize("T", [1, 7, 64, 97, 200])
def test_25_a_window_as_wide_as_the_input_is_no_window(ask, T):
    q, k, v = random_tensors((2, T, 8), (2, T, 8), (2, T, 8))
    for size in (T - 1, T, 2**31, 2**62):
        options = {"mask": {"type": "window", "left": size, "right": size}}
        for a, b in zip(ask(q, k, v), ask(q, k, v, options)):
            assert a["output"].tobytes() == b["output"].tobytes()


def test_27_lengths_are_per_batch_item(ask):
    v = np.array([[1, 3, 99], [1, 3, 5]]).reshape(2, 1, 3, 1)
    options = {"mask": {"type": "padding", "kv_lengths": [2, 3]}}
    for answer in ask(np.zeros((2, 1, 1, 1)), np.zeros((2, 1, 3, 1)), v, options):
        assert answer["output"].ravel().tolist() == [2, 3]


def test_29_alibi_knows_the_absolute_position(averages):
    expected = 1 / (1 + math.exp(-1) + math.exp(-2))
    averages([0, 0, 1], [expected], alibi=[1], q_offset=2, exact=False)


def test_30_a_sink_renormalises(averages):
    averages([3, 6], [3], sink=[0], exact=False)


@pytest.mark.parametrize("Tk", [1, 63, 64, 65, 128, 257, 1000])
def test_31_a_sink_counts_once_however_many_tiles(ask, Tk):
    for answer in ask(np.zeros((1, 1)), np.zeros((Tk, 1)), np.ones((Tk, 1)), {"sink": [0]}):
        assert answer["output"].item() == pytest.approx(Tk / (Tk + 1), abs=1e-6)


def test_35_two_calls_agree_bit_by_bit(ask):
    q, k, v = random_tensors((4, 65, 16), (2, 97, 16), (2, 97, 16))
    for a, b in zip(ask(q, k, v), ask(q, k, v)):
        assert a["output"].tobytes() == b["output"].tobytes()


def test_37_nothing_is_left_of_an_earlier_answer(ask):
    q, k, v = random_tensors((4, 65, 16), (4, 97, 16), (4, 97, 16))
    before = [a["output"].tobytes() for a in ask(q, k, v)]
    for answer in ask(np.full_like(q, math.nan), k, np.full_like(v, INF)):
        assert np.isnan(answer["output"]).all()
    for one in (1, 65):
        assert all(np.isfinite(a["output"]).all() for a in ask(q[:, :one], k, v))
    assert [a["output"].tobytes() for a in ask(q, k, v)] == before


def test_39_scale_zero_is_uniform_and_negative_scale_turns_the_order(ask):
    q, k, v = [[1]], [[1], [2]], [[3], [5]]
    for scale, expected in ((0, 4), (-1, 3 + 2 / (1 + math.e)), (1, 5 - 2 / (1 + math.e))):
        for answer in ask(q, k, v, {"scale": scale}):
            assert answer["output"].item() == pytest.approx(expected, abs=1e-6)
    for omitted in ask(q, k, v):
        assert omitted["output"].item() == pytest.approx(5 - 2 / (1 + math.e), abs=1e-6)


FLOAT_MAX = float(np.finfo(np.float32).max)
RANGE = {
    # the average of values whose sum no float32 can be
    "large values": ((1, 1, FLOAT_MAX), {}, {}),
    "products": ((1e30, 1e30, 1), {}, {}),
    "products and large values": ((FLOAT_MAX, -FLOAT_MAX, FLOAT_MAX), {}, {}),
    "products under a mask": ((1e30, 1e30, 1), {"mask": "causal"}, {}),
    "products, capped": ((1e30, 1e30, 1), {"softcap": 30}, {}),
    "scale beyond float32": ((1e-38, 1, 1), {"scale": 1e39}, {}),
    "scale beneath float32": ((1e25, 1e25, 1), {"scale": 1e-50}, {}),
    "subnormal scale": ((1, 1, 1), {"scale": 5e-324}, {}),
    "largest bias": ((1, 1, 1), {"bias": "b"}, {"b": np.eye(70) * 1e39}),
    "lowest bias": ((1, 1, 1), {"bias": "b"}, {"b": np.eye(70) * 1e39 - 2e39}),
    "steepest alibi": ((1, 1, 1), {"alibi": [1e300], "q_offset": 100}, {}),
    "steepest rise": ((1, 1, 1), {"alibi": [-1e300], "q_offset": 100}, {}),
    "largest sink": ((1, 1, 1), {"sink": [1e39]}, {}),
}


@pytest.mark.parametrize("where", RANGE)
def test_40_what_float32_cannot_hold_on_the_way_spoils_nothing(ask, where):
    factors, options, tensors = RANGE[where]
    values = random_tensors((1, 70, 8), (1, 70, 8), (1, 70, 5))
    with np.errstate(over="ignore"):
        q, k, v = (np.clip(x, -1, 1) * np.float32(f) for x, f in zip(values, factors))
    names = ("output", "weights")
    exact = oracle.attention(q, k, v, options, tensors)
    size = np.abs(exact["output"]).max() or 1.0
    for answer in ask(q, k, v, options, tensors, outputs=names):
        # scores of 4 and sums over 70 keys in float32
        np.testing.assert_allclose(answer["output"] / size, exact["output"] / size, rtol=0,
                                   atol=2e-6)
        np.testing.assert_allclose(answer["weights"], exact["weights"], rtol=0, atol=2e-6)
        assert not answer.meta["non_finite"]
