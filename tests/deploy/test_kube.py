# SPDX-License-Identifier: Apache-2.0
"""The chart's Deployment as podman runs it: the image that the other tests build, with the chart's
rights, options and limits. It has no network but its own 127.0.0.1."""
import json
import subprocess
import time

import pytest
import yaml
from deploy import helm
from deploy.containers import podman, run
from support import raw
from support.daemon import BINARY


@pytest.fixture
def pod(image, tmp_path):
    """The key to it and its process, from which its network can be entered."""
    helm.fetch()
    key, line = subprocess.run([BINARY, "--make-key", "alice"], capture_output=True, text=True,
                               check=True).stdout.splitlines()[:2]
    name, _, tag = image.rpartition(":")
    values = {"image": {"repository": name, "tag": tag, "pullPolicy": "Never"}, "replicas": 1}
    deployment = helm.render(tmp_path, values)["Deployment"]
    spec = deployment["spec"]["template"]["spec"]
    # podman 4.3 does not decode Secrets, and maps no ports where there is no network.
    spec["volumes"] = [{"name": "keys", "hostPath": {"path": str(tmp_path)}}]
    del spec["containers"][0]["ports"]
    (tmp_path / "keys").write_text(line + "\n")
    tmp_path.chmod(0o755)
    file = tmp_path / "pod.yaml"
    file.write_text(yaml.safe_dump(deployment))
    run("podman", "play", "kube", "--network", "none", file)
    try:
        (container,) = [item["Id"] for item in json.loads(podman("ps", "--format", "json"))
                        if item["Names"][0].endswith("-attentiond")
                        and item["Image"].endswith(image)]
        yield key, container
    finally:
        run("podman", "play", "kube", "--down", file, check=False)


def inside(container, *words):
    process = podman("inspect", "--format", "{{.State.Pid}}", container)
    return subprocess.run(["nsenter", "--target", process, "--net", *words], capture_output=True,
                          text=True, check=False)


def test_it_answers_and_drains(pod):
    key, container = pod
    url = "http://127.0.0.1:8080/v1/attention"
    ready = ["curl", "-sf", "http://127.0.0.1:9090/readyz"]
    raw.until(lambda: inside(container, *ready).returncode == 0, seconds=30)
    call = ["curl", "-s", "--data", raw.BODY.decode(), "-H", "Content-Type: application/json", url]
    assert json.loads(inside(container, *call).stdout)["status"] == 401
    answer = inside(container, *call, "-H", f"Authorization: Bearer {key}")
    assert json.loads(answer.stdout)["output"][1][0] > 2
    facts = json.loads(podman("inspect", container))[0]
    assert facts["Config"]["User"].split(":")[0] == "65532"
    assert facts["HostConfig"]["ReadonlyRootfs"] and facts["HostConfig"]["Memory"] == 2 << 30
    assert facts["EffectiveCaps"] in ([], None)
    began = time.monotonic()
    podman("stop", "--time", "40", container)
    assert 5 <= time.monotonic() - began < 20  # lame_duck
    assert podman("inspect", "--format", "{{.State.ExitCode}}", container) == "0"
