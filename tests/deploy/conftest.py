# SPDX-License-Identifier: Apache-2.0
"""Makes tests/support importable, and the image that the tests share."""
import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from deploy import containers  # noqa: E402


@pytest.fixture(scope="session")
def image():
    """The image's name, built by docker/Dockerfile as it is, from nothing. IMAGE names one that is
    there already, for who works on the tests."""
    containers.prepare()
    kept = os.environ.get("IMAGE")
    return kept or containers.build("attentiond:test")
