# SPDX-License-Identifier: Apache-2.0
"""Deadlines, budgets, queues and clients that leave, each with a daemon set up to show it.

The busy daemon has one worker and no inline calls, and `slow` keeps that worker busy for seconds.
"""
import io
import json
import socket
import struct
import time

import numpy as np
import pytest
from support import raw, safetensors
from support.client import JSON_TYPE, NPZ_TYPE, SAFETENSORS_TYPE, pack, pack_operands
from support.daemon import Daemon
from support.slow import rest, settled, slow

GONE = 'attention_http_requests_total{route="/v1/attention",method="POST",code="499"}'


@pytest.fixture(scope="module")
def busy():
    with Daemon("--threads", "1", "--inline-microseconds", "0", "--queue-work", "0") as daemon:
        yield daemon


@pytest.mark.parametrize("where", ("query", "body"))
def test_deadline_while_computing(where, busy):
    request = slow(timeout_ms=300) if where == "body" else \
        slow().replace(b"/v1/attention", b"/v1/attention?timeout_ms=300")
    begin = time.monotonic()
    with raw.Connection(busy.port, 60) as connection:
        settled(connection.ask(request), 504, "deadline-exceeded")
        assert 0.25 < time.monotonic() - begin < 5
        assert connection.ask(raw.get()).status == 200
    rest(busy)


def test_deadline_while_waiting(busy):
    with raw.Connection(busy.port, 60) as first, raw.Connection(busy.port, 60) as second:
        first.send(slow(timeout_ms=3000))
        raw.until(lambda: raw.samples(busy.client)["attention_in_flight_bytes"] > 0)
        begin = time.monotonic()
        settled(second.ask(slow(timeout_ms=200)), 504, "deadline-exceeded")
        assert time.monotonic() - begin < 2.5
        settled(first.answer(), 504, "deadline-exceeded")
    rest(busy)


@pytest.mark.parametrize("how", ("close", "reset"))
def test_a_client_that_leaves_stops_its_call(how, busy):
    before = raw.samples(busy.client).get(GONE, 0)
    connection = raw.Connection(busy.port)
    connection.send(slow(12288))
    raw.until(lambda: raw.samples(busy.client)["attention_in_flight_bytes"] > 0)
    if how == "reset":
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
    raw.until(lambda: raw.samples(busy.client).get(GONE, 0) == before + 1, 5)
    rest(busy)


def final(connection):
    """The interim answers before the answer, and it."""
    interim = []
    while (answer := connection.answer()) is not None and answer.status < 200:
        interim.append(answer.status)
    return interim, answer


@pytest.mark.parametrize("place", ("computing", "waiting"))
def test_a_client_that_ends_only_its_side_is_answered(place, busy):
    """Beside a connection that is idle or waits: one alone is treated with more patience."""
    with raw.Connection(busy.port, 60) as first, raw.Connection(busy.port, 60) as connection:
        if place == "waiting":
            first.send(slow(12288, timeout_ms=1500))
            raw.until(lambda: raw.samples(busy.client)["attention_in_flight_bytes"] > 0)
        connection.send(slow(2048))
        connection.socket.shutdown(socket.SHUT_WR)
        interim, answer = final(connection)
        assert (answer.status, set(interim)) == (200, {100})
        assert connection.ended()
    rest(busy)


def test_a_client_of_http_1_0_cannot_be_asked(busy):
    before = raw.samples(busy.client).get(GONE, 0)
    with raw.Connection(busy.port, 60) as connection:
        connection.send(slow(12288).replace(b"HTTP/1.1", b"HTTP/1.0"))
        connection.socket.shutdown(socket.SHUT_WR)
        raw.until(lambda: raw.samples(busy.client).get(GONE, 0) == before + 1, 5)
    rest(busy)


def test_short_calls_pass_a_long_one(busy):
    with raw.Connection(busy.port, 60) as long, raw.Connection(busy.port, 60) as short:
        long.send(slow(timeout_ms=4000))
        raw.until(lambda: raw.samples(busy.client)["attention_in_flight_bytes"] > 0)
        begin = time.monotonic()
        assert short.ask(raw.post()).status == 200
        assert time.monotonic() - begin < 2
    rest(busy)


def test_configured_deadline():
    with Daemon("--request-timeout", "300ms") as daemon, \
            raw.Connection(daemon.port, 60) as connection:
        settled(connection.ask(slow(12288)), 504, "deadline-exceeded")


