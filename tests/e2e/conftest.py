# SPDX-License-Identifier: Apache-2.0
"""Makes tests/support importable and hands every test one running daemon."""
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
for folder in (ROOT / "tests", ROOT / "examples" / "python"):
    sys.path.insert(0, str(folder))
