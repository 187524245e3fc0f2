# SPDX-License-Identifier: Apache-2.0
"""The image with libcurl, `--build-arg OTLP=1`: it sends spans from within the narrowest container.
It takes two minutes: `make test-image-otlp`."""
import json

import pytest
from deploy import containers
from deploy.replicas import is_ready, wait_until
from deploy.test_image import SMALLEST
from support import raw
from support.collector import Collector
from support.daemon import free_port

MEGABYTES = 70


@pytest.fixture(scope="module")
def image():
    containers.prepare()
    return containers.build("attentiond:otlp", "--build-arg", "OTLP=1")


def test_its_size(image):
    (facts,) = json.loads(containers.podman("image", "inspect", image))
    print(f"\n{facts['Size'] / 1e6:.1f} MB")
    assert facts["Size"] <= MEGABYTES * 1000 * 1000


def test_a_collector_gets_its_spans(image):
    port = free_port()
    with Collector() as collector, containers.Container(
            image, *SMALLEST, "--env", f"ATTENTIOND_LISTEN=127.0.0.1:{port}", "--env",
            f"ATTENTIOND_OTLP_ENDPOINT={collector.url}") as running:
        wait_until(lambda: is_ready(port))
        with raw.Connection(port) as connection:
            assert connection.ask(raw.post(raw.BODY, "X-Request-Id: contained")).status == 200
        raw.until(lambda: collector.of("contained"))
        span, stages = collector.of("contained")
        assert span.name == "POST /v1/attention" and len(stages) == 6
        containers.podman("stop", "--time", "30", running.id)
        assert running.inspect(".State.ExitCode") == "0", running.log()
