# SPDX-License-Identifier: Apache-2.0
"""The rules, alerts and panels that docker/ has for Prometheus and Grafana: what can be seen
without running anything, promtool's tests, and all of it in a Prometheus that scrapes a daemon with
some traffic."""
import json
import re
import signal
import subprocess
import time

import numpy as np
import pytest
import yaml
from support import raw, sessions
from support.client import JSON_TYPE, pack
from support.daemon import ROOT, Daemon
from support.prometheus import Prometheus

DOCKER = ROOT / "docker"
RULES = yaml.safe_load((DOCKER / "prometheus" / "rules.yml").read_text())
TESTS = yaml.safe_load((DOCKER / "prometheus" / "rules_test.yml").read_text())
BOARD = json.loads((DOCKER / "grafana" / "dashboards" / "attentiond.json").read_text())
ADAPTER = yaml.safe_load((DOCKER / "helm" / "prometheus-adapter.yaml").read_text())
OPERATIONS = (ROOT / "docs" / "operations.md").read_text()

RECORDED = [rule for group in RULES["groups"] for rule in group["rules"] if "record" in rule]
ALERTS = {rule["alert"]: rule for group in RULES["groups"] for rule in group["rules"]
          if "alert" in rule}
PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
TARGETS = [target["expr"] for panel in PANELS for target in panel["targets"]]
SELECTOR = re.compile(r"(?<![\w:$])([a-zA-Z_][\w:]*_[\w:]*|up|ALERTS)(\{[^}]*\})?(?![\w(:])")
GROUPING = re.compile(r"\b(?:by|on|without) \([^)]*\)")


def selectors(expression):
    """The series that an expression reads: a name, with its matchers where it has some."""
    bare = GROUPING.sub("", expression)
    quoted = re.sub(r'"[^"]*"', lambda text: text.group().replace("{", "(").replace("}", ")"), bare)
    assert quoted == bare, "a brace inside a matcher's value would end the selector too early"
    return {name + labels for name, labels in SELECTOR.findall(bare)}


def shown(expression):
    """A panel's expression as Grafana asks it."""
    for variable, value in (("$__rate_interval", "10s"), ("$job", "attentiond"),
                            ("$instance", ".*")):
        expression = expression.replace(variable, value)
    assert "$" not in expression
    return expression


def adapted(rule):
    """What the adapter asks for one pod; the pod's labels come from the service's scrape job."""
    return rule["metricsQuery"].replace("<<.GroupBy>>", "instance") \
        .replace("<<.LabelMatchers>>", 'job="attentiond"')


def families():
    names = set(re.findall(r'^METRIC\(\w+, \w+, "(\w+)"',
                           (ROOT / "server" / "metrics.def").read_text(), flags=re.M))
    assert len(names) > 40
    return names


def test_every_family_exists():
    known = families() | {"up", "ALERTS"} | {rule["record"] for rule in RECORDED}
    texts = [rule["expr"] for rule in [*RECORDED, *ALERTS.values()]] + TARGETS + \
        [rule["metricsQuery"] for rule in ADAPTER["rules"]["custom"]]
    for text in texts:
        names = {name.split("{")[0] for name in selectors(text.replace("<<.LabelMatchers>>", ""))}
        assert names, text
        assert {re.sub(r"_(bucket|sum|count)$", "", name) for name in names} <= known, text


def test_every_alert_says_what_to_do():
    headings = {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-")
                for title in re.findall(r"^#+ (.*)$", OPERATIONS, flags=re.M)}
    for name, rule in ALERTS.items():
        assert rule["labels"]["severity"] in ("critical", "warning"), name
        notes = rule["annotations"]
        assert set(notes) == {"summary", "description", "runbook_url"} and all(notes.values())
        page, anchor = notes["runbook_url"].split("#")
        assert (page, anchor) == ("docs/operations.md", name.lower())
        assert anchor in headings


def test_every_alert_is_tested_for_fire_and_silence():
    checked = [check for test in TESTS["tests"] for check in test["alert_rule_test"]]
    for wanted in (True, False):
        assert {check["alertname"] for check in checked
                if bool(check["exp_alerts"]) == wanted} == set(ALERTS)


@pytest.mark.parametrize("words", (("check", "rules"), ("test", "rules")))
def test_promtool(words):
    file = DOCKER / "prometheus" / ("rules.yml" if words[0] == "check" else "rules_test.yml")
    done = subprocess.run(["promtool", *words, file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_rules_are_the_operators_resource_too():
    command = re.search(r"^```\n(\{ printf 'apiVersion: monitoring.*?)\| kubectl apply [^\n]*\n```",
                        OPERATIONS, re.M | re.S)[1]
    done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, check=True)
    made = yaml.safe_load(done.stdout)
    assert made["kind"] == "PrometheusRule" and made["spec"] == RULES


def test_the_board_is_whole():
    assert BOARD["schemaVersion"] >= 38 and BOARD["uid"] == "attentiond"
    ids = [panel["id"] for panel in BOARD["panels"]]
    assert len(ids) == len(set(ids))
    taken = set()
    for panel in BOARD["panels"]:
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                 for y in range(place["y"], place["y"] + place["h"])}
        assert not cells & taken and place["x"] + place["w"] <= 24, panel["title"]
        taken |= cells
    sources = [part["datasource"] for panel in PANELS for part in (panel, *panel["targets"])]
    sources += [item["datasource"] for item in BOARD["templating"]["list"][1:]]
    assert all(source == {"type": "prometheus", "uid": "${datasource}"} for source in sources)
    assert BOARD["templating"]["list"][0]["type"] == "datasource"