def test_a_body_waits_for_bytes():
    """Two bodies that do not fit into the budget together: the second waits for the first."""
    budget = ("--memory-budget", "12MiB", "--max-body", "8MiB", "--json-max-body", "4MiB",
              "--max-result", "8MiB")
    with Daemon(*budget) as daemon:
        with raw.Connection(daemon.port, 60) as first, raw.Connection(daemon.port, 60) as second:
            whole = raw.post(b" " * (4 << 20))
            first.send(whole[:1000])
            raw.until(lambda: raw.samples(daemon.client)["attention_in_flight_bytes"] > 0)
            second.send(raw.post(raw.BODY))
            raw.until(lambda: raw.samples(daemon.client)["attention_queue_depth"] == 1)
            first.send(whole[1000:])
            assert first.answer().status == 400
            assert second.answer().status == 200
        rest(daemon)


def test_what_can_never_fit_is_not_to_be_tried_again():
    """The map's text needs more than the whole budget, though its numbers are within the limit."""
    empty = {"shape": [500, 0], "data": []}
    body = json.dumps({"q": empty, "k": empty, "v": empty, "weights": True, "encoding": "nested"})
    with Daemon("--memory-budget", "4MiB", "--max-result", "1MiB") as daemon, \
            raw.Connection(daemon.port) as connection:
        answer = connection.ask(raw.post(body.encode()))
        settled(answer, 413, "result-too-large")
        assert "retry-after" not in answer.headers


@pytest.mark.parametrize("wire", ["safetensors", "npz", "deflated npz"])
def test_json_inside_of_other_encodings_has_its_limit_and_its_price(wire):
    """A text of options may be as long as a body of JSON, and costs as much."""
    q = {name: np.ones((1, 1), np.float32) for name in "qkv"}
    save = np.savez_compressed if "deflated" in wire else np.savez

    def ask(client, elements):
        options = {"sink": [0] * elements}
        body, kind = pack_operands(q, options)
        if wire != "safetensors":
            file = io.BytesIO()
            save(file, **q, options=json.dumps(options).encode())
            body, kind = file.getvalue(), NPZ_TYPE
        return client.send("POST", "/v1/attention", body, {"Content-Type": kind}).json

    with Daemon("--memory-budget", "64MiB", "--max-body", "32MiB", "--json-max-body", "12MiB",
                "--max-result", "1MiB") as daemon:
        assert ask(daemon.client, 3)["type"] == "/problems/bad-value"
        for elements, limit in ((6 << 20, 12 << 20), (3900 << 10, 64 << 20)):
            problem = ask(daemon.client, elements)
            assert (problem["status"], problem["type"]) == (413, "/problems/body-too-large")
            assert problem["limit"] == limit, problem
        rest(daemon)


def test_beside_its_body_neither():
    """Answers and copied tensors that fit the budget, but not beside the body that asks for them:
    no waiting changes that. A body in JSON counts five times, for what decoding makes of it."""
    x = np.ones((1, 1, 400, 640), np.float32)
    body, stated = pack(x, x, x)
    length, = struct.unpack_from("<Q", body)
    misaligned = struct.pack("<Q", length + 1) + b"{ " + body[9:]
    lists, _ = pack(x[..., :256], x[..., :256], x[..., :256], wire="nested")
    assert len(body) < 4 << 20 < 5 * len(lists)
    with Daemon("--memory-budget", "4MiB", "--max-body", "4MiB", "--json-max-body", "4MiB",
                "--max-result", "4MiB") as daemon:
        for sent, kind, refusal in ((body, stated, "result-too-large"),
                                    (misaligned, stated, "body-too-large"),
                                    (lists, JSON_TYPE, "result-too-large")):
            answer = daemon.client.send("POST", "/v1/attention", sent, {"Content-Type": kind})
            problem = answer.json
            assert (answer.status, problem["type"]) == (413, f"/problems/{refusal}"), problem
            assert problem["limit"] == 4 << 20
            assert "Retry-After" not in answer.headers
        rest(daemon)


def test_a_client_may_leave_the_line_for_bytes():
    budget = ("--memory-budget", "12MiB", "--max-body", "8MiB", "--json-max-body", "4MiB",
              "--max-result", "8MiB", "--queue-timeout", "500ms")
    with Daemon(*budget) as daemon:
        with raw.Connection(daemon.port, 60) as first, raw.Connection(daemon.port, 60) as third:
            first.send(raw.post(b" " * (4 << 20))[:1000])
            raw.until(lambda: raw.samples(daemon.client)["attention_in_flight_bytes"] > 0)
            second = raw.Connection(daemon.port)
            second.send(raw.post())
            raw.until(lambda: raw.samples(daemon.client)["attention_queue_depth"] == 1)
            second.close()
            raw.until(lambda: raw.samples(daemon.client)["attention_queue_depth"] == 0, 5)
            answer = third.ask(raw.post())
            settled(answer, 503, "overloaded")
            assert answer.headers["retry-after"] == "1"
        rest(daemon)


