# SPDX-License-Identifier: Apache-2.0
"""HTTP around the calls: methods, ids, timing, refusals before and after the body, keep-alive."""
import json
import re

import pytest
from support import raw
from support.daemon import Daemon

GETS = ("/", "/v1", "/healthz", "/readyz", "/metrics", "/openapi.yaml", "/docs")


@pytest.fixture
def connection(daemon):
    with raw.Connection(daemon.port) as opened:
        yield opened


@pytest.mark.parametrize("path", GETS)
def test_get_and_head(path, connection):
    answer = connection.ask(raw.get(path))
    assert answer.status == 200
    head = connection.ask(raw.get(path, method="HEAD"), has_body=False)
    assert head.status == 200
    assert head.headers["content-type"] == answer.headers["content-type"]
    if path not in ("/metrics",):  # its text grows
        assert head.headers["content-length"] == answer.headers["content-length"]
    assert connection.ask(raw.get("/healthz")).body == b"ok\n"


@pytest.mark.parametrize("path, allow", (*((path, "GET") for path in GETS),
                                         ("/v1/attention", "POST")))
def test_methods(path, allow, connection):
    options = connection.ask(raw.get(path, method="OPTIONS"))
    assert (options.status, options.headers["allow"]) == (204, allow)
    wrong = ("DELETE", "PUT", "TRACE", "GET" if allow == "POST" else "POST")
    for method in wrong:
        answer = connection.ask(raw.get(path, "Content-Length: 0", method=method))
        assert (answer.status, answer.problem) == (405, "method-not-allowed")
        assert answer.headers["allow"] == allow


def test_options_of_the_whole_server(connection):
    answer = connection.ask(raw.get("*", method="OPTIONS"))
    assert (answer.status, answer.body) == (204, b"")
    assert set(answer.headers["allow"].split(", ")) == {"GET", "POST", "PUT", "DELETE"}
    for path, method in (("*", "GET"), ("%2a", "OPTIONS"), ("/*", "OPTIONS")):
        answer = connection.ask(raw.get(path, method=method))
        assert (answer.status, answer.problem) == (404, "not-found")


@pytest.mark.parametrize("path", ("/v1/", "/V1", "//v1", "/v1/../v1", "/v1%2fattention",
                                  "/v1/attention%00", "/%C0%AE", "/v1/attention/x"))
def test_paths_are_exact(path, connection):
    answer = connection.ask(raw.get(path))
    assert (answer.status, answer.problem) == (404, "not-found")
    assert connection.ask(raw.get("/healthz")).status == 200


@pytest.mark.parametrize("given", ("abc-DEF_1.2:3", "a" * 128))
def test_a_sane_request_id_comes_back(given, connection):
    answer = connection.ask(raw.post(raw.BODY, f"X-Request-Id: {given}"))
    assert answer.headers["x-request-id"] == given
    assert json.loads(answer.body)["meta"]["id"] == given


@pytest.mark.parametrize("given", ("", "two words", "a" * 129, "semi;colon", '"', "é", "a\tb"))
def test_another_request_id_is_replaced(given, daemon):
    ids = set()
    for _ in range(2):
        with raw.Connection(daemon.port) as connection:
            answer = connection.ask(raw.get("/healthz", f"X-Request-Id: {given}"))
            ids.add(answer.headers["x-request-id"])
    assert len(ids) == 2
    assert all(re.fullmatch("[0-9a-f]{32}", generated) for generated in ids)


def test_the_problem_names_the_request(connection):
    answer = connection.ask(raw.post(b"{", "X-Request-Id: mine"))
    assert (answer.status, answer.problem) == (400, "malformed")
    assert json.loads(answer.body)["instance"] == "mine"


def test_server_timing(connection):
    timing = connection.ask(raw.post()).headers["server-timing"]
    stages = [entry.split(";")[0] for entry in timing.split(", ")]
    assert stages == ["read", "decode", "queue", "compute", "encode"]
    assert all(re.fullmatch(r"\w+;dur=\d+\.\d{3}", entry) for entry in timing.split(", "))


def test_pipelined_requests_are_answered_in_order(connection):
    """The first sleeps until a worker has computed it; the others wait behind it."""
    rows = [[1.0] * 64] * 300
    big = json.dumps({"q": rows, "k": rows, "v": rows}).encode()
    connection.send(raw.post(big, "X-Request-Id: first") +
                    b"".join(raw.get("/healthz", f"X-Request-Id: {n}") for n in range(50)))
    assert connection.answer().headers["x-request-id"] == "first"
    for n in range(50):
        answer = connection.answer()
        assert (answer.status, answer.headers["x-request-id"]) == (200, str(n))


def test_a_body_in_pieces(connection):
    request = raw.post()
    for cut in (1, 20, len(request) - 1):
        connection.send(request[:cut])
        assert connection.ask(request[cut:]).status == 200


def test_continue_is_asked_for_and_given(connection):
    head = raw.post(raw.BODY, "Expect: 100-continue")[:-len(raw.BODY)]
    assert connection.ask(head).status == 100
    assert connection.ask(raw.BODY).status == 200


def test_http_1_0(daemon):
    with raw.Connection(daemon.port) as connection:
        assert connection.ask(raw.get().replace(b"HTTP/1.1", b"HTTP/1.0")).status == 200
        assert connection.ended()


