# SPDX-License-Identifier: Apache-2.0
"""Requests that do not arrive in time, or whose first line is too much: each is answered with a
problem document, and then its connection is closed."""
import json
import time

import pytest
from support import raw
from support.daemon import Daemon
from support.sentences import faults

MS = 400
BEFORE = raw.post(b"", "X-Request-Id: late", length=1000)
CHUNKS = (b"POST /v1/attention HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: late\r\n"
          b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nfff\r\n{\"q\":")
REFUSED = raw.post(b"", "X-Request-Id: late", "Content-Encoding: br", length=1000)
LATE = {"head": b"GET /healthz HTTP/1.1\r\nHost: loc", "body": BEFORE, "body in chunks": CHUNKS,
        "body of a refused head": REFUSED}


@pytest.fixture(scope="module")
def hasty():
    with Daemon("--header-timeout", f"{MS}ms", "--body-timeout", f"{MS}ms") as daemon:
        yield daemon


def held(daemon):
    values = raw.samples(daemon.client)
    return (values["attention_http_requests_in_flight"] - 1, values["attention_in_flight_bytes"],
            values["attention_http_connections"] - 1)


def assert_ends_with(connection, status, problem, limit):
    """The last answer; what stands behind the request is not executed."""
    answer = connection.answer()
    assert (answer.status, answer.problem, answer.closes) == (status, problem, True)
    document = json.loads(answer.body)
    assert (document["status"], document["limit"]) == (status, limit)
    assert not faults(document["detail"])
    assert document["instance"] == answer.headers["x-request-id"]
    assert answer.headers["date"].endswith(" GMT")
    assert connection.ended()
    return answer


@pytest.mark.parametrize("what", LATE)
@pytest.mark.parametrize("first", (True, False))
def test_a_stalled_request(what, first, hasty):
    begin = time.monotonic()
    with raw.Connection(hasty.port) as connection:
        if not first:
            assert connection.ask(raw.get()).status == 200
        connection.send(LATE[what])
        answer = assert_ends_with(connection, 408, "request-timeout", MS)
        assert ("body" in json.loads(answer.body)["detail"]) == (what != "head")
        if what != "head":
            assert answer.headers["x-request-id"] == "late"
        assert MS / 1000 - 0.05 < time.monotonic() - begin < 5
    raw.until(lambda: held(hasty) == (0, 0, 0), 5)


@pytest.mark.parametrize("what", LATE)
def test_a_client_that_sends_on_reads_the_answer(what, hasty):
    with raw.Connection(hasty.port) as connection:
        connection.send(LATE[what])
        begin = time.monotonic()
        while time.monotonic() - begin < 1.2:
            try:
                connection.send(b"a")
            except ConnectionError:
                break
            time.sleep(0.02)
        assert_ends_with(connection, 408, "request-timeout", MS)
    raw.until(lambda: held(hasty) == (0, 0, 0), 10)


def test_a_client_that_only_looks_away_is_let_go(hasty):
    """Neither reads nor sends nor closes: what it held is free soon after the answer."""
    with raw.Connection(hasty.port) as connection:
        connection.send(BEFORE)
        raw.until(lambda: held(hasty)[0] == 1)
        raw.until(lambda: held(hasty) == (0, 0, 0), 5)


def test_late_requests_are_logged_and_counted():
    with Daemon("--body-timeout", f"{MS}ms", "--header-timeout", f"{MS}ms") as daemon:
        for what in ("head", "body"):
            with raw.Connection(daemon.port) as connection:
                connection.send(LATE[what])
                assert connection.answer().status == 408
        raw.until(lambda: '"late"' in daemon.output(), 5)
        line = next(json.loads(line) for line in daemon.output().splitlines() if '"late"' in line)
        assert (line["status"], line["problem"]) == (408, "request-timeout")
        values = raw.samples(daemon.client)
        assert values['attention_rejections_total{reason="request-timeout"}'] == 2
        name = 'attention_http_requests_total{route="/v1/attention",method="POST",code="408"}'
        assert values[name] == 1


@pytest.mark.parametrize("sent", (b"", b"GET /healthz HT"))
def test_what_is_no_request_yet_is_cut(sent, hasty):
    with raw.Connection(hasty.port) as connection:
        connection.send(sent)
        assert connection.ended()


def test_a_question_mark_alone_is_no_option(daemon):
    with raw.Connection(daemon.port) as connection:
        assert connection.ask(raw.get("/healthz?")).status == 200


def query(count, option="a=1"):
    return "/v1?" + "&".join([option] * count)


@pytest.mark.parametrize("target, status, problem, limit", (
    (query(129), 400, "too-many-options", 128),
    (query(600), 400, "too-many-options", 128),
    (query(6000, ""), 400, "too-many-options", 128),
    ("/v1?" + "&" * 128 + "a", 400, "too-many-options", 128),
    ("/" + "a" * 8192, 414, "target-too-long", 8192),
    (query(3000), 414, "target-too-long", 8192),
    ("/v1?a=" + "%41" * 9000, 414, "target-too-long", 8192),
))
@pytest.mark.parametrize("method", ("GET", "POST"))
def test_a_first_line_that_is_too_much(method, target, status, problem, limit, daemon):
    request = raw.get(target, method=method) if method == "GET" else raw.post(path=target)
    begin = time.monotonic()
    with raw.Connection(daemon.port) as connection:
        assert connection.ask(raw.get()).status == 200
        connection.send(request + raw.get("/v1"))
        assert_ends_with(connection, status, problem, limit)
    assert time.monotonic() - begin < 5
    raw.until(lambda: held(daemon)[0] == 0, 5)


@pytest.mark.parametrize("target, status", ((query(128), 200), ("/" + "a" * 8191, 404),
                                            ("/v1?", 200), ("/v1?" + "a" * 8188, 200)))
def test_a_first_line_that_is_just_enough(target, status, daemon):
    with raw.Connection(daemon.port) as connection:
        for _ in range(2):
            assert connection.ask(raw.get(target)).status == status


def test_a_refused_first_line_before_a_long_body(daemon):
    """20 MB are sent before the answer is looked at: no reset takes it away."""
    with raw.Connection(daemon.port) as connection:
        try:
            connection.send(raw.post(b" " * 20_000_000, path=query(600)))
        except ConnectionError:
            pass
        answer = connection.answer()
        assert (answer.status, answer.problem) == (400, "too-many-options")


def test_a_refused_first_line_is_logged_and_counted():
    with Daemon() as daemon:
        with raw.Connection(daemon.port) as connection:
            answer = connection.ask(raw.get(query(600)))
        raw.until(lambda: answer.headers["x-request-id"] in daemon.output(), 5)
        line = next(json.loads(line) for line in daemon.output().splitlines()
                    if answer.headers["x-request-id"] in line)
        assert (line["status"], line["problem"]) == (400, "too-many-options")
        values = raw.samples(daemon.client)
        assert values['attention_rejections_total{reason="too-many-options"}'] == 1
