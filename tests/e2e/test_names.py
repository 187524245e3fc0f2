# SPDX-License-Identifier: Apache-2.0
"""Without keys: under which names the service is asked, whose pages may send calls, and addresses
for operators alone."""
import os
import signal
import socket

import pytest
from support import raw
from support.daemon import Daemon, free_port

FOREIGN = "http://evil.example"


@pytest.fixture
def connection(daemon):
    with raw.Connection(daemon.port) as opened:
        yield opened


def named(host, path="/v1", method="GET", *lines):
    return "\r\n".join([f"{method} {path} HTTP/1.1", f"Host: {host}", *lines]).encode() + \
        b"\r\n\r\n"


@pytest.mark.parametrize("host", ("localhost", "127.0.0.1:8080", "[::1]", "attention:80",
                                  "a.default.svc", "a.default.svc.cluster.local:8080"))
def test_names_of_its_own(connection, host):
    assert connection.ask(named(host)).status == 200


@pytest.mark.parametrize("host", ("evil.example", "localhost.evil.example:8080", "",
                                  "127.0.0.1.nip.io"))
@pytest.mark.parametrize("path", ("/v1", "/docs", "/v2/models"))
def test_other_names(connection, host, path):
    answer = connection.ask(named(host, path))
    assert answer.status == 421
    assert b"the option hosts" in answer.body


@pytest.mark.parametrize("path", ("/healthz", "/readyz", "/metrics", "/v2/health/live"))
def test_probes_come_by_any_name(connection, path):
    assert connection.ask(named("evil.example", path)).status == 200


def test_a_call_by_another_name_is_not_computed(connection):
    answer = connection.ask(raw.post().replace(b"Host: localhost", b"Host: evil.example"))
    assert (answer.status, answer.problem) == (421, "misdirected")
    assert connection.ask(raw.post()).status == 200


def test_configured_names():
    with Daemon("--hosts", "attention.example,*.inner.example") as running, \
            raw.Connection(running.port) as opened:
        for host in ("attention.example", "x.inner.example:8080", "localhost"):
            assert opened.ask(named(host)).status == 200
        assert opened.ask(named("inner.example")).status == 421


# ---- pages ----

def test_calls_of_foreign_pages(connection):
    answer = connection.ask(raw.post(raw.BODY, f"Origin: {FOREIGN}"))
    assert (answer.status, answer.problem) == (421, "misdirected")
    assert b"cors_origins" in answer.body
    assert connection.ask(raw.post(raw.BODY, "Origin: null")).status == 421


def test_foreign_pages_may_look_and_not_read(connection):
    answer = connection.ask(raw.get("/v1", f"Origin: {FOREIGN}"))
    assert answer.status == 200
    assert "access-control-allow-origin" not in answer.headers


def test_pages_of_its_own(daemon):
    host = f"attention:{daemon.port}"
    with raw.Connection(daemon.port) as opened:
        call = raw.post(raw.BODY, f"Origin: http://{host}")
        assert opened.ask(call).status == 421
        assert opened.ask(call.replace(b"Host: localhost", f"Host: {host}".encode())).status == 200
        assert opened.ask(raw.post(raw.BODY, "Origin: http://localhost:3000")).status == 200


def test_origins_that_are_allowed():
    with Daemon("--cors-origins", FOREIGN) as running, raw.Connection(running.port) as opened:
        assert opened.ask(raw.post(raw.BODY, f"Origin: {FOREIGN}")).status == 200


# ---- operators' addresses ----

@pytest.fixture(scope="module")
def ops():
    """(the port for all, the operators' port)"""
    port = free_port()
    with Daemon("--ops-listen", f"127.0.0.1:{port}") as running:
        yield running.port, port


@pytest.mark.parametrize("path, everyone, operators", (
    ("/healthz", 200, 200), ("/readyz", 200, 200), ("/v2/health/live", 200, 200),
    ("/metrics", 404, 200), ("/v1", 200, 404), ("/openapi.yaml", 200, 404), ("/docs", 200, 404),
    ("/v2/models", 200, 404), ("/nowhere", 404, 404)))
def test_what_is_where(ops, path, everyone, operators):
    for port, status in zip(ops, (everyone, operators)):
        with raw.Connection(port) as opened:
            assert opened.ask(raw.get(path)).status == status
            assert opened.ask(named("evil.example", "/healthz")).status == 200


def test_operators_do_not_compute(ops):
    with raw.Connection(ops[1]) as opened:
        assert opened.ask(raw.post()).status == 404


def test_many_connections_at_both(ops):
    """Which address a connection came to is known of each of many that come at once."""
    opened = [raw.Connection(port) for _ in range(60) for port in ops]
    for connection in opened:
        connection.send(raw.get("/metrics"))
    statuses = [connection.answer().status for connection in opened]
    for connection in opened:
        connection.socket.close()
    assert statuses == [404, 200] * 60


def test_operators_are_let_in_when_all_connections_are_taken():
    port = free_port()
    with Daemon("--ops-listen", f"127.0.0.1:{port}", "--max-connections", "64") as running:
        running.client.close()
        taken = [raw.Connection(running.port) for _ in range(100)]
        for connection in taken[:64]:
            connection.send(raw.get("/healthz")[:-1])
        for _ in range(10):
            with raw.Connection(port, timeout=5) as opened:
                assert opened.ask(raw.get("/healthz")).status == 200
        for connection in taken:
            connection.socket.close()


def test_no_address_waits_for_another(tmp_path):
    """One that always has connections to take leaves some to the others."""
    with Daemon("--max-connections", "64", "--io-threads", "1",
                path=tmp_path / "a.sock") as running:
        running.client.close()
        running.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, running.process.pid, os.WSTOPPED | os.WNOWAIT)
        waiting = [raw.Connection(running.port) for _ in range(100)]
        with socket.socket(socket.AF_UNIX) as other:
            other.settimeout(5)
            other.connect(str(tmp_path / "a.sock"))
            other.sendall(raw.get("/healthz"))
            running.process.send_signal(signal.SIGCONT)
            assert other.recv(12) == b"HTTP/1.1 200"
        for connection in waiting:
            connection.socket.close()
