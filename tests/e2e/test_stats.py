# SPDX-License-Identifier: Apache-2.0
"""Statistics and column sums against the oracle, and the laws between them and the map.

Tolerance: that of every result (tests/support/agreement.py), but that means over rows and keys are
compared with the largest number among all of them, since 1 - sum of squares and the like cancel.
"""
import numpy as np
import pytest
from support.cases import DTYPES, Case, random_case
from support.oracle import attention

SIZES = (1, 2, 17, 63, 129, 300)
WHOLE_NUMBERS = ("rows", "empty_rows", "top_key")


def ask(client, case, kernel, wire="safetensors", **more):
    options = {**case.options, "kernel": kernel, "return": ["stats", "col_sums"], **more}
    return client.attention(case.q, case.k, case.v, options, case.tensors, wire)


def close(got, want, dtype, label):
    assert got.shape == want.shape, label
    finite = np.isfinite(want)
    np.testing.assert_array_equal(got[~finite], want[~finite], label)
    # A float32 score of size 10 is off by 1e-6, so a weight by 1e-6 of itself.
    tolerance = 1e-11 if dtype == "float64" else 2e-5
    scale = np.max(np.abs(want[finite]), initial=1)
    np.testing.assert_allclose(got[finite], want[finite], rtol=0, atol=tolerance * scale,
                               err_msg=label)


def agree(case, answer, label=""):
    exact = attention(*case.plain(), case.options, case.tensors)
    dtype = case.options.get("precision", case.dtype)
    assert set(answer.stats) == set(exact["stats"])
    for name, want in exact["stats"].items():
        got = answer.stats[name]
        if want.size == 0:  # nested lists end at the first empty axis
            assert got.size == 0
            continue
        if name == "top_key" and not np.array_equal(got, want):
            assert got.shape == want.shape  # near ties: the share of either is the largest
            continue
        if name in WHOLE_NUMBERS:
            assert np.array_equal(got, want), f"{label} {name} of {case}: {got}, {want}"
            continue
        close(got, want, dtype, f"{label} {name} of {case}")
    for name in ("col_sums", "col_means"):
        close(answer[name].astype(np.float64), exact[name], dtype, f"{label} {name} of {case}")


