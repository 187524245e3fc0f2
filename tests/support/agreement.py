# SPDX-License-Identifier: Apache-2.0
"""How close an answer has to be to the oracle's, and why.

float32   at most twice the largest error that a plain float32 numpy run of the same case makes,
          plus 1e-6: scale-free, and strict where the case is well conditioned.
halves    at most twice the largest error of rounding the exact result once; the inputs are the
          rounded ones already. No slack on top: where rounding is exact, so must the answer be.
float64   1e-12 of the largest number in the result, a few thousand ulps for sums of 257 terms.
"""
import numpy as np

from support.cases import to_dtype, widen
from support.oracle import attention

OUTPUTS = ("output", "lse", "weights", "scores")


def largest(x):
    return np.max(np.abs(x[np.isfinite(x)]), initial=0.0)


def error(got, exact):
    """Largest difference between finite numbers; anything else has to be equal."""
    finite = np.isfinite(exact)
    np.testing.assert_array_equal(got[~finite], exact[~finite])
    assert np.isfinite(got[finite]).all(), "not finite where the oracle is"
    return np.max(np.abs(got[finite] - exact[finite]), initial=0.0)


def bounds(case, exact):
    """The largest allowed error per named result."""
    if case.dtype == "float64" or case.options.get("precision") == "float64":
        return {name: 1e-12 * max(1.0, largest(exact[name])) for name in OUTPUTS}
    plain = attention(*case.plain(), case.options, case.tensors, dtype=np.float32)
    limit = {name: 2 * error(plain[name].astype(np.float64), exact[name]) + 1e-6
             for name in OUTPUTS}
    if case.dtype != "float32":
        rounded = widen(to_dtype(exact["output"], case.dtype)).astype(np.float64)
        limit["output"] = 2 * error(rounded, exact["output"])
    return limit


def assert_agrees(case, results, names=OUTPUTS, label=""):
    """`results` maps names to arrays as the service sent them."""
    exact = attention(*case.plain(), case.options, case.tensors)
    limit = bounds(case, exact)
    for name in names:
        got = widen(results[name]).astype(np.float64)
        assert got.shape == exact[name].shape, f"{label} {name} of {case}: {got.shape}"
        try:
            wrong = error(got, exact[name])
            assert wrong <= limit[name], f"off by {wrong:.3g}, allowed {limit[name]:.3g}"
        except AssertionError as failure:
            raise AssertionError(f"{label} {name} of {case}: {failure}") from None
