# SPDX-License-Identifier: Apache-2.0
"""Maps at any size: what comes back of a map is what numpy makes of the whole one that the same
kernel gives, bit for bit where nothing is added up, and both agree with the oracle."""
import numpy as np
import pytest
from support import oracle_maps
from support.agreement import assert_agrees, bounds
from support.cases import DTYPES, Case, random_case
from support.oracle import STAGES, attention

SIZES = (1, 2, 17, 63, 129, 300)


class Rank:
    """What q's rank lacks, put back in front."""

    def __init__(self, case):
        self.lacks = {2: 2, 3: 0 if "num_heads" in case.options else 1}.get(case.q.ndim, 0)

    def full(self, x):
        return x.reshape((1,) * self.lacks + x.shape)

    def squeezed(self, x):
        return x.reshape(x.shape[self.lacks:])


def ask(client, case, kernel, choice, name="weights", **more):
    options = {**case.options, "kernel": kernel, "return": [name], "weights": choice, **more}
    return client.attention(case.q, case.k, case.v, options, case.tensors).tensors


def whole_map(client, case, kernel, choice, name="weights"):
    """The map of the selection, [B,H,rows,keys], not reduced."""
    plain = {key: choice[key] for key in ("stage", "rows", "cols") if key in choice}
    if isinstance(choice.get("heads"), list):
        plain["heads"] = choice["heads"]
    return Rank(case).full(ask(client, case, kernel, plain, name)[name])


def choices(rng, Hq, Tq, Tk, rank):
    """A random region and heads, with every kind of reduction that suits them."""
    region = {}
    if rng.random() < 0.5:
        region["rows"] = sorted(int(x) for x in rng.integers(0, Tq + 1, 2))
    if rng.random() < 0.5:
        region["cols"] = sorted(int(x) for x in rng.integers(0, Tk + 1, 2))
    h, w = (b - a for a, b in (region.get("rows", (0, Tq)), region.get("cols", (0, Tk))))
    heads = [{}, {"heads": "mean"}, {"heads": "max"}]
    if rank > 2:
        heads.append({"heads": [int(x) for x in rng.integers(0, Hq, 3)]})
    yield {**region, "top_k": int(rng.integers(1, Tk + 3)), **heads[0]}
    yield {**region, **heads[1 + int(rng.integers(2))]}
    if h > 0 and w > 0:
        for op in ("max", "mass"):
            pool = {"rows": int(rng.integers(1, h + 1)), "cols": int(rng.integers(1, w + 1)),
                    "op": op}
            yield {**region, "pool": pool, **heads[int(rng.integers(len(heads)))]}


