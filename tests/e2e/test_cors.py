# SPDX-License-Identifier: Apache-2.0
"""Pages of other origins: who may read an answer, and what a browser asks before it sends."""
import json
import subprocess

import pytest
import yaml
from support import raw, tables
from support.daemon import BINARY, Daemon, environment

PATHS = yaml.safe_load((tables.ROOT / "openapi.yaml").read_text())["paths"]
METHODS = {path: [method.upper() for method in item] for path, item in PATHS.items()}
LOCAL, OTHER = "http://localhost:3000", "https://app.example"
ALLOW, METHODS_HEADER = "access-control-allow-origin", "access-control-allow-methods"
ASKS = ("Access-Control-Request-Method: POST",
        "Access-Control-Request-Headers: content-type,x-session-group")


def preflight(path="/v1/attention", origin=LOCAL, *lines):
    return raw.get(path, f"Origin: {origin}", *ASKS, *lines, method="OPTIONS")


def words(header):
    return {word.strip().lower() for word in header.split(",")}


@pytest.fixture
def connection(daemon):
    with raw.Connection(daemon.port) as opened:
        yield opened


@pytest.mark.parametrize("path", METHODS)
def test_preflight_of_every_route(path, connection):
    answer = connection.ask(preflight(path))
    assert (answer.status, answer.body) == (204, b"")
    assert answer.headers[ALLOW] == LOCAL
    assert words(answer.headers[METHODS_HEADER]) == words(answer.headers["allow"]) == \
        {method.lower() for method in METHODS[path]}
    assert words(answer.headers["access-control-allow-headers"]) >= {
        "authorization", "content-type", "content-encoding", "traceparent", "idempotency-key",
        "x-request-id", "x-session-group", "inference-header-content-length"}
    assert int(answer.headers["access-control-max-age"]) > 0
    assert answer.headers["vary"] == "Origin"
    assert "access-control-allow-credentials" not in answer.headers


def test_a_page_reads_an_answer(connection):
    answer = connection.ask(raw.post(raw.BODY, f"Origin: {LOCAL}"))
    assert (answer.status, answer.headers[ALLOW]) == (200, LOCAL)
    assert words(answer.headers["access-control-expose-headers"]) >= {
        "inference-header-content-length", "server-timing", "retry-after", "location", "etag",
        "x-request-id"}
    assert METHODS_HEADER not in answer.headers


@pytest.mark.parametrize("request_bytes, status", (
    (raw.post(b"{", f"Origin: {LOCAL}"), 400),
    (raw.get("/nowhere", f"Origin: {LOCAL}"), 404),
    (raw.get("/v1/attention", f"Origin: {LOCAL}"), 405),
    (raw.post(raw.BODY, f"Origin: {LOCAL}", "Accept: text/html"), 406),
    (raw.post(b"", f"Origin: {LOCAL}").replace(b"Content-Length: 0\r\n", b""), 411),
    (raw.post(b"", f"Origin: {LOCAL}", length=1 << 40), 413),
    (raw.post(raw.BODY, f"Origin: {LOCAL}", "Content-Encoding: br"), 415),
    (raw.post(raw.BODY, f"Origin: {LOCAL}", "Expect: tea"), 417),
    (raw.post(b"{}", f"Origin: {LOCAL}"), 422),
    (raw.get("/v1", f"Origin: {LOCAL}", method="BREW"), 501),
    (preflight("/nowhere"), 404),
))
def test_a_page_reads_what_is_wrong(request_bytes, status, connection):
    answer = connection.ask(request_bytes)
    assert (answer.status, answer.headers[ALLOW]) == (status, LOCAL)
    assert "x-request-id" in words(answer.headers.get("access-control-expose-headers", "")) or \
        METHODS_HEADER in answer.headers or status == 404
    assert answer.problem is not None


def test_a_page_reads_that_its_body_was_late():
    with Daemon("--body-timeout", "200ms") as daemon, raw.Connection(daemon.port) as connection:
        connection.send(raw.post(b"", f"Origin: {LOCAL}", length=100))
        answer = connection.answer()
        assert (answer.status, answer.headers[ALLOW]) == (408, LOCAL)
        assert "x-request-id" in words(answer.headers["access-control-expose-headers"])
        assert answer.headers["vary"] == "Origin"


