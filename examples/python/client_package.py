# SPDX-License-Identifier: Apache-2.0
"""The package `attentiond`, clients/python: as it is installed, or else from this checkout."""
import sys
from pathlib import Path

__all__ = ["SOURCE", "attentiond"]

SOURCE = Path(__file__).resolve().parents[2] / "clients" / "python" / "src"

if sys.version_info < (3, 11):
    sys.exit("attentiond's client needs Python 3.11: run `make setup-examples` once, then "
             f"build/venv/bin/python {sys.argv[0]}")
try:
    sys.path.append(str(SOURCE))
    import attentiond
except ModuleNotFoundError as missing:
    sys.exit(f"this Python has no {missing.name}, which attentiond's client needs: run `make "
             f"setup` once, then build/venv/bin/python {sys.argv[0]}")
