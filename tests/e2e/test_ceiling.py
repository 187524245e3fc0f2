# SPDX-License-Identifier: Apache-2.0
"""Memory at its limit: whatever is sent, by however many, the process takes no more than it had
when it was ready and its budget; and soon after the load it has given back nearly all. The rows of
the catalogue that are about size, beside bodies and answers that fill the budget. CEILING=4 has
each kind of them alone, for so many seconds."""
import gzip
import json
import os
import random
import threading
import time

import numpy as np
import pytest
from catalogue import json_bodies, resources, row
from stress import figures
from stress.life import settle
from support import raw, safetensors
from support.client import SAFETENSORS_TYPE, pack
from support.daemon import BINARY, Daemon

MIB = 1 << 20
BUDGET = 256 * MIB
SESSIONS = 64 * MIB
SHARE = 1.02  # of what it may have
KEPT = 8 * MIB  # of what it had when it was ready, soon after
SOON = 10  # seconds
CLIENTS = 12
CONNECTIONS = 700
SECONDS = int(os.environ.get("CEILING", "0"))

pytestmark = pytest.mark.skipif("san/" in BINARY, reason="a sanitizer has memory of its own")


def keys(generator, most=48):
    """A query over many keys: a large body and little work."""
    count = generator.randrange(1 << 10, most << 11)
    q = np.ones((1, 64), np.float32)
    k = np.ones((count, 64), np.float32)
    return row.typed(safetensors.write({"q": q, "k": k, "v": k}), SAFETENSORS_TYPE)


def numbers(generator):
    """Row 49: text that becomes many small numbers."""
    count = generator.randrange(1 << 12, 1 << 16)
    side = ",".join(["[" + ",".join(["1"] * 64) + "]"] * count)
    return raw.post(b'{"q":[[%s]],"k":[%s],"v":[%s]}' % (
        b",".join([b"1"] * 64), side.encode(), side.encode()))


def mixed_lists(generator):
    """Row 49 again, as a document of a million small values that is nothing else."""
    return raw.post(b'{"mask":[' + b"[1,{}]," * generator.randrange(1 << 16, 1 << 20) + b"0]}")


def packed(generator):
    body = keys(generator).split(b"\r\n\r\n", 1)[1]
    return row.typed(gzip.compress(body, 1), SAFETENSORS_TYPE, "Content-Encoding: gzip")


def bomb(generator):
    return row.typed(gzip.compress(bytes(generator.randrange(1 << 20, 1 << 29)), 1),
                     SAFETENSORS_TYPE, "Content-Encoding: gzip")


def maps(generator):
    count = generator.randrange(64, 2400)
    one = np.ones((count, 1), np.float32)
    body, kind = pack(one, one, one, {"weights": True})
    accept = generator.choice((SAFETENSORS_TYPE, "application/json", "application/x-npz"))
    return row.typed(body, kind, f"Accept: {accept}")


def of_rows(generator):
    """Rows 49, 50, 81 and 82."""
    return generator.choice((json_bodies.short_numbers(None), json_bodies.colliding(None),
                             resources.million(weights=True), resources.million(timeout_ms=300)))


KINDS = {function.__name__: function for function in (keys, numbers, mixed_lists, packed, bomb,
                                                      maps, of_rows)}


class Sender(threading.Thread):
    """Sends such requests until it is told to stop; any documented answer will do."""

    def __init__(self, port, kinds, seed):
        super().__init__()
        generator = random.Random(seed)
        self.requests = [generator.choice(kinds)(generator) for _ in range(2)]
        self.port, self.until, self.statuses = port, 0, []

    def run(self):
        connection = None
        while time.monotonic() < self.until:
            try:
                connection = connection or raw.Connection(self.port, 60)
                connection.send(random.choice(self.requests))
            except ConnectionError:
                pass  # refused before it had sent all; the answer may be there
            answer = connection.answer()
            self.statuses.append(answer and answer.status)
            if answer is None or answer.closes:
                connection.close()
                connection = None
        if connection:
            connection.close()


def fill(daemon, kinds):
    senders = [Sender(daemon.port, kinds, n) for n in range(CLIENTS)]
    until = time.monotonic() + (SECONDS or 2)
    for sender in senders:
        sender.until = until
        sender.start()
    for sender in senders:
        sender.join()
    return {status: sum(sender.statuses.count(status) for sender in senders)
            for status in {status for sender in senders for status in sender.statuses}}


