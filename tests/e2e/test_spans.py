# SPDX-License-Identifier: Apache-2.0
"""Spans that a collector gets: what is in them, and that one that takes none harms nobody."""
import signal
import socket
import subprocess
import time
import zlib

import numpy as np
import pytest
from support import raw
from support.client import pack
from support.collector import Collector, Odd
from support.daemon import BINARY, Daemon, environment, free_port

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SENT, DROPPED = "attention_trace_spans_sent_total", "attention_trace_spans_dropped_total"
STAGES = ["read", "decode", "queue", "compute", "encode", "write"]
SERVER, INTERNAL = 2, 1


@pytest.fixture(scope="module")
def collector():
    with Collector() as running:
        yield running


@pytest.fixture(scope="module")
def server(collector):
    with Daemon("--otlp-endpoint", collector.url) as daemon:
        yield daemon


def ask(daemon, request):
    with raw.Connection(daemon.port) as connection:
        return connection.ask(request)


def traced(collector, daemon, name, request):
    """The spans of a request that calls itself `name`, and its answer."""
    answer = ask(daemon, request)
    raw.until(lambda: collector.of(name) is not None)
    return *collector.of(name), answer


def check_nesting(span, children):
    """Stages follow each other within their request."""
    ends = span.began
    for child in children:
        assert child.trace == span.trace and child.kind == INTERNAL
        assert ends <= child.began <= child.ended
        ends = child.ended
    assert ends <= span.ended
    assert abs(span.ended / 1e9 - time.time()) < 20
    ids = [one.id for one in (span, *children)]
    assert len(set(ids)) == len(ids) and all(len(bytes.fromhex(one)) == 8 for one in ids)


def test_a_small_call(collector, server):
    span, children, answer = traced(collector, server, "small", raw.post(
        raw.BODY, "X-Request-Id: small", f"traceparent: 00-{TRACE}-{PARENT}-01",
        "tracestate: congo=t61rcWkgMzE, rojo=1"))
    assert answer.headers["traceparent"] == f"00-{TRACE}-{span.id}-01"
    assert (span.trace, span.parent, span.kind) == (TRACE, PARENT, SERVER)
    assert span.name == "POST /v1/attention" and "status" not in span.item
    assert span.item["traceState"] == "congo=t61rcWkgMzE, rojo=1"
    assert [child.name for child in children] == STAGES
    check_nesting(span, children)
    kernel = span.attributes.pop("attentiond.kernel")
    assert kernel.split("-")[0] in ("decode", "fused", "blas")
    assert span.attributes == {
        "http.request.method": "POST", "http.route": "/v1/attention", "url.path": "/v1/attention",
        "http.response.status_code": 200, "http.request.body.size": len(raw.BODY),
        "http.response.body.size": len(answer.body), "attentiond.request_id": "small",
        "attentiond.shape": "to 128 keys"}
    assert span.resource["service.name"] == "attentiond"
    assert span.resource["service.version"] == server.client.get("/v1").json["version"]
    assert span.resource["host.name"] == socket.gethostname()


def test_a_large_call_that_waits(collector, server):
    """Its body is decoded by a worker, and it waits before that and after."""
    tensor = np.ones((4, 700, 64), np.float32)
    body, kind = pack(tensor, tensor, tensor, wire="flat")
    request = raw.post(zlib.compress(body, 1), "X-Request-Id: large",
                       "Content-Encoding: deflate").replace(b"application/json", kind.encode())
    span, children, _ = traced(collector, server, "large", request)
    names = [child.name for child in children]
    assert names[0] == "read" and names[-3:] == ["compute", "encode", "write"]
    assert names.count("queue") >= 2 and names.count("compute") == 1
    check_nesting(span, children)
    assert span.parent is None and span.attributes["attentiond.shape"] == "to 1,024 keys"


def test_what_is_refused(collector, server):
    span, children, _ = traced(collector, server, "refused",
                               raw.get("/nowhere", "X-Request-Id: refused"))
    assert (span.name, children) == ("GET", [])
    assert span.attributes["attentiond.problem"] == "not-found"
    assert "http.route" not in span.attributes and "status" not in span.item


