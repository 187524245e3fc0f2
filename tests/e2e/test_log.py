# SPDX-License-Identifier: Apache-2.0
"""The log when nobody reads it, and lines that a client makes as long as it can."""
import json
import os
import signal
import subprocess

import pytest
from support import raw
from support.client import Client
from support.daemon import BINARY, bound, environment, free_port

PIPE_BUF = 4096


@pytest.fixture
def unread():
    """A daemon whose standard error output is a pipe: (its client, the reading end)."""
    port, (reading, writing) = free_port(), os.pipe()
    command = [BINARY, "--listen", f"127.0.0.1:{port}", "--drain-timeout", "3s"]
    process = subprocess.Popen(bound(command), stdout=subprocess.DEVNULL, stderr=writing,
                               env=environment())
    os.close(writing)
    client = Client(port)

    def is_ready():
        try:
            return client.get("/readyz").status == 200
        except OSError:
            client.close()
            return False
    raw.until(is_ready)
    yield client, reading, process
    client.close()
    process.kill()
    process.wait()
    os.close(reading)


def lost(client):
    lines = client.get("/metrics").body.decode().splitlines()
    return float(next(line.split()[1] for line in lines
                      if line.startswith("attention_log_lines_lost_total ")))


def read_until(reading, what):
    """What is read until it holds `what`: a line is written behind its answer."""
    text = b""
    while what not in text:
        text += os.read(reading, 1 << 20)
    return text


def test_nobody_waits_for_who_reads_the_log(unread):
    client, reading, process = unread
    for _ in range(600):  # a pipe holds some two hundred lines
        assert client.get("/v1").status == 200
    few = lost(client)
    assert few > 100
    whole = os.read(reading, 1 << 20)
    assert whole.endswith(b"}\n")  # none was cut
    for line in whole.splitlines():
        json.loads(line)
    assert client.get("/v1").status == 200
    read_until(reading, b'"path":"/v1"')  # it goes on
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=20) == 0


def test_it_ends_while_nobody_reads(unread):
    client, _, process = unread
    for _ in range(600):
        client.get("/v1")
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=20) == 0


def test_a_line_fits_a_pipe_whatever_a_client_writes(unread):
    client, reading, _ = unread
    ugly = '"\\' * 1500
    with raw.Connection(client.port) as opened:
        opened.send((f"POST /v1/attention/{ugly} HTTP/1.1\r\nHost: a\r\nContent-Type: {ugly}\r\n"
                     f"X-Request-Id: {'i' * 100}\r\nContent-Length: 0\r\n\r\n").encode())
        assert opened.answer().status == 404
    text = read_until(reading, b"...")
    lines = text.splitlines()
    assert text.endswith(b"}\n") and max(map(len, lines)) < PIPE_BUF
    cut = [json.loads(line) for line in lines if b"..." in line]
    assert len(cut) == 1 and cut[0]["path"].startswith('/v1/attention/"\\"')
