#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Many small calls over many connections at once, half of them wrong on purpose and some of them
compressed: the case folders as load. Every answer must have the status that its folder documents,
an equal call must give equal bits whatever else runs, the gauges must return to where they were,
and the daemon must end well (a sanitizer's report prevents that).

    ATTENTIOND=build/tsan/attentiond tests/load.py --requests 4000 --connections 64
"""
import argparse
import asyncio
import gzip
import json
import random
import sys
import time

from support.daemon import Daemon
from support.folders import CASES

LARGEST_BODY = 4096
BLANKS = b" " * (300 << 10)  # so that a worker unpacks it
COMPARED = ("output", "weights", "scores", "lse", "stats", "col_sums")
HEAD = "POST /v1/attention HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


class Case:
    """A request as bytes, the status it must get, and the results of its first answer."""

    def __init__(self, folder):
        body = (folder / "request.json").read_bytes()
        self.name, self.results = folder.name, None
        self.request = f"{HEAD}Content-Length: {len(body)}\r\n\r\n".encode() + body
        self.packed = Packed(self, gzip.compress(body + BLANKS))
        error = folder / "error.json"
        self.status = json.loads(error.read_text())["status"] if error.exists() else 200

    def judge(self, status, body):
        assert status == self.status, f"{self.name}: {status}, expected {self.status}: {body[:500]}"
        answer = json.loads(body)
        if status != 200:
            assert answer["status"] == status, f"{self.name}: {body[:500]}"
            return
        results = {name: answer[name] for name in COMPARED if name in answer}
        self.results = self.results or results
        assert results == self.results, f"{self.name}: the same call gave other bits"


class Packed:
    """A case whose body comes compressed."""

    def __init__(self, case, body):
        self.judge = case.judge
        self.request = f"{HEAD}Content-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n" \
            .encode() + body


def wants_own_daemon(folder):
    """Cases of lower limits are no refusals by this daemon."""
    error = folder / "error.json"
    return error.exists() and "daemon" in json.loads(error.read_text())


def cases(kind):
    folders = sorted(path.parent for path in (CASES / kind).glob("*/request.json"))
    small = [f for f in folders if (f / "request.json").stat().st_size <= LARGEST_BODY
             and not wants_own_daemon(f)]
    assert small, f"no small case under {CASES / kind}"
    return [Case(folder) for folder in small]


async def answer_of(reader):
    """(status, body, whether the connection stays open)"""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    fields = dict(line.lower().split(": ", 1) for line in head[1:] if line)
    body = await reader.readexactly(int(fields["content-length"]))
    return int(head[0].split()[1]), body, fields.get("connection") != "close"


async def one_client(port, requests, choose):
    writer = None
    while next(requests, None) is not None:
        if writer is None:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        case = choose()
        writer.write(case.request)
        status, body, stays = await answer_of(reader)
        case.judge(status, body)
        if not stays:
            writer.close()
            writer = None
    if writer is not None:
        writer.close()


async def run(port, count, connections, seed):
    generator = random.Random(seed)
    kinds = [cases("valid"), cases("invalid")]

    def choose():
        case = generator.choice(generator.choice(kinds))
        return case.packed if generator.random() < 0.05 else case

    requests = iter(range(count))
    await asyncio.gather(*(one_client(port, requests, choose) for _ in range(connections)))


def samples(client):
    text = client.get("/metrics").body.decode()
    rows = (line.rsplit(" ", 1) for line in text.splitlines() if line and line[0] != "#")
    return {name: float(value) for name, value in rows}


def load_gauges(client):
    """What must be back where it was once nobody asks for anything any more."""
    words = ("in_flight", "queue_depth")
    found = {name: value for name, value in samples(client).items()
             if any(word in name for word in words)}
    assert found, f"/metrics has no gauge named after {words}"
    return found


def answered(client):
    return sum(value for name, value in samples(client).items()
               if name.startswith("attention_http_requests_total") and "/v1/attention" in name)


def settles(client, expected, seconds=10):
    """Gauges fall when the last byte has left, which may be after the client has read it."""
    deadline = time.monotonic() + seconds
    while (now := load_gauges(client)) != expected:
        assert time.monotonic() < deadline, f"gauges are {now}, expected {expected}"
        time.sleep(0.05)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=10000)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with Daemon("--queue-work", "0") as daemon:  # of slow builds much would be refused
        before, counted = load_gauges(daemon.client), answered(daemon.client)
        begin = time.monotonic()
        asyncio.run(run(daemon.port, asked.requests, asked.connections, asked.seed))
        took = time.monotonic() - begin
        settles(daemon.client, before)
        counted = answered(daemon.client) - counted
        assert counted == asked.requests, f"/metrics counted {counted} of {asked.requests} calls"
    print(f"{asked.requests} calls over {asked.connections} connections in {took:.1f} s: "
          "every answer as documented, gauges back, daemon ended well")
    return 0


if __name__ == "__main__":
    sys.exit(main())