def test_a_strange_method_and_path(collector, server):
    span, _, _ = traced(collector, server, "odd", raw.get(
        "/%ff%fe", "X-Request-Id: odd", "tracestate: lost=1", method="BREW"))
    assert span.name == "HTTP" and span.attributes["http.request.method"] == "_OTHER"
    assert "url.path" not in span.attributes and "traceState" not in span.item
    assert span.attributes["error.type"] == "501" and span.item["status"] == {"code": 2}


def test_what_takes_too_long_is_an_error(collector, server):
    long = np.ones((4, 4000, 64), np.float32)
    body, kind = pack(long, long, long, {"kernel": "reference", "timeout_ms": 100})
    request = raw.post(body, "X-Request-Id: late").replace(b"application/json", kind.encode())
    span, _, answer = traced(collector, server, "late", request)
    assert (answer.status, span.item["status"]) == (504, {"code": 2})
    assert span.attributes["error.type"] == "504"
    assert span.attributes["attentiond.problem"] == answer.problem


def test_the_caller_may_say_no(collector, server):
    answer = ask(server, raw.post(raw.BODY, "X-Request-Id: unsampled",
                                  f"traceparent: 00-{TRACE}-{PARENT}-00"))
    assert answer.headers["traceparent"].endswith("-00")
    traced(collector, server, "behind", raw.get("/v1", "X-Request-Id: behind"))
    assert collector.of("unsampled") is None


def test_requests_of_otlp(collector, server):
    traced(collector, server, "wire", raw.get("/v1", "X-Request-Id: wire"))
    raw.until(lambda: raw.samples(server.client)[SENT] > 0)
    for path, headers, _ in collector.requests:
        assert (path, headers["Content-Type"]) == ("/v1/traces", "application/json")
        assert headers["User-Agent"].startswith("attentiond/") and "Expect" not in headers
    assert raw.samples(server.client)[DROPPED] == 0


def test_a_sample(collector):
    with Daemon("--otlp-endpoint", collector.url + "/v1/traces/", "--otlp-sample", "0") as daemon:
        answer = ask(daemon, raw.get("/v1", "X-Request-Id: zero"))
        assert answer.headers["traceparent"].endswith("-00")
        traced(collector, daemon, "told", raw.get(
            "/v1", "X-Request-Id: told", f"traceparent: 00-{TRACE}-{PARENT}-01"))
        assert collector.of("zero") is None
    assert {path for path, _, _ in collector.requests} == {"/v1/traces"}


def test_sigterm_sends_what_is_left(collector):
    with Daemon("--otlp-endpoint", collector.url) as daemon:
        for i in range(300):
            ask(daemon, raw.get("/v1", f"X-Request-Id: last-{i}"))
        daemon.process.send_signal(signal.SIGTERM)
        assert daemon.process.wait(20) == 0
        assert all(collector.of(f"last-{i}") for i in (0, 127, 128, 299))


# ---- collectors that take nothing ----

def calls_are_fast(daemon, count=50):
    """No call waits for any collector; a timeout of one would be seconds."""
    longest = 0
    with raw.Connection(daemon.port) as connection:
        for _ in range(count):
            began = time.monotonic()
            assert connection.ask(raw.post()).status == 200
            longest = max(longest, time.monotonic() - began)
    return longest < 1


def ends_soon(daemon):
    began = time.monotonic()
    daemon.process.send_signal(signal.SIGTERM)
    assert daemon.process.wait(20) == 0
    return time.monotonic() - began < 4


def test_a_libcurl_that_cannot_be_loaded_says_why(tmp_path):
    for name in ("libcurl-gnutls.so.4", "libcurl.so.4"):
        (tmp_path / name).write_bytes(b"no library")
    refused = subprocess.run(
        [BINARY, "--otlp-endpoint", "http://127.0.0.1:4318", "--check-config"], text=True,
        capture_output=True, env={**environment(), "LD_LIBRARY_PATH": str(tmp_path)})
    assert refused.returncode == 2
    assert f"cannot be loaded: {tmp_path}/libcurl-gnutls.so.4: " in refused.stderr
    assert f"; {tmp_path}/libcurl.so.4: " in refused.stderr


