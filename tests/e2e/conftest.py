# SPDX-License-Identifier: Apache-2.0
"""Makes tests/support and examples/python importable and hands the tests a running daemon."""
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
for folder in (ROOT / "tests", ROOT / "examples" / "python"):
    sys.path.insert(0, str(folder))

from support.fixtures import client, daemon, keeping, kernels  # noqa: E402, F401
