# SPDX-License-Identifier: Apache-2.0
"""Clients that end in the middle of a request, and connections beyond the limit: what they held
is free at once, long before any deadline.
"""
import socket

import pytest
from support import raw
from support.daemon import Daemon

CHUNKED = (b"POST /v1/attention HTTP/1.1\r\nHost: localhost\r\n"
           b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab")
ENDED = {"in the head": b"POST /v1/attention HTTP/1.1\r\nHo",
         "in a body": raw.post(b'{"q":', length=5000000),
         "in a chunk": CHUNKED}
CLIENTS = 40


@pytest.fixture(scope="module")
def daemon():
    """To which nobody else is connected."""
    with Daemon() as running:
        yield running


def others(daemon):
    """Connections, requests and bytes beside those of the question itself."""
    values = raw.samples(daemon.client)
    return (values["attention_http_connections"] - 1,
            values["attention_http_requests_in_flight"] - 1, values["attention_in_flight_bytes"])


@pytest.mark.parametrize("where", ENDED)
def test_an_end_that_comes_with_data_is_seen(where, daemon):
    for _ in range(CLIENTS):
        with socket.create_connection(("127.0.0.1", daemon.port)) as client:
            client.sendall(ENDED[where])
    raw.until(lambda: others(daemon) == (0, 0, 0), 8)


def test_an_end_after_a_whole_request_is_no_end(daemon):
    for _ in range(CLIENTS):
        with raw.Connection(daemon.port) as connection:
            connection.send(raw.post())
            connection.socket.shutdown(socket.SHUT_WR)
            assert connection.answer().status == 200


def test_a_pause_in_a_body_is_no_end(daemon):
    request = raw.post()
    with raw.Connection(daemon.port) as connection:
        connection.send(request[:-5])
        with pytest.raises(TimeoutError):
            connection.socket.settimeout(1.5)
            connection.answer()
        connection.socket.settimeout(20)
        connection.send(request[-5:])
        assert connection.answer().status == 200


def test_connections_beyond_the_limit_do_not_stop_it():
    with Daemon("--max-connections", "64") as daemon:
        for _ in range(4):
            connections = [raw.Connection(daemon.port, 2) for _ in range(70)]
            for connection in connections:
                connection.send(raw.get())
            assert connections[0].answer().status == 200
            for connection in connections:
                connection.socket.close()
            with raw.Connection(daemon.port, 5) as again:
                assert again.ask(raw.get()).status == 200


def busy_seconds(daemon):
    """What workers spent, once they have nothing left to do."""
    raw.until(lambda: others(daemon)[1:] == (0, 0))
    return raw.samples(daemon.client)["attention_worker_busy_seconds_total"]


def test_a_body_whose_client_has_gone_is_not_decoded_to_its_end(daemon):
    """A flat list of 100 MB and nothing else, so all that workers do is read it; numbers near a tie
    take longest. A client that goes is seen within a few hundredths of a second."""
    request = raw.post(b'{"q":[' + b"1.00000005960464477539062501," * 3_500_000 + b'0]}')
    before = busy_seconds(daemon)
    with raw.Connection(daemon.port) as connection:
        assert connection.ask(request).status == 422
    whole = busy_seconds(daemon) - before
    with raw.Connection(daemon.port) as connection:
        connection.send(request)
    spent = busy_seconds(daemon) - before - whole
    assert spent < whole / 2


@pytest.mark.parametrize("ms", [9223372036855, 2**63 - 1])
def test_a_deadline_beyond_the_clock_is_never(ms, daemon):
    with raw.Connection(daemon.port) as connection:
        body = raw.BODY[:-1] + b',"timeout_ms":%d}' % ms
        assert connection.ask(raw.post(body)).status == 200