def test_no_collector():
    with Daemon("--otlp-endpoint", f"http://127.0.0.1:{free_port()}") as daemon:
        assert calls_are_fast(daemon)
        raw.until(lambda: raw.samples(daemon.client)[DROPPED] >= 50 * 7)
        assert raw.samples(daemon.client)[SENT] == 0
        assert calls_are_fast(daemon) and ends_soon(daemon)
        assert daemon.output().count("spans are dropped") == 1


@pytest.mark.parametrize("status, tries", ((400, 1), (503, 3)))
def test_one_that_refuses(status, tries):
    with Collector(status) as collector, Daemon("--otlp-endpoint", collector.url) as daemon:
        assert calls_are_fast(daemon, 1)
        raw.until(lambda: raw.samples(daemon.client)[DROPPED] >= 7)
        assert raw.samples(daemon.client)[SENT] == 0
        bodies = [body for _, _, body in collector.requests]
        assert bodies[:tries] == bodies[:1] * tries and f"it answered {status}" in daemon.output()
        collector.status = 200
        calls_are_fast(daemon, 1)
        raw.until(lambda: raw.samples(daemon.client)[SENT] >= 7)
        assert "spans are sent again" in daemon.output()


def test_one_that_hangs():
    """The queue fills while it holds a batch, and what comes then is dropped at once."""
    with Collector(hangs=True) as collector, Daemon("--otlp-endpoint", collector.url) as daemon:
        calls_are_fast(daemon, 1)
        raw.until(lambda: collector.requests)
        with raw.Connection(daemon.port) as connection:
            for _ in range(30):
                connection.send(raw.get("/healthz") * 100)
                assert all(connection.answer().status == 200 for _ in range(100))
        assert raw.samples(daemon.client)[DROPPED] > 100
        assert calls_are_fast(daemon) and ends_soon(daemon)


def endless(piece):
    """Until nobody listens any more."""
    def pieces(closing):
        yield b"HTTP/1.1 200 OK\r\n"
        while not closing.is_set():
            yield piece
    return pieces


def trickle(closing):
    for byte in b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 100:
        yield bytes([byte])
        closing.wait(0.1)


def late(closing):
    closing.wait(1)
    yield b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


ODD = {  # what they answer, and whether the spans count as sent
    "nothing": (lambda _: [], False),
    "no HTTP": (lambda _: [b"\0\1\2 what?\r\n\r\n"], False),
    "HTTP/2": (lambda _: [b"HTTP/2 200\r\n\r\n"], True),
    "half a head": (lambda _: [b"HTTP/1.1 200 OK\r\nContent-"], True),
    "less than it says": (lambda _: [b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}"], False),
    "bad chunks": (lambda _: [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz"], False),
    "elsewhere": (lambda _: [b"HTTP/1.1 307 Go\r\nLocation: http://127.0.0.1:1/\r\n"
                             b"Content-Length: 0\r\n\r\n"], False),
    "a page": (lambda _: [b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>"], True),
    "late": (late, True),
    "a head without end": (endless(b"X-A: " + b"a" * 65536 + b"\r\n"), False),
    "a body without end": (endless(b"\r\n" + b"a" * 65536), False),
    "a byte at a time": (trickle, False),
}


@pytest.mark.parametrize("name", ODD)
def test_one_that_answers_oddly(name):
    """No call waits, and the daemon is as before; at its end it waits no longer than for others."""
    pieces, counts = ODD[name]
    with Odd(pieces) as collector, Daemon("--otlp-endpoint", collector.url) as daemon:
        assert calls_are_fast(daemon, 3)
        raw.until(lambda: raw.samples(daemon.client)[SENT if counts else DROPPED] >= 3 * 7)
        assert raw.samples(daemon.client)[DROPPED if counts else SENT] == 0
        assert calls_are_fast(daemon, 3) and ends_soon(daemon)


# ---- what is refused ----

@pytest.mark.parametrize("url", ("collector:4318", "ftp://a", "http://", "http:///v1", "http://:80",
                                 "http://a b", "http://user:word@a", "https://a?x=1", "http://a#x"))
def test_addresses_that_are_none(url):
    checked = subprocess.run([BINARY, "--check-config", "--otlp-endpoint", url], env=environment(),
                             capture_output=True, text=True, check=False)
    assert checked.returncode == 2
    assert f'otlp_endpoint: "{url}" is no address of a collector; write http://' in checked.stderr
