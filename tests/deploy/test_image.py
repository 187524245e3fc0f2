# SPDX-License-Identifier: Apache-2.0
"""The image of docker/Dockerfile, built and run as it is: what is in it, and that it needs next to
nothing."""
import json
import math
import re
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from deploy.containers import FOLDER, ROOT, Container, build, once, podman, run
from support import png
from support.client import Client
from support.daemon import free_port

MEGABYTES = 60
SMALLEST = ("--read-only", "--cap-drop", "all", "--security-opt", "no-new-privileges", "--memory",
            "256m", "--cpus", "1", "--pids-limit", "32")


@pytest.fixture(scope="module")
def files(image):
    """Where the image's files can be looked at."""
    yield Path(podman("image", "mount", image))
    podman("image", "unmount", image)


@pytest.fixture
def container(image):
    port = free_port()
    with Container(image, *SMALLEST, "--env", f"ATTENTIOND_LISTEN=127.0.0.1:{port}") as running:
        running.client = Client(port)
        deadline = time.monotonic() + 20
        while not is_ready(running.client):
            assert time.monotonic() < deadline, running.log()
            time.sleep(0.05)
        yield running
        running.client.close()


def is_ready(client):
    try:
        return client.get("/readyz").status == 200
    except OSError:
        client.close()
        return False


def oci_id(image):
    """What the image is called without what Docker's older form adds, a build container's name."""
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        podman("push", "--quiet", "--format", "oci", image, f"dir:{folder}")
        return json.loads(Path(folder, "manifest.json").read_text())["config"]["digest"]


def test_size_user_and_labels(image):
    (facts,) = json.loads(podman("image", "inspect", image))
    assert facts["Size"] <= MEGABYTES * 1000 * 1000
    assert facts["User"] == "65532:65532"
    assert facts["Config"]["StopSignal"] in ("SIGTERM", "15")
    assert facts["Healthcheck"]["Test"] == ["CMD", "/usr/bin/attentiond", "--health"]
    labels = facts["Labels"]
    for name in ("title", "description", "licenses", "version", "revision"):
        assert labels[f"org.opencontainers.image.{name}"], name
    assert not [name for name in facts["Config"]["Env"] if "INSECURE" in name or "CAPTURES" in name]


def test_only_the_daemon_and_what_it_loads(files):
    assert [path.name for path in (files / "usr" / "bin").iterdir()] == ["attentiond"]
    assert not any((files / folder).exists() for folder in ("bin", "sbin", "usr/sbin", "var"))
    assert not [path for path in files.rglob("*") if path.stat().st_mode & 0o6000]


def test_its_packages_are_listed_with_their_terms(files):
    listed = json.loads((files / "usr/share/attentiond/sbom.cdx.json").read_text())
    assert listed["bomFormat"] == "CycloneDX"
    described = listed["metadata"]["component"]
    version = re.search(r"^VERSION := (\S+)$", (ROOT / "Makefile").read_text(), flags=re.M).group(1)
    assert (described["name"], described["version"]) == ("attentiond", version)
    names = {item["name"] for item in listed["components"]}
    assert {"libc6", "libmicrohttpd12", "libgnutls30", "fonts-dejavu-core"} <= names
    assert any(name.startswith("libopenblas0") for name in names)
    for item in listed["components"]:
        assert item["version"] and item["purl"].startswith(f"pkg:deb/debian/{item['name']}@")
        assert (files / "usr/share/doc" / item["name"] / "copyright").stat().st_size > 0


def test_two_cold_builds_give_one_image(image):
    assert oci_id(image) == oci_id(build("attentiond:again"))


def test_without_keys_it_is_not_open_by_an_oversight(image):
    refused = once(image)
    assert refused.returncode == 2 and "--insecure" in refused.stderr
    assert once(image, "--insecure", "--check-config").returncode == 0


def test_a_call_within_the_smallest_container(container):
    rng = np.random.default_rng(3)
    q, k, v = (rng.standard_normal((2, 300, 64)).astype(np.float32) for _ in range(3))
    answer = container.client.attention(q, k, v, {"return": ["output", "weights"]})
    assert answer.status == 200
    scores = np.einsum("hqd,hkd->hqk", q.astype(float), k.astype(float)) / math.sqrt(64)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    assert np.allclose(answer["weights"], weights, atol=2e-6)
    assert np.allclose(answer["output"], weights @ v, atol=1e-5)


def test_the_picture_has_text(container):
    body = json.dumps({"q": [[1, 0], [0, 1]], "k": [[1, 0], [0, 1]], "v": [[1, 2], [3, 4]],
                       "weights": True}).encode()
    answer = container.client.send("POST", "/v1/attention", body,
                                   {"Content-Type": "application/json", "Accept": "image/png"})
    assert answer.status == 200 and [kind for kind, _ in png.chunks(answer.body)][0] == "IHDR"
    assert "no font" not in container.log()


def test_what_it_is_allowed(container):
    process = Path("/proc") / container.inspect(".State.Pid") / "status"
    state = dict(line.split(":\t", 1) for line in process.read_text().splitlines() if ":\t" in line)
    assert state["Uid"].split()[0] == "65532" and state["NoNewPrivs"] == "1"
    assert int(state["CapEff"], 16) == int(state["CapBnd"], 16) == 0
    described = container.client.get("/v1").json
    assert described["limits"]["memory_budget_bytes"] == 128 << 20, "half of what it is given"
    assert described["threads"] == 1


def test_the_health_check_asks_the_daemon(container):
    run("podman", "exec", container.id, "/usr/bin/attentiond", "--health")
    assert run("podman", "exec", container.id, "/usr/bin/attentiond", "--health", "--listen",
               "127.0.0.1:1", check=False).returncode == 1


def test_sigterm_drains(container):
    """A call that is in flight then is answered, and the container ends with 0."""
    long = np.ones((4, 1500, 64), np.float32)
    answers = []
    asker = threading.Thread(target=lambda: answers.append(container.client.attention(
        long, long, long, {"kernel": "reference"})))
    asker.start()
    deadline = time.monotonic() + 20
    watcher = Client(container.client.port)
    while "attention_http_requests_in_flight 2" not in watcher.get("/metrics").body.decode():
        assert time.monotonic() < deadline, "the call is not in flight"
        time.sleep(0.02)
    watcher.close()
    podman("stop", "--time", "30", container.id)
    asker.join()
    assert [answer.status for answer in answers] == [200]
    assert container.inspect(".State.ExitCode") == "0", container.log()
    assert '"stopped"' in container.log()
