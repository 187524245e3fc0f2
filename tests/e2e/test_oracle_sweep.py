# SPDX-License-Identifier: Apache-2.0
"""The daemon against the oracle over odd sizes, heads, layouts, dtypes and random mask expressions,
every kernel that the daemon lists. Tolerances and their reasons: tests/support/agreement.py."""
import numpy as np
import pytest
from support.agreement import OUTPUTS, assert_agrees
from support.cases import DTYPES, Case, random_case
from support.oracle import STAGES, attention

SIZES = [*range(1, 71), 97, 257, 300, 513, 700]  # the last ones span several tiles of any kernel
CASES_PER_SIZE = 3


def run(client, case, kernel, **more):
    options = {**case.options, "kernel": kernel, "return": list(OUTPUTS), **more}
    return client.attention(case.q, case.k, case.v, options, case.tensors)


@pytest.mark.parametrize("Tk", SIZES)
def test_sizes(client, kernels, Tk):
    for dtype in DTYPES:
        for number in range(CASES_PER_SIZE):
            case = random_case(Tk, dtype, number)
            for kernel in kernels:
                answer = run(client, case, kernel)
                assert answer.meta["kernel"] == kernel.for_call(case.q, case.options)
                assert_agrees(case, answer.tensors, label=kernel)


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes_of_the_results(client, dtype):
    case = random_case(9, dtype, 0)
    wide = np.float64 if dtype == "float64" else np.float32
    answer = run(client, case, "reference")
    assert answer["output"].dtype == case.q.dtype
    assert {answer[name].dtype for name in ("lse", "weights", "scores")} == {np.dtype(wide)}


@pytest.mark.parametrize("dtype", DTYPES)
def test_double_precision_on_request(client, kernels, dtype):
    """float64 arithmetic and answers for inputs of any dtype."""
    for Tk in (7, 64, 97):
        case = random_case(Tk, dtype, 50)
        case.options["precision"] = "float64"
        for kernel in kernels:
            answer = run(client, case, kernel)
            assert answer["output"].dtype == np.float64
            assert_agrees(case, answer.tensors, label=kernel)


@pytest.mark.parametrize("output_dtype", DTYPES)
def test_output_dtype(client, output_dtype):
    """The exact result rounded once: at most twice that rounding's error (float32: see above)."""
    case = random_case(33, "float32", 51)
    exact = attention(*case.plain(), case.options, case.tensors)["output"]
    answer = run(client, case, "reference", output_dtype=output_dtype)
    from support.cases import to_dtype, widen
    rounded = widen(to_dtype(exact, output_dtype))
    assert answer["output"].dtype == to_dtype(exact, output_dtype).dtype
    limit = 2 * np.abs(rounded - exact).max() + 1e-6
    assert np.abs(widen(answer["output"]).astype(np.float64) - exact).max() <= limit


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("selection", [
    {}, {"heads": [3, 0, 2]}, {"rows": [2, 31]}, {"cols": [33, 70]},
    {"heads": [1], "rows": [0, 1], "cols": [69, 70]}, {"rows": [5, 5]},
], ids=str)
def test_stages_and_selections(client, kernels, stage, selection):
    rng = np.random.default_rng(9)
    q, k, v = (rng.standard_normal(s).astype(np.float32)
               for s in ((2, 4, 33, 16), (2, 2, 70, 16), (2, 2, 70, 8)))
    options = {"mask": [{"type": "causal", "align": "bottom_right"},
                        {"type": "padding", "kv_lengths": [70, 60]}],
               "softcap": 2.0, "alibi": True, "scale": 0.6, "sink": [0, 1, -1, 0.5],
               "weights": {"stage": stage, **selection}}
    case = Case((9,), "float32", q, k, v, options)
    for kernel in kernels:
        assert_agrees(case, run(client, case, kernel).tensors, label=kernel)


@pytest.mark.parametrize("shapes", [
    ((1, 2, 3, 4), (1, 2, 0, 4), (1, 2, 0, 5)), ((1, 2, 0, 4), (1, 2, 3, 4), (1, 2, 3, 5)),
    ((0, 2, 3, 4), (0, 2, 3, 4), (0, 2, 3, 5)), ((1, 2, 3, 0), (1, 2, 5, 0), (1, 2, 5, 5)),
    ((1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 0)), ((3, 4), (0, 4), (0, 2)), ((0, 4), (0, 4), (0, 2)),
], ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_axes_of_size_zero(client, kernels, shapes, dtype):
    from support.cases import to_dtype
    rng = np.random.default_rng(1)
    q, k, v = (to_dtype(rng.standard_normal(s), dtype) for s in shapes)
    case = Case((1,), dtype, q, k, v, {})
    for kernel in kernels:
        assert_agrees(case, run(client, case, kernel).tensors, label=kernel)