@pytest.mark.parametrize("origin", (OTHER, "null", "http://localhost.example",
                                    "http://127.0.0.1.example:80", "http://localhost:3000, x"))
def test_another_origin_gets_nothing_that_opens_the_answer(origin, connection):
    """What only reads is served, and the browser keeps the answer from the page."""
    for request, status in ((raw.get("/v1", f"Origin: {origin}"), 200),
                            (raw.post(raw.BODY, f"Origin: {origin}"), 421),
                            (preflight(origin=origin), 204)):
        answer = connection.ask(request)
        assert answer.status == status
        assert not [name for name in answer.headers if name.startswith("access-control")]
        assert answer.headers["vary"] == "Origin"


def test_caches_know_even_without_an_origin(connection):
    assert connection.ask(raw.get("/v1")).headers["vary"] == "Origin"


def test_options_that_is_no_preflight(connection):
    answer = connection.ask(raw.get("/v1", f"Origin: {LOCAL}", method="OPTIONS"))
    assert (answer.status, answer.headers["allow"]) == (204, "GET")
    assert METHODS_HEADER not in answer.headers


@pytest.mark.parametrize("origin, granted", ((LOCAL, "true"), (OTHER, None)))
def test_a_preflight_into_a_private_network(origin, granted, connection):
    answer = connection.ask(preflight("/v1", origin,
                                      "Access-Control-Request-Private-Network: true"))
    assert answer.headers.get("access-control-allow-private-network") == granted
    for asked in ((), ("/v1", origin, "Access-Control-Request-Private-Network: false")):
        answer = connection.ask(preflight(*asked))
        assert "access-control-allow-private-network" not in answer.headers


def test_listed_origins():
    with Daemon("--cors-origins", f"{OTHER},http://10.0.0.7:3000") as daemon, \
            raw.Connection(daemon.port) as connection:
        for origin, allowed in ((OTHER, OTHER), ("http://10.0.0.7:3000", "http://10.0.0.7:3000"),
                                (LOCAL, None)):
            answer = connection.ask(raw.post(raw.BODY, f"Origin: {origin}"))
            assert (answer.status, answer.headers.get(ALLOW)) == (200 if allowed else 421, allowed)
            assert connection.ask(preflight(origin=origin)).headers.get(ALLOW) == allowed


def test_every_origin():
    with Daemon("--cors-origins", "*") as daemon, raw.Connection(daemon.port) as connection:
        answer = connection.ask(raw.post(raw.BODY, f"Origin: {OTHER}"))
        assert answer.headers[ALLOW] == "*"
        assert "vary" not in answer.headers
        assert ALLOW not in connection.ask(raw.post()).headers


def is_closed_to(origin, connection):
    answer = connection.ask(raw.post(raw.BODY, f"Origin: {origin}"))
    assert answer.status == 421
    return not [name for name in answer.headers if name.startswith("access-control")]


def test_none():
    with Daemon("--cors-origins", "none") as daemon, raw.Connection(daemon.port) as connection:
        assert is_closed_to(LOCAL, connection)


def test_where_others_can_connect_nobody_is_allowed_unasked():
    with Daemon("--insecure", host="0.0.0.0") as daemon, raw.Connection(daemon.port) as connection:
        assert is_closed_to(LOCAL, connection)


def test_a_socket_of_this_machine_is_no_other_address(tmp_path):
    path = tmp_path / "a.sock"
    with Daemon(path=path) as daemon, raw.Connection(path) as connection:
        assert daemon.client.get("/v1", Origin=LOCAL).headers[ALLOW] == LOCAL
        assert connection.ask(raw.get("/v1", f"Origin: {LOCAL}")).headers[ALLOW] == LOCAL


def test_a_list_that_is_none():
    ended = subprocess.run([BINARY, "--cors-origins", "app.example"], capture_output=True,
                           text=True, check=False, env=environment(), timeout=60)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert '"app.example" is no origin' in ended.stderr


def test_the_answer_itself_is_the_same(connection):
    with_origin = connection.ask(raw.post(raw.BODY, f"Origin: {LOCAL}"))
    without = connection.ask(raw.post())
    assert json.loads(with_origin.body)["output"] == json.loads(without.body)["output"]
