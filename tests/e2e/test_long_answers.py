# SPDX-License-Identifier: Apache-2.0
"""Answers whose text takes long, of calls that compute nothing: others are served meanwhile, the
call itself does not count as waiting, and what nobody waits for ends."""
import json
import os
import socket
import struct
import threading
import time

import pytest
from support import raw
from support.daemon import Daemon

ROWS = 25_000_000  # of nothing each: hundreds of megabytes of brackets
PLAIN = b'{"q":[[1,0]],"k":[[1,0],[0,1]],"v":[[10,20],[30,40]]}'


def request():
    """A merge of parts whose outputs have no elements, answered as nested lists."""
    header = {"__metadata__": {"attention": json.dumps({"encoding": "nested"})}}
    for name, shape in (("outputs", [2, ROWS, 1, 0, 1]), ("lses", [2, ROWS, 1, 0])):
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [0, 0]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    body = struct.pack("<Q", len(text)) + text
    return (b"POST /v1/merge HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n"
            b"Content-Type: application/vnd.safetensors\r\n"
            b"Content-Length: %d\r\n\r\n" % len(body)) + body


@pytest.fixture
def daemon():
    with Daemon("--queue-timeout", "200ms", "--threads", "2") as running:
        yield running


def metric(daemon, name):
    lines = daemon.client.get("/metrics").body.decode().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(name + " ")))


def test_others_are_served_while_text_is_made(daemon):
    connections = [socket.create_connection(("127.0.0.1", daemon.port), 120) for _ in range(2)]
    beginnings = []
    threads = [threading.Thread(target=lambda c=connection: beginnings.append(c.recv(12)))
               for connection in connections]
    for connection, thread in zip(connections, threads, strict=True):
        connection.sendall(request())
        thread.start()
    raw.until(lambda: metric(daemon, "attention_http_requests_in_flight") >= 3)
    served = 0
    while any(thread.is_alive() for thread in threads):
        answer = daemon.client.send("POST", "/v1/attention", PLAIN,
                                    {"Content-Type": "application/json"})
        assert answer.status == 200, answer.body
        served += 1
        time.sleep(0.01)
    for connection, thread in zip(connections, threads, strict=True):
        thread.join()
        connection.close()
    assert beginnings == [b"HTTP/1.1 200"] * 2  # they waited for nobody: their text was being made
    assert served > 10


def processor_seconds(daemon):
    with open(f"/proc/{daemon.process.pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_text_that_nobody_waits_for_is_not_finished(daemon):
    daemon.client.get("/healthz")
    before = processor_seconds(daemon)
    connection = raw.Connection(daemon.port)
    connection.send(request())
    raw.until(lambda: processor_seconds(daemon) - before > 0.03)
    connection.close()

    def is_quiet():
        begin = processor_seconds(daemon)
        time.sleep(0.2)
        return processor_seconds(daemon) - begin < 0.05
    raw.until(is_quiet)
    assert processor_seconds(daemon) - before < 0.25  # the whole takes half a second
