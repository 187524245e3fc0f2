# SPDX-License-Identifier: Apache-2.0
"""What docker/collect lays out, looked at without a container: with libcurl and without."""
import os
import subprocess
from pathlib import Path

import pytest
from deploy.containers import ROOT, lacking
from support.daemon import BINARY, environment

ASKS = ("/usr/bin/attentiond", "--check-config", "--otlp-endpoint", "http://collector:4318")


def collect(root, *files):
    subprocess.run([ROOT / "docker" / "collect", BINARY, *files, root], check=True)
    return root


def check_config(root):
    """The daemon of that root, with nothing else around it."""
    if os.geteuid() != 0:
        lacking("only root may change the root, and this is not root")
    return subprocess.run(["chroot", root, *ASKS], env=environment(), capture_output=True,
                          text=True, check=False)


@pytest.fixture(scope="module")
def curl():
    for name in ("libcurl-gnutls.so.4", "libcurl.so.4"):
        for found in Path("/usr/lib").glob(f"*-linux-gnu/{name}"):
            return found
    return lacking("there is no libcurl")


def test_without_libcurl_no_spans_can_be_sent(tmp_path):
    root = collect(tmp_path / "root")
    assert not list(root.rglob("libcurl*"))
    refused = check_config(root)
    assert refused.returncode == 2
    assert "spans are sent by libcurl, which cannot be loaded: libcurl-gnutls" in refused.stderr


def test_with_libcurl_all_that_it_loads_is_there(tmp_path, curl):
    root = collect(tmp_path / "root", curl)
    taken = check_config(root)
    assert (taken.returncode, taken.stderr) == (0, "")
    assert "otlp_endpoint = http://collector:4318" in taken.stdout
    assert "libnghttp2" in (root / "usr/share/attentiond/sbom.cdx.json").read_text()
