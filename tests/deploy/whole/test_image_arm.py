# SPDX-License-Identifier: Apache-2.0
"""docker/Dockerfile built for 64-bit ARM as it is, by qemu where this machine is another, and the
image answers: `make test-image-arm`, which takes a quarter of an hour on two cores that do nothing
else. IMAGE_ARM names an image that is there already."""
import json
import os
import time

import numpy as np
import pytest
from deploy import containers
from deploy.whole import emulated
from deploy.replicas import is_ready, wait_until
from support.client import Client
from support.daemon import free_port
from support.oracle import attention

BASE = "localhost/debian-arm64:bookworm-slim"
IMAGE = "attentiond:arm64"
MEGABYTES = 60


@pytest.fixture(scope="module")
def image():
    containers.prepare()
    with emulated.arm():
        kept = os.environ.get("IMAGE_ARM")
        if not kept:
            containers.run("tests/deploy/base.sh", containers.FOLDER / "base-arm64", BASE, "arm64",
                           seconds=3600)
            began = time.monotonic()
            containers.build(IMAGE, "--from", BASE, "--platform", "linux/arm64", seconds=7200)
            print(f"\nbuilt in {time.monotonic() - began:.0f} s")
        yield kept or IMAGE


@pytest.fixture(scope="module")
def client(image):
    port = free_port()
    with containers.Container(image, "--read-only", "--cap-drop", "all", "--security-opt",
                              "no-new-privileges", "--env",
                              f"ATTENTIOND_LISTEN=127.0.0.1:{port}") as running:
        try:
            wait_until(lambda: is_ready(port), 120)
        except AssertionError:
            pytest.fail(running.log())
        asker = Client(port, 120)
        yield asker
        asker.close()
        containers.podman("stop", "--time", "60", running.id)
        assert running.inspect(".State.ExitCode") == "0", running.log()


def test_what_it_is(image):
    (facts,) = json.loads(containers.podman("image", "inspect", image))
    assert facts["Architecture"] == "arm64" and facts["User"] == "65532:65532"
    print(f"\n{facts['Size'] / 1e6:.1f} MB")
    assert facts["Size"] <= MEGABYTES * 1000 * 1000


@pytest.mark.parametrize("queries, kernel", [(1, "decode-neon"), (200, "fused-neon")])
def test_it_computes_with_its_own_kernels(client, queries, kernel):
    rng = np.random.default_rng(5)
    q = rng.standard_normal((2, queries, 64)).astype(np.float32)
    k, v = rng.standard_normal((2, 2, 300, 64)).astype(np.float32)
    answer = client.attention(q, k, v, {"return": ["output", "weights"]})
    assert answer.status == 200 and answer.meta["kernel"] == kernel
    expected = attention(q[None], k[None], v[None])
    assert np.allclose(answer["output"], expected["output"][0], atol=1e-5)
    assert np.allclose(answer["weights"].sum(-1), 1, atol=1e-5)