@pytest.fixture(scope="module")
def hasty():
    with Daemon("--header-timeout", "400ms", "--body-timeout", "400ms", "--send-timeout", "400ms",
                "--idle-timeout", "1s") as daemon:
        yield daemon


def trickle(connection, data):
    """One byte at a time, until the other side has had enough; returns how long that took."""
    begin = time.monotonic()
    try:
        for byte in data:
            connection.send(bytes([byte]))
            time.sleep(0.05)
    except ConnectionError:
        pass
    return time.monotonic() - begin


def test_trickled_headers_are_refused(hasty):
    with raw.Connection(hasty.port) as connection:
        connection.send(b"GET /healthz HTTP/1.1\r\n")
        assert trickle(connection, b"X-Long: " + b"a" * 200) < 9
        assert connection.answer().status == 408


def test_a_trickled_first_line_is_cut(hasty):
    with raw.Connection(hasty.port) as connection:
        assert trickle(connection, b"GET /" + b"a" * 200) < 5
        assert connection.ended()


def test_trickled_headers_of_a_later_request_are_refused(hasty):
    with raw.Connection(hasty.port) as connection:
        assert connection.ask(raw.get()).status == 200
        connection.send(b"GET /healthz HTTP/1.1\r\n")
        assert trickle(connection, b"X-Long: " + b"a" * 200) < 9
        assert connection.answer().status == 408


def test_trickled_bodies_are_refused(hasty):
    with raw.Connection(hasty.port) as connection:
        connection.send(raw.post(b"", length=1000))
        assert trickle(connection, b" " * 300) < 9
        assert connection.answer().status == 408
    rest(hasty)


def test_slow_readers_are_cut(hasty):
    """The answer is larger than what sockets buffer, and nobody reads it."""
    with raw.Connection(hasty.port) as connection:
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        ones = np.ones((2048, 1), np.float32)
        body = safetensors.write({"q": ones, "k": ones, "v": ones},
                                 {"attention": '{"weights":true}'})
        connection.send(raw.post(body).replace(b"application/json", SAFETENSORS_TYPE.encode()))
        time.sleep(1)
        rest(hasty)


def test_idle_connections_are_closed(hasty):
    with raw.Connection(hasty.port) as connection:
        assert connection.ask(raw.get()).status == 200
        begin = time.monotonic()
        assert connection.ended()
        assert 0.8 < time.monotonic() - begin < 10


LONG_MASK = {"all": [{"type": "segments", "q": "ids"}] * 250}


def ask_few_tokens(daemon, mask=None):
    """A call about 300 tokens of one number: without a mask, microseconds."""
    q = np.ones((300, 1), np.float32)
    options, tensors = ({"mask": mask}, {"ids": np.arange(300) % 2}) if mask else ({}, {})
    body, kind = pack(q, q, q, options, tensors, "safetensors")
    return daemon.client.send("POST", "/v1/attention", body, {"Content-Type": kind})


def test_a_long_mask_is_not_evaluated_on_an_io_thread(daemon):
    """A call that no worker took has no wait to report."""
    assert ask_few_tokens(daemon).meta["timings_ms"]["queue"] == 0
    assert ask_few_tokens(daemon, LONG_MASK).meta["timings_ms"]["queue"] > 0


def test_a_long_mask_counts_toward_the_most_work():
    with Daemon("--max-flops", "100000000") as daemon:
        assert ask_few_tokens(daemon).status == 200
        refusal = ask_few_tokens(daemon, LONG_MASK)
        assert refusal.status == 413 and b"too-much-work" in refusal.body


FREE = {"dtype": "float32", "data": []}  # an axis of 0 makes the others cost their sender nothing


@pytest.mark.parametrize("Tq, Tk, options", [
    (2**28, 0, {}), (2**28, 0, {"kernel": "reference"}),
    (1, 2**40, {"kernel": "reference", "mask": {"type": "prefix", "length": 1}}),
], ids=str)
def test_calls_without_elements_keep_their_deadline(daemon, Tq, Tk, options):
    """Rows without scores and keys that are hidden take time too: such calls are the workers', not
    an I/O thread's, and end when they are told to."""
    body = {"q": {**FREE, "shape": [Tq, 0]}, "k": {**FREE, "shape": [Tk, 0]},
            "v": {**FREE, "shape": [Tk, 0]}, **options, "q_offset": 0, "timeout_ms": 300}
    begin = time.monotonic()
    answer = daemon.client.send("POST", "/v1/attention", json.dumps(body),
                                {"Content-Type": JSON_TYPE, "Accept": SAFETENSORS_TYPE})
    assert answer.status == 504, answer.body[:500]
    assert time.monotonic() - begin < 5
