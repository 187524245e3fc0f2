# SPDX-License-Identifier: Apache-2.0
"""What docker/haproxy answers while no replica is there: a refusal like the daemon's own."""
import json
import re

import pytest
from deploy import containers
from deploy.replicas import Proxy, wait_until
from support.client import Client
from support.daemon import free_port

STATUSES = (containers.ROOT / "core" / "status.def").read_text()


@pytest.fixture(scope="module")
def port():
    containers.need("haproxy")
    with Proxy(free_port(), free_port()) as proxy:
        wait_until(lambda: answers(proxy.port))
        yield proxy.port


def answers(port):
    try:
        return ask(port, "GET", "/")
    except OSError:
        return None


def ask(port, method, path, body=None, **headers):
    client = Client(port)
    try:
        return client.send(method, path, body, headers)
    finally:
        client.close()


@pytest.mark.parametrize("method, path", [("POST", "/v1/attention"), ("GET", "/v1/sessions"),
                                          ("GET", "/readyz"), ("GET", "/v2x")])
def test_it_is_a_problem_document(port, method, path):
    answer = ask(port, method, path, b"{}" if method == "POST" else None)
    assert answer.status == 503 and answer.headers["Retry-After"] == "1"
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert set(answer.json) == {"type", "title", "status", "detail", "instance"}
    assert answer.json["type"] == "/problems/overloaded" and answer.json["status"] == 503
    assert f'"overloaded", OVERLOAD, "{answer.json["title"]}"' in STATUSES
    assert re.fullmatch("[0-9a-f]{32}", answer.json["instance"])
    assert answer.headers["X-Request-Id"] == answer.json["instance"]


@pytest.mark.parametrize("path", ["/v2", "/v2/models/attention/infer"])
def test_below_v2_it_has_the_form_of_that_protocol(port, path):
    answer = ask(port, "POST", path, b"{}")
    assert answer.status == 503 and answer.headers["Retry-After"] == "1"
    assert answer.headers["Content-Type"] == "application/json"
    assert list(answer.json) == ["error"] and "No replica" in answer.json["error"]


@pytest.mark.parametrize("ident, is_kept", [("call-7/a.b:c+d=_", True), ("x" * 128, True),
                                            ("x" * 129, False), ('"}', False), ("a\\", False)])
def test_the_requests_own_id_is_kept_where_it_is_one(port, ident, is_kept):
    answer = ask(port, "GET", "/v1", **{"X-Request-Id": ident})
    assert (answer.headers["X-Request-Id"] == ident) == is_kept
    assert json.loads(answer.body)["instance"] == answer.headers["X-Request-Id"]
