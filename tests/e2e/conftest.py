# SPDX-License-Identifier: Apache-2.0
"""Makes tests/support and examples/python importable and hands the tests a running daemon."""
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
for folder in (ROOT / "tests", ROOT / "examples" / "python"):
    sys.path.insert(0, str(folder))


@pytest.fixture(scope="session")
def daemon():
    """One daemon for the whole run; its exit code is checked at the end."""
    from support.daemon import Daemon

    with Daemon() as running:
        yield running


@pytest.fixture
def client(daemon):
    return daemon.client


@pytest.fixture(scope="session")
def kernels(daemon):
    """The names under which GET /v1 lists the kernels."""
    names = [kernel["name"]
             for kernel in daemon.client.get("/v1").json["kernels"] if kernel["available"]]
    assert {"reference", "blas"} <= set(names)
    return names
