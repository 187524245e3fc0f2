# SPDX-License-Identifier: Apache-2.0
"""docker/compose.yaml and the files that it hands to others, without starting any of it."""
import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from deploy.containers import ROOT, need, run
from support.daemon import Daemon

FILE = ROOT / "docker" / "compose.yaml"


@pytest.fixture(scope="module")
def services():
    need("docker-compose")
    read = run("docker-compose", "--file", FILE, "config")
    return yaml.safe_load(read.stdout)["services"]


def test_it_is_published_on_this_machine_alone(services):
    published = [port for item in services.values() for port in item.get("ports", [])]
    assert {port.split(":")[0] for port in published} == {"127.0.0.1"}
    assert sorted(port.split(":")[1] for port in published) == ["3000", "8080", "9090", "9093"]
    replicas = [item for name, item in services.items() if name.startswith("attentiond-")]
    assert len(replicas) == 2
    for item in replicas:
        assert "ports" not in item and item["read_only"] and item["cap_drop"] == ["ALL"]
        assert item["environment"]["ATTENTIOND_INSECURE"] == "on"


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
