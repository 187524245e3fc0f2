# SPDX-License-Identifier: Apache-2.0
"""Where `make setup` was not run, what needs its environment says so and does nothing else."""
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# A make that runs this must not hand its own flags on.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
RULE = re.compile(r"^([a-z][a-z0-9 -]*):(?!=)[^\n]*\n((?:[\t-].*\n|\+?\t.*\n)+)", re.M)


def targets():
    """Those whose recipe runs the environment's Python."""
    found = RULE.findall((ROOT / "Makefile").read_text())
    return {name for names, recipe in found for name in names.split()
            if re.search(r"\t[^\n]*(?<!wildcard )\$\(PYTHON\)", recipe)}


def test_they_are_found():
    assert {"e2e", "contract", "soak", "test-deploy", "coverage", "mutate"} <= targets()
    assert targets().isdisjoint({"bench", "unit", "build"})


@pytest.mark.parametrize("target", [*sorted(targets()), "test-compose", "test-browser", "fuzz"])
def test_it_says_to_run_setup(tmp_path, target):
    """Nor is that of `make setup-examples` enough, which has no pytest."""
    (tmp_path / "venv/bin").mkdir(parents=True)
    (tmp_path / "venv/bin/python").symlink_to("/usr/bin/python3")
    done = subprocess.run(["make", "--no-print-directory", target, f"O={tmp_path}"], cwd=ROOT,
                          capture_output=True, text=True, timeout=60, env=ENVIRONMENT)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("Run 'make setup' first"), done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["venv"]
