# SPDX-License-Identifier: Apache-2.0
"""docker/compose.yaml started as it is, by podman-compose, but for Grafana, which no package has:
what it says works, a map is found where it was posted, and replicas come, go and die. It takes two
to three minutes, 127.0.0.1:8080, :9090 and :9093, and the packages podman-compose and
golang-github-containernetworking-plugin-dnsname: `make test-compose`."""
import json
import socket
import subprocess
import time
import urllib.parse
from pathlib import Path

import pytest
import yaml
from deploy import containers
from deploy.replicas import is_ready, wait_until
from deploy.test_replicas import CLIENTS, Load
from support.client import Client

FILE = containers.ROOT / "docker" / "compose.yaml"
STAND_INS = Path(__file__).parent
PORT, PROMETHEUS, ALERTMANAGER = 8080, 9090, 9093
REPLICAS = ("docker_attentiond-1_1", "docker_attentiond-2_1")
RATE = 200


def compose(*words, **options):
    return containers.run("podman-compose", "--file", FILE, *words, **options)


def ask(port, path):
    client = Client(port)
    try:
        return json.loads(client.get(path).body)
    finally:
        client.close()


@pytest.fixture(scope="module")
def stack(image):
    containers.need("podman-compose", "dnsmasq")
    for port in (PORT, PROMETHEUS, ALERTMANAGER):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                containers.lacking(f"something listens on 127.0.0.1:{port} already")
    services = yaml.safe_load(FILE.read_text())["services"]
    for name in ("haproxy", "prometheus", "alertmanager"):
        wanted = services[name]["image"]
        containers.run("buildah", "bud", "--isolation", "chroot", "--pull-never", "--layers",
                       "--target", name, "--tag",
                       "docker.io/" + (wanted if "/" in wanted else f"library/{wanted}"), STAND_INS)
    containers.podman("tag", image, "localhost/attentiond:latest")
    compose("up", "-d", "--no-build", *(name for name in services if name != "grafana"))
    try:
        wait_until(lambda: is_ready(PORT), 60)
        yield
    finally:
        compose("down", "-v")
        containers.podman("network", "rm", "docker_default", check=False)


def restart(name):
    containers.podman("stop", "--time", "40", name)
    containers.podman("start", name)
    wait_until_both_serve()


def wait_until_both_serve():
    """By HAProxy's own word, as Prometheus has it from a scrape after this moment."""
    begin = time.time() + 6
    query = urllib.parse.quote('sum(haproxy_server_status{proxy="calls",state="UP"})')

    def both():
        (found,) = ask(PROMETHEUS, f"/api/v1/query?query={query}")["data"]["result"]
        return time.time() > begin and found["value"][1] == "2"

    wait_until(both, 60)


def test_what_it_says_works_and_the_map_is_there(stack):
    wait_until(lambda: "curl" in containers.podman("logs", "docker_hello_1"))
    said = containers.podman("logs", "docker_hello_1")
    assert '"weights":[[0.66976154,0.33023846],' in said, said
    (line,) = [line for line in said.splitlines() if "curl" in line]
    printed = subprocess.run(line, shell=True, capture_output=True, text=True, check=True).stdout
    assert json.loads(printed)["weights"][0][0] > 0.6
    for _ in range(5):
        names = [item["name"] for item in ask(PORT, "/v1/captures")["captures"]]
        assert names == ["first"]


def test_the_dashboard_shows_it(stack):
    """As a browser has the page, which asks for what is kept."""
    containers.need("chromium")
    page = containers.run("chromium", "--headless=new", "--no-sandbox", "--disable-gpu",
                          "--virtual-time-budget=10000", "--dump-dom", f"http://127.0.0.1:{PORT}/")
    assert ">first<" in page.stdout, page.stdout[-3000:]


def test_replicas_come_and_go_and_die(stack):
    """Their addresses change when they start again."""
    with Load(PORT, CLIENTS / RATE) as load:
        for name in REPLICAS:
            restart(name)
        containers.podman("kill", "--signal", "KILL", REPLICAS[0])
        containers.podman("start", REPLICAS[0])
        wait_until_both_serve()
    print(f"\n{load.answered()} calls answered, {len(load.failed())} failed")
    assert load.failed() == [] and load.answered() > 1000


def test_prometheus_knows_the_stages_and_the_dead(stack):
    stages = ask(PROMETHEUS, "/api/v1/query?query=stage:attention_stage_duration_seconds:p99_5m")
    found = {item["metric"]["stage"] for item in stages["data"]["result"]}
    assert {"decode", "queue", "compute", "encode"} <= found
    containers.podman("kill", "--signal", "KILL", REPLICAS[1])

    def is_told():
        alerts = ask(ALERTMANAGER, "/api/v2/alerts")
        return any(alert["labels"]["alertname"] == "AttentionReplicaDown" and
                   alert["labels"]["instance"] == "attentiond-2:8080" for alert in alerts)

    wait_until(is_told, 150)