def test_grafana_finds_its_source_and_the_board():
    def read(name):
        return yaml.safe_load((DOCKER / name).read_text())

    (source,) = read("grafana/provisioning/datasources/prometheus.yml")["datasources"]
    (provider,) = read("grafana/provisioning/dashboards/attentiond.yml")["providers"]
    services = read("compose.yaml")["services"]
    assert source["type"] == "prometheus" and source["url"] == "http://prometheus:9090"
    assert "prometheus" in services
    mounted = dict(text.split(":")[:2] for text in services["grafana"]["volumes"])
    assert mounted["./grafana/dashboards"] == provider["options"]["path"]
    assert mounted["./grafana/provisioning"] == "/etc/grafana/provisioning"


def hastened():
    """The rules with waits of a second, for a test cannot wait as long as they do."""
    groups = [{**group, "rules": [{**rule, **({"for": "1s"} if "for" in rule else {})}
                                  for rule in group["rules"]]} for group in RULES["groups"]]
    return {"groups": groups}


def traffic(client):
    """A little of everything; some of it wrong, some too late."""
    rng = np.random.default_rng(1)
    client.attention(*rng.standard_normal((3, 1, 4, 512, 64)).astype(np.float32),
                     {"mask": {"type": "causal"}})
    captured = raw.BODY[:-1] + b',"capture":{"name":"a"}}'
    for body, status in ((raw.BODY, 200), (captured, 200), (b"{", 400)):
        answer = client.send("POST", "/v1/attention", body, {"Content-Type": JSON_TYPE})
        assert answer.status == status
    body, kind = pack(*rng.standard_normal((3, 1, 8, 2048, 64)).astype(np.float32),
                      {"timeout_ms": 5, "kernel": "reference"})
    assert client.send("POST", "/v1/attention", body, {"Content-Type": kind}).status == 504
    session = sessions.Session(client)
    session.step(sessions.rows(rng, 2), layer=0)


def until_all(prometheus, expressions, meanwhile, seconds=40):
    """Evaluates them until each has given something."""
    pending, deadline = set(expressions), time.monotonic() + seconds
    while pending:
        assert time.monotonic() < deadline, f"nothing comes of {sorted(pending)}"
        meanwhile()
        time.sleep(0.2)
        pending = {expression for expression in pending if not prometheus.query(expression)}


def states(prometheus):
    data = prometheus.ask("alerts")
    return {(alert["labels"]["alertname"], alert["state"]) for alert in data["alerts"]}


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """A daemon, and a Prometheus that has its rules and looks at it twice a second."""
    daemon = Daemon("--captures", "--log", "off", "--lame-duck", "60s")
    folder = tmp_path_factory.mktemp("prometheus")
    try:
        daemon.wait_until_ready()
        with Prometheus(folder, daemon.port, "500ms", hastened()) as prometheus:
            yield daemon, prometheus
    finally:
        daemon.process.kill()
        daemon.process.wait()


def test_every_expression_gives_something(watched):
    """Rules, panels and what the adapter asks. What alerts compare is there too; when they fire is
    promtool's matter."""
    daemon, prometheus = watched
    asked = {rule["expr"] for rule in RECORDED} | {rule["record"] for rule in RECORDED}
    asked |= {shown(expression) for expression in TARGETS}
    asked |= {adapted(rule) for rule in ADAPTER["rules"]["custom"]}
    read = set().union(*(selectors(rule["expr"]) for rule in ALERTS.values()))
    # The first is the next test's, the second tests/e2e/test_tls.py's.
    later = {name for name in read if '/readyz",code="503"' in name or "_tls_" in name}
    assert len(later) == 2
    until_all(prometheus, asked | read - later, lambda: traffic(daemon.client))
    assert {prometheus.query(rule["expr"]) is None for rule in ALERTS.values()} == {False}
    loaded = {rule["name"]: rule for group in prometheus.ask("rules")["groups"]
              for rule in group["rules"]}
    assert len(loaded) == len(RECORDED) + len(ALERTS)
    assert {rule["health"] for rule in loaded.values()} == {"ok"}


def test_alerts_fire_as_a_replica_drains_and_ends(watched):
    daemon, prometheus = watched
    early = {"AttentionReplicaDown", "AttentionNoReplica", "AttentionReplicaNotReady"}
    # Before its first look Prometheus knows of no replica.
    raw.until(lambda: not early & {name for name, _ in states(prometheus)})
    daemon.process.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + 20
    while ("AttentionReplicaNotReady", "firing") not in states(prometheus):
        assert time.monotonic() < deadline, states(prometheus)
        assert daemon.client.get("/readyz").status == 503
        daemon.client.close()
        time.sleep(0.2)
    daemon.process.kill()
    down = {("AttentionReplicaDown", "firing"), ("AttentionNoReplica", "firing")}
    raw.until(lambda: down <= states(prometheus))