def test_options_in_the_query(connection):
    plain = json.loads(connection.ask(raw.post()).body)
    scaled = json.loads(connection.ask(raw.post(path="/v1/attention?scale=0.25")).body)
    assert scaled["meta"]["scale"] == 0.25
    assert plain["meta"]["scale"] != 0.25


@pytest.mark.parametrize("lines, status, problem", (
    (("Accept: text/html",), 406, "not-acceptable"),
    (("Content-Encoding: br",), 415, "unsupported-media-type"),
    (("Content-Encoding: identity, gzip",), 415, "unsupported-media-type"),
))
def test_refused_by_its_head(lines, status, problem, connection):
    for _ in range(2):  # the connection stays usable
        answer = connection.ask(raw.post(raw.BODY, *lines))
        assert (answer.status, answer.problem) == (status, problem)
        assert not answer.closes
    assert connection.ask(raw.post()).status == 200


def test_lines_of_one_list(connection):
    """As libraries send them that add headers one by one."""
    lines = ("Accept: text/html", "Accept: application/vnd.safetensors")
    answer = connection.ask(raw.post(raw.BODY, *lines))
    assert answer.headers["content-type"] == "application/vnd.safetensors"
    lines = ("Accept-Encoding: br", "Accept-Encoding: gzip")
    page = connection.ask(raw.get("/openapi.yaml", *lines))
    assert page.headers["content-encoding"] == "gzip"
    tags = ('If-None-Match: "other"', f"If-None-Match: {page.headers['etag']}")
    assert connection.ask(raw.get("/openapi.yaml", *lines, *tags)).status == 304


@pytest.mark.parametrize("codings", ("identity", "Identity", "IDENTITY, identity", ""))
def test_a_coding_that_changes_nothing(codings, connection):
    assert connection.ask(raw.post(raw.BODY, f"Content-Encoding: {codings}")).status == 200


@pytest.fixture(scope="module")
def limited():
    with Daemon("--max-body", "64KiB", "--json-max-body", "64KiB") as daemon:
        yield daemon


@pytest.mark.parametrize("expect", ((), ("Expect: 100-continue",)))
def test_too_large_by_its_length(expect, limited):
    """Refused from the head: no 100, and nothing of the body is waited for."""
    with raw.Connection(limited.port) as connection:
        connection.send(raw.post(b"", *expect, length=1 << 40))
        answer = connection.answer()
        assert (answer.status, answer.problem, answer.closes) == (413, "body-too-large", True)
        connection.socket.shutdown(1)
        assert connection.ended()


def test_too_large_and_short_enough_to_be_read(limited):
    with raw.Connection(limited.port) as connection:
        answer = connection.ask(raw.post(b" " * 100_000))
        assert (answer.status, answer.problem, answer.closes) == (413, "body-too-large", False)
        assert connection.ask(raw.post()).status == 200


def test_json_of_no_stated_type_is_refused_in_the_same_words():
    """The head does not tell that it is JSON, so that its lower limit is seen by the body."""
    body = raw.BODY + b" " * 5000
    with Daemon("--max-body", "64KiB", "--json-max-body", "4KiB") as daemon:
        said = [daemon.client.send("POST", "/v1/attention", body, {"Content-Type": kind})
                for kind in ("application/json", "application/x-www-form-urlencoded")]
    assert [answer.status for answer in said] == [413, 413]
    assert said[0].json["detail"] == said[1].json["detail"]
    assert said[1].json["limit"] == 4096 and "json_max_body" in said[1].json["detail"]


def test_a_client_that_sends_on_reads_the_refusal(limited):
    """20 MB are sent before the answer is looked at: no reset takes it away."""
    with raw.Connection(limited.port) as connection:
        connection.send(raw.post(b" " * 20_000_000))
        answer = connection.answer()
        assert (answer.status, answer.problem) == (413, "body-too-large")


def test_too_large_in_chunks(limited):
    head = raw.post(b"", "Transfer-Encoding: chunked").replace(b"Content-Length: 0\r\n", b"")
    with raw.Connection(limited.port) as connection:
        piece = b"4000\r\n" + b" " * 0x4000 + b"\r\n"
        answer = connection.ask(head + piece * 5 + b"0\r\n\r\n")
        assert (answer.status, answer.problem) == (413, "body-too-large")
        assert connection.ask(raw.post()).status == 200


def test_a_short_body_ends_with_its_connection(daemon, client):
    before = raw.samples(client)["attention_in_flight_bytes"]
    with raw.Connection(daemon.port) as connection:
        connection.send(raw.post(raw.BODY, length=len(raw.BODY) + 1000))
        raw.until(lambda: raw.samples(client)["attention_in_flight_bytes"] > before)
        connection.socket.shutdown(1)
        assert connection.answer() is None
    raw.until(lambda: raw.samples(client)["attention_in_flight_bytes"] == before)


def test_names_without_values(connection):
    assert connection.ask(raw.get("/healthz?a&b", "Cookie: a")).body == b"ok\n"


@pytest.mark.parametrize("option", ("scale=1%00", "scale%00=1"))
def test_a_nul_in_the_query(option, connection):
    answer = connection.ask(raw.post(path=f"/v1/attention?{option}"))
    assert (answer.status, answer.problem) == (400, "malformed")
