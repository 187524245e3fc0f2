# SPDX-License-Identifier: Apache-2.0
"""docker/compose.yaml and the files that it hands to others, without starting any of it."""
import json
import os
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest
import yaml
from deploy.containers import ROOT, need, run
from deploy.replicas import wait_until
from support.daemon import Daemon

FILE = ROOT / "docker" / "compose.yaml"


PORTS = {"PORT": "8080", "GRAFANA_PORT": "3000", "PROMETHEUS_PORT": "9090",
         "ALERTMANAGER_PORT": "9093"}


def services_with(ports):
    """As Compose reads the file with these variables, whatever ports the environment names."""
    need("docker-compose")
    names = {name: value for name, value in os.environ.items() if name not in PORTS}
    read = subprocess.run(["docker-compose", "--file", FILE, "config"], capture_output=True,
                          text=True, check=True, env={**names, **ports})
    return yaml.safe_load(read.stdout)["services"]


@pytest.fixture(scope="module")
def services():
    return services_with({})


def published(services):
    return sorted(port.removesuffix("/tcp") for item in services.values()
                  for port in item.get("ports", []))


def test_it_is_published_on_this_machine_alone(services):
    assert published(services) == sorted(f"127.0.0.1:{port}:{port}" for port in PORTS.values())
    replicas = [item for name, item in services.items() if name.startswith("attentiond-")]
    assert len(replicas) == 2
    for item in replicas:
        assert "ports" not in item and item["read_only"] and item["cap_drop"] == ["ALL"]
        assert item["environment"]["ATTENTIOND_INSECURE"] == "on"


def test_other_ports_are_published_and_said():
    others = {name: f"1{port}" for name, port in PORTS.items()}
    services = services_with(others)
    assert published(services) == sorted(f"127.0.0.1:1{port}:{port}" for port in PORTS.values())
    (text,) = services["hello"]["command"]
    assert set(re.findall(r"http://localhost:(\d+)", text)) == set(others.values())


def test_one_service_builds_an_image_and_none_pulls_it(services):
    """Two builds of one tag at once can fail, and no registry has it."""
    builders = Counter(item["image"] for item in services.values() if "build" in item)
    assert builders == {"attentiond": 1}
    users = {name: item for name, item in services.items() if item["image"] in builders}
    assert len(users) == 2 and {item["pull_policy"] for item in users.values()} == {"never"}
    (builder,) = [name for name, item in users.items() if "build" in item]
    for name, item in users.items():
        assert name == builder or builder in item["depends_on"]


def test_looks_at_replicas_are_not_logged(services):
    """The log of `up` is where the first map is shown."""
    variables = services["attentiond-1"]["environment"]
    assert variables == services["attentiond-2"]["environment"]
    with Daemon("--log", variables.get("ATTENTIOND_LOG", "all")) as daemon:
        assert daemon.client.get("/readyz").status == 200
        assert daemon.client.get("/gone").status == 404
        wait_until(lambda: '"status":404' in daemon.output())
        assert '"status":200' not in daemon.output()


def test_it_shows_a_map_and_says_a_call_whose_map_is_then_there(services):
    (text,) = services["hello"]["command"]
    (line,) = [line.strip() for line in text.splitlines() if "curl" in line]
    with Daemon("--captures") as daemon:
        script = text.replace("$$", "$").replace("haproxy/8080", f"127.0.0.1/{daemon.port}")
        shown = subprocess.run([*services["hello"]["entrypoint"], script], capture_output=True,
                               text=True, check=True).stdout
        assert '"weights":[[0.66976154,0.33023846],' in shown and line in shown
        line = line.replace("http://localhost:8080", f"http://127.0.0.1:{daemon.port}")
        said = subprocess.run(line, shell=True, capture_output=True, text=True, check=True).stdout
        assert json.loads(said)["weights"][0][0] > 0.6
        (listed,) = daemon.client.get("/v1/captures").json["captures"]
        assert listed["name"] == "first"


def test_all_replicas_are_scraped_and_balanced(services):
    replicas = {f"{name}:8080" for name in services if name.startswith("attentiond-")}
    scraped = yaml.safe_load((ROOT / "docker" / "prometheus" / "prometheus.yml").read_text())
    (job,) = [job for job in scraped["scrape_configs"] if job["job_name"] == "attentiond"]
    assert set(job["static_configs"][0]["targets"]) == replicas
    balanced = (ROOT / "docker" / "haproxy" / "haproxy.cfg").read_text()
    assert set(re.findall(r"presetenv REPLICA_\d (\S+)", balanced)) == replicas


def test_what_is_mounted_is_there(services):
    mounted = [volume.split(":")[0] for item in services.values()
               for volume in item.get("volumes", [])]
    places = [Path(source) for source in mounted if source.startswith("/")]
    assert places and [place for place in places if not place.exists()] == []


def test_the_configuration_of_prometheus():
    need("promtool")
    run("promtool", "check", "config", ROOT / "docker" / "prometheus" / "prometheus.yml")
