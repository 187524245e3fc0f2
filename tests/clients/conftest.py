# SPDX-License-Identifier: Apache-2.0
"""Makes tests/support importable and hands the tests a running daemon."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.fixtures import client, daemon  # noqa: F401
