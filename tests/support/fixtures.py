# SPDX-License-Identifier: Apache-2.0
"""The fixtures that every folder of tests over HTTP shares; their conftest.py imports them."""
import pytest

from support.client import Kernel
from support.daemon import Daemon


@pytest.fixture(scope="session")
def daemon():
    """One daemon for the whole run; its exit code is checked at the end."""
    with Daemon() as running:
        yield running


@pytest.fixture(scope="module")
def keeping():
    """One that keeps calls, for the tests of a file."""
    with Daemon("--captures", "--capture-bytes", "64MiB") as running:
        yield running


@pytest.fixture
def client(daemon):
    return daemon.client


@pytest.fixture(scope="session")
def kernels(daemon):
    """The names under which GET /v1 lists the kernels, and what each computes in."""
    names = [Kernel(kernel["name"], kernel["precisions"], kernel["scores"])
             for kernel in daemon.client.get("/v1").json["kernels"] if kernel["available"]]
    assert {"reference", "blas"} <= set(names)
    return names