def shrunk(pid, ready):
    """(resident bytes, seconds) once it has come down, or not in time."""
    begin = time.monotonic()
    while figures.resident(pid) > ready + KEPT and time.monotonic() < begin + SOON:
        time.sleep(0.1)
    return figures.resident(pid), time.monotonic() - begin


@pytest.mark.parametrize("kind", [*KINDS, "all"] if SECONDS else ["maps"])
def test_the_budget_is_the_ceiling(kind):
    kinds = [KINDS[kind]] if kind != "all" else list(KINDS.values())
    with Daemon("--memory-budget", str(BUDGET), "--log", "off") as daemon:
        pid = daemon.process.pid
        assert daemon.client.send("POST", "/v1/attention", raw.BODY, {
            "Content-Type": "application/json"}).status == 200
        ready = figures.resident(pid)
        figures.forget_peak(pid)
        statuses = fill(daemon, kinds)
        peak = figures.peak(pid)
        settle(daemon.client)
        at_once = figures.resident(pid)
        later, took = shrunk(pid, ready)
        print(f"\n{kind}: ready {ready / MIB:.0f} MiB, at most {(peak - ready) / MIB:.0f} more "
              f"({peak / (ready + BUDGET):.1%} of the ceiling), {(at_once - ready) / MIB:.0f} more "
              f"at its end, {(later - ready) / MIB:.0f} after {took:.1f} s; {json.dumps(statuses)}")
        assert peak <= SHARE * (ready + BUDGET)
        assert later <= ready + KEPT


def fill_sessions(client):
    """As many sessions of 4 MiB and more as there is room for; their paths."""
    tensor = np.ones((8, 1024, 64), np.float32)
    step, kind = pack(tensor[:, :0], tensor, tensor, {"layer": 0})
    shape = {"layers": 1, "kv_heads": 8, "head_dim": 64, "dtype": "float32", "capacity": 1 << 20}
    paths = []
    while True:
        answer = client.send("POST", "/v1/sessions", json.dumps(shape).encode())
        assert answer.status == 201
        paths.append(answer.headers["Location"])
        for _ in range(3):
            answer = client.send("POST", paths[-1] + "/attention", step, {"Content-Type": kind})
            if answer.status != 200:
                assert (answer.status, b"no-room-for-sessions" in answer.body) == (503, True)
                return paths


def test_sessions_have_a_budget_of_their_own():
    """It is full while calls fill the other, and what they kept goes back when they end."""
    with Daemon("--memory-budget", str(BUDGET), "--sessions-memory", str(SESSIONS), "--log",
                "off") as daemon:
        pid = daemon.process.pid
        assert daemon.client.get("/v1").status == 200
        ready = figures.resident(pid)
        figures.forget_peak(pid)
        paths = fill_sessions(daemon.client)
        kept = figures.resident(pid)
        fill(daemon, [maps])
        peak = figures.peak(pid)
        daemon.client.close()
        for path in paths:
            assert daemon.client.send("DELETE", path).status == 204
        later, took = shrunk(pid, ready)
        print(f"\nsessions: {(kept - ready) / MIB:.0f} MiB in {len(paths)}, with calls beside them "
              f"{peak / (ready + BUDGET + SESSIONS):.1%} of the ceiling, "
              f"{(later - ready) / MIB:.0f} MiB {took:.1f} s after their end")
        assert kept >= ready + 0.8 * SESSIONS
        assert peak <= SHARE * (ready + BUDGET + SESSIONS)
        assert later <= ready + KEPT


def test_connections_give_back_what_they_had():
    """Each has 128 KiB, and the libraries some in pieces that lie between others'."""
    with Daemon("--log", "off") as daemon:
        pid = daemon.process.pid
        assert daemon.client.get("/v1").status == 200
        ready = figures.resident(pid)
        opened = [raw.Connection(daemon.port) for _ in range(CONNECTIONS)]
        for one in opened:
            one.send(raw.post(raw.BODY, "X-Long: " + "a" * 16000))
        assert {one.answer().status for one in opened} == {200}
        most = figures.resident(pid)
        for one in opened:
            one.close()
        later, took = shrunk(pid, ready)
        print(f"\n{CONNECTIONS} connections: {(most - ready) / MIB:.0f} MiB more, "
              f"{(later - ready) / MIB:.0f} after {took:.1f} s")
        assert most > ready + 2 * KEPT
        assert later <= ready + KEPT
