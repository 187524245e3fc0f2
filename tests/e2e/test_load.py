# SPDX-License-Identifier: Apache-2.0
"""Many requests over 64 connections, half of them malformed on every level: framing, head, path,
method, length, body. Every answer is the documented one, the gauges return to where they were, and
neither descriptors nor memory grow. ATTENTIOND_LOAD sets their number.
"""
import asyncio
import gzip
import json
import os
import random

import load
from support import raw
from support.daemon import BINARY, Daemon

REQUESTS = int(os.environ.get("ATTENTIOND_LOAD", "20000"))
CONNECTIONS = 64
GROWTH = 64 << 20  # pools and allocator caches fill up; a leaked kilobyte per request would show
TWICE = f"Content-Length: {len(raw.BODY)}"

PACKED = gzip.compress(raw.BODY)

GOOD = [(200, None, request) for request in (
    raw.post(), raw.get(), raw.get("/v1"), raw.post(path="/v1/attention?scale=1"),
    raw.post(raw.BODY + b" " * 70_000),
    raw.post(PACKED, "Content-Encoding: gzip", "Accept-Encoding: gzip"),
    raw.post(gzip.compress(raw.BODY + b" " * 260_000), "Content-Encoding: gzip"))]
BAD = [
    (400, "malformed", raw.post(raw.BODY[:-1])),
    (400, "malformed", raw.post(b"")),
    (400, "bad-framing", raw.post(raw.BODY, TWICE)),
    (400, "bad-framing", raw.get("/v1", "Content-Length: 3") + b"abc"),
    (404, "not-found", raw.post(path="/v1/attend")),
    (405, "method-not-allowed", raw.get("/v1/attention")),
    (406, "not-acceptable", raw.post(raw.BODY, "Accept: text/html")),
    (413, "body-too-large", raw.post(b" " * 300_000)),
    (413, "body-too-large", raw.post(b"", length=1 << 50)),
    (415, "unsupported-media-type", raw.post(raw.BODY, "Content-Encoding: br")),
    (415, "unsupported-media-type", raw.post(PACKED)),
    (400, "malformed", raw.post(PACKED[:-1], "Content-Encoding: gzip")),
    (400, "malformed", raw.post(PACKED + b"1", "Content-Encoding: gzip")),
    (413, "body-too-large", raw.post(gzip.compress(b" " * 300_000), "Content-Encoding: gzip")),
    (422, "unknown-field", raw.post(b'{"query":[[1]]}')),
    (422, "bad-shape", raw.post(raw.BODY.replace(b'"k":[[1,0],[0,1]]', b'"k":[[1,0,0]]'))),
    (504, "deadline-exceeded", raw.post(b'{"timeout_ms":1,' + raw.BODY[1:-1] + b" " * 200_000 +
                                        b"}")),
]


class Case:
    def __init__(self, status, problem, request):
        self.status, self.problem, self.request = status, problem, request

    def judge(self, status, body):
        if self.problem == "deadline-exceeded" and status == 200:
            return  # a fast machine
        assert status == self.status, f"{status}: {body[:300]} for {self.request[:200]}"
        if self.problem:
            assert json.loads(body)["type"].rsplit("/", 1)[-1] == self.problem


async def storm(port, count):
    generator = random.Random(1)
    kinds = [[Case(*row) for row in GOOD], [Case(*row) for row in BAD]]
    requests = iter(range(count))

    def choose():
        return generator.choice(generator.choice(kinds))

    await asyncio.gather(*(load.one_client(port, requests, choose) for _ in range(CONNECTIONS)))


def test_load():
    with Daemon("--max-body", "256KiB", "--json-max-body", "256KiB", "--log", "off") as daemon:
        asyncio.run(storm(daemon.port, REQUESTS // 10))  # fills pools and caches
        raw.until(lambda: raw.samples(daemon.client)["attention_http_connections"] == 1 and
                  raw.samples(daemon.client)["attention_in_flight_bytes"] == 0)
        before, gauges = raw.samples(daemon.client), load.load_gauges(daemon.client)
        asyncio.run(storm(daemon.port, REQUESTS))
        load.settles(daemon.client, gauges)
        raw.until(lambda: raw.samples(daemon.client)["process_open_fds"] <=
                  before["process_open_fds"])
        after = raw.samples(daemon.client)
        assert after["attention_in_flight_bytes"] == 0
        assert after["process_threads"] == before["process_threads"]
        grown = after["process_resident_memory_bytes"] - before["process_resident_memory_bytes"]
        assert grown < GROWTH or "san/" in BINARY  # sanitizers keep what was freed
