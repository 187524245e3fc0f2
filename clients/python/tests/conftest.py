# SPDX-License-Identifier: Apache-2.0
"""The package from its source, the daemon that the project's own tests start, and its oracle."""
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
for folder in (ROOT / "tests", ROOT / "clients" / "python" / "src"):
    sys.path.insert(0, str(folder))

import attentiond  # noqa: E402
import pytest  # noqa: E402
from support.fixtures import client, daemon, kernels  # noqa: E402, F401


@pytest.fixture(scope="session")
def url(daemon):  # noqa: F811
    return f"http://127.0.0.1:{daemon.port}"


@pytest.fixture
def served(url):
    with attentiond.Client(url, retries=0) as made:
        yield made
