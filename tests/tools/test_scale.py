# SPDX-License-Identifier: Apache-2.0
"""The capacity model: bench/scale.py finds the constants that calls were made with, its shapes
count what docs/scaling.md says, and the page's prices follow from the constants on it."""
import re
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import scale  # noqa: E402

AT_REST = np.array([35e-6, 0.44e-9, 0.0096e-9, 0.048e-9])  # CALL, BYTE, FLOP, KEPT of the page
PAGE = (ROOT / "docs" / "scaling.md").read_text()


def measured(seconds):
    return scale.Measured(rate=1 / seconds, replica=seconds, client=1e-5)


def test_the_constants_are_found():
    known = np.array([4e-5, 3e-10, 5e-12, 3e-11])
    table = [(shape, measured(shape.row() @ known), None) for shape in scale.shapes()]
    np.testing.assert_allclose(scale.constants(table), known, rtol=1e-6)


@pytest.mark.parametrize("shape, row", [
    (scale.call("", 8, 512, 512, 64), [1, 4 * (8 * 512 * 128 + 8 * 512 * 128),
                                       2 * 128 * 8 * 512 * 512, 0]),
    (scale.call("", 1, 4, 4, 2, causal=True), [1, 4 * 32, 8 * (1 + 2 + 3 + 4), 0]),
    (scale.step("", 4096), [1, 2 * 8 * 128 * 4, 0, 4 * 8 * 4096 * 256]),
    (scale.merge("", 8, 64), [1, 4 * (8 + 1) * 8 * 64 * 65, 0, 0]),
])
def test_shapes_count_as_the_page_says(shape, row):
    assert shape.row().tolist() == row


def test_the_prices_follow_from_the_constants():
    for constant, words in zip(AT_REST[1:], ("0.44 ns", "0.0096 ns", "0.048 ns")):
        assert f"| {words}" in PAGE and float(words.split()[0]) * 1e-9 == pytest.approx(constant)
    shapes = [scale.call("", 1, 1, 1, 64),
              *(scale.call("", 8, n, n, 64) for n in (128, 512, 2048)), scale.step("", 16384)]
    rows = re.findall(r"^\| [^|]+ \| ([\d.]+) \| ([\d.]+) \| [a-z\d][^|]* \|$",
                      PAGE.split("$ a million |")[1].split("\n\n")[0], flags=re.M)
    assert len(rows) == len(shapes)
    for (core_ms, price), shape in zip(rows, shapes):
        seconds = float(shape.row() @ AT_REST)
        assert float(core_ms) == pytest.approx(seconds * 1e3, rel=0.05)
        assert float(price) == pytest.approx(seconds * 1e6 / 3600 * 0.04, rel=0.1)