@pytest.mark.parametrize("Tk", SIZES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_sweep(client, kernels, Tk, dtype):
    for number in range(4):
        case = random_case(Tk, dtype, 100 + number)
        for kernel in kernels:
            agree(case, ask(client, case, kernel), kernel)


def case_of(shapes, dtype="float32", seed=3, **options):
    rng = np.random.default_rng(seed)
    return Case((seed,), dtype, *(rng.standard_normal(s).astype(dtype) for s in shapes), options)


LONG = ((2, 4, 700, 16), (2, 2, 611, 16), (2, 2, 611, 8))


def test_many_tiles(client, kernels):
    case = case_of(LONG, mask={"type": "causal", "align": "bottom_right"}, sink=[0, 1, 2, -1],
                   softcap=2, alibi=True)
    for kernel in kernels:
        agree(case, ask(client, case, kernel), kernel)


@pytest.mark.parametrize("choice", [
    True, {"stage": "raw"}, {"stage": "scaled", "rows": [3, 9]}, {"top_k": 3},
    {"pool": {"rows": 3, "cols": 7, "op": "mass"}, "heads": "mean"}], ids=str)
def test_maps_beside_them_change_nothing(client, kernels, choice):
    """Not the statistics, nor the map, nor the output; whatever region is asked for."""
    case = case_of(LONG, mask={"type": "causal", "align": "bottom_right"})
    for kernel in kernels:
        alone = ask(client, case, kernel)
        names = ["output", "lse", "weights"]
        maps = ask(client, case, kernel, weights=choice, **{"return": names})
        names = [*names, "stats", "col_sums"]
        both = ask(client, case, kernel, weights=choice, **{"return": names})
        for answer, names in ((alone, alone.tensors), (maps, maps.tensors)):
            for name in names:
                assert both[name].tobytes() == answer[name].tobytes(), name
        for name, got in both.stats.items():
            assert got.tobytes() == alone.stats[name].tobytes(), name


def test_columns_are_sums_of_the_map(client, kernels):
    case = case_of(LONG, mask={"type": "window", "left": 50, "right": 9}, q_offset=-30)
    for kernel in kernels:
        answer = ask(client, case, kernel, weights=True,
                     **{"return": ["weights", "stats", "col_sums"]})
        sums = answer["weights"].astype(np.float64).sum(-2)
        np.testing.assert_allclose(answer["col_sums"], sums, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(answer["col_sums"].sum(-1), answer.stats["rows"], rtol=1e-5)


def test_attention_that_collapses_shows(client, kernels):
    """Every query looks at key 3 alone."""
    case = case_of(((1, 1, 40, 8), (1, 1, 40, 8), (1, 1, 40, 8)))
    case.q[...] = 1
    case.k[...] = 0
    case.k[0, 0, 3] = 100
    for kernel in kernels:
        stats = ask(client, case, kernel).stats
        assert stats["top_key"] == 3 and stats["saturated_share"] == 1
        np.testing.assert_allclose(stats["top_key_share"], 1, rtol=1e-6)
        np.testing.assert_allclose(stats["gradient_health"], 0, atol=1e-6)


def test_uniform_attention(client, kernels):
    """Entropy ln n, and its share of that 1."""
    case = case_of(((1, 1, 5, 4), (1, 1, 300, 4), (1, 1, 300, 4)), scale=0)
    for kernel in kernels:
        stats = ask(client, case, kernel).stats
        np.testing.assert_allclose(stats["entropy"], np.log(300), rtol=1e-6)
        np.testing.assert_allclose(stats["normalized_entropy"], 1, rtol=1e-6)
        assert stats["top_key"] == 0 and stats["score_variance"] == 0


@pytest.mark.parametrize("size", [0, 0.001, 1e4])
def test_entropy_stays_between_its_bounds(client, kernels, size):
    """What sums of weights in float32 round up is no more than all of the keys, and no less than
    one."""
    rng = np.random.default_rng(4)
    q, k = (size * rng.standard_normal((2, 6, n, 8)).astype(np.float32) for n in (40, 257))
    case = case_of(((2, 6, 40, 8), (2, 6, 257, 8), (2, 6, 257, 8)))
    case.q[...], case.k[...] = q, k
    for kernel in kernels:
        stats = ask(client, case, kernel).stats
        assert np.all(stats["normalized_entropy"] <= 1), kernel
        assert np.all(stats["normalized_entropy"] >= 0), kernel
        assert np.all(stats["entropy"] <= np.nextafter(np.log(257), 9)), kernel


def test_a_sink_takes_what_is_unassigned(client, kernels):
    case = case_of(((1, 2, 9, 4), (1, 2, 70, 4), (1, 2, 70, 4)), sink=[0.5, 3])
    for kernel in kernels:
        answer = ask(client, case, kernel)
        agree(case, answer, kernel)
        assert (answer.stats["unassigned_mass"] > 0).all()


def test_rows_of_nan(client, kernels):
    """They make the means of their head NaN, and no other head's."""
    case = case_of(((1, 2, 40, 4), (1, 2, 70, 4), (1, 2, 70, 4)), q_offset=0, mask="causal")
    case.q[0, 1, 5, 0] = np.nan
    for kernel in kernels:
        stats = ask(client, case, kernel).stats
        assert np.isnan(stats["entropy"][0, 1]) and np.isfinite(stats["entropy"][0, 0])
        assert stats["rows"].tolist() == [[40, 40]]


def test_rows_of_nan_that_see_the_first_keys_alone(client, kernels):
    """Blocks that they do not see, and rows of numbers, come behind NaN and leave it as it is."""
    case = case_of(((1, 1, 8, 4), (1, 1, 3000, 4), (1, 1, 3000, 4)), q_offset=0, mask={
        "type": "segments", "q": [0, 0, 1, 0, 0, 0, 0, 0], "kv": [1, 1, 1] + [0] * 2997})
    case.q[0, 0, 2, 0] = np.nan
    for kernel in kernels:
        stats = ask(client, case, kernel).stats
        for name in ("entropy", "confidence", "largest_score", "mean_score"):
            assert np.isnan(stats[name]), (kernel, name)


def test_scores_beyond_float32(client, kernels):
    """Their rows are computed in double, and their entropy with them."""
    case = case_of(((1, 1, 3, 2), (1, 1, 4, 2), (1, 1, 4, 2)), scale=1)
    case.q[...] = 1e25
    case.k[...] = np.array([[1], [1], [0.5], [0.5]]) * 1e25
    for kernel in kernels:
        stats = ask(client, case, kernel).stats
        np.testing.assert_allclose(stats["entropy"], np.log(2), rtol=1e-5)


@pytest.mark.parametrize("shapes", [
    ((1, 2, 3, 4), (1, 2, 0, 4), (1, 2, 0, 5)), ((1, 2, 0, 4), (1, 2, 3, 4), (1, 2, 3, 5)),
    ((0, 2, 3, 4), (0, 2, 3, 4), (0, 2, 3, 5)), ((3, 4), (0, 4), (0, 2)), ((0, 4), (3, 4), (3, 2)),
    ((1, 0, 3, 4), (1, 1, 3, 4), (1, 1, 3, 4))], ids=str)
def test_axes_of_size_zero(client, kernels, shapes):
    case = case_of(shapes, q_offset=0)
    for kernel in kernels:
        agree(case, ask(client, case, kernel), kernel)


@pytest.mark.parametrize("wire", ["nested", "flat", "base64"])
@pytest.mark.parametrize("lead", [(2, 3), (3,), ()], ids=str)
def test_every_encoding_carries_them(client, wire, lead):
    case = case_of((lead + (5, 4), lead + (70, 4), lead + (70, 4)))
    raw = ask(client, case, "blas")
    text = ask(client, case, "blas", wire)
    assert set(raw.stats) == set(text.stats)
    for name, want in raw.stats.items():
        assert want.shape == lead and np.array_equal(text.stats[name], want)
    for name in ("col_sums", "col_means"):
        assert raw[name].shape == lead + (70,) and np.array_equal(text[name], raw[name])


def test_many_heads_fit_into_the_header(client):
    case = case_of(((40, 24, 1, 2), (40, 24, 3, 2), (40, 24, 3, 2)))
    agree(case, ask(client, case, "blas"))


@pytest.mark.parametrize("offset", (-2 ** 63, 2 ** 63 - 1))
def test_distances_at_the_ends_of_all_positions(client, offset):
    """They are not wrapped, as integers were."""
    q, k = np.ones((1, 2, 3, 4), np.float32), np.ones((1, 1, 300, 4), np.float32)
    answer = client.attention(q, k, k, {"return": ["stats"], "q_offset": offset}, {})
    np.testing.assert_allclose(answer.stats["mean_distance"], 2.0 ** 63, rtol=1e-6)