def check(got, whole, choice, stage, name, rank):
    with np.errstate(invalid="ignore"):
        expected = oracle_maps.results(whole, choice, stage, name)
    for result, want in expected.items():
        want, have = rank.squeezed(want), got[result]
        assert have.shape == want.shape and have.dtype == want.dtype, result
        adds = choice.get("pool", {}).get("op") == "mass" or choice.get("heads") == "mean"
        if not adds:
            np.testing.assert_array_equal(have, want)
            continue
        # Sums of some hundred terms in another order: each rounds by at most 6e-8 of the largest.
        tolerance = (2e-5 if have.dtype == np.float32 else 1e-13)
        finite = np.isfinite(want)
        np.testing.assert_array_equal(have[~finite], want[~finite])
        scale = max(1.0, np.max(np.abs(want[finite]), initial=0))
        np.testing.assert_allclose(have[finite], want[finite], rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize("Tk", SIZES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_reductions_of_the_whole_map(client, kernels, Tk, dtype):
    for number, stage in enumerate(STAGES):
        case = random_case(Tk, dtype, 70 + number)
        rank = Rank(case)
        q = attention(*case.plain(), case.options, case.tensors)["lse"]
        rng = np.random.default_rng((Tk, number))
        Hq = rank.full(q).shape[1]
        for choice in choices(rng, Hq, q.shape[-1], Tk, case.q.ndim):
            choice["stage"] = stage
            for kernel in kernels:
                whole = whole_map(client, case, kernel, choice)
                check(ask(client, case, kernel, choice), whole, choice, stage, "weights", rank)


@pytest.mark.parametrize("Tk", SIZES)
def test_scores_are_reduced_alike(client, kernels, Tk):
    case = random_case(Tk, "float32", 80)
    rank = Rank(case)
    for choice in ({"pool": {"rows": 1, "cols": 1, "op": "mass"}}, {"heads": "max"},
                   {"pool": {"rows": 1, "cols": Tk, "op": "mass"}}, {"top_k": 3}):
        for kernel in kernels:
            whole = whole_map(client, case, kernel, choice, "scores")
            got = ask(client, case, kernel, choice, "scores")
            check(got, whole, choice, "masked", "scores", rank)


@pytest.mark.parametrize("Tk", SIZES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_oracle_agrees(client, kernels, Tk, dtype):
    for number in range(3):
        case = random_case(Tk, dtype, 90 + number)
        Tq = attention(*case.plain(), case.options, case.tensors)["lse"].shape[-1]
        pool = {"rows": min(Tq, 3), "cols": min(Tk, 5), "op": ("max", "mass")[number % 2]}
        case.options["weights"] = {"pool": pool, "heads": ("mean", "max", "mean")[number]}
        for kernel in kernels:
            options = {**case.options, "kernel": kernel, "return": ["output", "weights", "scores"]}
            answer = client.attention(case.q, case.k, case.v, options, case.tensors)
            assert_agrees(case, answer.tensors, ("output", "weights", "scores"), kernel)


def case_of(shapes, dtype="float32", seed=3, **options):
    rng = np.random.default_rng(seed)
    return Case((seed,), dtype, *(rng.standard_normal(s).astype(dtype) for s in shapes), options)


LONG = ((1, 4, 700, 16), (1, 2, 611, 16), (1, 2, 611, 8))


@pytest.mark.parametrize("h, w", [(1, 1), (3, 2), (7, 611), (700, 1), (699, 610), (500, 97)])
@pytest.mark.parametrize("op", ["max", "mass"])
def test_bins_across_tiles(client, kernels, h, w, op):
    """Bins of many rows, of some, and of one; of keys that lie in several tiles."""
    case = case_of(LONG, mask={"type": "causal", "align": "bottom_right"}, sink=[0, 1, 2, 3])
    choice = {"pool": {"rows": h, "cols": w, "op": op}}
    for kernel in kernels:
        whole = whole_map(client, case, kernel, choice)
        check(ask(client, case, kernel, choice), whole, choice, "weights", "weights", Rank(case))


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("op", ["max", "mass"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_pool_of_single_elements_is_the_map(client, kernels, stage, op, dtype):
    case = case_of(((2, 4, 150, 8), (2, 2, 270, 8), (2, 2, 270, 8)), dtype, softcap=3, q_offset=99,
                   mask=["causal", {"type": "padding", "kv_lengths": [270, 130]}])
    pool = {"rows": 150, "cols": 270, "op": op}
    for kernel in kernels:
        whole = ask(client, case, kernel, {"stage": stage})["weights"]
        same = ask(client, case, kernel, {"stage": stage, "pool": pool})["weights"]
        assert same.tobytes() == whole.tobytes()


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_all_of_a_row_is_the_map_sorted(client, kernels, stage, dtype):
    case = case_of(((2, 2, 40, 8), (2, 2, 270, 8), (2, 2, 270, 8)), dtype)
    for kernel in kernels:
        whole = ask(client, case, kernel, {"stage": stage})["weights"]
        got = ask(client, case, kernel, {"stage": stage, "top_k": 270})
        assert got["top_k_weights"].tobytes() == np.ascontiguousarray(
            -np.sort(-whole, axis=-1)).tobytes()
        assert np.array_equal(np.take_along_axis(whole, got["top_k_indices"].astype(int), -1),
                              got["top_k_weights"])


def test_mass_keeps_the_sum_of_a_row(client, kernels):
    case = case_of(LONG, mask={"type": "causal", "align": "bottom_right"})
    case.q = case.q[:, :, -600:].copy()
    for kernel in kernels:
        for h, w in ((1, 1), (13, 7), (600, 9)):
            pool = {"rows": h, "cols": w, "op": "mass"}
            got = ask(client, case, kernel, {"pool": pool})["weights"]
            np.testing.assert_allclose(got.sum(-1), 1, rtol=0, atol=1e-5)


def test_equal_weights_go_to_the_lower_key(client, kernels):
    case = case_of(((1, 1, 3, 4), (1, 1, 300, 4), (1, 1, 300, 4)), scale=0)
    for kernel in kernels:
        got = ask(client, case, kernel, {"top_k": 5, "cols": [250, 300]})
        assert (got["top_k_indices"] == np.arange(250, 255)).all()


def test_rows_are_padded(client, kernels):
    """Row 0 sees nothing, the others two and three keys."""
    case = case_of(((1, 1, 3, 4), (1, 1, 5, 4), (1, 1, 5, 4)),
                   mask=["causal", {"type": "allow", "tensor": "seen"}], q_offset=1)
    case.tensors["seen"] = np.array([[False], [True], [True]]) & np.ones((1, 5), bool)
    for kernel in kernels:
        got = ask(client, case, kernel, {"top_k": 7})
        values, keys = got["top_k_weights"][0, 0], got["top_k_indices"][0, 0]
        assert ((keys >= 0).sum(-1) == [0, 3, 4]).all() and (keys[values == 0] == -1).all()
        np.testing.assert_allclose(values.sum(-1), [0, 1, 1], rtol=0, atol=1e-6)


@pytest.mark.parametrize("choice", [
    {"top_k": 4}, {"pool": {"rows": 2, "cols": 3, "op": "max"}}, {"heads": "mean"},
    {"pool": {"rows": 2, "cols": 3, "op": "mass"}, "heads": "max"}], ids=str)
@pytest.mark.parametrize("stage", STAGES)
def test_not_a_number_comes_through(client, kernels, choice, stage):
    case = case_of(((1, 2, 9, 4), (1, 1, 80, 4), (1, 1, 80, 4)), mask="causal", q_offset=60)
    case.k[0, 0, 63, 1] = np.nan
    case.q[0, 1, 5, 0] = np.inf
    choice = {**choice, "stage": stage}
    for kernel in kernels:
        whole = whole_map(client, case, kernel, choice)
        assert np.isnan(whole).any()
        check(ask(client, case, kernel, choice), whole, choice, stage, "weights", Rank(case))


@pytest.mark.parametrize("shapes", [
    ((1, 2, 3, 4), (1, 2, 0, 4), (1, 2, 0, 5)), ((1, 2, 0, 4), (1, 2, 3, 4), (1, 2, 3, 5)),
    ((0, 2, 3, 4), (0, 2, 3, 4), (0, 2, 3, 5)), ((3, 4), (0, 4), (0, 2)),
    ((1, 0, 3, 4), (1, 1, 3, 4), (1, 1, 3, 4))], ids=str)
@pytest.mark.parametrize("choice", [{"top_k": 2}, {"heads": "mean"}, {"heads": "max"}], ids=str)
def test_axes_of_size_zero(client, kernels, shapes, choice):
    case = case_of(shapes)
    for kernel in kernels:
        whole = whole_map(client, case, kernel, choice)
        check(ask(client, case, kernel, choice), whole, choice, "weights", "weights", Rank(case))


def test_the_output_does_not_change(client, kernels):
    case = case_of(LONG, mask={"type": "causal", "align": "bottom_right"})
    choices = [{"top_k": 4}, {"heads": "mean"}, {"stage": "raw", "heads": "max"},
               {"pool": {"rows": 9, "cols": 9, "op": "mass"}}]
    for kernel in kernels:
        alone = client.attention(case.q, case.k, case.v, {**case.options, "kernel": kernel})
        for choice in choices:
            options = {**case.options, "kernel": kernel, "weights": choice}
            answer = client.attention(case.q, case.k, case.v, options)
            assert answer["output"].tobytes() == alone["output"].tobytes()


@pytest.mark.parametrize("wire", ["nested", "flat", "base64"])
def test_every_encoding_carries_them(client, wire):
    case = case_of(((2, 2, 5, 4), (2, 2, 70, 4), (2, 2, 70, 4)))
    for choice in ({"top_k": 71}, {"heads": "mean", "pool": {"rows": 2, "cols": 5}}):
        asked = {"weights": choice, "return": ["weights"]}
        raw = client.attention(case.q, case.k, case.v, asked).tensors
        text = client.attention(case.q, case.k, case.v, asked, wire=wire).tensors
        assert set(raw) == set(text)
        for name, want in raw.items():
            assert text[name].dtype == want.dtype and np.array_equal(text[name], want)


def test_bounds_are_of_what_is_asked():
    """The tolerance of a pooled map is that of pooled maps, not of whole ones."""
    case = case_of(((1, 1, 4, 4), (1, 1, 4, 4), (1, 1, 4, 4)),
                   weights={"pool": {"rows": 1, "cols": 1, "op": "mass"}})
    exact = attention(case.q, case.k, case.v, case.options)
    assert exact["weights"].shape == (1, 1, 1, 1) and bounds(case, exact)["weights"] < 1e-5
